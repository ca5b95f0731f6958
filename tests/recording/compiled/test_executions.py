"""Executions of regions: stand-ins for what Inductor makes."""

from __future__ import annotations

from threading import get_ident
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tracer.recording.compiled.executions import Executions
from tracer.recording.memory_observers import StorageObservers


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
