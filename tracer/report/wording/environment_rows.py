"""The recorded environment as labelled rows, for the formats that people read."""

from __future__ import annotations

from typing import NamedTuple

from tracer.tables.settings.declared import DECLARED
from tracer.trace.records import Environment


class SettingRow(NamedTuple):
    """One line of the environment table."""

    name: str
    value: str
    differs: bool = False
    """Merged recordings disagree; the first one's value is shown."""


#: Fields with the names by which people know them, in reading order: versions, settings, what they started from.
_NAMES = {
    "torch": "torch",
    "cuda": "CUDA",
    "hip": "HIP",
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "python": "Python",
    "platform": "platform",
    **{setting.key: setting.label or setting.name for setting in DECLARED if setting.is_field},
    "sdp_backends": "attention backends",
    "default_dtype": "default dtype",
    "torch_seed": "torch seed",
    "cuda_seed": "CUDA seed",
}


def environment_rows(environment: Environment, differing: tuple[str, ...] = ()) -> list[SettingRow]:
    """Every field that could be read, devices, and the environment variables that were set."""
    rows = []
    for field, name in _NAMES.items():
        value = getattr(environment, field)
        if value is not None:
            rows.append(SettingRow(name, _spelled(value), field in differing))
    for device in environment.devices:
        capability = f" (compute capability {device.capability})" if device.capability else ""
        rows.append(SettingRow("device", f"{device.name}{capability}", "devices" in differing))
    for variable, value in sorted(environment.variables.items()):
        rows.append(SettingRow(variable, value, "variables" in differing))
    return rows


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)
