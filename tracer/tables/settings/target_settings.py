"""A target's settings: as recorded, as torch has them by default, or with some of them replaced."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tracer.names import DeterministicMode, Settings
from tracer.tables.settings.declared import CUBLAS_VARIABLE, CUBLAS_WORKSPACES, DECLARED, MODE, SEEDS, conditions
from tracer.trace.records import Environment, FactValue

#: Fields of ``Environment`` that a line of the program sets, with torch's defaults.
DEFAULTS: Mapping[str, FactValue] = {
    setting.key: setting.default for setting in DECLARED if setting.is_field and setting.default is not None
}

_MODES = {Settings.WARN: DeterministicMode.WARN, Settings.DETERMINISTIC: DeterministicMode.ON}


def effective_environment(
    environment: Environment, settings: Settings, sets: Mapping[str, FactValue] | None = None
) -> Environment:
    """``environment`` as the target has it: its settings made torch's defaults where that is asked, then replaced.

    ``sets`` names fields, environment variables and dotted names (``tables.replacing``). Versions, hardware and numbers
    of threads stay the recorded ones.
    """
    if settings is not Settings.RECORDED:
        variables = {CUBLAS_VARIABLE: CUBLAS_WORKSPACES[0]} if settings is Settings.DETERMINISTIC else {}
        mode = _MODES.get(settings, DeterministicMode.OFF)
        fields = {**DEFAULTS, MODE: mode, "variables": variables, "settings": {}}
        environment = msgspec.structs.replace(environment, **fields)
    changed: dict[str, object] = {}
    variables, dotted = dict(environment.variables), dict(environment.settings)
    for name, value in (sets or {}).items():
        if name in SEEDS:
            continue
        if name in Environment.__struct_fields__:
            changed[name] = DeterministicMode(value) if name == MODE else value
        elif "." in name:
            dotted[name] = value
        else:
            variables[name] = str(value)
    if not sets:
        return environment
    return msgspec.structs.replace(environment, **changed, variables=variables, settings=dotted)


def settings_of(
    environment: Environment, settings: Settings, sets: Mapping[str, FactValue] | None = None
) -> dict[str, FactValue]:
    """Every setting that conditions may read; one that could not be recorded is left out, for it is unknown.

    The number of threads and the hardware are the recorded ones whatever ``settings`` says: no mode changes them.
    """
    environment = effective_environment(environment, settings, sets)
    read = {condition.key: condition.held_by(environment) for condition in conditions()}
    return {key: value for key, value in read.items() if value is not None}
