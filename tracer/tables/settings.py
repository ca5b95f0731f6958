"""A target's settings in the vocabulary's words: as recorded, or as torch has them by default."""

from __future__ import annotations

from collections.abc import Mapping

from tracer.names import DeterministicMode, Settings
from tracer.trace.model import Environment, FactValue

#: Configurations of cuBLAS that torch accepts as repeatable.
CUBLAS_WORKSPACES = frozenset({":4096:8", ":16:8"})


def settings_of(environment: Environment, settings: Settings) -> dict[str, FactValue]:
    """Every setting that conditions may read; one that could not be recorded is left out, for it is unknown.

    The number of threads and the hardware are the recorded ones whatever ``settings`` says: no mode changes them.
    """
    mode = DeterministicMode.OFF
    nvls = "allowed"
    if settings is Settings.RECORDED:
        nvls = _nvls(environment.variables)
        workspace = environment.variables.get("CUBLAS_WORKSPACE_CONFIG")
        read: dict[str, FactValue | None] = {
            "deterministic_mode": str(environment.deterministic_mode),
            "fill_uninitialized_memory": environment.fill_uninitialized_memory,
            "cublas_workspace": "set" if workspace in CUBLAS_WORKSPACES else "unset",
            "cudnn_enabled": environment.cudnn_enabled,
            "cudnn_deterministic": environment.cudnn_deterministic,
            "cudnn_benchmark": environment.cudnn_benchmark,
        }
    else:
        if settings is not Settings.DEFAULT:
            mode = DeterministicMode.ON if settings is Settings.DETERMINISTIC else DeterministicMode.WARN
        read = {
            "deterministic_mode": str(mode),
            "fill_uninitialized_memory": True,
            "cublas_workspace": "set" if settings is Settings.DETERMINISTIC else "unset",
            "cudnn_enabled": True,
            "cudnn_deterministic": False,
            "cudnn_benchmark": False,
        }
    read["nccl_nvls"] = nvls
    read["capability"] = _capability(environment)
    if environment.num_threads is not None:
        read["threads"] = "one" if environment.num_threads == 1 else "many"
    return {key: value for key, value in read.items() if value is not None}


def _nvls(variables: Mapping[str, str]) -> str:
    """Whether NCCL may reduce in the switch; an algorithm list that differs by collective is not taken apart."""
    listed = variables.get("NCCL_ALGO", "").strip().lower()
    if variables.get("NCCL_NVLS_ENABLE") == "0":
        return "excluded"
    if not listed or ":" in listed:
        return "allowed"
    return "excluded" if listed.startswith("^") is ("nvls" in listed) else "allowed"


def _capability(environment: Environment) -> str | None:
    """The generation of NVIDIA's devices that the process saw; ``None`` without any, or where they differ.

    AMD's devices report a capability too, which counts something else.
    """
    if environment.hip is not None:
        return None
    majors = {int(device.capability.partition(".")[0]) for device in environment.devices if device.capability}
    generations = {"below-8.0" if m < 8 else f"{m}.x" if m < 10 else "10-and-newer" for m in majors}
    return generations.pop() if len(generations) == 1 else None
