"""What a child process runs, and how."""

from __future__ import annotations

import msgspec

from tracer.runner.repeated.circumstances.declared import Circumstance
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
    shake: int | None = None
    """The seed with which results are shaken; compiled code runs eagerly then."""
    calls_of: str = ""
    """A module's path: take magnitudes of the single calls inside it too."""
    replayed: tuple[str, ...] | None = None
    """Overloads to replay on the spot, without digests; ``None`` for an ordinary run."""
    began: int = 0
    """The moment at which the series began, in nanoseconds since 1970."""
    temporary: str = ""
    """The folder for temporary files, if not the system's."""
    uses: str = ""
    """A file that lists the held circumstances that the program asked for."""
    scratch: str = ""
    """The job's own folder, removed when the job is gone."""
