"""Each circumstance in one declaration: its name, its words, how it is varied and held, and what neither reaches.

What variables can change is changed before the process starts; the rest inside it, before the script's first line.
"""

from __future__ import annotations

import ctypes
import os
import platform
import random
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import NamedTuple

from tracer.divergence.causes import RootCause
from tracer.errors import UsageError
from tracer.names import Word
from tracer.runner.imports import when_imported
from tracer.tables.settings import SEEDS, declared
from tracer.trace.records import FactValue

HASH_SEED = "PYTHONHASHSEED"
ALL = "all"
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
#: Each leads to this machine: launchers meet at the name of theirs.
VARIED_NAME, HELD_NAME = "127.0.0.1", "localhost"
#: Of Linux' ``personality``: what reads it, and the bit that leaves the randomization out.
_READ, _ADDR_NO_RANDOMIZE = 0xFFFFFFFF, 0x0040000


def names_of_somebody(user: str, host: str) -> dict[str, str]:
    users, hosts = ("USER", "LOGNAME", "USERNAME"), ("HOSTNAME", "COMPUTERNAME")
    return dict.fromkeys(users, user) | dict.fromkeys(hosts, host)


def _lay_out_alike() -> None:
    """Make this process, and all that it starts, lay out memory alike from its next ``exec`` on."""
    with suppress(OSError, AttributeError):
        personality = ctypes.CDLL(None).personality
        personality(personality(_READ) | _ADDR_NO_RANDOMIZE)


def _why_no_addresses() -> str:
    """Return the reason why addresses cannot be held here; empty if they can."""
    if not sys.platform.startswith("linux"):
        return "addresses can be held on Linux alone"
    try:
        personality = ctypes.CDLL(None).personality
        was = personality(_READ)
        personality(was | _ADDR_NO_RANDOMIZE)
        can = personality(_READ) & _ADDR_NO_RANDOMIZE
        personality(was)
    except (OSError, AttributeError):
        can = 0
    return "" if can else "this container does not allow processes without address randomization"


# --- fresh memory: glibc fills what it hands out and takes back; CUDA's caching allocator is given blocks that were
# --- written, and hands them out, as soon as the program itself starts CUDA (on an H100 that told a read of unwritten
# --- memory)

_FILLS = "MALLOC_PERTURB_"
#: Of glibc: what a thread took back lately would be handed out as it is.
_TUNABLES, _NO_CACHE = "GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"
#: Bytes that are freed are filled with this one, bytes that are handed out with its complement.
_BYTES = ("170", "85")
#: Bytes that are handed out are zeros.
_ZEROS = "255"
_M_PERTURB = -6  # malloc.h of glibc

#: Blocks of CUDA's that are filled: the allocator keeps small ones and large ones apart.
_SMALL, _SMALL_BLOCKS = 512 * 1024, 256
_LARGE = 1 << 30


def _filling(environ: Mapping[str, str], byte: str = "") -> dict[str, str]:
    """The variables by which glibc fills all that it hands out; by default with another byte than they say."""
    byte = byte or _BYTES[environ.get(_FILLS) == _BYTES[0]]
    tunables = [tunable for tunable in (environ.get(_TUNABLES, ""), _NO_CACHE) if tunable]
    return {_FILLS: byte, _TUNABLES: ":".join(tunables)}


def _why_not_filled() -> str:
    """Return the reason why fresh memory on the CPU stays as it is; empty if it is filled."""
    is_glibc = platform.libc_ver()[0] == "glibc"
    return "" if is_glibc else "fresh memory on the CPU can be filled with glibc alone; that of CUDA's allocator was"


def fill_fresh_memory(byte: str = "") -> None:
    """Fill fresh memory from now on with ``byte``, or else the byte that the variable names."""
    number = int(byte or os.environ.get(_FILLS, _BYTES[0]))
    with suppress(OSError, AttributeError, ValueError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_PERTURB, number)

    def fill_when_cuda_starts() -> None:
        import torch

        queue = getattr(torch.cuda, "_lazy_call", None)
        if queue is not None and torch.version.cuda is not None:
            queue(lambda: _fill_device(number ^ 255))

    when_imported("torch", fill_when_cuda_starts)


def _fill_device(byte: int) -> None:
    import torch

    from tracer.recording.torch_private.seams import without_recording

    with without_recording(), suppress(RuntimeError):  # CUDA starts as the program runs; a device may be full already
        free, _ = torch.cuda.mem_get_info()
        sizes = [_SMALL] * _SMALL_BLOCKS + [_LARGE] * (free // 2 // _LARGE)
        blocks = [torch.full((size,), byte, dtype=torch.uint8, device="cuda") for size in sizes]
        del blocks


# --- settings, as a plan asks for them: the rest of it is started with variables

#: What a plan's seeds are.
_SEED = 0


def variables_among(settings: Mapping[str, FactValue]) -> dict[str, str]:
    """Those of ``settings`` that are variables, which a process is started with."""
    return {
        name: str(value)
        for name, value in settings.items()
        if ((setting := declared(name)) is not None and setting.is_variable) or (name.isupper() and "." not in name)
    }


def make_before_the_script(settings: Mapping[str, FactValue]) -> None:
    """Make what is not a variable: torch's as soon as it is imported, seeds as their packages are."""
    if settings.get("seed.python"):
        random.seed(_SEED)
    if settings.get("seed.numpy"):
        when_imported("numpy.random", lambda: sys.modules["numpy.random"].seed(_SEED))
    of_torch = {name: value for name, value in settings.items() if name not in (*SEEDS, *variables_among(settings))}
    when_imported("torch", lambda: _make(of_torch, seed=bool(settings.get("seed.torch"))))


def _make(settings: Mapping[str, FactValue], *, seed: bool) -> None:
    import torch

    from tracer.recording.process.settings import make

    for name, value in settings.items():
        setting = declared(name)
        if setting is None:
            raise UsageError(f"{name} cannot be set before the script", hint="make the plan's change in the script")
        make(setting, value)
    if seed:
        torch.manual_seed(_SEED)


class Start(NamedTuple):
    """The process that another is started from; variables may depend on it."""

    environ: Mapping[str, str]
    threads: int
    """Of the first run."""
    planned: Mapping[str, FactValue]
    """The settings that the first run's plan makes."""


class Change(NamedTuple):
    """A way of varying or holding a circumstance."""

    words: str
    """The change, in a few words."""
    variables: Callable[[Start], Mapping[str, str]] = lambda _: {}
    before_exec: Callable[[], None] | None = None
    """Called between fork and exec."""
    inside: Callable[[Mapping[str, FactValue]], None] | None = None
    """Called before the script's first line, with the settings that the first run's plan makes."""
    cannot: str = ""
    """The parts that it leaves as they were, for the reader."""
    why_not: Callable[[], str] = lambda: ""
    """The reason why it has no effect on this machine; empty if it has."""


class Circumstance(Word):
    """What may differ between two runs without a change of the program.

    Each is declared by its name, the clause that says that it is held, what it shows where runs agree then, the remedy,
    how it is varied and held (``None``: it is not), and what in a root suggests it.
    """

    _value_: str
    held_clause: str
    shows: str
    remedy: str
    varied: Change | None
    held: Change | None
    suggested_by: frozenset[Word]

    HASH_SEED = (
        "hash-seed",
        "the hash seed is held",
        "the order of a set or a hash reaches the step",
        "sort what comes out of a set before its order matters, or export PYTHONHASHSEED=0 before Python starts",
        Change(
            "another seed for the hashes of strings",
            variables=lambda start: {HASH_SEED: "1" if start.environ.get(HASH_SEED) != "1" else "2"},
        ),
        Change(
            "PYTHONHASHSEED is 0",
            variables=lambda _: {HASH_SEED: "0"},
            cannot="objects that hash by their address, which addresses holds; programs that a script starts with a"
            " seed of their own",
        ),
        (RootCause.INPUT_DATA, RootCause.STRUCTURE, RootCause.ARGUMENT),
    )
    ADDRESSES = (
        "addresses",
        "addresses are held",
        "the order of a set of objects, or a number made of an address, reaches the step",
        "order objects by something of their own (a name, an index), and make no number of `id()` or a default hash",
        None,
        Change(
            "memory is laid out alike in each run, without address randomization; the hash seed is held with it",
            before_exec=_lay_out_alike,
            cannot="systems other than Linux; memory that several threads ask for at the same time",
            why_not=_why_no_addresses,
        ),
        (),
    )
    FOLDER = (
        "folder",
        "each run starts in the folder that the first one found",
        "a run reads what an earlier run left behind",
        "write each run into a folder of its own, or remove what an earlier run left before the step reads it",
        None,
        Change(
            "each run starts in a fresh copy of the working directory as the first one found it, and of an empty folder"
            " for temporary files",
            cannot="absolute paths, the home folder and caches in it, databases and services",
        ),
        (RootCause.INITIAL_STATE, RootCause.STRUCTURE),
    )
    MEMORY = (
        "memory",
        "fresh memory is zero",
        "memory that nobody wrote is read",
        "write memory before it is read: `torch.nn.init` for a parameter, else `zeros` for `empty`, of torch or NumPy",
        Change(
            "fresh memory holds other bytes",
            variables=lambda start: _filling(start.environ),
            inside=lambda _: fill_fresh_memory(),
            cannot="memory inside a library's own pools is not reached",
            why_not=_why_not_filled,
        ),
        Change(
            "fresh memory is zeros",
            variables=lambda start: _filling(start.environ, _ZEROS),
            inside=lambda _: fill_fresh_memory(_ZEROS),
            cannot="memory inside a library's own pools; memory that CUDA's allocator hands out a second time",
            why_not=_why_not_filled,
        ),
        (RootCause.UNWRITTEN_MEMORY,),
    )
    SETTINGS = (
        "settings",
        "the plan's settings are made",
        "a kernel or a generator that these settings decide differs from run to run",
        "make the settings of the plan before the first line that uses torch",
        None,
        Change(
            "the settings that the first run's plan asks for",
            variables=lambda start: variables_among(start.planned),
            inside=make_before_the_script,
            cannot="lines of the script that set a setting again; the plan's changes of code",
        ),
        (RootCause.KERNEL, RootCause.SETTING),
    )
    THREADS = (
        "threads",
        "one thread computes",
        "the order in which threads add or write reaches the step",
        "let one thread compute (OMP_NUM_THREADS=1), or use ops that neither add nor write in any order",
        Change(
            "another number of threads",
            variables=lambda start: dict.fromkeys(_THREADS, "1" if start.threads > 1 else "2"),
        ),
        Change(
            "one thread, by OMP_NUM_THREADS and its like",
            variables=lambda _: dict.fromkeys(_THREADS, "1"),
            cannot="a program that sets the number itself; threads that are not OpenMP's; the GPU",
        ),
        (RootCause.KERNEL, RootCause.SETTING),
    )
    ENVIRONMENT = (
        "environment",
        "the variables that name user and host are held",
        "a variable that names the user or the host reaches the step",
        "make nothing of the step hang on who runs it, and where",
        Change(
            "another user and host by their variables, another folder for temporary files",
            variables=lambda _: names_of_somebody("somebody-else", VARIED_NAME),
            cannot="the home folder and the working directory stay, since paths hang on them; what the system answers",
        ),
        Change(
            "one user and host by their variables",
            variables=lambda _: names_of_somebody("somebody", HELD_NAME),
            cannot="other variables; what the system answers",
        ),
        (),
    )

    def __new__(
        cls,
        name: str,
        held_clause: str,
        shows: str,
        remedy: str,
        varied: Change | None,
        held: Change | None,
        suggested_by: Collection[Word],
    ) -> Circumstance:
        """Declare one circumstance."""
        circumstance = str.__new__(cls, name)
        circumstance._value_ = name
        circumstance.held_clause, circumstance.shows, circumstance.remedy = held_clause, shows, remedy
        circumstance.varied, circumstance.held, circumstance.suggested_by = varied, held, frozenset(suggested_by)
        return circumstance

    @property
    def is_chance(self) -> bool:
        """Whether it differs between two runs on one machine by itself. Others change what is computed when held."""
        return self not in (Circumstance.THREADS, Circumstance.SETTINGS, Circumstance.ENVIRONMENT)


def in_order(circumstances: Collection[str]) -> tuple[Circumstance, ...]:
    return tuple(circumstance for circumstance in Circumstance if circumstance in circumstances)


def parse_varied(text: str) -> tuple[Circumstance, ...]:
    """Parse ``memory,threads`` or ``all``; the result is in the order of declaration. Raises ``UsageError``."""
    return _parsed(text, "--vary", [choice for choice in Circumstance if choice.varied is not None])


def parse_held(text: str) -> tuple[Circumstance, ...]:
    """As ``parse_varied``, for circumstances that can be held."""
    return _parsed(text, "--hold", [choice for choice in Circumstance if choice.held is not None])


def _parsed(text: str, option: str, choices: list[Circumstance]) -> tuple[Circumstance, ...]:
    named = [word.strip() for word in text.split(",")]
    if unknown := [word for word in named if word != ALL and word not in choices]:
        listed = ", ".join([*(choice.value for choice in choices), ALL])
        raise UsageError(f"unknown circumstance {unknown[0]!r} for {option}", hint=f"choose from {listed}")
    return tuple(choice for choice in choices if ALL in named or choice.value in named)
