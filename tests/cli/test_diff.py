"""Two judgements side by side: what is new, gone, worse or better, however lines move."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.build import call, environment, finding, judgement, trace
from tests.support.command import Command
from tracer.gate import ChangeKind, compare_judgements
from tracer.names import Phase
from tracer.trace.records import Draw


def kinds(before: list[Any], after: list[Any]) -> list[ChangeKind]:
    compared = compare_judgements(judgement(*before), judgement(*after))
    return [one.kind for one in compared.differences]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ([], [finding()], [ChangeKind.NEW]),
        ([finding()], [], [ChangeKind.GONE]),
        ([finding()], [finding()], []),
        ([finding()], [finding(location="train.py:99")], []),
        ([finding()], [finding("npu-unlisted")], []),
        ([finding(verdict="conditional")], [finding()], [ChangeKind.WORSENED]),
        ([finding()], [finding(verdict="seeded")], [ChangeKind.IMPROVED]),
        ([finding()], [finding(deterministic_mode="raises")], [ChangeKind.MODE_WORSENED]),
        ([finding(count=2)], [finding(count=5)], [ChangeKind.RECOUNTED]),
        ([finding()], [finding(module="net.other")], [ChangeKind.NEW, ChangeKind.GONE]),
        ([finding()], [finding(phase="backward")], [ChangeKind.NEW, ChangeKind.GONE]),
    ],
)
def test_a_finding_is_matched_by_what_was_recorded(before: list[Any], after: list[Any], kind: list[ChangeKind]) -> None:
    assert kinds(before, after) == kind


def test_findings_of_one_place_are_one_with_the_worst_verdict_and_all_calls() -> None:
    lines = [finding(location="train.py:1", verdict="conditional", count=2), finding(location="train.py:2", count=3)]
    (one,) = compare_judgements(judgement(), judgement(*lines)).differences
    assert (one.after, one.calls_after) == ("nondeterministic", 5)


def test_settings_and_versions_that_differ_are_named() -> None:
    old = judgement(environment=environment(torch="2.4.0", variables={"NCCL_ALGO": "Ring"}))
    new = judgement(environment=environment(torch="2.13.0", cudnn_benchmark=True))
    told = {one.name: one.values for one in compare_judgements(old, new).settings}
    assert told == {
        "torch": ("2.4.0", "2.13.0"),
        "cudnn_benchmark": ("not set", "True"),
        "NCCL_ALGO": ("Ring", "not set"),
    }


def test_a_ledger_that_ran_ahead_is_a_sentence() -> None:
    draw = Draw(generator="cpu", op="aten.rand.default", phase=Phase.FORWARD, location="train.py:3")
    (said,) = compare_judgements(judgement(), judgement(), [("cpu", 4, draw)]).draws
    assert said == "cpu: 4 draws more, first at train.py:3 (aten.rand.default)"


@pytest.mark.parametrize(
    ("op", "device", "versions", "is_told"),
    [
        ("aten.multinomial.default", "cpu", "2.6,2.13", True),
        ("aten.exponential_.default", "cpu", "2.7,2.6", True),
        ("aten.exponential_.default", "cpu", "2.7,2.13", False),
        ("aten.multinomial.default", "cpu", "2.4,2.6", False),
        ("aten.multinomial.default", "cuda", "2.6,2.13", False),
        ("aten.randn.default", "cpu", "2.6,2.13", False),
    ],
)
def test_numbers_that_another_version_draws_from_one_seed_are_told(
    tracer: Command, tmp_path: Any, op: str, device: str, versions: str, is_told: bool
) -> None:
    facts = {"device": device, "dtype": "float32", "rng.generator": device, "rng.origin": "program"}
    trace(call(op, facts=facts)).save(tmp_path / "t.json")
    done = tracer("diff", str(tmp_path / "t.json"), "--torch", versions, "--format", "json")
    draws = json.loads(done.out).get("draws", [])
    assert draws == ([f"{op.removesuffix('.default')}: other numbers from one seed since torch 2.7"] if is_told else [])


@pytest.fixture
def paths(tmp_path: Any) -> list[str]:
    trace(call("aten.add.Tensor")).save(tmp_path / "old.json")
    trace(call("aten.add.Tensor"), call("aten.index_add_.default", count=3)).save(tmp_path / "new.json")
    return [str(tmp_path / "old.json"), str(tmp_path / "new.json")]


def test_two_traces_are_compared_on_the_command_line(paths: list[str], tracer: Command) -> None:
    done = tracer("diff", *paths, "--backend", "cuda")
    assert (done.code, done.err) == (0, "")
    assert "train.py:10 aten.index_add_.default forward in net.fc: no finding -> nondeterministic, 3 calls" in " ".join(
        done.out.split()
    )
    assert tracer("diff", *paths, "--backend", "cuda", "--fail-on", "nondeterministic").code == 1
    assert tracer("diff", *paths, "--backend", "cuda", "--fail-on", "raises").code == 0
    assert tracer("diff", *reversed(paths), "--backend", "cuda", "--fail-on", "new").code == 0


def test_one_trace_is_compared_for_two_targets(paths: list[str], tracer: Command) -> None:
    done = tracer("diff", paths[1], "--backend", "cpu,cuda")
    assert done.code == 0
    assert "before: cpu" in done.out
    assert "after: cuda" in done.out


@pytest.mark.parametrize(
    "arguments", [[], ["--backend", "cuda"], ["--backend", "cuda,npu,cpu"], ["--torch", ","], ["--fail-on", "x"]]
)
def test_what_cannot_be_compared_is_refused_in_one_line(
    paths: list[str], tracer: Command, arguments: list[str]
) -> None:
    done = tracer("diff", paths[0], *arguments)
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
