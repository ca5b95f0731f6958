"""``tracer repeat``: a training script run several times, and held against itself."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tracer.cli import completing
from tracer.cli.output import check_folder, show
from tracer.errors import UsageError
from tracer.plain import say

PARTED = 1
PARTIAL = 3
FAILED = 4

_ARMS = ("memory", "threads", "hash-seed", "workers", "time", "environment", "all")
_SETTINGS = ("recorded", "planned", "warn", "deterministic")
_FORMATS = ("text", "json", "html")

EXAMPLES = """\b
Examples:
  tracer repeat train.py --epochs 1
  tracer repeat --steps 0:3 --exit-after-steps --format text,html train.py
  tracer repeat --vary all -m mypackage.train --config small.yaml
  tracer repeat --settings planned train.py
  torchrun --nproc-per-node 2 -m tracer repeat train.py

Exit code 0: all runs agree in every call that was compared, which is no proof.
1: they part. 3: they agree, and a recording is not whole or processes were
started, which are not followed; or a signal ended the runs, and what was
compared until then is reported. 4: they agree, and the script fails."""


@click.command(
    "repeat",
    context_settings={"allow_interspersed_args": False},
    epilog=EXAMPLES,
    short_help="Run a training script several times and say where the runs part.",
)
@click.option("--runs", type=click.IntRange(min=2), default=2, show_default=True, metavar="N", help="Runs to compare.")
@click.option(
    "--vary",
    metavar="ARM[,ARM]",
    shell_complete=completing.words(lambda: _ARMS, several=True),
    help=f"Change one circumstance in a further run: {', '.join(_ARMS)}.",
)
@click.option("--steps", "window", metavar="A:B", default=":", help="Record these optimizer steps only.")
@click.option("--exit-after-steps", is_flag=True, help="End the script when they are recorded.")
@click.option(
    "--settings",
    type=click.Choice(_SETTINGS),
    default="recorded",
    show_default=True,
    help="Make settings before the script's first line; planned makes the plan's, and runs the script without too.",
)
@click.option("--first", is_flag=True, help="End a run as soon as it has parted from the first.")
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("repeat"),
    show_default=True,
    metavar="FOLDER",
    help="Where the recordings go, and repeat.json and repeat.html.",
)
@click.option(
    "--format",
    "formats",
    default="text",
    show_default=True,
    metavar="F[,F]",
    shell_complete=completing.words(lambda: _FORMATS, several=True),
    help="text on standard output; json and html in FOLDER.",
)
@click.option("-m", "as_module", is_flag=True, help="SCRIPT is a module's name, as for python -m.")
@click.argument("script", shell_complete=completing.files)
@click.argument("args", nargs=-1, type=click.UNPROCESSED, shell_complete=completing.files)
def command(
    runs: int,
    vary: str | None,
    window: str,
    exit_after_steps: bool,
    settings: str,
    first: bool,
    folder: Path,
    formats: str,
    as_module: bool,
    script: str,
    args: tuple[str, ...],
) -> int:
    """Run SCRIPT several times in processes of its own, and say whether and where the runs part, and why.

    Options before SCRIPT are the tracer's, all after it are the script's. The recordings stay in FOLDER, for tracer
    diff and tracer report.
    """
    from tracer.runner import Steps
    from tracer.runner.ranks import check_store, current_rank
    from tracer.runner.repeated.arms import parse_arms
    from tracer.runner.repeated.launching import ENDING
    from tracer.runner.repeated.repeating import Asked, repeat_script
    from tracer.runner.repeated.task import Task

    steps = Steps.parse(window)
    if exit_after_steps and steps.stop is None:
        raise UsageError("--exit-after-steps needs to know the last step", hint="add --steps A:B")
    wanted = [one.strip() for one in formats.split(",")]
    if unknown := [one for one in wanted if one not in _FORMATS]:
        raise UsageError(f"--format {unknown[0]!r} is none", hint=f"choose of {', '.join(_FORMATS)}")
    if not as_module and not os.path.exists(script):
        raise UsageError(f"there is no script {script}", hint="name a Python file, or a module after -m")
    check_store()
    rank = current_rank()
    folder = folder / f"rank{rank.rank}" if rank is not None else folder
    check_folder(folder)
    task = Task(
        target=script,
        args=args,
        as_module=as_module,
        start=steps.start,
        stop=steps.stop,
        exit_after_steps=exit_after_steps,
    )
    asked = Asked(
        task=task,
        folder=folder,
        runs=runs,
        arms=parse_arms(vary) if vary is not None else (),
        settings=settings,
        first=first,
    )
    with ENDING.noted():
        result = repeat_script(asked)
        from tracer.report.files.compared import write_repeated

        repeated = result.repeated
        written = write_repeated(repeated, result.report, folder, [one for one in wanted if one != "text"])
        if "text" in wanted:
            from tracer.report.render.terminal import READER, drawn, printed
            from tracer.report.sections.runs import repeated_blocks

            show(printed(drawn(repeated_blocks(repeated, READER))))
        kept = ", ".join(map(str, written)) if written else f"recordings in {folder}"
        say(f"tracer: wrote {kept}")
    if repeated.ended_by:
        say(f"tracer: {repeated.ended_by} before all runs were made")
        return PARTIAL
    if not repeated.agrees:
        return PARTED
    if repeated.failed:
        return FAILED
    if not repeated.calls_compared:
        say("tracer: no call was compared, so nothing is known of the runs")
        return PARTIAL
    if repeated.partial:
        say(f"tracer: a recording is partial ({repeated.partial}); the rest was not compared")
        return PARTIAL
    if repeated.not_followed:
        say("tracer: processes were started and not followed, so nothing is known of them")
        return PARTIAL
    return 0
