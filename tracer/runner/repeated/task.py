"""What a child process runs, and how."""

from __future__ import annotations

import random
import sys

import msgspec

from tracer.recording.options import UNSHAKEN, Lines, PlaceOptions
from tracer.runner.repeated.declared import Circumstance, Inside
from tracer.runner.repeated.planned import make_before_the_script
from tracer.runner.steps import Steps
from tracer.trace.records import FactValue

#: Sizes of small objects, in bytes, and bytes of each size among which the holes are.
_SIZES, _BYTES = range(48, 513, 16), 3 << 14
#: The default interval times these.
_INTERVALS = (1.0, 0.2, 3.0)
_HEADER = sys.getsizeof(b"")
#: Between these blocks are the holes, for as long as the process lives.
_KEPT: list[bytes] = []


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A script and which steps of it to record, the same for every run."""

    target: str
    args: tuple[str, ...] = ()
    as_module: bool = False
    start: int = 0
    stop: int | None = None
    exit_after_steps: bool = False

    @property
    def steps(self) -> Steps:
        """The optimizer steps that are recorded."""
        return Steps(self.start, self.stop)


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a task; a child process reads it as its only argument."""

    task: Task
    output: str
    varied: Circumstance | None = None
    held: tuple[Circumstance, ...] = ()
    children: bool = False
    """Record child processes too."""
    settings: dict[str, FactValue] = {}
    """Applied before the script's first line; variables among them are in the environment already."""
    planned: dict[str, FactValue] = {}
    """Settings of the first run's plan, for a run that holds them."""
    magnitudes: bool = False
    """Take magnitudes instead of digests."""
    places: PlaceOptions = UNSHAKEN
    """The options of magnitudes."""
    replayed: tuple[str, ...] | None = None
    """Overloads to replay on the spot, without digests; ``None`` for an ordinary run."""
    lines: Lines | None = None
    """How the program's lines are followed, if they are."""
    number: int = 0
    """The number of the run in its series."""
    temporary: str = ""
    """The folder for temporary files, if not the system's."""
    scratch: str = ""
    """The job's own folder, removed when the job is gone."""


def change_circumstances(order: Order) -> None:
    """Make settings, and vary or hold circumstances in this process."""
    inside = Inside(order.planned)
    make_before_the_script(order.settings)
    if Circumstance.ADDRESSES not in order.held:
        move_objects(order.number)
    switch_threads_otherwise(order.number)
    for change in (
        *(circumstance.held for circumstance in order.held),
        order.varied.varied if order.varied is not None else None,
    ):
        if change is not None and change.inside is not None:
            change.inside(inside)


def change_in_child(role: str, task: msgspec.Raw) -> None:
    """``change_circumstances`` in a child process that was not forked, as Python starts there."""
    change_circumstances(msgspec.json.decode(task, type=Order))


def move_objects(number: int) -> None:
    """Put the program's objects elsewhere than other runs do; run 0 has them where they come.

    Runs that are started one after the other often lay out their objects alike, down to the order of a set of them, and
    agree although the next one would not. So Python's memory for small objects is given holes, in which the program's
    objects come to lie. Tensors and arrays have their numbers in other memory, and are aligned as they were.
    """
    if not number:
        return
    chosen, kept = random.Random(number), []
    for size in _SIZES:
        blocks = [bytes(size - _HEADER) for _ in range(_BYTES // size)]
        chosen.shuffle(blocks)
        kept += blocks[::2]
        while blocks:  # in this order the holes are filled later
            blocks.pop()
    _KEPT.extend(kept)


def switch_threads_otherwise(number: int) -> None:
    """Let Python switch threads sooner or later than in run ``number - 1``; as ever in run 0."""
    sys.setswitchinterval(sys.getswitchinterval() * _INTERVALS[number % len(_INTERVALS)])
