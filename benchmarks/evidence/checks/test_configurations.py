"""Rounding and faults of two configurations, over changes that people make and over seven models: as printed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

pytest.importorskip("transformers")

from benchmarks.evidence import changed_configurations, configurations
from benchmarks.evidence.configurations import FAULTS, SECOND_FAULTS, SECOND_TWINS, TWINS, Pair, shows
from tracer.divergence.magnitudes import CompareVerdict

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("has_fault", [False, True], ids=["clean", "fault"])
@pytest.mark.parametrize("change", changed_configurations.CHANGES)
def test_a_change_of_configuration_is_rounding_and_its_fault_is_found(change: str, has_fault: bool) -> None:
    comparison, is_right = changed_configurations.answered(change, has_fault=has_fault)
    assert is_right, (comparison.verdict, comparison.largest, comparison.first)


def named(pair: Pair) -> str:
    return f"{pair.subject}: {pair.name}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("twin", [*TWINS, *SECOND_TWINS], ids=named)
def test_a_twin_is_not_called_significant(twin: Pair, dtype: torch.dtype) -> None:
    comparison = configurations.answered(twin, dtype)
    assert comparison.verdict is not CompareVerdict.SIGNIFICANT, comparison.first


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("fault", [*FAULTS, *SECOND_FAULTS], ids=named)
def test_a_fault_that_the_dtype_can_show_is_found_at_its_module(fault: Pair, dtype: torch.dtype) -> None:
    comparison = configurations.answered(fault, dtype)
    first = comparison.first
    if shows(fault, dtype):
        assert comparison.verdict is CompareVerdict.SIGNIFICANT
    assert first is None or first.module.endswith(fault.module)
