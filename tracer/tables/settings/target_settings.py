"""A target's settings: as recorded, as torch has them by default, or with some of them replaced."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tracer.names import DeterministicMode, Settings
from tracer.trace.model import Environment, FactValue

#: Configurations of cuBLAS that torch accepts as repeatable.
CUBLAS_WORKSPACES = frozenset({":4096:8", ":16:8"})
#: What torch's page of ``nn.LSTM`` names beside ``:16:8``; its check of matrix products does not accept it.
_RECURRENT_WORKSPACE = ":4096:2"
#: The variable that holds one.
CUBLAS_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"

#: Seeds that a program can give: torch's default generators, Python's ``random``, NumPy's global generator.
SEEDS = ("seed.torch", "seed.python", "seed.numpy")

#: Fields of ``Environment`` that a line of the program sets, with torch's defaults.
DEFAULTS: Mapping[str, bool | str] = {
    "deterministic_mode": DeterministicMode.OFF.value,
    "fill_uninitialized_memory": True,
    "cudnn_enabled": True,
    "cudnn_deterministic": False,
    "cudnn_benchmark": False,
    "float32_matmul_precision": "highest",
    "cuda_matmul_allow_tf32": False,
    "cudnn_allow_tf32": True,
    "allow_fp16_reduced_precision_reduction": True,
    "allow_bf16_reduced_precision_reduction": True,
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
        variables = {CUBLAS_VARIABLE: ":4096:8"} if settings is Settings.DETERMINISTIC else {}
        mode = _MODES.get(settings, DeterministicMode.OFF)
        fields = {**DEFAULTS, "deterministic_mode": mode, "variables": variables, "settings": {}}
        environment = msgspec.structs.replace(environment, **fields)
    changed: dict[str, object] = {}
    variables, dotted = dict(environment.variables), dict(environment.settings)
    for name, value in (sets or {}).items():
        if name in SEEDS:
            continue
        if name in Environment.__struct_fields__:
            changed[name] = DeterministicMode(value) if name == "deterministic_mode" else value
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
    read: dict[str, FactValue | None] = {
        "deterministic_mode": str(environment.deterministic_mode),
        "fill_uninitialized_memory": environment.fill_uninitialized_memory,
        "cublas_workspace": _workspace(environment.variables),
        "cudnn_enabled": environment.cudnn_enabled,
        "cudnn_deterministic": environment.cudnn_deterministic,
        "cudnn_benchmark": environment.cudnn_benchmark,
        "nccl_nvls": _nvls(environment.variables),
        "capability": _capability(environment),
    }
    if environment.num_threads is not None:
        read["threads"] = "one" if environment.num_threads == 1 else "many"
    return {key: value for key, value in read.items() if value is not None}


def _workspace(variables: Mapping[str, str]) -> str:
    """Which of torch's promises cuBLAS's workspace keeps: for everything, for recurrent layers alone, for nothing."""
    value = variables.get(CUBLAS_VARIABLE)
    return "set" if value in CUBLAS_WORKSPACES else "recurrent" if value == _RECURRENT_WORKSPACE else "unset"


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
