"""Settings made before the script's first line, as a plan asks for them: the rest of it is started with variables."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping

from tracer.errors import UsageError
from tracer.runner.imports import when_imported
from tracer.tables.settings.declared import SEEDS, declared
from tracer.trace.records import FactValue

SEED = 0


def variables_among(settings: Mapping[str, FactValue]) -> dict[str, str]:
    """Those of ``settings`` that are variables, which a process is started with."""
    return {
        name: str(value)
        for name, value in settings.items()
        if ((setting := declared(name)) is not None and setting.is_variable) or (name.isupper() and "." not in name)
    }


def make_before_the_script(settings: Mapping[str, FactValue]) -> None:
    """Make what is not a variable: torch's as soon as it is imported, seeds as their packages are."""
    if settings.get("seed.python"):
        random.seed(SEED)
    if settings.get("seed.numpy"):
        when_imported("numpy.random", _seed_numpy)
    of_torch = {name: value for name, value in settings.items() if name not in (*SEEDS, *variables_among(settings))}
    when_imported("torch", lambda: _make(of_torch, seed=bool(settings.get("seed.torch"))))


def _seed_numpy() -> None:
    sys.modules["numpy.random"].seed(SEED)


def _make(settings: Mapping[str, FactValue], *, seed: bool) -> None:
    import torch

    from tracer.recording.process.settings import make

    for name, value in settings.items():
        setting = declared(name)
        if setting is None:
            raise UsageError(f"{name} cannot be set before the script", hint="make the plan's change in the script")
        make(setting, value)
    if seed:
        torch.manual_seed(SEED)
