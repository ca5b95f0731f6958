"""Reads and makes the settings that the table of settings names, in this process. Imports no torch.

A name such as ``torch.backends.cuda.matmul.allow_fp16_accumulation`` is looked up in loaded modules only: reading
neither loads a module nor starts a device. What is not there is left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from enum import Enum
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

from tracer.names import DeterministicMode
from tracer.tables.settings import DECLARED, MODE, Setting
from tracer.trace.records import FactValue

_MODE = next(setting for setting in DECLARED if setting.key == MODE)
#: Suffix of a function that is to be called.
_CALL = "()"
#: Reading these initializes them: a variable is read once, a device or a package is looked for. They are read only
#: after calls, which have initialized them already.
_SETTLED_BY_CALLS = frozenset({"torch.backends.cpu.get_cpu_capability", "torch.backends.python_native.available_dsls"})
#: These are read only once CUDA has started.
_SETTLED_BY_CUDA = frozenset(
    {
        "torch.backends.cuda.preferred_blas_library",
        "torch.backends.cuda.preferred_rocm_fa_library",
        "torch.cuda.tunable.is_enabled",
    }
)
#: Longer texts are cut: a setting is a word or a number.
_LONGEST = 200


def read_settings(names: Iterable[str], *, before_calls: bool = False) -> dict[str, FactValue]:
    """The settings of these dotted names, by the name without ``()``, which stands behind a function.

    Settings that are fields of ``Environment`` are read by ``capture_environment``. ``before_calls``: the process may
    have run nothing yet; what reading would initialize is left out.
    """
    left_out = _SETTLED_BY_CALLS if before_calls else frozenset[str]()
    if _value("torch.cuda.is_initialized()") is not True:
        left_out |= _SETTLED_BY_CUDA
    values = {name: _value(name) for name in names if name.removesuffix(_CALL) not in left_out}
    return {name.removesuffix(_CALL): value for name, value in values.items() if value is not None}


def set_variables(names: Iterable[str]) -> dict[str, str]:
    """Those of the environment variables ``names`` that are set, in the order of their names."""
    return {name: os.environ[name] for name in sorted({*names}.intersection(os.environ))}


def read_now(setting: Setting) -> FactValue | None:
    """The current value of a declared setting; ``None`` if this process does not have it."""
    if setting.is_variable:
        return os.environ.get(setting.key)
    value = _value(setting.read)
    return None if value is None else setting.said.get(value, value)


def deterministic_mode() -> DeterministicMode:
    """The state of ``torch.use_deterministic_algorithms``."""
    return DeterministicMode(str(read_now(_MODE)))


def _value(name: str) -> FactValue | None:
    """Return the value of ``name``, or its result if it ends in ``()``, as traces hold it; ``None`` if unreadable."""
    try:
        attribute = _look_up(name.removesuffix(_CALL))
        return _as_fact(attribute() if name.endswith(_CALL) else attribute)
    except Exception:  # not loaded, not in this version, not in this build
        return None


def _look_up(name: str) -> Any:
    """The object of that dotted name, from the longest part of it that is a loaded module."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        holder: Any = sys.modules.get(".".join(parts[:length]))
        if holder is not None:
            for part in parts[length:]:
                # A module's own ``__getattr__`` may import the attribute, as torch's does.
                holder = vars(holder)[part] if type(holder) is ModuleType else getattr(holder, part)
            return holder
    raise LookupError(name)


def _as_fact(value: Any) -> FactValue | None:
    """``value`` if a trace can hold it, else its name or its text; ``None`` stays ``None``."""
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


def make(setting: Setting, value: FactValue) -> Callable[[], None]:
    """Give ``setting`` its ``value``; returned is what puts back the value that it had."""
    was = read_now(setting)
    _set(setting, value)
    return lambda: _set(setting, was)


def _set(setting: Setting, value: FactValue | None) -> None:
    """``None``: a variable that is not set; a setting that this process does not have is left alone."""
    if setting.is_variable:
        if value is None:
            os.environ.pop(setting.key, None)
        else:
            os.environ[setting.key] = str(value)
    elif value is not None and setting.made_by.endswith("()"):
        positional, named = setting.arguments.get(value, ((value,), {}))
        resolve_name(setting.made_by.removesuffix("()"))(*positional, **named)
    elif value is not None:
        holder, _, name = setting.made_by.rpartition(".")
        owner: Any = resolve_name(holder)
        setattr(owner, name, value)
