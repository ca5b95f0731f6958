"""Settings that a caller asks for by name, in place of the recorded ones: checked, each unknown name refused."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache

from tracer.errors import TargetError
from tracer.tables.loading import named_variables
from tracer.tables.settings.declared import DECLARED, SEEDS, declared
from tracer.tables.settings.rows import load_rows
from tracer.trace.records import FactValue


@cache
def known_settings() -> frozenset[str]:
    """Every name that can be asked for: fields of the environment, variables, dotted names, seeds."""
    rows = load_rows().row
    read = {row.read for row in rows if row.read}
    return named_variables().union(
        SEEDS,
        (setting.key for setting in DECLARED if setting.is_field or setting.is_variable),
        (setting.key for setting in DECLARED if "." in setting.key),
        (row.variable for row in rows if row.variable),
        read,
        (name.removesuffix("()") for name in read),
        *(row.sets for row in rows),
    )


def checked_sets(sets: Mapping[str, FactValue]) -> dict[str, FactValue]:
    """``sets``, every name known and every value one that it can have; ``TargetError`` in one line otherwise."""
    checked: dict[str, FactValue] = {}
    for name, value in sets.items():
        if name not in known_settings():
            near = difflib.get_close_matches(str(name), known_settings(), n=3, cutoff=0.5)
            hint = f"did you mean {', '.join(near)}?" if near else "name a field, a variable or a dotted name"
            raise TargetError(f"there is no setting {str(name)!r} to replace", hint=hint)
        checked[name] = _checked(name, value)
    return checked


def _checked(name: str, value: FactValue) -> FactValue:
    known = declared(name)
    if name in SEEDS:
        wanted = "" if value is True else "True"
    elif known is not None:
        wanted = known.fault(value)
    elif "." not in name:
        wanted = "" if isinstance(value, str) else "text, as environment variables are"
    else:
        wanted = "" if isinstance(value, (bool, int, str)) else "True, False, a number or text"
    if wanted:
        raise TargetError(f"{name} cannot be {value!r}", hint=f"it is {wanted}")
    return value
