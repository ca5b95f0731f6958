"""What a child is told to run, and how."""

from __future__ import annotations

import msgspec

from tracer.runner.repeated.circumstances.declared import Circumstance
from tracer.runner.steps import Steps
from tracer.trace.records import FactValue


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A script and what to keep of it, the same for every run."""

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
    """One run of a task: what a child reads as its only argument."""

    task: Task
    output: str
    varied: Circumstance | None = None
    held: tuple[Circumstance, ...] = ()
    settings: dict[str, FactValue] = {}
    """Made before the script's first line; variables among them stand in the environment already."""
    planned: dict[str, FactValue] = {}
    """Those that the first run's plan makes, for a run in which they are held."""
    replayed: tuple[str, ...] | None = None
    """Overloads whose calls are replayed on the spot, instead of digests; ``None`` for an ordinary run."""
    began: int = 0
    """The moment at which all runs began, in nanoseconds after 1970."""
    temporary: str = ""
    """The folder for temporary files, where it is not the system's."""
    uses: str = ""
    """A file for what the program asks of the circumstances that are held."""
    scratch: str = ""
    """The job's own folder, to be removed if the job is gone."""
