"""Reads the process's versions and settings.

Only what can influence a step: no host name, no user name, and of the environment variables only those that a table
names. Reading starts no device.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, TypeVar

import msgspec
import torch

from tracer.names import DeterministicMode
from tracer.recording.calls.fact_readers import dtype_word
from tracer.recording.process.settings import deterministic_mode, read_now, read_settings, set_variables
from tracer.recording.torch_private.seams import cudnn_number
from tracer.tables.asked import asked
from tracer.tables.settings import DECLARED, MODE
from tracer.trace.records import CudaDevice, Environment, FactValue

T = TypeVar("T")


def _read(reader: Callable[[], T]) -> T | None:
    """The result of ``reader``; ``None`` if this build of torch lacks it."""
    try:
        return reader()
    except Exception:  # a missing attribute, a missing library, a build without the backend
        return None


def capture_environment(*, before_calls: bool = False) -> Environment:
    """Read the settings of this process; ``before_calls`` leaves what reading would initialize to ``completed``."""
    settings = read_settings(asked().settings, before_calls=before_calls)
    own = (setting for setting in DECLARED if "." in setting.key and setting.condition is not None)
    settings |= {setting.key: value for setting in own if (value := read_now(setting)) is not None}
    return Environment(
        python=platform.python_version(),
        platform=f"{platform.system()}-{platform.machine()}",
        torch=str(torch.__version__),
        cuda=torch.version.cuda,
        hip=_read(lambda: torch.version.hip),
        cudnn=_read(_cudnn_version),
        nccl=_read(lambda: ".".join(str(part) for part in torch.cuda.nccl.version())) if torch.version.cuda else None,
        devices=_read(devices) or (),
        **{setting.key: read_now(setting) for setting in DECLARED if setting.is_field and setting.key != MODE},  # type: ignore[arg-type]
        deterministic_mode=deterministic_mode(),
        sdp_backends=_read(_sdp_backends),
        default_dtype=dtype_word(torch.get_default_dtype()),
        torch_seed=_read(torch.initial_seed),
        cuda_seed=_read(torch.cuda.initial_seed) if torch.cuda.is_initialized() else None,
        variables=set_variables(asked().variables),
        settings=settings,
    )


def under(environment: Environment, values: Mapping[str, str]) -> Environment:
    """``environment`` with the settings under which the calls ran: ``values``, by the names that events have."""
    fields: dict[str, Any] = {}
    dotted = dict(environment.settings)
    for key, value in values_of(values).items():
        if key == MODE:
            fields[MODE] = DeterministicMode(str(value))
        elif key in Environment.__struct_fields__:
            fields[key] = value
        elif key in dotted:
            dotted[key] = value
    return msgspec.structs.replace(environment, **fields, settings=dotted)


#: Settings with a list of values, by the names that events have, and those that verdicts hang on.
HAVE_VALUES = {setting.name: setting for setting in DECLARED if not isinstance(setting.values, type)}
JUDGED = {name for name, setting in HAVE_VALUES.items() if setting.condition is not None}


def values_of(texts: Mapping[str, str]) -> dict[str, FactValue]:
    """The values, by ``Setting.key``, that events spell as ``texts``; without settings that have no list of values."""
    values: dict[str, FactValue] = {}
    for name, setting in HAVE_VALUES.items():
        spelt = {str(value): value for value in setting.values} if isinstance(setting.values, tuple) else {}
        if (text := texts.get(name)) in spelt:
            values[setting.key] = spelt[text]
    return values


def values_now() -> dict[str, str]:
    """The values that the settings have whose changes are observed, as events spell both."""
    return {name: str(read_now(setting)) for name, setting in HAVE_VALUES.items() if setting.watched[0]}


def completed(environment: Environment) -> Environment:
    """``environment`` with what had not started or was not loaded when it was captured."""
    settings = read_settings(asked().settings)
    cuda_devices = environment.devices or _read(devices) or ()
    return msgspec.structs.replace(environment, devices=cuda_devices, settings=settings | environment.settings)


def _cudnn_version() -> str | None:
    number = cudnn_number() if torch.version.cuda else None
    return None if number is None else str(number)


def _sdp_backends() -> tuple[str, ...]:
    cuda: Any = torch.backends.cuda
    asked = {
        "flash": cuda.flash_sdp_enabled,
        "mem_efficient": cuda.mem_efficient_sdp_enabled,
        "math": cuda.math_sdp_enabled,
        "cudnn": getattr(cuda, "cudnn_sdp_enabled", lambda: False),
    }
    return tuple(name for name, is_enabled in asked.items() if is_enabled())


def has_triton() -> bool | None:
    """Whether Triton can be imported, without importing it; ``None`` in a build of torch without a GPU's kernels."""
    return find_spec("triton") is not None if torch.version.cuda or torch.version.hip else None


def devices() -> tuple[CudaDevice, ...]:
    """The CUDA devices, once the program has started CUDA: asking earlier would start it."""
    indices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    properties = map(torch.cuda.get_device_properties, indices)
    return tuple(CudaDevice(name=each.name, capability=f"{each.major}.{each.minor}") for each in properties)
