"""What Inductor chose by timing: templates at compile time, configurations of kernels at their first run.

``CompileLog`` records which calls were timed; the chosen configuration is read from the loaded code afterwards. Checked
on torch 2.13; Triton's part, which needs a device, with hand-written objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracer.recording.torch_private import compile_seams


def was_timed(candidates: Any) -> bool:
    """Return whether Inductor timed ``candidates`` for one call."""
    return isinstance(candidates, (list, tuple)) and len(candidates) > 1 and not compile_seams.chooses_without_timing()


def configurations(key: str) -> dict[str, str]:
    """Return the configurations that autotuning chose for the code of ``key``, by kernel, where there were several."""
    choices = {}
    for name, kernel in compile_seams.loaded_code(key).items():
        try:
            choice = _of_several_kernels(kernel) or _of_configurations(kernel)
        except Exception:  # another release's object
            continue
        if choice is not None:
            choices[name] = choice
    return choices


def _of_configurations(kernel: Any) -> str | None:
    """The choice of a ``CachingAutotuner``."""
    launchers = getattr(kernel, "launchers", None)
    if not isinstance(launchers, list) or len(launchers) != 1:
        return None  # another object, or one that has not run yet
    configuration = launchers[0].config
    cache_info = getattr(kernel, "autotune_cache_info", None) or {}
    is_chosen = (
        cache_info.get("autotune_cache_state") == "hit"
        or max(len(getattr(kernel, "configs", None) or ()), int(cache_info.get("num_configs", 0))) > 1
        or getattr(configuration, "found_by_coordesc", False)
    )
    return spelled(configuration) if is_chosen else None


def _of_several_kernels(kernel: Any) -> str | None:
    """The choice of a ``MultiKernelCall``, which times whole kernels."""
    picked, kernels = getattr(kernel, "picked_kernel", None), getattr(kernel, "_kernels", None)
    if not isinstance(picked, int) or not isinstance(kernels, (list, tuple)):
        return None
    return str(getattr(getattr(kernels[picked], "fn", None), "__name__", picked))


def spelled(configuration: Any) -> str:
    """A Triton configuration: ``XBLOCK=128, num_warps=4``."""
    words: Mapping[str, Any] = getattr(configuration, "kwargs", {})
    further = {name: getattr(configuration, name, None) for name in ("num_warps", "num_stages")}
    return ", ".join(f"{name}={value}" for name, value in (*words.items(), *further.items()) if value is not None)
