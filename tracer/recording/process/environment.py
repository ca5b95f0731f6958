"""The process's versions and settings at the moment of recording.

Only what bears on a step: no host name, no user name, and of the environment's variables only those that a table
names. Reading starts no device: a GPU that the program has not touched is not touched here either.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
import torch

from tracer.recording.calls.fact_readers import dtype_word
from tracer.recording.process.settings import deterministic_mode, read_now, read_settings
from tracer.recording.torch_private.seams import cudnn_number
from tracer.tables.settings.declared import DECLARED, MODE
from tracer.tables.settings.rows import load_rows
from tracer.trace.records import CudaDevice, Environment, FactValue

T = TypeVar("T")


def _read(reader: Callable[[], T]) -> T | None:
    """The result of ``reader``; ``None`` if this build of torch lacks it."""
    try:
        return reader()
    except Exception:  # a missing attribute, a missing library, a build without the backend
        return None


def capture_environment(variables: Iterable[str] = (), *, before_calls: bool = False) -> Environment:
    """Read the settings of this process; ``variables`` names the environment variables to keep.

    ``before_calls``: may the process have run nothing yet? Then what asking would settle is left to ``completed``.
    """
    settings, named = read_settings(load_rows().row, before_calls=before_calls)
    asked = {name: os.environ[name] for name in set(variables) if name in os.environ}
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
        variables=dict(sorted((named | asked).items())),
        settings=settings | _declared(),
    )


def completed(environment: Environment) -> Environment:
    """``environment`` with what could not be read when it was captured: what had not started or was not loaded."""
    settings, _ = read_settings(load_rows().row)
    found = environment.devices or _read(devices) or ()
    return msgspec.structs.replace(environment, devices=found, settings=settings | environment.settings)


def _declared() -> dict[str, FactValue]:
    """Declared settings that have no field, where rules ask for them."""
    asked = (setting for setting in DECLARED if "." in setting.key and setting.condition is not None)
    read = {setting.key: read_now(setting) for setting in asked}
    return {key: value for key, value in read.items() if value is not None}


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


def devices() -> tuple[CudaDevice, ...]:
    """The CUDA devices, once the program has started CUDA: asking earlier would start it."""
    if not torch.cuda.is_initialized():
        return ()
    cuda_devices = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        capability = f"{properties.major}.{properties.minor}"
        cuda_devices.append(CudaDevice(name=properties.name, capability=capability))
    return tuple(cuda_devices)
