"""``tracer resume``: a script run whole, interrupted, and resumed: does it go on bit for bit?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tracer.divergence.comparing import compare_recordings
from tracer.divergence.cut_lines import RunLines
from tracer.divergence.families import compare_families, read_family
from tracer.divergence.lines import read_run
from tracer.divergence.model import Family, Recording, Root
from tracer.divergence.omissions import ResumedRun, hold_against, steps_made
from tracer.divergence.repeated import Run
from tracer.errors import EndedEarly, TraceError, UsageError
from tracer.names import Training
from tracer.plain import say
from tracer.recording.options import LineOptions
from tracer.runner.repeated import launching
from tracer.runner.repeated.folder import (
    Snapshot,
    Walk,
    clear_output,
    entries_of,
    recordings_in,
    remove_run,
    scratch_of,
    temporary_of,
    within,
)
from tracer.runner.repeated.launching import COULD_NOT_BEGIN, Order
from tracer.runner.script import Task
from tracer.trace.file import child_path

#: Bytes of a file, and of all files, that are copied: an earlier checkpoint must not be written to.
_MOST_OF_A_FILE, _MOST_OF_ALL = 1 << 30, 4 << 30


class AskedResume(msgspec.Struct, frozen=True, kw_only=True):
    """The script, and how it is interrupted and resumed."""

    task: Task
    folder: Path
    stop_after: int | None = None
    """Optimizer steps after which it ends; ``None``: it is run with ``stop``."""
    stop: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    children: bool | None = None
    """Record child processes too; ``None``: if the whole run started some, and trained nothing itself."""


def resume_script(asked: AskedResume) -> ResumedRun:
    """Run the script whole, interrupted and resumed, each in a copy of the folder, and hold them against each other.

    Raises ``UsageError`` or ``TraceError`` in one line for runs that say nothing.
    """
    clear_output(asked.folder, "resume", "whole*", "interrupted*", "resumed*")
    with scratch_of(asked.folder) as scratch:
        sizes = {"most_of_a_file": _MOST_OF_A_FILE, "most_of_all": _MOST_OF_ALL}
        snapshot = Snapshot(Path.cwd(), asked.folder, scratch, **sizes)
        if snapshot.is_too_large:
            raise UsageError("the working directory holds too many files to be copied", hint="start in a smaller one")
        return _Runs(asked, scratch, snapshot).result()


class _Runs:
    """Runs of one script, each a process of its own in a copy of the folder as it was found."""

    def __init__(self, asked: AskedResume, scratch: Path, snapshot: Snapshot) -> None:
        self._asked, self._scratch, self._snapshot = asked, scratch, snapshot
        self._children = bool(asked.children)
        self._runs: list[Run] = []

    def result(self) -> ResumedRun:
        """Make the runs, and one more of the whole if they differ: a run that does not repeat shows nothing."""
        asked = self._asked
        whole = self._run("whole", self._snapshot.copy())
        if asked.children is None and (trace := whole[""].trace) and trace.training is Training.ELSEWHERE:
            say("tracer: the whole run trained nothing itself, and started processes: once more, recording them too")
            self._children = True
            whole = self._run("whole", self._snapshot.copy())
        made = {role: steps for role in whole if (steps := steps_made(whole[role].values))}
        if not made:
            raise TraceError(f"{asked.task.target} made no optimizer step", hint="name a script that trains")
        if asked.stop_after is not None and asked.stop_after >= (least := min(made.values())):
            many = f"{least} optimizer step{'s' * (least != 1)}"
            raise UsageError(
                f"after --stop-after {asked.stop_after} nothing is left to resume: the script makes {many}",
                hint="choose a smaller number",
            )
        folder = self._snapshot.copy()
        before = {entry for entry in entries_of(folder, Walk("")) if not entry.is_folder}
        interrupted = self._run("interrupted", folder, asked.stop, ends_before=asked.stop_after)
        wrote = {entry for entry in entries_of(folder, Walk("")) if not entry.is_folder} != before
        found = {role: self._before_it_resumes(whole[role], interrupted.get(role)) for role in made}
        if not any(each.unknown for each in found.values()):
            resumed = self._run("resumed", folder, asked.resume)
            if missing := next((role for role in made if role not in resumed), ""):
                raise TraceError(f"the resumed run has no {missing.replace('-', ' ')}", hint="its own words are above")
            code = self._runs[-1].code
            ends = [f"it ended with exit code {code}"] if code else []
            ended = "; ".join(ends if wrote else [*ends, "the interrupted run wrote no file in its folder"])
            found = {
                role: hold_against(whole[role], resumed[role], each.stopped_after, self._lines(role), ended)
                for role, each in found.items()
            }
        role = next((role for role, each in found.items() if not each.agrees), next(iter(found)))
        shown = found[role]
        trace = whole[""].trace if "" in whole else None
        unrecorded = 0 if self._children or trace is None else trace.not_followed
        shown = replace(shown, process=role, processes=len(made), not_compared=unrecorded)
        failed = next((run for run in self._runs if run.code and run.name != "interrupted"), None)
        if failed is not None and shown.agrees:
            shown = replace(shown, unknown=f"the {failed.name} run ended with exit code {failed.code}")
        if shown.not_restored:
            again = compare_families(whole, self._run("whole-again", self._snapshot.copy()), _compare)
            if again.roots:
                why = f"the whole run does not repeat itself: {_place(again.roots[0])}; run `tracer repeat` first"
                shown = replace(shown, unknown=why, not_restored=(), beside=())
        if lost := self._snapshot.lost():
            why = (
                f"{lost}, too large to be copied, was the same file in all runs, and one wrote to it: it is another now"
            )
            shown = replace(shown, unknown=why)
        name = os.path.basename(os.path.normpath(asked.task.target))
        return replace(shown, name=name, runs=tuple(self._runs))

    def _before_it_resumes(self, whole: Recording, interrupted: Recording | None) -> ResumedRun:
        """How far the interrupted run came, and why it is not the whole one's beginning, if it is not."""
        if interrupted is None or not (made := steps_made(interrupted.values)):
            raise TraceError("the interrupted run made no optimizer step", hint="end it later")
        made = made if self._asked.stop_after is None else self._asked.stop_after
        roots = (root for root in _compare(whole, interrupted).roots if root.step < made)
        root, unknown = next(roots, None), ""
        if root is not None:
            how = " with the arguments of --stop" if self._asked.stop_after is None else ""
            parts = f"does not begin as the whole one: {_place(root)}"
            unknown = f"the interrupted run{how} {parts}; run `tracer repeat` first"
        return ResumedRun(name="", stopped_after=made, unknown=unknown)

    def _lines(self, role: str) -> tuple[RunLines, ...]:
        paths = (recordings_in(self._scratch) / f"{name}.json" for name in ("whole", "resumed", "interrupted"))
        return tuple(RunLines(read_run(child_path(path, role) if role else path).get("", ())) for path in paths)

    def _run(self, name: str, folder: Path, args: Sequence[str] = (), ends_before: int | None = None) -> Family:
        if launching.ENDING.by:
            raise EndedEarly(f"{launching.ENDING.by} before all runs were made", hint="run it again")
        output = recordings_in(self._scratch) / f"{name}.json"
        remove_run(output)
        task = within(self._asked.task, folder)
        order = Order(
            task=replace(task, args=(*task.args, *args), ends_before=ends_before),
            output=os.path.abspath(output),
            children=self._children,
            number=len(self._runs),
            temporary=str(temporary_of(folder)),
            scratch=str(self._scratch),
            lines=LineOptions(anew_at=self._asked.stop_after or 0),
        )
        say(f"tracer: {name}{f' ({chr(32).join(args)})' if args else ''}")
        code, _ = launching.run(order, {}, len(self._runs), folder=folder)
        if launching.ENDING.by:
            raise EndedEarly(f"{launching.ENDING.by} before all runs were made", hint="run it again")
        if code == COULD_NOT_BEGIN:
            raise UsageError(f"the {name} run could not begin", hint="the line above says why")
        self._runs.append(Run(name=name, file=output.name, code=code))
        try:
            return read_family(output)
        except TraceError:
            words = f"ended with exit code {code} " if code else "ended "
            raise TraceError(
                f"the {name} run {words}before anything was recorded", hint="its own words are above"
            ) from None


_compare = partial(compare_recordings, may_resume=False)


def _place(root: Root) -> str:
    """``in step 3 at train.py:41, by a random draw``."""
    return f"in step {root.step} at {root.called_from or root.location or root.op}, {root.cause.words}"
