"""Records chosen steps of a loop that a framework runs: the base of Lightning's and Transformers' callbacks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracer.errors import UsageError

if TYPE_CHECKING:
    from tracer.report import Report
    from tracer.session import DeterminismTracer
    from tracer.trace import Trace


class ChosenSteps:
    """Enters a tracer before each chosen step, leaves it after, and writes trace and report when the loop ends.

    Parameters
    ----------
    steps
        Numbers of the steps to record, counted from 0 as the host counts them.
    output
        Folder for ``trace.json`` (``trace.rank0.json`` and so on in a distributed job) and the reports.
    formats
        Names that ``tracer report --format`` takes; rank zero renders them from the traces of all ranks.
    backend, torch, settings
        The target of the report; see ``tracer.judge``.
    """

    def __init__(
        self,
        steps: Iterable[int] = (0,),
        *,
        output: str | os.PathLike[str] = "determinism",
        formats: Iterable[str] = ("html",),
        backend: str = "recorded",
        torch: str = "recorded",
        settings: str = "recorded",
    ) -> None:
        from tracer.report import FORMATS

        self.steps = frozenset(steps)
        self.output = Path(output)
        self.formats = (formats,) if isinstance(formats, str) else tuple(formats)
        if not self.steps or any(not isinstance(step, int) or step < 0 for step in self.steps):
            raise UsageError("no steps to record are named", hint="give numbers from 0 on, such as steps=[0, 10]")
        if unknown := [name for name in self.formats if name not in FORMATS]:
            raise UsageError(f"there is no format {unknown[0]!r}", hint=f"choose from {', '.join(FORMATS)}")
        self._target = {"backend": backend, "torch": torch, "settings": settings}
        self._tracer: DeterminismTracer | None = None
        self._is_inside = False
        self._loop = ""
        self.report: Report | None = None
        """The report, on rank zero, once the loop has ended."""

    def before(self, step: int, model: Any, name: str) -> None:
        """A step begins; ``model`` spells the module paths, ``name`` is the recording's."""
        if step not in self.steps or self._is_inside:
            return
        if self._tracer is None:
            from tracer.session import DeterminismTracer

            self._tracer = DeterminismTracer(model, name=name)
        self._tracer.__enter__()
        self._is_inside = True

    def after(self, problem: BaseException | None = None) -> None:
        """A step ended, or ``problem`` ended it."""
        if self._is_inside and self._tracer is not None:
            self._is_inside = False
            self._tracer.__exit__(type(problem) if problem else None, problem, None)

    def finish(self, loop: str = "") -> Report | None:
        """Write this rank's trace; on rank zero, judge and render those of all ranks.

        ``loop`` is part of the files' names, if it is not empty.
        """
        self.after()
        self._loop = f".{loop}" if loop else ""
        if self._tracer is None:
            _wait_for_all()
            steps = ", ".join(map(str, sorted(self.steps)))
            warnings.warn(f"determinism: none of the steps {steps} was run; nothing was recorded", stacklevel=2)
            return None
        trace, rank, world = self._save(self._tracer)
        _wait_for_all()
        if rank == 0:
            self.report = self._render(trace, world)
        return self.report

    def break_off(self, problem: BaseException) -> Report | None:
        """``problem`` ended the loop: write this rank's trace, and judge it if it is the only rank.

        Does not wait for other ranks, which may never finish.
        """
        self.after(problem)
        if self._tracer is not None:
            trace, _, world = self._save(self._tracer)
            if world == 1:
                self.report = self._render(trace, world)
        return self.report

    def _save(self, tracer: DeterminismTracer) -> tuple[Trace, int, int]:
        """Write this rank's trace; returns it with the rank and the number of ranks."""
        job = _job()
        rank, world = (0, 1) if job is None else (job.get_rank(), job.get_world_size())
        self._tracer = None
        tracer.trace.save(self._path(rank, world))
        return tracer.trace, rank, world

    def _path(self, rank: int, world: int) -> Path:
        return self.output / (f"trace{self._loop}.json" if world == 1 else f"trace{self._loop}.rank{rank}.json")

    def _render(self, own: Trace, world: int) -> Report:
        from tracer.errors import ReportError
        from tracer.files import write_whole
        from tracer.report import FORMATS, to_write
        from tracer.session import judge_job
        from tracer.trace.file import load_traces

        others = {rank: self._path(rank, world) for rank in range(1, world)}
        for rank, path in others.items():
            if not path.is_file():
                warnings.warn(f"determinism: rank {rank} left no {path} here; its calls are missing", stacklevel=3)
        traces = [own, *load_traces(path for path in others.values() if path.is_file())]
        report = judge_job(traces, **self._target)
        for name in self.formats:
            path = self.output / f"report{self._loop}{FORMATS[name].suffix}"
            write_whole(path, to_write(name, report), error=ReportError)
        return report


def _job() -> Any:
    """``torch.distributed`` if this process is in a process group; ``None`` if not."""
    import torch.distributed as distributed

    return distributed if distributed.is_available() and distributed.is_initialized() else None


def _wait_for_all() -> None:
    """Every rank's trace is written before rank zero reads them."""
    if (job := _job()) is not None:
        job.barrier()
