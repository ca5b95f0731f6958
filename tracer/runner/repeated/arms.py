"""The arms: what of a run's circumstances each one changes, and by which variables the child is started.

What variables can change is changed here, before the process starts; the rest is for ``circumstances``, inside it.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping

from tracer.divergence.repeated import Arm
from tracer.errors import UsageError
from tracer.runner.repeated.circumstances import memory

HASH_SEED = "PYTHONHASHSEED"
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_WHO = {
    "USER": "somebody-else",
    "LOGNAME": "somebody-else",
    "USERNAME": "somebody-else",
    "HOSTNAME": "another-host",
    "COMPUTERNAME": "another-host",
}
ALL = "all"

SAID = {
    Arm.UNVARIED: "nothing",
    Arm.MEMORY: "fresh memory holds other bytes",
    Arm.THREADS: "another number of threads",
    Arm.HASH_SEED: "another seed for the hashes of strings",
    Arm.WORKERS: "workers and threads of a pool answer in another order",
    Arm.TIME: "the clock that Python reads is a day, an hour, a minute and a second ahead",
    Arm.ENVIRONMENT: "another user and host by name, another folder for temporary files, folders listed backwards",
}
"""What each arm changes, in a few words."""

CANNOT = {
    Arm.MEMORY: "memory inside a library's own pools is not reached",
    Arm.WORKERS: "workers that are not forked, and pools that are not Python's own, answer as they did",
    Arm.TIME: "clocks that compiled code reads, monotonic ones and the times of files are not shifted",
    Arm.ENVIRONMENT: "the home folder and the working directory stay, since paths hang on them",
}
"""What an arm leaves as it was, for the reader to know."""


def parse_arms(text: str) -> tuple[Arm, ...]:
    """``memory,threads``, or ``all``, as arms in their own order. Raises ``UsageError`` for a word that is none."""
    named = [word.strip() for word in text.split(",")]
    known = [arm for arm in Arm if arm is not Arm.UNVARIED]
    if unknown := [word for word in named if word != ALL and word not in [arm.value for arm in known]]:
        listed = ", ".join([*(arm.value for arm in known), ALL])
        raise UsageError(f"--vary {unknown[0]!r} is no arm", hint=f"choose of {listed}")
    return tuple(arm for arm in known if ALL in named or arm.value in named)


def variables_of(arm: Arm, environ: Mapping[str, str], *, threads: int) -> dict[str, str]:
    """The variables that ``arm`` changes; ``threads`` is what the unvaried run had."""
    if arm is Arm.MEMORY:
        return {memory.VARIABLE: memory.other_byte(environ)}
    if arm is Arm.THREADS:
        return dict.fromkeys(_THREADS, "1" if threads > 1 else "2")
    if arm is Arm.HASH_SEED:
        return {HASH_SEED: "1" if environ.get(HASH_SEED) != "1" else "2"}
    if arm is Arm.ENVIRONMENT:
        return _WHO
    return {}


def without_effect(arm: Arm) -> str:
    """Why ``arm`` changes nothing on this machine; empty where it does."""
    if arm is Arm.MEMORY and platform.libc_ver()[0] != "glibc":
        return "fresh memory on the CPU can be filled with glibc alone; that of CUDA's allocator was"
    return ""
