"""Settings made before the script's first line, as a plan asks for them: the rest of it is started with variables."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping

from tracer.errors import UsageError
from tracer.runner.repeated.circumstances.replacing import Replacements
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


def make_before_the_script(replaced: Replacements, settings: Mapping[str, FactValue]) -> None:
    """Make what is not a variable: torch's as soon as it is imported, seeds as their packages are."""
    if settings.get("seed.python"):
        random.seed(SEED)
    if settings.get("seed.numpy"):
        replaced.when_imported("numpy.random", _seed_numpy)
    of_torch = {name: value for name, value in settings.items() if name not in (*SEEDS, *variables_among(settings))}
    replaced.when_imported("torch", lambda: _make(replaced, of_torch, seed=bool(settings.get("seed.torch"))))


def _seed_numpy() -> None:
    sys.modules["numpy.random"].seed(SEED)


def _make(replaced: Replacements, settings: Mapping[str, FactValue], *, seed: bool) -> None:
    import torch

    from tracer.recording.process.settings import make

    for name, value in settings.items():
        setting = declared(name)
        if setting is None:
            raise UsageError(f"{name} cannot be set before the script", hint="make the plan's change in the script")
        replaced.then(make(setting, value))
    if seed:
        torch.manual_seed(SEED)


def compute_with_one_thread(replaced: Replacements) -> None:
    """Make torch compute with one thread."""
    import torch

    number = torch.get_num_threads()
    torch.set_num_threads(1)
    replaced.then(lambda: torch.set_num_threads(number))
