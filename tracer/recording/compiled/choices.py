"""What Inductor chose with a stopwatch: between templates while it compiled, between configurations at the first run.

Which call of the graph was timed is told while code is compiled. The configuration that won is read off the loaded
code, afterwards; nothing of it is watched. Checked on torch 2.13; Triton's part runs on devices alone, and was held
against objects made by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tracer.recording.torch_private import compile_seams


class Choice(NamedTuple):
    """What became of one kernel."""

    told: str
    """The configuration: ``XBLOCK=128, num_warps=4``."""
    by_stopwatch: bool | None


def was_timed(candidates: Any) -> bool:
    """Inductor chose among ``candidates`` for one call; did it time them?"""
    return isinstance(candidates, (list, tuple)) and len(candidates) > 1 and not compile_seams.chooses_without_timing()


def configurations(key: str) -> dict[str, Choice]:
    """By kernel: what autotuning chose for the loaded code of ``key``; kernels with one configuration have no entry."""
    choices = {}
    for name, kernel in compile_seams.loaded_code(key).items():
        try:
            choice = _of_several_kernels(kernel) or _of_configurations(kernel)
        except Exception:  # another release's object
            continue
        if choice is not None:
            choices[name] = choice
    return choices


def _of_configurations(kernel: Any) -> Choice | None:
    """Of ``CachingAutotuner``."""
    launchers = getattr(kernel, "launchers", None)
    if not isinstance(launchers, list) or len(launchers) != 1:
        return None  # no such object, or it did not run yet
    configuration = launchers[0].config
    cache_info = getattr(kernel, "autotune_cache_info", None) or {}
    state = cache_info.get("autotune_cache_state", "")
    many = len(getattr(kernel, "configs", None) or ()) > 1 or int(cache_info.get("num_configs", 0)) > 1
    descended = bool(getattr(configuration, "found_by_coordesc", False))
    if state == "hit" or many or descended:
        return Choice(spelled(configuration), True)
    return None


def _of_several_kernels(kernel: Any) -> Choice | None:
    """Of ``MultiKernelCall``, which times whole kernels against each other."""
    picked, kernels = getattr(kernel, "picked_kernel", None), getattr(kernel, "_kernels", None)
    if not isinstance(picked, int) or not isinstance(kernels, (list, tuple)):
        return None
    return Choice(str(getattr(getattr(kernels[picked], "fn", None), "__name__", picked)), True)


def spelled(configuration: Any) -> str:
    """A configuration of Triton's: ``XBLOCK=128, num_warps=4``."""
    words: Mapping[str, Any] = getattr(configuration, "kwargs", {})
    further = {name: getattr(configuration, name, None) for name in ("num_warps", "num_stages")}
    return ", ".join(f"{name}={value}" for name, value in (*words.items(), *further.items()) if value is not None)
