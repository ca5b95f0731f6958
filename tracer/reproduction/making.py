"""Making a declared setting in this process, and putting it back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

from tracer.recording.process.settings import read_now
from tracer.tables.settings.declared import Setting
from tracer.trace.records import FactValue


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
        given, named = setting.arguments.get(value, ((value,), {}))
        resolve_name(setting.made_by.removesuffix("()"))(*given, **named)
    elif value is not None:
        holder, _, name = setting.made_by.rpartition(".")
        owner: Any = resolve_name(holder)
        setattr(owner, name, value)
