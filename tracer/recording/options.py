"""Options of a recording, and the machine that fake tensors stand for; checked once for whoever asks. No torch."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from tracer.errors import UsageError

#: What the trials of one call may copy and hold, in bytes.
TRIAL_MEMORY = 1 << 30
#: What the tensors of all kept calls may take together, in bytes.
KEEP_BYTES = 256 << 20


def check_option(name: str, value: Any, kind: type, hint: str) -> None:
    """Raise ``UsageError`` unless ``value`` is a ``kind``, and a number at least 0."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UsageError(f"{name}={value!r} is not of type {kind.__name__}", hint=hint)
    if isinstance(value, int) and value < 0:
        raise UsageError(f"{name}={value} is below 0", hint=hint)


class Trials(msgspec.Struct, frozen=True):
    """Calls repeated on the spot: ``Trials(5)`` repeats each call that the tables hold for a risk five times.

    Raises ``UsageError`` for a value of the wrong type or below 0.
    """

    times: int
    """The number of times that a call is repeated; 0 for no trials."""
    all: bool = False
    """Repeat every call, whatever the tables say of it."""
    memory: int = TRIAL_MEMORY
    """Bytes that the trials of one call may copy and hold; a larger call is counted as not tried."""
    ops: tuple[str, ...] = ()
    """With ``all``: repeat every call of these overloads alone, as torch prints them (``aten.mm.default``)."""

    def __post_init__(self) -> None:
        hint = "say how often to repeat a call: trials=5, or trials=Trials(5, all=True)"
        check_option("trials", self.times, int, hint)
        check_option("all", self.all, bool, "Trials(5, all=True)")
        check_option("memory", self.memory, int, "say how many bytes: Trials(5, memory=2**30)")
        check_option("ops", self.ops, tuple, 'name overloads: Trials(5, all=True, ops=("aten.mm.default",))')


class Keep(msgspec.Struct, frozen=True):
    """Calls whose inputs are kept, by glob: ``Keep("index_*")``.

    Raises ``UsageError`` for a value of the wrong type or below 0.
    """

    globs: str | Sequence[str]
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


class LineOptions(msgspec.Struct, frozen=True, kw_only=True):
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
    draws: tuple[str, ...] = ()
    """Those before which a global generator's state is kept, or given, and nothing else: ``numpy train.py:8``."""
    chosen: tuple[str, ...] = ()
    """Those after which an object without a copy is known by what tells it from others of its class."""
    folder: str = ""
    """The job's own folder that kept values lie in."""
    gives: bool = False
    """Whether the values kept there are given, rather than kept."""
    seconds: float = 0.0
    """Seconds of a thread's processor time after which no lines are followed any more; 0: they are to the end."""

    def __post_init__(self) -> None:
        for name in ("library", "inside", "held"):
            if not isinstance(getattr(self, name), tuple):
                check_option(name, getattr(self, name), tuple, f'give a tuple: Lines({name}=("...",))')


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
    names_of: str = ""
    """A file of values of a run of another implementation, whose names ``names`` gives to modules and parameters."""
    names: dict[str, tuple[str, ...]] = {}
    keeps_decisions: bool = False
    """Whether what calls decide (``argmax``, the side of zero of a ReLU) is kept, beside the file of values."""
    decides_as: str = ""
    """A file of decisions that are followed."""

    def __post_init__(self) -> None:
        if self.shake is not None:
            check_option("shake", self.shake, int, "name a seed: shake=1")


#: Magnitudes of a run that is left alone.
UNSHAKEN = PlaceOptions()


def _spelled(option: str) -> str:
    return "fake=True" if option == "fake" else option


class RecordOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a program is recorded; ``DeterminismTracer`` describes the fields, and takes shorter spellings of them.

    Raises ``UsageError`` for a value of the wrong type, and for what excludes each other.
    """

    name: str = ""
    library: tuple[str, ...] = ()
    values: bool | str = False
    magnitudes: bool | str = False
    places: PlaceOptions = UNSHAKEN
    """How magnitudes are taken."""
    trials: Trials = Trials(0)
    data_facts: bool = False
    rows: bool | int = False
    """Calls are made again on a part of their rows; a number: of samples in a batch."""
    keep: Keep | None = None
    lines: LineOptions | None = None
    children: bool = False
    eager: bool = False
    """Switch compilation off (of scripts)."""
    fake: bool = False
    world_size: int | None = None
    rank: int | None = None

    def __post_init__(self) -> None:
        check_option("name", self.name, str, 'say what reports call it: name="train"')
        check_option("data_facts", self.data_facts, bool, "ask for them with data_facts=True")
        check_option("fake", self.fake, bool, "record on fake tensors with fake=True")
        check_option("children", self.children, bool, "record the processes that the block starts with children=True")
        for name in ("values", "magnitudes"):
            kept = getattr(self, name)
            if isinstance(kept, os.PathLike):
                self._set(name, os.fspath(kept))
            elif not isinstance(kept, bool):
                check_option(name, kept, str, f"name a file, or ask for one with {name}=True")
        if not isinstance(self.rows, bool):
            check_option("rows", self.rows, int, "ask for them with rows=True, or say how many a batch has: rows=8")
        if not isinstance(self.library, Iterable):
            check_option("library", self.library, str, 'name packages: library=["mylib"]')
        self._set("library", (self.library,) if isinstance(self.library, str) else tuple(self.library))
        if not isinstance(self.trials, Trials):
            self._set("trials", Trials(self.trials))
        keep = self.keep if isinstance(self.keep, Keep) else Keep(() if self.keep is None else self.keep)
        self._set("keep", keep if any(keep.globs) else None)
        if isinstance(self.lines, bool):
            self._set("lines", LineOptions() if self.lines else None)
        elif not isinstance(self.lines, LineOptions | None):
            hint = 'ask for them with lines=True, or Lines(library=("timm",))'
            raise UsageError(f"lines={self.lines!r} is no Lines", hint=hint)
        self._set("values", self.values or self.lines is not None)
        for name in ("world_size", "rank"):
            number = getattr(self, name)
            if number is not None:
                check_option(name, number, int, "name a number: world_size=1024, rank=17")
                if not self.fake:
                    raise UsageError("world_size and rank are those of a run on fake tensors", hint="add fake=True")
        if self.rank is not None and self.world_size is None:
            raise UsageError("rank names one rank of a job", hint="add world_size=1024")
        if self.fake:
            self.refuse_on_fake()

    def _set(self, name: str, value: Any) -> None:
        msgspec.structs.force_setattr(self, name, value)

    def with_values_at(self, path: os.PathLike[str]) -> RecordOptions:
        """These options with ``path`` as the file of the values and magnitudes, where any are asked for."""
        kept = {name: os.fspath(path) for name in ("values", "magnitudes") if getattr(self, name)}
        return msgspec.structs.replace(self, **kept)

    def refuse_on_fake(self, spell: Callable[[str], str] = _spelled) -> None:
        """Raise ``UsageError`` for what fake tensors cannot give; ``spell`` says an option as the user did."""
        names = ("lines" if self.lines else "values", "magnitudes", "trials", "data_facts", "rows", "keep")
        wanted = [name for name in names if (self.trials.times if name == "trials" else getattr(self, name))]
        if wanted:
            what = f"{spell('fake')} has no values for {', '.join(map(spell, wanted))}"
            raise UsageError(what, hint="leave them out, or record on real tensors")
        if self.children:
            raise UsageError(f"{spell('fake')} reaches no child process", hint=f"leave out {spell('children')}")


_SPELLING = re.compile(r"cpu|cuda:([1-9]\d?)\.(\d)", re.ASCII)


class FakeMachine(msgspec.Struct, frozen=True):
    """The GPU that ``torch.cuda`` describes: ``Machine.parse("cuda:8.0")``; without a capability there is no GPU."""

    capability: tuple[int, int] | None = None
    """Compute capability of its GPUs; ``None`` for a machine without any."""
    devices: int = 1
    """GPUs of this machine."""

    @classmethod
    def parse(cls, text: str, *, devices: int = 1) -> FakeMachine:
        """Read ``cpu`` or ``cuda:8.0``. Raises ``UsageError`` for anything else."""
        match = _SPELLING.fullmatch(text)
        if match is None:
            raise UsageError(f"--as {text!r} is no machine", hint="write cpu, or cuda with a capability: --as cuda:8.0")
        return cls((int(match[1]), int(match[2])) if match[1] else None, devices)

    def __str__(self) -> str:
        return "cpu" if self.capability is None else "cuda:{}.{}".format(*self.capability)


#: Ranks on one machine, as far as the size of the job can be divided so.
_ON_ONE_MACHINE = 8
#: More ranks than any job has: lists of all ranks are made.
_MOST_RANKS = 1 << 20


class OneRank(msgspec.Struct, frozen=True):
    """One rank of a job: ``OneRank.of(17, 1024)``."""

    rank: int
    world_size: int
    groups: list[tuple[int, ...]] = []
    """Ranks of each process group that a run as this rank makes."""

    @classmethod
    def of(cls, rank: int, world_size: int) -> OneRank:
        """Raises ``UsageError`` if there is no such rank."""
        if not 0 < world_size <= _MOST_RANKS:
            raise UsageError(f"no job has {world_size} ranks", hint=f"choose a world size from 1 to {_MOST_RANKS:,}")
        if not 0 <= rank < world_size:
            message = f"there is no rank {rank} in a world size of {world_size}"
            raise UsageError(message, hint=f"choose a rank from 0 to {world_size - 1}")
        return cls(rank, world_size)

    @property
    def local_world_size(self) -> int:
        """Ranks on its machine: 8, or the largest divisor of 8 that divides the world size."""
        return math.gcd(_ON_ONE_MACHINE, self.world_size)

    def variables(self) -> dict[str, str]:
        """The environment variables that ``torchrun`` sets for it."""
        local = self.local_world_size
        variables: dict[str, object] = {
            "RANK": self.rank,
            "WORLD_SIZE": self.world_size,
            "LOCAL_RANK": self.rank % local,
            "LOCAL_WORLD_SIZE": local,
            "GROUP_RANK": self.rank // local,
            "GROUP_WORLD_SIZE": self.world_size // local,
            "ROLE_NAME": "default",
            "ROLE_RANK": self.rank,
            "ROLE_WORLD_SIZE": self.world_size,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": 29500,
            "TORCHELASTIC_RESTART_COUNT": 0,
            "TORCHELASTIC_MAX_RESTARTS": 0,
            "TORCHELASTIC_RUN_ID": "none",
        }
        return {name: str(value) for name, value in variables.items()}

    @contextmanager
    def in_environment(self) -> Iterator[None]:
        """``variables`` are set in the block, and as they were after it."""
        before = {name: os.environ[name] for name in self.variables() if name in os.environ}
        os.environ.update(self.variables())
        try:
            yield
        finally:
            for name in self.variables().keys() - before.keys():
                os.environ.pop(name, None)
            os.environ.update(before)
