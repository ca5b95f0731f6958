"""What is kept of a CUDA build: put together from the worker's lines, read back, compared with the release before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.evidence.nullgpu.changes import changes
from benchmarks.evidence.nullgpu.recording import Compiler, Recording, family, file_of, keep, load, releases
from benchmarks.evidence.nullgpu.suites import fingerprint
from tests.support.samples import Sample

HEAD = {"torch": "2.13.0", "cuda": "13.0", "capability": "9.0", "suite": "opinfo"}
INDEX_ADD = ["aten.index_add.default", ["_ZN2at6native18indexFuncSmallIndexIfEEvv", "_ZN2at6native4fillEv"]]
INDEX_PUT = ["aten.index_put.default", ["cublasSgemm_v2"]]


def outcome(*launches: list[Any], error: str = "") -> dict[str, Any]:
    return {"forward": list(launches), "backward": [], "error": error, "warned": []}


def line(entry: str = "index_add", inputs: str = "0a0a", **modes: dict[str, Any]) -> dict[str, Any]:
    off = modes.get("off", outcome(INDEX_ADD))
    ran = {mode: modes.get(mode, off) for mode in ("off", "on", "warn", "bare")}
    return {"entry": entry, "number": 0, "dtype": "float32", "inputs": inputs, **ran}


def recording(*lines: dict[str, Any], torch: str = "2.13.0") -> Recording:
    return Compiler().compiled({**HEAD, "torch": torch}, lines)


def test_a_sample_that_fails_in_every_mode_tells_nothing_of_a_mode() -> None:
    dead = {"entry": "lstm", "number": 0, "dtype": "float32", "inputs": "0000"}
    broken, refused, crashed = recording(
        line(off=outcome(error="forward: RuntimeError: no")), line(on=outcome(error="forward: RuntimeError: no")), dead
    ).rows
    assert [row.is_usable for row in (broken, refused, crashed)] == [False, True, False]
    assert [refused.fails(mode) for mode in ("off", "on", "warn", "bare")] == [False, True, False, False]
    assert crashed.crashed


def test_a_recording_round_trips_and_other_schemas_are_refused(tmp_path: Path) -> None:
    made = recording(line(on=outcome(INDEX_PUT)))
    path = keep(made, file_of("2.13.0", "opinfo", tmp_path))
    assert load(path) == made
    (launch,) = load(path).rows[0].under("on").forward
    assert (made.op_of(launch), made.kernels_of(launch)) == ("aten.index_put.default", ("cublasSgemm_v2",))
    keep(recording(torch="2.9.1"), file_of("2.9.1", "opinfo", tmp_path))
    assert list(releases("opinfo", tmp_path)) == ["2.9.1", "2.13.0"]
    keep(Recording(**{**{f: getattr(made, f) for f in made.__struct_fields__}, "schema": 0}), path)
    with pytest.raises(ValueError, match="record it again"):
        load(path)


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_ZN2at6native11fill_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm2EEEEviT0_T1_", "fill_kernel"),
        ("_ZN2at6native20_GLOBAL__N__1_2_3_ab4normIfEEvv", "norm"),
        ("_Z10plain_nameIfEvPT_", "plain_name"),
        ("cublasSgemm_v2", "cublasSgemm_v2"),
    ],
)
def test_a_kernels_family_is_its_name_without_namespace_and_template(mangled: str, name: str) -> None:
    assert family(mangled) == name


def test_a_release_that_refuses_what_the_one_before_ran_is_told() -> None:
    older = recording(line(), line("grid_sample"), line("sum"), torch="2.12.1")
    refusing = line("grid_sample", on=outcome(error="forward: RuntimeError: no"))
    newer = recording(line(), refusing, line("sum", inputs="ffff", off=outcome(INDEX_PUT)))
    assert list(changes(older, newer)) == [
        "2 samples in both, 1 new, changed or without an outcome",
        "refused now in deterministic mode: grid_sample",
    ]


def test_another_kernel_and_another_op_are_told_by_name() -> None:
    older = recording(line(), line("topk", off=outcome(["aten.topk.default", ["_ZN2at5radixEv"]])), torch="2.14.1")
    newer = recording(line(off=outcome(INDEX_PUT)), line("topk", off=outcome(["aten.topk.default", ["_ZN2at3newEv"]])))
    told = list(changes(older, newer))
    assert "other kernels with the mode off: -(radix) +(new): topk" in told
    assert "other ops with the mode off: -(aten.index_add.default) +(aten.index_put.default): index_add" in told


def test_a_fingerprint_hangs_on_shapes_and_arguments_and_not_on_values() -> None:
    def of(*args: Any, **kwargs: Any) -> str:
        return fingerprint(Sample("sum", 0, "float32", torch.sum, args, kwargs))

    assert of(torch.zeros(3), 0) == of(torch.ones(3), 0)
    assert len({of(torch.zeros(3), 0), of(torch.zeros(4), 0), of(torch.zeros(3), 1), of(torch.zeros(3), dim=0)}) == 4
