"""Evidence from machines and builds: measurements, what builds were seen to launch, and what versions bind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from tests.support.build import call
from tests.support.measured import (
    SCHEMA,
    Explained,
    MeasuredCall,
    MeasuredRun,
    Measurement,
    contradictions,
    faults_of_measurements,
    load_measurement,
    measurement_files,
)
from tests.tables.samples import rule_text, table
from tracer import DeterminismTracer, Trace, judge
from tracer.errors import TableError
from tracer.names import Backend, DeterministicMode, EvidenceKind, Verdict
from tracer.tables.loading import load_dispatched, load_table, load_tables, with_dispatched
from tracer.tables.rules import Dispatched, Vouched
from tracer.tables.target_tables import BoundTable

SETTINGS = {"threads": "many", "fill_uninitialized_memory": True}

LARGE = {"device": "cpu", "dtype": "float32", "shape.numel_ge_32768": True, "index.is_mask": False}

ADDS = MeasuredCall(op="aten.index_put.default", facts={**LARGE, "arg.accumulate": True})

PUTS = MeasuredCall(op="aten.put.default", facts={**LARGE, "arg.accumulate": False})

PLAIN = MeasuredCall(op="aten.add.Tensor", facts={"device": "cpu", "dtype": "float32"})


def measured(call: MeasuredCall, mode: str = "off", **fields: object) -> Measurement:
    """One run of one call on the CPU: 20 runs, one result, unless ``fields`` say otherwise."""
    explained = fields.pop("explained", ())
    run = MeasuredRun(
        **{"what": "it", "mode": DeterministicMode(mode), "runs": 20, "distinct": 1, "calls": (call,)} | fields
    )
    return Measurement(
        schema=SCHEMA, backend=Backend.CPU, torch="2.13.0", settings=SETTINGS, run=(run,), explained=explained
    )


WHY = Explained(what="it", mode=DeterministicMode.OFF, why="The driver of that day was broken.")


def test_what_ships_agrees_with_the_tables_and_every_citation_exists() -> None:
    assert faults_of_measurements(load_tables()) == []


def test_the_cpu_was_measured_with_several_threads() -> None:
    (path,) = [path for path in measurement_files() if path.name.startswith("cpu-")]
    found = load_measurement(path)
    assert found.settings["threads"] == "many"
    varying = {run.what for run in found.run if run.mode is DeterministicMode.OFF and run.distinct > 1}
    assert {"index_put accumulate", "put accumulate", "lstsq"} <= varying
    assert not [run.what for run in found.run if run.mode is DeterministicMode.ON and run.distinct > 1]


@pytest.mark.parametrize(
    ("measurement", "says"),
    [
        (measured(PLAIN, distinct=3), "3 distinct results in 20 runs, but all calls are deterministic by the table"),
        (measured(PLAIN, "on", refused=True, distinct=0), "torch raised, but no call raises by the table"),
        (measured(PUTS, "on"), "a call raises by the table, but torch did not raise"),
        (measured(ADDS, "on", distinct=2), "2 distinct results in 20 runs, but all calls are deterministic"),
        (measured(PLAIN, explained=(WHY,)), "it, mode off: explained, but it contradicts no verdict"),
        # A risk need not show, an unknown op contradicts nothing, and an explanation silences its own contradiction.
        (measured(ADDS, distinct=9), ""),
        (measured(ADDS, distinct=1), ""),
        (measured(PUTS, "on", refused=True, distinct=0), ""),
        (measured(PLAIN), ""),
        (measured(MeasuredCall(op="else.where.default", facts={"device": "cpu"}), "on", refused=True, distinct=0), ""),
        (measured(PLAIN, distinct=3, explained=(WHY,)), ""),
    ],
)
def test_a_run_that_the_table_cannot_be_true_of_is_a_fault(measurement: Measurement, says: str) -> None:
    found = list(contradictions(measurement, load_tables()))
    assert len(found) == bool(says)
    assert all(says in fault for fault in found)


def test_a_measurement_round_trips_through_its_file(tmp_path: Path) -> None:
    path = tmp_path / "cpu-torch-2.13.json"
    path.write_bytes(msgspec.json.encode(measured(ADDS, distinct=9)))
    assert load_measurement(path) == measured(ADDS, distinct=9)


@pytest.mark.parametrize(
    ("old", "new"),
    [('"distinct"', '"distinkt"'), ('"off"', '"of"'), ('"schema":1', '"schema":9')],
)
def test_a_misspelt_measurement_is_refused_in_one_line(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "broken.json"
    text = msgspec.json.encode(measured(ADDS, distinct=9)).decode()
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(TableError, match=r"broken\.json") as error:
        load_measurement(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("ref", "says"),
    [
        ("measured/cpu-torch-9.9.json: it", "cites a file that does not exist"),
        ("measured/cpu-torch-2.13.json: that", "cites a run that the file does not contain"),
        ("measured/cpu-torch-2.13.json: it", ""),
        ("17 distinct results in 60 calls, by hand", ""),
    ],
)
def test_a_citation_leads_to_a_run(tmp_path: Path, ref: str, says: str) -> None:
    path = tmp_path / "cpu-torch-2.13.json"
    path.write_bytes(msgspec.json.encode(measured(ADDS, distinct=9)))
    citing = table(rule_text(ref=ref).replace('kind = "source"', 'kind = "measured"'))
    found = faults_of_measurements({Backend.CUDA: citing, Backend.CPU: load_tables()[Backend.CPU]}, [path])
    mine = [fault for fault in found if fault.startswith("cuda-sample")]
    assert mine == ([f"cuda-sample: evidence {ref!r} {says}"] if says else [])


SEEN = Dispatched(
    schema=1,
    backend=Backend.CUDA,
    builds=("2.6.0", "2.9.1"),
    device="sm_90",
    rules={},
    vouched=(Vouched(first="2.6", last="2.9", ops=frozenset({"aten.mul.Tensor"})),),
)


@pytest.mark.parametrize(
    ("op", "version", "grounds"),
    [
        ("aten.mul.Tensor", "2.5.1", []),
        ("aten.mul.Tensor", "2.6.0", ["dispatched"]),
        ("aten.mul.Tensor", "2.9.0", ["dispatched"]),
        ("aten.mul.Tensor", "2.10.0", []),
        ("aten.sqrt.default", "2.6.0", []),
    ],
)
def test_an_op_without_a_rule_has_evidence_in_the_releases_that_were_recorded(
    op: str, version: str, grounds: list[str]
) -> None:
    bound = BoundTable(with_dispatched(load_table(Backend.CUDA), SEEN), version, {})
    ruling = bound.outcome(op, call(op=op).facts)
    assert ruling.verdict is Verdict.DETERMINISTIC
    assert [str(row.kind) for row in ruling.evidence] == grounds


def test_what_builds_launched_is_of_rules_that_exist_and_vouches_for_ops_that_none_names() -> None:
    table = load_table(Backend.CUDA)
    seen = table.dispatched
    assert seen is not None
    assert seen.rules.keys() <= {rule.id for rule in table.rule}
    vouched = [(op, entry.first) for entry in seen.vouched for op in entry.ops]
    assert [op for op, _ in vouched if table.find(op) is not None] == []
    assert len(vouched) == len(set(vouched))


def test_rules_that_the_builds_confirm_have_the_grade_between_source_and_measured() -> None:
    kinds = list(EvidenceKind)
    assert kinds.index(EvidenceKind.SOURCE) < kinds.index(EvidenceKind.DISPATCHED) < kinds.index(EvidenceKind.MEASURED)
    seen = load_dispatched(Backend.CUDA)
    assert seen is not None
    rule = load_table(Backend.CUDA).find("aten.index_add.default")
    assert rule is not None
    assert seen.rules[rule.id] in {row.ref for row in rule.evidence if row.kind is EvidenceKind.DISPATCHED}
    assert "indexFuncSmallIndex" in seen.rules[rule.id]


def test_another_backends_table_does_not_inherit_what_cuda_builds_launched() -> None:
    kinds = {row.kind for rule in load_table(Backend.ROCM).rule for row in rule.evidence}
    assert EvidenceKind.DISPATCHED not in kinds


def recorded(step: Callable[[], object]) -> Trace:
    with DeterminismTracer() as tracer:
        step()
    return tracer.trace


def verdicts(trace: Trace, version: str, settings: Any, op: str) -> set[str]:
    judged = judge(trace, backend="cuda", torch=version, settings=settings).judged_calls
    return {str(call.ruling.verdict) for call in judged if call.group.op.startswith(op)}


M = torch.ones(5, 3)

MASK = torch.tensor([False, True, False, True, True])

TWO = torch.tensor([1, 3])

#: The index, the value, and the versions from which on deterministic mode takes them.
WRITES = [
    pytest.param((TWO,), torch.tensor(0.0), "1.13", id="a number to rows"),
    pytest.param((None, torch.tensor([0, 2])), torch.tensor(0.0), "1.13", id="a number to columns"),
    pytest.param((torch.tensor([1]),), torch.tensor(0.0), "2.1", id="a number to one row"),
    pytest.param((MASK,), torch.tensor([1.0, 2.0, 3.0]), "2.8", id="a row to those of a mask"),
    pytest.param((TWO,), torch.tensor([1.0, 2.0, 3.0]), "2.8", id="a row to several"),
    pytest.param((TWO,), torch.tensor([[1.0], [2.0]]), "2.8", id="a number for each row"),
    pytest.param((MASK,), torch.tensor(0.0), "1.11", id="a number by a mask"),
    pytest.param((TWO,), torch.ones(2, 3), "1.11", id="rows as they are"),
    pytest.param((MASK,), torch.ones(3, 3), "1.11", id="rows of a mask as they are"),
    pytest.param((TWO, TWO - 1), torch.tensor(0.0), "1.11", id="a number to elements"),
]

RELEASES = ["1.11", "1.12", "1.13", "2.0", "2.1", "2.7", "2.8", "2.13"]


@pytest.mark.parametrize(("index", "value", "since"), WRITES)
@pytest.mark.parametrize("accumulate", [False, True])
def test_a_value_that_is_broadcast_was_refused_by_an_assertion(
    index: tuple[torch.Tensor | None, ...], value: torch.Tensor, since: str, accumulate: bool
) -> None:
    trace = recorded(lambda: torch.ops.aten.index_put_(M.clone(), index, value, accumulate))
    for settings in ("deterministic", "warn"):
        raising = [v for v in RELEASES if "raises" in verdicts(trace, v, settings, "aten.index_put_")]
        assert raising == RELEASES[: RELEASES.index(since)]
    without = {v for v in RELEASES if "raises" in verdicts(trace, v, "default", "aten.index_put_")}
    assert without == (set(RELEASES[: RELEASES.index(since)]) if accumulate else set())


@pytest.mark.parametrize(
    ("version", "verdict"), [("1.11", "raises"), ("1.12", "raises"), ("1.13", "conditional"), ("2.9", "conditional")]
)
@pytest.mark.parametrize(
    ("op", "step"),
    [
        ("aten.addmm", lambda: torch.nn.Linear(4, 4)(torch.ones(2, 4))),
        ("aten.bmm", lambda: torch.ones(2, 3, 3) @ torch.ones(2, 3, 3)),
        ("aten.mm", lambda: torch.ones(3, 3) @ torch.ones(3, 3)),
    ],
)
def test_warn_only_stopped_products_without_a_workspace_before_1_13(
    op: str, step: Callable[[], object], version: str, verdict: str
) -> None:
    trace = recorded(step)
    assert verdicts(trace, version, "warn", op) == {verdict}
    assert verdicts(trace, version, "default", op) == {"conditional"}


def test_warn_only_stopped_a_convolution_without_cudnn_before_1_13() -> None:
    def step() -> None:
        with torch.backends.cudnn.flags(enabled=False):
            torch.nn.Conv2d(2, 2, 3)(torch.ones(1, 2, 5, 5))

    trace = recorded(step)
    sets = {"deterministic_mode": "warn", "cudnn_enabled": False}
    assert verdicts(trace, "1.12", sets, "aten.convolution") == {"raises"}
    assert verdicts(trace, "1.13", sets, "aten.convolution") == {"conditional"}


def test_draws_are_said_to_repeat_for_one_version_and_to_have_changed_where_they_did() -> None:
    drawing = [rule for table in load_tables().values() for rule in table.rule if "-rng" in rule.id]
    assert len({rule.id.partition("-")[0] for rule in drawing}) == len(load_tables())
    assert [rule.id for rule in drawing if "for one version of torch" not in rule.why] == []
    changed = [load_table(Backend.CPU).find(f"aten.{op}.default") for op in ("multinomial", "exponential_")]
    assert all(rule is not None and "2.7" in rule.why for rule in changed)


def test_reseeding_did_not_reach_dropout_of_recurrent_layers_before_2_0() -> None:
    rule = load_tables()[Backend.CUDA].find("aten._cudnn_rnn.default")
    assert rule is not None
    assert [case.torch for case in rule.case if "make once in a process" in case.why] == ["<2.0"]
