"""Measurements are data that the tables must agree with, or the lint fails."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

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
from tracer.errors import TableError
from tracer.names import Backend, DeterministicMode
from tracer.tables.loading import load_tables

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


def faults(measurement: Measurement) -> list[str]:
    return list(contradictions(measurement, load_tables()))


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
        (
            measured(ADDS, "on", distinct=2),
            "2 distinct results in 20 runs, but all calls are deterministic by the table",
        ),
    ],
)
def test_a_run_that_the_table_cannot_be_true_of_is_a_fault(measurement: Measurement, says: str) -> None:
    (fault,) = faults(measurement)
    assert says in fault


@pytest.mark.parametrize(
    "measurement",
    [
        measured(ADDS, distinct=9),
        measured(ADDS, distinct=1),
        measured(PUTS, "on", refused=True, distinct=0),
        measured(PLAIN),
        measured(MeasuredCall(op="elsewhere.op.default", facts={"device": "cpu"}), "on", refused=True, distinct=0),
    ],
)
def test_a_risk_need_not_show_and_an_unknown_op_contradicts_nothing(measurement: Measurement) -> None:
    assert faults(measurement) == []


def test_an_explanation_silences_its_own_contradiction_and_must_have_one() -> None:
    why = Explained(what="it", mode=DeterministicMode.OFF, why="The driver of that day was broken.")
    assert faults(measured(PLAIN, distinct=3, explained=(why,))) == []
    assert faults(measured(PLAIN, explained=(why,))) == ["it, mode off: explained, but it contradicts no verdict"]


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
