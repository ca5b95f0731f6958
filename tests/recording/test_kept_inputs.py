"""What calls were given is kept where that was asked for, and put into a program that reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tests.support.bits import bits
from tests.support.lines import record
from tracer import DeterminismTracer, Keep
from tracer.trace.merging import merge_traces


def step() -> torch.Tensor:
    torch.manual_seed(0)
    places, values = torch.randint(0, 50, (40_000,)), torch.randn(4, 10_000).t().flatten()
    return torch.zeros(50).index_put((places,), values, accumulate=True) + torch.ones(50)


def recorded(folder: Path, **options: Any) -> tuple[DeterminismTracer, Path]:
    tracer = record(lambda: (step(), step()), **options)
    tracer.save(folder / "trace.json")
    return tracer, folder / "trace.inputs.safetensors"


def test_the_first_call_of_a_chosen_group_is_kept_to_the_bit(tmp_path: Path) -> None:
    tracer, file = recorded(tmp_path, keep="index_put*")
    (group,) = [group for group in tracer.trace.calls if group.inputs]
    assert group.op == "aten.index_put.default"
    held = load_file(file)
    torch.manual_seed(0)
    assert torch.equal(held[f"{group.inputs}/indices.0"], torch.randint(0, 50, (40_000,)))
    assert set(held) == {f"{group.inputs}/{name}" for name in ("self", "indices.0", "values")}


def test_a_file_chooses_too_and_merged_recordings_name_no_data(tmp_path: Path) -> None:
    tracer, _ = recorded(tmp_path, keep=("*test_kept_inputs.py",))
    assert all(group.inputs for group in tracer.trace.calls if group.op == "aten.add.Tensor")
    merged = merge_traces([tracer.trace, tracer.trace])
    assert not any(group.inputs for group in merged.calls)


def test_no_more_is_kept_than_may_be(tmp_path: Path) -> None:
    tracer, file = recorded(tmp_path, keep=Keep("*", bytes=1000))
    assert sum(tensor.nbytes for tensor in load_file(file).values()) <= 1000
    assert {group.op for group in tracer.trace.calls if not group.inputs} >= {"aten.index_put.default"}


def test_nothing_is_kept_unasked_and_keeping_changes_no_bit(tmp_path: Path) -> None:
    plain, file = recorded(tmp_path)
    assert not file.exists()
    assert not any(group.inputs for group in plain.trace.calls)
    torch.set_num_threads(1)
    expected = bits(step())
    with DeterminismTracer(keep="*"):
        assert bits(step()) == expected
