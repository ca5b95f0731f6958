"""The pytest plugin, by running pytest as a user would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.command import process

TESTS = """
import pytest
import torch


def step():
    torch.manual_seed(0)
    x = torch.zeros(4, requires_grad=True)
    (x * 2).index_add(0, torch.tensor([0, 0]), torch.ones(2)).sum().backward()


@pytest.mark.determinism(backend="cpu")
def test_passes():
    step()


@pytest.mark.determinism(backend="cuda", fail_on="nondeterministic")
def test_fails():
    step()


@pytest.mark.determinism(backend="cuda", settings="deterministic")
def test_passes_in_deterministic_mode():
    step()


@pytest.mark.determinism(backend="cuda", fail_on="raises")
def test_passes_a_gate_for_what_raises():
    step()


def test_by_hand(determinism):
    with determinism() as tracer:
        step()
    assert tracer.trace.call_count
    assert determinism.report(backend="cuda").findings


def test_untouched():
    step()
"""


class Run(NamedTuple):
    code: int
    out: str


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "test_steps.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


def pytest_in(folder: Path, *options: str) -> Run:
    done = process("-m", "pytest", *options, cwd=folder)
    return Run(done.code, done.out + done.err)


def test_a_marked_test_fails_for_its_findings_and_others_do_not(project: Path) -> None:
    done = pytest_in(project, "-q")
    assert done.code == 1
    assert "1 failed, 5 passed" in done.out
    assert "test_steps.py:9: cuda-index-add: aten.index_add.default is nondeterministic" in done.out
    assert "INTERNALERROR" not in done.out


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)])
def test_one_report_holds_what_every_worker_recorded(project: Path, workers: tuple[str, ...]) -> None:
    options = ("-q", "--determinism-report", "out.json", "--determinism-backend", "cuda", *workers)
    done = pytest_in(project, *options)
    assert "determinism report on 5 recordings: out.json" in done.out
    told = json.loads((project / "out.json").read_text(encoding="utf-8"))["judgement"]
    names = {source["name"] for source in told["sources"]}
    assert names == {f"test_steps.py::{name}" for name in NAMES}
    assert any(one["rule"] == "cuda-index-add" and one["count"] == 5 for one in told["findings"])


NAMES = (
    "test_passes",
    "test_fails",
    "test_passes_in_deterministic_mode",
    "test_passes_a_gate_for_what_raises",
    "test_by_hand",
)


def test_nothing_is_loaded_where_it_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "test_none.py").write_text(
        "import sys\n\ndef test():\n    assert not {'torch', 'msgspec', 'pandas'} & set(sys.modules)\n",
        encoding="utf-8",
    )
    done = pytest_in(tmp_path, "-q")
    assert done.code == 0, done.out


def test_a_mistake_in_the_marker_fails_its_test_in_one_line(tmp_path: Path) -> None:
    mistakes = {
        "fail_on='often'": "there is no verdict 'often'",
        "backend='tpu'": "'tpu' does not exist",
        "surprise=1": "takes keywords only",
        "'cuda'": "takes keywords only",
        "baseline='none.lock'": "there is no baseline",
    }
    tests = (
        f"@pytest.mark.determinism({marker})\ndef test_{number}():\n    torch.ones(1)\n"
        for number, marker in enumerate(mistakes)
    )
    (tmp_path / "test_all.py").write_text("\n".join(["import pytest, torch\n", *tests]), encoding="utf-8")
    done = pytest_in(tmp_path, "-q", "-rfE")
    assert done.code == 1
    assert "Traceback" not in done.out
    summary = [line for line in done.out.splitlines() if line.startswith(("FAILED", "ERROR"))]
    for number, says in enumerate(mistakes.values()):
        assert any(f"::test_{number}" in line for line in summary)
        assert says in done.out.split(f" test_{number} _", 1)[1].split(f" test_{number + 1} _", 1)[0]


def test_a_report_of_an_unknown_kind_is_refused_before_any_test_runs(project: Path) -> None:
    done = pytest_in(project, "--determinism-report", "out.docx")
    assert done.code == 4
    assert "cannot tell a report format" in done.out


def test_a_failing_test_keeps_its_own_failure(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "import pytest\n\n@pytest.mark.determinism\ndef test():\n    assert 1 == 2\n", encoding="utf-8"
    )
    done = pytest_in(tmp_path, "-q")
    assert done.code == 1
    assert "assert 1 == 2" in done.out


def test_a_repeated_test_runs_from_the_same_state_and_fails_where_its_runs_part(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(
        """import itertools, multiprocessing, pytest, torch
COUNT = itertools.count(1)

@pytest.fixture
def model():
    return torch.nn.Linear(4, 1)

@pytest.mark.determinism(repeat=3)
def test_agrees(model):
    model(torch.rand(2, 4)).sum().backward()
    with torch.no_grad():
        model.weight -= model.weight.grad

@pytest.mark.determinism(repeat=2)
def test_parts():
    torch.ones(2) * next(COUNT)

@pytest.mark.determinism(repeat=1)
def test_once():
    torch.ones(2)

@pytest.mark.determinism(repeat=2)
def test_starts():
    child = multiprocessing.get_context("fork").Process(target=print)
    child.start()
    child.join()
    torch.ones(2) * 2
""",
        encoding="utf-8",
    )
    done = pytest_in(tmp_path, "-q")
    assert "3 failed, 1 passed" in done.out, done.out
    assert "1 process was started and not followed" in done.out
    assert "Run 2 diverges from run 1" in done.out
    assert "test_two.py:16 (aten.mul.Tensor)" in done.out
    assert "two runs or more can be compared" in done.out


def test_a_comment_is_found_wherever_the_test_went(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "import pytest, torch\n\n"
        "@pytest.mark.determinism(backend='cuda', select='cuda-*')\n"
        "def test(monkeypatch, tmp_path):\n"
        "    monkeypatch.chdir(tmp_path)\n"
        "    torch.zeros(2).index_add(\n"
        "        0, torch.tensor([0, 0]), torch.ones(2)\n"
        "    )  # tracer: ignore[cuda-index-add] two rows\n",
        encoding="utf-8",
    )
    done = pytest_in(tmp_path, "-q")
    assert "1 passed" in done.out, done.out


def test_a_report_on_nothing_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test(determinism):\n    determinism.report()\n", encoding="utf-8")
    assert "nothing was recorded; run the step in a block" in pytest_in(tmp_path, "-q").out


UNMARKED = """
import pytest
import torch


def step():
    torch.manual_seed(0)
    x = torch.zeros(4, requires_grad=True)
    (x * 2).index_add(0, torch.tensor([0, 0]), torch.ones(2)).sum().backward()


def test_one():
    step()


def test_fails():
    step()
    assert False


def test_without_torch():
    assert True


def test_by_hand(determinism):
    with determinism():
        step()


@pytest.mark.determinism(backend="cpu")
def test_marked():
    step()
"""


@pytest.mark.parametrize("by", ["configuration", pytest.param("option", marks=pytest.mark.slow)])
def test_every_test_is_recorded_without_a_mark_where_that_is_asked_for(tmp_path: Path, by: str) -> None:
    (tmp_path / "test_steps.py").write_text(UNMARKED, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{'determinism = true' if by == 'configuration' else ''}\n")
    asked = ("--determinism",) if by == "option" else ()
    done = pytest_in(tmp_path, *asked, "--determinism-report", "all.json", "--determinism-backend", "cuda")
    assert done.code == 1, done.out
    assert "determinism report on 4 recordings: all.json" in done.out
    written = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    named = {source["name"].rpartition("::")[2] for source in written["judgement"]["sources"]}
    assert named == {"test_one", "test_fails", "test_by_hand", "test_marked"}
    assert "cuda-index-add" in {finding["rule"] for finding in written["judgement"]["findings"]}


def test_without_a_report_two_lines_say_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "test_steps.py").write_text(UNMARKED, encoding="utf-8")
    done = pytest_in(tmp_path, "--determinism", "--determinism-backend", "cuda", "-k", "test_one")
    assert done.code == 0, done.out
    assert "determinism of 1 recording: " in done.out
    assert "nondeterministic" in done.out.partition("determinism of 1 recording: ")[2]
