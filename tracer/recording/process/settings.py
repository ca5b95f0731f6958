"""The settings that the table of settings names, as they stand in this process. Imports no torch, nor anything else.

A name such as ``torch.backends.cuda.matmul.allow_fp16_accumulation`` is looked up in what is loaded already, so that
asking neither loads a module nor starts a device. What is not there is left out.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from types import ModuleType
from typing import Any

from tracer.names import DeterministicMode
from tracer.tables.settings.declared import DECLARED, MODE, Setting
from tracer.tables.settings.rows import Row
from tracer.trace.records import FactValue

_MODE = next(setting for setting in DECLARED if setting.key == MODE)
#: What stands behind the name of a function that is to be called.
_CALL = "()"
#: Asking these settles them: a variable is read once, a device or a package is looked for. They are asked only after
#: calls, which have settled them already.
_SETTLED_BY_CALLS = frozenset({"torch.backends.cpu.get_cpu_capability", "torch.backends.python_native.available_dsls"})
#: These only once CUDA has started.
_SETTLED_BY_CUDA = frozenset(
    {
        "torch.backends.cuda.preferred_blas_library",
        "torch.backends.cuda.preferred_rocm_fa_library",
        "torch.cuda.tunable.is_enabled",
    }
)
#: Longer texts than this are cut: a setting is a word or a number.
_LONGEST = 200


def read_settings(
    rows: Iterable[Row], environ: Mapping[str, str] = os.environ, *, before_calls: bool = False
) -> tuple[dict[str, FactValue], dict[str, str]]:
    """The settings of ``rows`` by their dotted names (without ``()``), and the variables that are set, by theirs.

    Rows whose setting is a field of ``Environment`` are ``capture_environment``'s to read. ``before_calls``: may the
    process have run nothing yet? Then what asking would settle is left out.
    """
    settings: dict[str, FactValue] = {}
    variables: dict[str, str] = {}
    set_now = dict(environ)  # which translates each name once, not each that is asked for
    for row in rows:
        if row.variable and row.variable in set_now:
            variables[row.variable] = set_now[row.variable]
        if row.read:
            name = row.read.removesuffix(_CALL)
            if name in settings or not _may_ask(name, before_calls):
                continue
            value = _value(name, is_function=row.read.endswith(_CALL))
            if value is not None:
                settings[name] = value
    return settings, variables


def read_now(setting: Setting) -> FactValue | None:
    """The current value of a declared setting; ``None`` if this process does not have it."""
    if setting.is_variable:
        return os.environ.get(setting.key)
    value = _value(setting.read.removesuffix(_CALL), is_function=setting.read.endswith(_CALL))
    return None if value is None else setting.said.get(value, value)


def deterministic_mode() -> DeterministicMode:
    """The state of ``torch.use_deterministic_algorithms``."""
    return DeterministicMode(str(read_now(_MODE)))


def _may_ask(name: str, before_calls: bool) -> bool:
    if name in _SETTLED_BY_CUDA:
        return _value("torch.cuda.is_initialized", is_function=True) is True
    return not (before_calls and name in _SETTLED_BY_CALLS)


def _value(name: str, *, is_function: bool) -> FactValue | None:
    """What ``name`` holds or returns, as a trace can say it; ``None`` where that cannot be read."""
    try:
        attribute = _look_up(name)
        return _as_fact(attribute() if is_function else attribute)
    except Exception:  # not loaded, not in this version, not in this build
        return None


def _look_up(name: str) -> Any:
    """The object of that dotted name, from the longest part of it that is a loaded module."""
    for module, parts in _readings(name):
        found: Any = sys.modules.get(module)
        if found is not None:
            for part in parts:
                # A plain module's own ``__getattr__`` may import what it is asked for, as torch's does.
                found = vars(found)[part] if type(found) is ModuleType else getattr(found, part)
            return found
    raise LookupError(name)


@functools.lru_cache(maxsize=1024)
def _readings(name: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Each part of a dotted name that may be a module, the longest first, and what is then asked of it."""
    parts = tuple(name.split("."))
    return tuple((".".join(parts[:length]), parts[length:]) for length in range(len(parts), 0, -1))


def _as_fact(value: Any) -> FactValue | None:
    """``value`` where a trace can hold it, its name if it has one, else its text; ``None`` stays ``None``."""
    if value is None or type(value) in (bool, int):
        return value  # type: ignore[no-any-return]
    if isinstance(value, str) and not isinstance(value, Enum):
        return str(value)[:_LONGEST]
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = [str(_as_fact(item)) for item in value]
        return ", ".join(sorted(parts) if isinstance(value, (set, frozenset)) else parts)[:_LONGEST]
    name = getattr(value, "name", None)  # enums, Python's and C++'s
    if isinstance(name, str):
        return name[:_LONGEST]
    text = str(value)
    # A default ``repr`` holds an address, which differs between runs and says nothing.
    return type(value).__name__ if " at 0x" in text else text[:_LONGEST]
