"""``tracer repeat``: a training script run several times, and held against itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracer.cli.options import check_script, folder_options, option, script_options
from tracer.cli.output import check_folder, show_blocks
from tracer.errors import UsageError
from tracer.plain import say

if TYPE_CHECKING:
    from tracer.runner.script import Task

PARTED = 1
PARTIAL = 3
FAILED = 4
#: Seconds for which a rank waits for what others say.
_WAIT_FOR_RANKS = 120.0

_SETTINGS = ("recorded", "planned", "warn", "deterministic")

EXAMPLES = """\b
Examples:
  tracer repeat train.py --epochs 1
  tracer repeat --steps 0:3 --exit-after-steps --format text,html train.py
  tracer repeat --vary all -m mypackage.train --config small.yaml
  tracer repeat --hold hash-seed,folder train.py
  tracer repeat --settings planned train.py
  torchrun --nproc-per-node 2 -m tracer repeat train.py

Exit code 0: all runs agree in every call that was compared, which is no proof.
1: they diverge, end with different exit codes, or one is killed by a signal.
3: they agree, and a recording is not whole, processes were started, which are
not followed, or a line decides by the clock; or a signal ended the runs, and
what was compared until then is reported. 4: they agree, and the script fails."""


class _OfCircumstances(click.Option):
    """An option whose help ends with the names that it takes, which are looked up when help is asked for."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from tracer.runner.repeated.declared import ALL, Circumstance

        record = super().get_help_record(ctx)
        kind = {"vary": "varied", "hold": "held"}[str(self.name)]
        names = [*(each.value for each in Circumstance if getattr(each, kind) is not None), ALL]
        return None if record is None else (record[0], f"{record[1]}: {', '.join(names)}.")


@click.command("repeat", context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@option("--runs", "N", "Runs to compare.", type=click.IntRange(min=2), default=2, show_default=True)
@option("--vary", "NAME[,NAME]", "Change one circumstance in a further run", cls=_OfCircumstances)
@option(
    "--hold",
    "NAME[,NAME]",
    "Where the runs diverge, hold these circumstances in further runs, and not all that can be held",
    cls=_OfCircumstances,
)
@click.option("--no-hold", is_flag=True, help="Make no further runs where the runs diverge.")
@click.option(
    "--settings",
    type=click.Choice(_SETTINGS),
    default="recorded",
    show_default=True,
    help="Make settings before the script's first line; planned makes the plan's, and runs the script without too.",
)
@click.option("--children/--no-children", default=None, help="Compare the Python processes that SCRIPT starts too.")
@click.option("--whole", is_flag=True, help="Follow lines to the end, not just of the step where runs diverge.")
@folder_options("repeat")
@script_options
def command(
    task: Task,
    runs: int,
    vary: str | None,
    hold: str | None,
    no_hold: bool,
    folder: Path,
    formats: list[str],
    **asked: Any,
) -> int:
    """Run SCRIPT several times in processes of its own, and say whether and where the runs diverge, and why.

    Options before SCRIPT are the tracer's, all after it are the script's. The recordings stay in FOLDER, for tracer
    diff and tracer report.
    """
    from tracer.runner.ranks import check_store, current_rank, told_by_all
    from tracer.runner.repeated.declared import parse_held, parse_varied
    from tracer.runner.repeated.launching import ENDING
    from tracer.runner.repeated.repeating import Asked, repeat_script

    if no_hold and hold is not None:
        raise UsageError("--hold and --no-hold exclude each other", hint="leave out one of them")
    check_script(task)
    check_store()
    rank = current_rank()
    folder = folder / f"rank{rank.rank}" if rank is not None else folder
    check_folder(folder)
    held = () if no_hold else parse_held(hold) if hold is not None else None
    arms = parse_varied(vary) if vary is not None else ()
    with ENDING.handling_signals():
        result = repeat_script(Asked(task=task, folder=folder, runs=runs, arms=arms, hold=held, **asked))
        from tracer.report.compared import write_repeated

        repeated = result.repeated
        written = write_repeated(repeated, result.report, folder, [name for name in formats if name != "text"])
        if "text" in formats:
            from tracer.report.blocks import Heading
            from tracer.report.compared import plan_after
            from tracer.report.render.terminal import READER
            from tracer.report.sections.runs import repeated_blocks

            report = result.report() if repeated.agrees else None
            findings = () if report is None else report.findings
            answer = repeated_blocks(repeated, READER, plan_after(repeated, result.report), findings)
            show_blocks(answer if rank is None else (Heading(f"Rank {rank.rank}"), *answer))
        files = ", ".join(map(str, written)) if written else f"recordings in {folder}"
        say(f"tracer: wrote {files}")
        if rank is not None:  # torchrun ends the others as soon as one ends with a code
            until = time.monotonic() + _WAIT_FOR_RANKS
            told_by_all(rank, "answered", 0, lambda: time.monotonic() < until and not ENDING.by)
    if repeated.ended_by:
        say(f"tracer: {repeated.ended_by} before all runs were made")
        return PARTIAL
    if not repeated.agrees:
        return PARTIAL if repeated.trains_alike else PARTED
    if repeated.failed:
        return FAILED
    if not repeated.calls_compared:
        say("tracer: no call was compared, so nothing is known of the runs")
    elif repeated.partial:
        say(f"tracer: a recording is partial ({repeated.partial}); the rest was not compared")
    elif repeated.not_followed:
        say(f"tracer: {repeated.not_followed_clause}, so nothing is known of what was computed there")
    elif repeated.timed and repeated.otherwise is None:
        from tracer.report.sections.runs import timed_clause

        say(f"tracer: {timed_clause(repeated)}")
    else:
        return 0
    return PARTIAL
