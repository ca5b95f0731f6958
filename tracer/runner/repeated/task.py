"""What a child is told to run, and how."""

from __future__ import annotations

import msgspec

from tracer.divergence.repeated import Arm
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
    arm: Arm = Arm.UNVARIED
    settings: dict[str, FactValue] = {}
    """Made before the script's first line; variables among them stand in the environment already."""
