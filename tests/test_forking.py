"""Processes of tests begin with torch in memory and look as if they had not; those that start Python are marked."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.cli.command import process
from tests.forking import Server

TESTS = Path(__file__).parent
MARK = "fresh_interpreter"
#: Each loads torch anew, which takes seconds: another one needs a reason.
AT_MOST = 30
#: They start what tests ask them to start.
STARTERS = {"cli/command.py", "forking.py"}


def starts_python(function: ast.FunctionDef, known: set[str]) -> bool:
    """Does its body name ``sys.executable``, ask for a ``fresh`` process, or call what does?"""
    hands_on = not function.name.startswith("test_") and "fresh" in {one.arg for one in function.args.kwonlyargs}
    for node in (inner for statement in function.body for inner in ast.walk(statement)):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable":
            return True
        if isinstance(node, ast.Call):
            asks = any(one.arg == "fresh" and not _is_false(one.value) for one in node.keywords) and not hands_on
            if asks or (isinstance(node.func, ast.Name) and node.func.id in known):
                return True
    return False


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def starters_in(source: str) -> dict[str, bool]:
    """Each test that starts Python itself, and whether it is marked."""
    if not any(word in source for word in ("sys.executable", "fresh", "both(")):
        return {}
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    known: set[str] = {"both"}
    grown = 0
    while grown != len(known):
        grown = len(known)
        known |= {one.name for one in functions if starts_python(one, known)}
    tests = [one for one in functions if one.name in known and one.name.startswith("test_")]
    return {one.name: any(MARK in ast.unparse(mark) for mark in one.decorator_list) for one in tests}


def test_whatever_starts_python_itself_is_marked_and_there_are_few() -> None:
    found = {
        f"{path.relative_to(TESTS)}::{name}": is_marked
        for path in TESTS.rglob("*.py")
        if str(path.relative_to(TESTS)) not in STARTERS
        for name, is_marked in starters_in(path.read_text(encoding="utf-8")).items()
    }
    assert [name for name, is_marked in found.items() if not is_marked] == []
    assert len(found) <= AT_MOST


@pytest.mark.parametrize(
    "body", ["run([sys.executable])", "process('-c', fresh=True)", "helper()", "process('-c', fresh=chosen)"]
)
def test_one_that_is_not_marked_is_noticed(body: str) -> None:
    source = f"def helper():\n    both()\n\ndef test_it():\n    {body}\n"
    assert starters_in(source) == {"test_it": False}
    assert starters_in(source.replace("def test_it", f"@pytest.mark.{MARK}\ndef test_it")) == {"test_it": True}


def test_a_forked_process_has_imported_nothing_and_imports_what_it_asks_for(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "heavy = 'torch', 'numpy', 'numpy.random', 'torch.nn', 'torch._dynamo', 'tracer.recording.recorder'\n"
        "said = lambda: [one for one in heavy if one in sys.modules]\n"
        "print(said())\n"
        "import torch\n"
        "print(said(), torch.ones(2).sum().item())\n"
        "import numpy\n"
        "numpy.random\n"
        "print(said())\n"
        "import torch._dynamo\n"
        "print(said(), torch._dynamo is sys.modules['torch._dynamo'])\n"
    )
    done = process("-c", code, cwd=tmp_path)
    assert done.err == ""
    assert done.out.splitlines() == [
        "[]",
        "['torch', 'numpy', 'torch.nn'] 2.0",
        "['torch', 'numpy', 'numpy.random', 'torch.nn']",
        "['torch', 'numpy', 'numpy.random', 'torch.nn', 'torch._dynamo'] True",
    ]


def test_finders_are_asked_for_each_module_that_comes_back(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "class Asked:\n"
        "    names = []\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        self.names.append(name)\n"
        "sys.meta_path.insert(0, Asked())\n"
        "import torch\n"
        "print(Asked.names.index('torch') < Asked.names.index('torch.nn'), Asked.names.count('torch.nn'))\n"
    )
    done = process("-c", code, cwd=tmp_path)
    assert (done.out, done.err) == ("True 1\n", "")


def test_two_processes_draw_other_numbers_and_end_as_they_say(tmp_path: Path) -> None:
    code = "import random, numpy, sys\nprint(random.random(), numpy.random.rand())\nsys.exit(5)"
    one, two = (process("-c", code, cwd=tmp_path) for _ in range(2))
    assert one.code == two.code == 5
    assert not set(one.out.split()) & set(two.out.split())


def test_a_signal_ends_a_forked_process_as_it_ends_any(tmp_path: Path) -> None:
    assert process("-c", "import os\nos.kill(os.getpid(), 9)", cwd=tmp_path).code == -9


def test_a_package_is_loaded_anew_where_that_is_asked_for(tmp_path: Path) -> None:
    code = "import sys, torch\nprint(*(one for one in sys.modules if one.partition('.')[0] == 'tracer'))\nimport tracer"
    loaded = process("-c", code, cwd=tmp_path).out
    assert "tracer.tables.loading" in loaded
    assert process("-c", code, cwd=tmp_path, anew="tracer") == (0, "\n", "")


def test_the_server_ends_when_nobody_keeps_it_and_leaves_nothing() -> None:
    server = Server()
    assert Path(server.address).exists()
    server.stop()
    assert not Path(server.address).parent.exists()
