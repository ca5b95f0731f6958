"""Options of a recording: trials, kept inputs and magnitudes. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tracer.errors import UsageError

#: What the trials of one call may copy and hold, in bytes.
TRIAL_MEMORY = 1 << 30
#: What the tensors of all kept calls may take together, in bytes.
KEEP_BYTES = 256 << 20


class Trials(msgspec.Struct, frozen=True):
    """Calls repeated on the spot: ``Trials(5)`` repeats each call that the tables hold for a risk five times.

    Raises ``UsageError`` for a value of the wrong type or below 0.
    """

    times: int
    """The number of times that a call is repeated; 0 for no trials."""
    all: bool = False
    """Repeat every call, whatever the tables say of it."""
    threads: bool = False
    """Repeat calls on another number of threads too (on a CPU): what differs there differs between machines."""
    memory: int = TRIAL_MEMORY
    """Bytes that the trials of one call may copy and hold; a larger call is counted as not tried."""
    ops: tuple[str, ...] = ()
    """With ``all``: repeat every call of these overloads alone, as torch prints them (``aten.mm.default``)."""

    def __post_init__(self) -> None:
        hint = "say how often to repeat a call: trials=5, or trials=Trials(5, all=True)"
        check_option("trials", self.times, int, hint)
        check_option("all", self.all, bool, "Trials(5, all=True)")
        check_option("threads", self.threads, bool, "Trials(5, threads=True)")
        check_option("memory", self.memory, int, "say how many bytes: Trials(5, memory=2**30)")
        check_option("ops", self.ops, tuple, 'name overloads: Trials(5, all=True, ops=("aten.mm.default",))')

    @classmethod
    def of(cls, trials: Trials | int) -> Trials:
        """``trials`` as an object."""
        return trials if isinstance(trials, Trials) else cls(trials)


class Keep(msgspec.Struct, frozen=True):
    """Calls whose inputs are kept, by glob: ``Keep("index_*")``.

    Raises ``UsageError`` for a value of the wrong type or below 0.
    """

    globs: str | Iterable[str]
    """Globs of ops (``index_*``), lines (``train.py:12``), files and modules; kept as a tuple."""
    bytes: int = KEEP_BYTES
    """Bytes that the tensors of all kept calls may take together; further calls are left out."""

    def __post_init__(self) -> None:
        hint = 'name ops, lines, files or modules: keep="index_*", or keep=["index_*", "train.py:12"]'
        if not isinstance(self.globs, Iterable):
            check_option("keep", self.globs, str, hint)
        globs = (self.globs,) if isinstance(self.globs, str) else tuple(self.globs)
        for glob in globs:
            check_option("keep", glob, str, hint)
        msgspec.structs.force_setattr(self, "globs", globs)
        check_option("bytes", self.bytes, int, "say how many bytes: Keep('index_*', bytes=2**28)")

    @classmethod
    def of(cls, keep: Keep | str | Iterable[str]) -> Keep | None:
        """``keep`` as an object; ``None`` where it names nothing."""
        keep = keep if isinstance(keep, Keep) else cls(keep)
        return keep if any(keep.globs) else None


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """How the program's lines are followed: ``Lines(library=("timm",))``.

    Raises ``UsageError`` for a value of the wrong type.
    """

    library: tuple[str, ...] = ()
    """Installed packages (top-level names) whose lines are followed too."""
    inside: tuple[str, ...] = ()
    """Lines (``train.py:8``) inside whose calls the lines of installed packages are followed."""
    anew_at: int = 0
    """A step in which every line has all its rows again, however often it was executed before."""
    held: tuple[str, ...] = ()
    """Lines after which values are kept, or given."""
    branches: tuple[str, ...] = ()
    """Those among them after which the next line is the one that was kept."""
    folder: str = ""
    """The job's own folder that kept values lie in."""
    gives: bool = False
    """Whether the values kept there are given, rather than kept."""

    def __post_init__(self) -> None:
        for name in ("library", "inside", "held"):
            if not isinstance(getattr(self, name), tuple):
                check_option(name, getattr(self, name), tuple, f'give a tuple: Lines({name}=("...",))')

    @classmethod
    def of(cls, lines: Lines | Mapping[str, Any] | bool) -> Lines | None:
        """``lines`` as an object; ``None`` where none are asked for."""
        if isinstance(lines, Mapping):
            return msgspec.convert(lines, cls)
        if isinstance(lines, bool):
            return cls() if lines else None
        if not isinstance(lines, cls):
            raise UsageError(
                f"lines={lines!r} is no Lines", hint='ask for them with lines=True, or Lines(library=("timm",))'
            )
        return lines


class PlaceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How magnitudes are taken.

    Raises ``UsageError`` for a seed of the wrong type or below 0.
    """

    shake: int | None = None
    """The seed with which results are shaken; compiled code runs eagerly then."""
    shake_in: str = ""
    """The path of a module inside whose forward alone they are, or with ``BACKWARD_OF`` before it, whose backward
    alone; empty: everywhere."""
    shake_not: tuple[str, ...] = ()
    """Modules inside that one in which results are left alone."""
    calls_of: str = ""
    """The path of a module whose single calls are places too; with ``OWN_CODE`` behind it, those of its own code alone,
    outside the modules that it calls. ``OWN_CODE`` alone: the program's."""
    rows_of: str = ""
    """A file of values of a run that takes the batch as a whole: inputs and outputs are recorded as rows of its."""
    rows_in: str = ""
    """One of the run that splits it: rows that it has not are left out. Empty: all rows are there."""
    is_whole: bool = False
    """Whether this run takes the batch as a whole itself, and leaves rows out alone."""

    def __post_init__(self) -> None:
        if self.shake is not None:
            check_option("shake", self.shake, int, "name a seed: shake=1")

    @classmethod
    def of(cls, places: PlaceOptions | Mapping[str, Any]) -> PlaceOptions:
        """``places`` as an object."""
        return places if isinstance(places, PlaceOptions) else cls(**places)


#: Magnitudes of a run that is left alone.
UNSHAKEN = PlaceOptions()


def check_option(name: str, value: Any, kind: type, hint: str) -> None:
    """Raise ``UsageError`` unless ``value`` is a ``kind``, and a number at least 0."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UsageError(f"{name}={value!r} is not of type {kind.__name__}", hint=hint)
    if isinstance(value, int) and value < 0:
        raise UsageError(f"{name}={value} is below 0", hint=hint)
