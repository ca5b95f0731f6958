"""What a child process runs, and how."""

from __future__ import annotations

import msgspec

from tracer.recording.options import UNSHAKEN, Lines, PlaceOptions
from tracer.runner.repeated.circumstances.chance import move_objects, switch_threads_otherwise
from tracer.runner.repeated.circumstances.declared import Circumstance, Inside
from tracer.runner.repeated.circumstances.planned import make_before_the_script
from tracer.runner.steps import Steps
from tracer.trace.records import FactValue


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
