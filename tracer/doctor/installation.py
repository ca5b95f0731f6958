"""What is installed in this process: versions, backends, devices. Nothing is started for the asking."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tracer.doctor.diagnosis import Outlook
from tracer.files import read_text
from tracer.names import Backend
from tracer.recording.process.settings import read_settings, set_variables
from tracer.tables.asked import named_settings, named_variables
from tracer.trace.records import CudaDevice, Environment

#: Where NVIDIA's driver lists its devices and its version, Ascend's its own, and where CANN says which it is.
_NVIDIA = Path("/proc/driver/nvidia/gpus")
_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
_ASCEND = Path("/dev")
_CANN = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")
#: Where Linux says which processor it runs on.
_PROCESSORS = Path("/proc/cpuinfo")
#: Distributions whose version bears on a step.
_PACKAGES = {
    "NumPy": "numpy",
    "Triton": "triton",
    "torch_npu": "torch_npu",
    "torchvision": "torchvision",
    "transformers": "transformers",
    "accelerate": "accelerate",
    "DeepSpeed": "deepspeed",
    "xFormers": "xformers",
    "flash-attn": "flash-attn",
    "causal-conv1d": "causal-conv1d",
    "mamba-ssm": "mamba-ssm",
    "Transformer Engine": "transformer-engine",
}
#: Libraries that torch was built with, as ``torch.__config__.show()`` spells them.
_BUILT_WITH = {
    "BLAS": re.compile(r"\bBLAS_INFO=([\w.-]+)"),
    "MKL": re.compile(r"Math Kernel Library Version ([\w.]+)"),
    "oneDNN": re.compile(r"(?:MKL-DNN|oneDNN) v([\w.]+)"),
}

#: Names among the versions that stand for the machine itself.
PLATFORM, PROCESSOR, DRIVER = "platform", "processor", "NVIDIA driver"

#: Groups of calls that only a library makes, and rows that matter to it alone, with the modules that are that library.
LIBRARIES = {
    "causal-conv1d": ("causal_conv1d",),
    "flash-attention-library": ("flash_attn", "flash_attn_3", "flash_attn_interface"),
    "transformer-engine": ("transformer_engine",),
    "environment-mamba": ("mamba_ssm",),
    "environment-triton-cache-autotuning": ("triton",),
}


def read_process(backend: Backend | None = None) -> tuple[Environment, Outlook]:
    """This process's settings and what is installed, for ``backend`` or for those that are here. Imports torch."""
    try:
        import torch

        from tracer.recording.process.environment import capture_environment
    except (ImportError, OSError):  # absent, or a library of its own is: its settings cannot be asked either way
        environment = Environment(
            python=platform.python_version(),
            platform=f"{platform.system()}-{platform.machine()}",
            torch="",
            variables=set_variables(named_variables()),
            settings=read_settings(named_settings()),
        )
        here: tuple[Backend, ...] = tuple(Backend(word) for word in Backend if word is not Backend.RECORDED)
        has_torch = False
        built = ""
    else:
        environment = capture_environment()
        here = tuple(_backends(torch))
        has_torch = True
        built = torch.__config__.show()
    outlook = Outlook(
        backends=here if backend is None else (backend,),
        has_torch=has_torch,
        versions=dict(_versions(environment, built)),
        devices=environment.devices or tuple(_devices()),
        absent=tuple(name for name, modules in LIBRARIES.items() if not any(map(find_spec, modules))),
    )
    return environment, outlook


def _backends(torch: Any) -> Iterator[Backend]:
    """Yield the backends of this build of torch; a device need not be there."""
    yield Backend.CPU
    if torch.version.hip is not None:
        yield Backend.ROCM
    elif torch.version.cuda is not None:
        yield Backend.CUDA
    if getattr(torch.version, "xpu", None) is not None:
        yield Backend.XPU
    if torch.backends.mps.is_built():
        yield Backend.MPS
    if find_spec("torch_npu") is not None:
        yield Backend.NPU


def _versions(environment: Environment, built: str) -> Iterator[tuple[str, str]]:
    """Yield the installed versions, by name; ``built`` is the version that torch says it was built with."""
    yield "Python", environment.python
    yield PLATFORM, environment.platform
    if processor := _first_value(_PROCESSORS, "model name"):
        yield PROCESSOR, processor
    if driver := re.search(r"Kernel Module\s[^\n]*?(\d+(?:\.\d+)+)", _text_of(_NVIDIA_DRIVER)):
        yield DRIVER, driver[1]
    for name in ("torch", "CUDA", "HIP", "cuDNN", "NCCL"):
        if value := getattr(environment, name.lower()):
            yield name, value
    for name, spelling in _BUILT_WITH.items():
        if version_of_it := spelling.search(built):
            yield name, version_of_it[1]
    for name, distribution in _PACKAGES.items():
        try:
            yield name, version(distribution)
        except PackageNotFoundError:
            continue
    if cann := _cann():
        yield "CANN", cann


def _cann() -> str:
    """CANN's version, from the file that its toolkit carries."""
    for variable in _CANN:
        home = os.environ.get(variable)
        for name in ("compiler/version.info", "version.info") if home else ():
            for line in _text_of(Path(str(home), name)).splitlines():
                key, _, value = line.partition("=")
                if key.strip().lower() == "version":
                    return value.strip()
    return ""


def _devices() -> Iterator[CudaDevice]:
    """The devices that drivers list; asking CUDA for them would start it, and spoil a later fork."""
    for folder in _listed(_NVIDIA, "*"):
        yield CudaDevice(name=_first_value(folder / "information", "Model") or "NVIDIA device")
    for _ in _listed(_ASCEND, "davinci[0-9]*"):
        yield CudaDevice(name="Ascend NPU")


def _first_value(path: Path, key: str) -> str:
    """Of a file whose lines are ``key: value``, the first value of ``key``; empty where there is none."""
    for line in _text_of(path).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _text_of(path: Path) -> str:
    """Return the text of a system file; empty if it cannot be read."""
    try:
        return read_text(path)
    except (OSError, ValueError):
        return ""


def _listed(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []
