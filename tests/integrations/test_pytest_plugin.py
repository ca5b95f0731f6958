"""The pytest plugin, by running pytest as a user would."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.command import process
from tests.support.slow import slow_unless

STEP = """
import pytest
import torch


def step():
    torch.manual_seed(0)
    x = torch.zeros(4, requires_grad=True)
    (x * 2).index_add(0, torch.tensor([0, 0]), torch.tensor([0.1, 0.2])).sum().backward()


"""
TESTS = """
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


def pytest_in(folder: Path, *options: str) -> Run:
    done = process("-m", "pytest", *options, cwd=folder)
    return Run(done.code, done.out + done.err)


@pytest.mark.parametrize("workers", slow_unless({""}, ["", "-n2"]))
def test_a_marked_test_fails_for_its_findings_and_a_report_holds_them_all(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_steps.py").write_text(STEP + TESTS, encoding="utf-8")
    options = ("-q", "--determinism-report", "out.json", "--determinism-backend", "cuda")
    done = pytest_in(tmp_path, *options, *workers.split())
    assert done.code == 1
    assert "1 failed, 5 passed" in done.out
    assert "test_steps.py:9: cuda-index-add: aten.index_add.default forward is nondeterministic" in done.out
    assert "INTERNALERROR" not in done.out
    assert "determinism report on 5 recordings: out.json" in done.out
    told = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["judgement"]
    recorded = set(re.findall(r"def (test_\w+)", TESTS)) - {"test_untouched"}
    assert {source["name"] for source in told["sources"]} == {f"test_steps.py::{name}" for name in recorded}
    assert any(one["rule"] == "cuda-index-add" and one["count"] == 5 for one in told["findings"])


def test_nothing_is_loaded_where_it_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "test_none.py").write_text(
        "import sys\n\ndef test():\n    assert not {'torch', 'msgspec', 'pandas'} & set(sys.modules)\n",
        encoding="utf-8",
    )
    done = pytest_in(tmp_path, "-q")
    assert done.code == 0, done.out


def test_a_report_of_an_unknown_kind_is_refused_before_any_test_runs(tmp_path: Path) -> None:
    done = pytest_in(tmp_path, "--determinism-report", "out.docx")
    assert done.code == 4
    assert "cannot tell a report format" in done.out


MISTAKES = {
    "fail_on='often'": "there is no verdict 'often'",
    "backend='tpu'": "'tpu' does not exist",
    "surprise=1": "takes keywords only",
    "'cuda'": "takes keywords only",
    "baseline='none.lock'": "there is no baseline",
}
SEVERAL = {
    "test_mistakes.py": "import pytest, torch\n\n"
    + "\n".join(
        f"@pytest.mark.determinism({marker})\ndef test_mistake_{number}():\n    torch.ones(1)\n"
        for number, marker in enumerate(MISTAKES)
    ),
    "test_failing.py": """
import pytest

@pytest.mark.determinism
def test_fails_itself():
    assert 1 == 2
""",
    "test_repeated.py": """\
import itertools, multiprocessing, pytest, torch
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
    "test_comments.py": """
import pytest, torch

@pytest.mark.determinism(backend='cuda', select='cuda-*')
def test_comment(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    torch.zeros(2).index_add(
        0, torch.tensor([0, 0]), torch.tensor([0.1, 0.2])
    )  # tracer: ignore[cuda-index-add] two rows
""",
    "test_nothing.py": """
def test_nothing(determinism):
    determinism.report()
""",
}


class Several(NamedTuple):
    """How tests of several files ended: ``PASSED``, ``FAILED`` or ``ERROR``, and what was said of those that failed."""

    ends: dict[str, str]
    said: dict[str, str]


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Several:
    folder = tmp_path_factory.mktemp("several")
    for name, text in SEVERAL.items():
        (folder / name).write_text(text, encoding="utf-8")
    done = pytest_in(folder, "-rA")
    assert (done.code, "INTERNALERROR" in done.out, "Traceback" in done.out) == (1, False, False), done.out
    ends = re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\w+)", done.out, re.MULTILINE)
    parts = re.split(r"^_+ (?:ERROR at \w+ of )?(\w+) _+$", done.out, flags=re.MULTILINE)
    return Several({name: end for end, name in ends}, dict(zip(parts[1::2], parts[2::2], strict=True)))


@pytest.mark.parametrize(("number", "says"), enumerate(MISTAKES.values()))
def test_a_mistake_in_the_marker_fails_its_test_in_one_line(several: Several, number: int, says: str) -> None:
    assert several.ends[f"test_mistake_{number}"] in ("FAILED", "ERROR")
    assert says in several.said[f"test_mistake_{number}"]


def test_a_failing_test_keeps_its_own_failure(several: Several) -> None:
    assert several.ends["test_fails_itself"] == "FAILED"
    assert "assert 1 == 2" in several.said["test_fails_itself"]


def test_a_repeated_test_runs_from_the_same_state_and_fails_where_its_runs_part(several: Several) -> None:
    assert several.ends["test_agrees"] == "PASSED"
    assert {several.ends[name] for name in ("test_parts", "test_once", "test_starts")} == {"FAILED"}
    assert "1 process was started and not followed" in several.said["test_starts"]
    assert "diverges from run 1" in " ".join(several.said["test_parts"].split())
    assert "test_repeated.py:16 aten.mul.Tensor" in several.said["test_parts"]
    assert "two runs or more can be compared" in several.said["test_once"]


def test_a_comment_is_found_wherever_the_test_went_and_a_report_on_nothing_says_what_to_do(several: Several) -> None:
    assert (several.ends["test_comment"], several.ends["test_nothing"]) == ("PASSED", "FAILED")
    assert "nothing was recorded; run the step in a block" in several.said["test_nothing"]


UNMARKED = """
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


def test_every_test_is_recorded_without_a_mark_where_the_configuration_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "test_steps.py").write_text(STEP + UNMARKED, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\ndeterminism = true\n")
    done = pytest_in(tmp_path, "--determinism-report", "all.json", "--determinism-backend", "cuda")
    assert done.code == 1, done.out
    assert "determinism report on 4 recordings: all.json" in done.out
    written = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    named = {source["name"].rpartition("::")[2] for source in written["judgement"]["sources"]}
    assert named == {"test_one", "test_fails", "test_by_hand", "test_marked"}
    assert "cuda-index-add" in {finding["rule"] for finding in written["judgement"]["findings"]}


def test_without_a_report_two_lines_say_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "test_steps.py").write_text(STEP + UNMARKED, encoding="utf-8")
    done = pytest_in(tmp_path, "--determinism", "--determinism-backend", "cuda", "-k", "test_one")
    assert done.code == 0, done.out
    assert "determinism of 1 recording: " in done.out
    assert "nondeterministic" in done.out.partition("determinism of 1 recording: ")[2]
