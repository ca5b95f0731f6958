"""Executions of regions: stand-ins for what Inductor makes."""

from __future__ import annotations

from threading import get_ident
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tracer.names import Direction, RegionOrigin
from tracer.recording.compiled.compilations import CompiledCode, CompileLog
from tracer.recording.compiled.executions import Executions, RegionRun
from tracer.recording.compiled.listing import RegionList
from tracer.recording.events import EventLog
from tracer.recording.memory_observers import StorageObservers
from tracer.recording.origin.modules import OUTSIDE
from tracer.recording.origin.sites import Sites


@pytest.mark.parametrize("is_followed", [False, True])
def test_inputs_of_a_region_are_looked_at_only_while_memory_is_followed(
    monkeypatch: pytest.MonkeyPatch, is_followed: bool
) -> None:
    attribution: Any = SimpleNamespace(modules=SimpleNamespace(thread=get_ident()), optimizer=None)
    looked_at: list[Any] = []
    monkeypatch.setattr(StorageObservers, "handed_over", lambda self, inputs: looked_at.append(inputs) or [])
    storages = StorageObservers()
    executions = Executions(attribution, storages, lambda: None)
    if is_followed:
        storages.indices.live[0] = object()  # type: ignore[assignment]
    inputs = [torch.zeros(1)]
    assert not executions.ran(object(), inputs)
    assert looked_at == ([inputs] if is_followed else [])


def test_a_region_that_replaced_no_other_was_not_compiled_again_after_one_from_before_the_recording() -> None:
    codes = [
        CompiledCode(None, Direction.FORWARD, "", RegionOrigin.EARLIER),
        CompiledCode(None, Direction.FORWARD, "0/0"),
    ]
    runs = [RegionRun(code, OUTSIDE, in_engine=False, in_optimizer=False) for code in codes]
    regions = RegionList(Sites(()), dict).regions(CompileLog(EventLog(Sites(()))), runs)
    assert [(region.id, region.recompiles) for region in regions] == [("earlier forward", ""), ("0/0 forward", "")]
