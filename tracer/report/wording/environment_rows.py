"""The recorded environment as labelled rows, for the formats that people read."""

from __future__ import annotations

from typing import NamedTuple

from tracer.trace.model import Environment


class SettingRow(NamedTuple):
    """One line of the environment table."""

    name: str
    value: str
    differs: bool = False
    """Merged recordings disagree; the first one's value is shown."""


#: Fields with the names by which people know them, in reading order.
_NAMES = {
    "torch": "torch",
    "cuda": "CUDA",
    "hip": "HIP",
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "python": "Python",
    "platform": "platform",
    "deterministic_mode": "deterministic mode",
    "fill_uninitialized_memory": "torch.utils.deterministic.fill_uninitialized_memory",
    "cudnn_enabled": "torch.backends.cudnn.enabled",
    "cudnn_deterministic": "torch.backends.cudnn.deterministic",
    "cudnn_benchmark": "torch.backends.cudnn.benchmark",
    "float32_matmul_precision": "float32 matmul precision",
    "cuda_matmul_allow_tf32": "TF32 in CUDA matmul",
    "cudnn_allow_tf32": "TF32 in cuDNN",
    "allow_fp16_reduced_precision_reduction": "fp16 reduced-precision reduction",
    "allow_bf16_reduced_precision_reduction": "bf16 reduced-precision reduction",
    "sdp_backends": "attention backends",
    "num_threads": "intra-op threads",
    "num_interop_threads": "inter-op threads",
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
