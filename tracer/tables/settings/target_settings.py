"""A target's settings: as recorded, torch's defaults, or with some replaced by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache

import msgspec

from tracer.errors import TargetError
from tracer.names import DeterministicMode, Settings
from tracer.tables.loading import named_variables
from tracer.tables.settings.declared import (
    CUBLAS_VARIABLE,
    CUBLAS_WORKSPACES,
    DECLARED,
    MODE,
    SEEDS,
    conditions,
    declared,
)
from tracer.tables.settings.rows import load_rows
from tracer.trace.records import Environment, FactValue

#: Fields of ``Environment`` that a program can set, with torch's defaults.
DEFAULTS: Mapping[str, FactValue] = {
    setting.key: setting.default for setting in DECLARED if setting.is_field and setting.default is not None
}

_MODES = {Settings.WARN: DeterministicMode.WARN, Settings.DETERMINISTIC: DeterministicMode.ON}


def effective_environment(
    environment: Environment, settings: Settings, sets: Mapping[str, FactValue] | None = None
) -> Environment:
    """``environment`` with the target's settings, then ``sets`` (fields, variables, dotted names); versions, hardware
    and numbers of threads stay as recorded."""
    if settings is not Settings.RECORDED:
        variables = {CUBLAS_VARIABLE: CUBLAS_WORKSPACES[0]} if settings is Settings.DETERMINISTIC else {}
        mode = _MODES.get(settings, DeterministicMode.OFF)
        fields = {**DEFAULTS, MODE: mode, "variables": variables, "settings": {}}
        environment = msgspec.structs.replace(environment, **fields)
    changed: dict[str, object] = {}
    variables, dotted = dict(environment.variables), dict(environment.settings)
    for name, value in (sets or {}).items():
        if name in Environment.__struct_fields__:
            changed[name] = DeterministicMode(value) if name == MODE else value
        elif name not in SEEDS and "." in name:
            dotted[name] = value
        elif name not in SEEDS:
            variables[name] = str(value)
    return msgspec.structs.replace(environment, **changed, variables=variables, settings=dotted)


def settings_of(
    environment: Environment, settings: Settings, sets: Mapping[str, FactValue] | None = None
) -> dict[str, FactValue]:
    """All settings that conditions may read. Those that were not recorded are omitted: they are unknown."""
    environment = effective_environment(environment, settings, sets)
    read = {condition.key: condition.held_by(environment) for condition in conditions()}
    return {key: value for key, value in read.items() if value is not None}


@cache
def known_settings() -> frozenset[str]:
    """Every name that can be replaced: fields of the environment, variables, dotted names, seeds."""
    rows = load_rows().row
    keys = (setting.key for setting in DECLARED if setting.is_field or setting.is_variable or "." in setting.key)
    held = {name for row in rows for name in (row.variable, row.read, row.read.removesuffix("()")) if name}
    return named_variables().union(SEEDS, keys, held, *(row.sets for row in rows))


def checked_sets(sets: Mapping[str, FactValue]) -> dict[str, FactValue]:
    """``sets``, validated. Raises ``TargetError`` for an unknown name or an invalid value."""
    for name, value in sets.items():
        if name not in known_settings():
            near = difflib.get_close_matches(str(name), known_settings(), n=3, cutoff=0.5)
            hint = f"did you mean {', '.join(near)}?" if near else "name a field, a variable or a dotted name"
            raise TargetError(f"unknown setting {str(name)!r}", hint=hint)
        setting = declared(name)
        if name in SEEDS:
            wanted = "" if value is True else "True"
        elif setting is not None:
            wanted = setting.fault(value)
        elif "." not in name:
            wanted = "" if isinstance(value, str) else "text, as environment variables are"
        else:
            wanted = "" if isinstance(value, (bool, int, str)) else "True, False, a number or text"
        if wanted:
            raise TargetError(f"{name} cannot be {value!r}", hint=f"it is {wanted}")
    return dict(sets)
