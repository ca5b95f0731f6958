"""The digests of one recording: when they begin and end, the file, the watches."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.compiled.executions import Run
from tracer.recording.compiled.listing import RegionList
from tracer.recording.memory_observers import StorageObservers
from tracer.recording.origin.modules import ModuleStack
from tracer.recording.origin.optimizers import OptimizerWatch
from tracer.recording.origin.sites import Sites, placed, spell
from tracer.recording.patching import Call
from tracer.recording.values.call_values import CallValues
from tracer.recording.values.feeding import FEEDING, Weakly
from tracer.recording.values.moments import Moments
from tracer.recording.values.region_values import RegionValues
from tracer.trace.records import Environment
from tracer.trace.values import Group, Header, ValueKind, ValuesWriter

#: The algorithms behind the digests: on the host, and on devices.
DIGEST = "xxh3-64-by-content mix-64"


class ValuesRecording:
    """Keeps digests from ``start`` to ``stop``, any number of times, in one file."""

    def __init__(
        self,
        path: Path,
        *,
        name: str,
        tracer_version: str,
        modules: ModuleStack,
        optimizer: OptimizerWatch,
        followed: StorageObservers,
        sites: Sites,
        regions: RegionList,
        working_directory: str,
    ) -> None:
        self.path = path
        self._name = name
        self._tracer_version = tracer_version
        self._optimizer = optimizer
        self._sites = sites
        self._working_directory = working_directory
        self._writer: ValuesWriter | None = None
        self.first_step = 0
        """Optimizer steps that ended before recording began: steps count from 0, as ``--steps`` counts them."""
        self.calls = CallValues(
            self._describe, lambda tensor: self.moments.named(tensor), lambda: optimizer.active, followed
        )
        self.regions = RegionValues(self.calls, self._describe_region)
        """Observes every execution of a compiled region."""
        self._region_list = regions
        self.moments = Moments(self.calls, modules)
        self._iterators = Weakly()
        self._moving = Weakly()

    def start(self, environment: Environment) -> None:
        """Begin, or go on; raises ``TraceError`` where the file cannot be written."""
        if self._writer is None:
            rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
            header = Header(
                name=self._name,
                rank=int(rank) if rank.isdigit() else None,
                world_size=int(world) if world.isdigit() else None,
                digest=DIGEST,
                environment=environment,
                tracer_version=self._tracer_version,
            )
            self._writer = ValuesWriter(self.path, header)
            self.calls.writer = self._writer
            self._writer.step(self.first_step + self._optimizer.steps)
            self.moments.generators()
        else:
            self._writer.reopen()
            self.calls.writer = self._writer
        FEEDING.add(self)
        self._optimizer.before_step = self._before_step

    def stop(self, partial: str = "") -> None:
        """Say how all stands, and close the file; ``partial``: why the recording is not whole."""
        FEEDING.discard(self)
        self._optimizer.before_step = None
        with suppress(Exception):  # a module of somebody's may refuse to be read
            self.moments.at_the_end()
        self.calls.settle()
        self.calls.writer = None
        if self._writer is not None:
            self._writer.close(partial)

    def end(self, partial: str) -> None:
        """Close the file once more, now that it is known why the recording is not whole; in the middle of a call, if
        need be. An empty reason changes nothing in a file that is closed."""
        self.calls.writer = None
        if self._writer is not None and (partial or not self._writer.is_closed):
            self._writer.reopen()
            self._writer.close(partial)

    def step_ended(self, count: int) -> None:
        """Optimizer step number ``count`` ended."""
        writer = self.calls.writer
        if writer is not None:
            self.calls.settle()
            writer.step(self.first_step + count)

    def _before_step(self, optimizer: Any) -> None:
        if self.calls.writer is None:
            return
        with suppress(Exception):  # an optimizer of somebody's may keep anything
            self.moments.before_step(optimizer)
        for thing, kind in self._moving.living():
            with suppress(Exception):
                self.moments.state(ValueKind(kind), thing)

    def _describe(self, info: OverloadInfo, counter: CallCounter) -> Group:
        return Group(
            op=info.name,
            **counter.origin.in_words(self._working_directory),
        )

    def _describe_region(self, run: Run) -> Group:
        return Group(
            op=f"compiled.{run.code.direction}",
            phase=self._region_list.phase_of(run),
            module=run.scope.path,
            **placed(run.site, run.called_from, self._working_directory),
            region=self._region_list.name_of(run.code),
        )

    # --- what loaders, schedulers and scalers tell ---

    def loader_iterates(self, call: Call) -> None:
        """A loader made an iterator, which is known by the line that asked for it."""
        site = self._sites.users_own(call.frame)
        word = f"DataLoader at {spell(site, self._working_directory)}" if site.path else "DataLoader"
        if call.result is not None:
            self._iterators.add(call.result, word)

    def loader_gave(self, call: Call) -> None:
        """An iterator gave a batch."""
        iterator = call.first
        yielded = getattr(iterator, "_num_yielded", 0)
        with torch.no_grad():
            self.moments.batch(self._iterators.word(iterator) or "DataLoader", max(0, yielded - 1), call.result)

    def transports(self, begins: bool) -> None:
        """Calls that only take over what a worker sent are none of the program's."""
        self.calls.is_paused = begins

    def steps(self, kind: ValueKind, thing: Any) -> None:
        """A scheduler or a scaler moved on: from now on it is read at every step."""
        self._moving.add(thing, str(kind))
