"""What ``tracer run`` sees beside the ops, across windows of steps; hints of what may be otherwise elsewhere."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.build import call, trace
from tests.support.command import Command, tracer_process
from tracer import Trace
from tracer.names import EventKind, HintKind
from tracer.runner.hints import hints_of
from tracer.trace.records import Event

NAMED = "OMP_NUM_THREADS"


def run(folder: Path, script: str, *options: str, **environ: str) -> Trace:
    """The trace of a script of these lines."""
    (folder / "script.py").write_text(script)
    done = tracer_process("run", "-o", "trace.json", *options, "script.py", cwd=folder, **environ)
    assert done.code == 0, done.err
    return Trace.load(folder / "trace.json")


def brief(events: tuple[Event, ...]) -> list[tuple[str, str, str, bool]]:
    return [(str(event.kind), event.name, event.location, event.while_recording) for event in events]


TRAINS = """\
import os
os.environ["OMP_NUM_THREADS"] = "1"
import torch
os.environ["OMP_NUM_THREADS"] = "2"
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    if step == 2:
        torch.use_deterministic_algorithms(True)
    loss = model(torch.ones(1, 2)).sum()
    loss.backward()
    optimizer.step()
"""


def test_the_watch_begins_before_the_scripts_first_line(tmp_path: Path) -> None:
    trace = run(tmp_path, TRAINS)
    assert brief(tuple(event for event in trace.events if event.kind is not EventKind.SEED)) == [
        ("variable", NAMED, "script.py:2", False),
        ("first-use", "torch", "script.py:3", False),
        ("variable", NAMED, "script.py:4", True),
        ("setting", "torch.use_deterministic_algorithms", "script.py:9", True),
    ]
    assert trace.watched_from_start
    assert [event.after_calls for event in trace.events if event.kind is EventKind.SETTING] == [True]
    assert trace.environment.variables[NAMED] == "2"


def test_the_watch_goes_on_between_windows_of_steps(tmp_path: Path) -> None:
    trace = run(tmp_path, TRAINS, "--steps", "1:2")
    (setting,) = (event for event in trace.events if event.kind is EventKind.SETTING)
    assert (setting.location, setting.while_recording) == ("script.py:9", False)
    assert ("variable", NAMED, "script.py:4", False) in brief(trace.events)


def test_a_script_without_torch_has_its_variables_noted(tmp_path: Path) -> None:
    trace = run(tmp_path, f"import os\nos.environ[{NAMED!r}] = '3'\n")
    assert ("variable", NAMED, "script.py:2", False) in brief(trace.events)


def test_a_forked_child_notes_nothing(tmp_path: Path) -> None:
    script = f"""\
import os, torch
if (child := os.fork()) == 0:
    os.environ[{NAMED!r}] = "5"
    torch.use_deterministic_algorithms(True)
    os._exit(0)
os.waitpid(child, 0)
torch.ones(2).sum()
"""
    trace = run(tmp_path, script)
    assert [event for event in trace.events if event.kind in (EventKind.VARIABLE, EventKind.SETTING)] == []


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("import os, sys\nos.environ['A_VARIABLE'] = 'x'\nos.system('echo $A_VARIABLE')\n", 0, ""),
        ("import torch\ntorch.set_num_threads(-1)\n", 1, 'script.py", line 2'),
        ("import os\nos.environ['A'] = 'a\\0b'\n", 1, "ValueError: embedded null byte"),
    ],
    ids=["set", "a setter that fails", "a variable that the system refuses"],
)
def test_a_watched_script_sees_and_ends_as_it_would(tracer: Command, script: str, code: int, said: str) -> None:
    Path("script.py").write_text(script)
    done = tracer("run", "script.py")
    assert (done.code, done.out) == (code, "" if code else "x\n")
    assert said in done.err
    assert os.path.join("tracer", "recording") not in done.err
    assert Path("trace.json").exists()


def test_nothing_is_watched_when_the_script_has_ended(tracer: Command) -> None:
    before = os.putenv, os.unsetenv
    Path("script.py").write_text("import torch\ntorch.ones(2).sum()\n")
    assert tracer("run", "script.py").code == 0
    assert (os.putenv, os.unsetenv) == before
    assert tracer("run", "no_such_script.py").code == 2
    assert (os.putenv, os.unsetenv) == before


def test_a_recorder_by_hand_watches_while_it_records_only() -> None:
    from tracer import DeterminismTracer

    before = random.seed
    with DeterminismTracer() as recorder:
        assert random.seed is not before
    assert random.seed is before
    assert not recorder.trace.watched_from_start


LISTING, HASH, OWN = HintKind.LISTING, HintKind.HASH_ORDER, HintKind.OWN_GENERATOR

PYTHON, NUMPY = HintKind.PYTHON_DRAW, HintKind.NUMPY_DRAW


@pytest.mark.parametrize(
    ("code", "hints"),
    [
        ("import os\nfor name in os.listdir('d'): print(name)", [(LISTING, 2, "os.listdir")]),
        ("from glob import glob\nfiles = glob('*.pt')", [(LISTING, 2, "glob")]),
        ("files = [p for p in folder.rglob('*')]", [(LISTING, 1, "rglob")]),
        ("for root, _, files in os.walk('d'): use(files)", [(LISTING, 1, "os.walk")]),
        ("files = sorted(os.listdir('d'), key=len)", []),
        ("files = sorted(p for p in self.root.iterdir() if p.suffix)", []),
        ("files = glob.glob('*')\nfiles.sort()", []),
        ("self.files = os.listdir('d')\nself.files.sort()", []),
        ("if 'a' in os.listdir('d') or len(os.listdir('d')): pass", []),
        ("found = re.glob('x') or self.glob('x')", [(LISTING, 1, "glob")]),
        ("ids = {w: i for i, w in enumerate(set(words))}", [(HASH, 1, "a set")]),
        ("for word in {'a', 'b'}: use(word)", [(HASH, 1, "a set")]),
        ("words = list(frozenset(words))", [(HASH, 1, "a set")]),
        ("for word in sorted(set(words)): use(word)", []),
        ("count = len(list(set(words)))", []),
        ("bucket = hash(word) % 8", [(HASH, 1, "hash")]),
        ("class A:\n    def __hash__(self): return hash(self.a)", []),
        ("class D:\n    def __init__(self):\n        self.rng = np.random.default_rng(1)", [(OWN, 3, "D")]),
        ("rng = np.random.default_rng(1)", []),
        ("def broken(:", []),
        ("import random\ndef pick(rows): return random.choice(rows)", [(PYTHON, 2, "random.choice")]),
        ("import random as rnd, os\nrnd.seed(1)\nrnd.shuffle(rows)", [(PYTHON, 3, "rnd.shuffle")]),
        ("from random import randint as number\nnumber(1, 6)", [(PYTHON, 2, "number")]),
        (
            "import numpy as np\nb = a(np.random.normal(0, 1))\nnp.random.rand()",
            [(NUMPY, 2, "np.random.normal"), (NUMPY, 3, "np.random.rand")],
        ),
        ("from random import *\nshuffle(rows)\nprint(len(rows))", [(PYTHON, 2, "shuffle")]),
        ("from os.path import *\nexists('d')", []),
        ("import numpy.random\nnumpy.random.permutation(9)", [(NUMPY, 2, "numpy.random.permutation")]),
        ("from numpy import random\nrandom.shuffle(rows)\nrandom.set_state(s)", [(NUMPY, 2, "random.shuffle")]),
        ("import random\nown = random.Random(1)\nown.random()\nrandom.setstate(s)", []),
        ("import torch, numpy as np\nnp.random.default_rng(1).normal()\ntorch.random.fork_rng()", []),
        ("def f(random): return random.choice(rows)", []),
        ("from .random import choice\nchoice(rows)", []),
    ],
)
def test_lines_that_may_differ_are_named(code: str, hints: list[tuple[HintKind, int, str]], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(code, encoding="utf-8")
    found = hints_of(trace(call(location="train.py:1")), str(tmp_path))
    assert [(hint.kind, hint.location, hint.name) for hint in found] == [
        (kind, f"train.py:{line}", name) for kind, line, name in hints
    ]


def test_a_name_that_no_encoding_spells_is_written(tmp_path: Path) -> None:
    name = os.fsdecode(b"train\xff.py")
    try:
        (tmp_path / name).write_text("hash(1)", encoding="utf-8")
    except (OSError, UnicodeError):
        pytest.skip("the disk takes no such name")
    hints = hints_of(trace(call(location=f"{name}:1")), str(tmp_path))
    assert len(hints) == 1
    trace(hints=hints).save(tmp_path / "t.json")


def test_files_of_others_are_not_read(tmp_path: Path) -> None:
    installed = tmp_path / "site-packages" / "lib.py"
    installed.parent.mkdir()
    installed.write_text("import os\nos.listdir('d')", encoding="utf-8")
    calls = (call(location="site-packages/lib.py:2"), call(location="../other.py:1"), call(location="gone.py:1"))
    assert hints_of(trace(*calls), str(tmp_path)) == ()


def test_what_a_script_imports_is_read_and_told_once(tracer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    Path("data_of_ours.py").write_text("import os\nNAMES = list(os.listdir('.'))\n")
    Path("train.py").write_text(
        "import data_of_ours, torch\ntorch.manual_seed(0)\nmodel = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nmodel(torch.ones(2, 2)).sum().backward()\n"
        "optimizer.step()\n"
    )
    assert tracer("run", "train.py").code == 0
    sys.modules.pop("data_of_ours")
    assert [hint.location for hint in Trace.load("trace.json").hints] == ["data_of_ours.py:2"]
    told = tracer("report", "trace.json").out
    assert "data_of_ours.py:2: `os.listdir` gives its names in any order" in told
    assert told.startswith("# No risk found in")
    assert "os.listdir" not in tracer("report", "trace.json", "--no-hints").out


def test_a_file_that_is_named_in_two_ways_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("hash(1)", encoding="utf-8")
    again = ModuleType("imported_again")
    again.__file__ = str(tmp_path / ".." / tmp_path.name / "train.py")
    monkeypatch.setitem(sys.modules, "imported_again", again)
    named = trace(call(location="train.py:1"), call(location=f"../{tmp_path.name}/train.py:1"))
    assert [hint.location for hint in hints_of(named, str(tmp_path))] == ["train.py:1"]
