"""A target's settings in the vocabulary's words: as recorded, or as torch has them by default."""

from __future__ import annotations

from tracer.names import DeterministicMode, Settings
from tracer.trace.model import Environment, FactValue

#: Configurations of cuBLAS that torch accepts as repeatable.
CUBLAS_WORKSPACES = frozenset({":4096:8", ":16:8"})


def settings_of(environment: Environment, settings: Settings) -> dict[str, FactValue]:
    """Every setting that conditions may read; one that could not be recorded is left out, for it is unknown.

    The number of threads is the recorded one whatever ``settings`` says: no mode changes it.
    """
    mode = DeterministicMode.OFF
    if settings is Settings.RECORDED:
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
    if environment.num_threads is not None:
        read["threads"] = "one" if environment.num_threads == 1 else "many"
    return {key: value for key, value in read.items() if value is not None}
