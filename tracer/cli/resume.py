"""``tracer resume``: a training script run whole, interrupted and resumed: does it go on bit for bit?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracer.cli.options import check_script, folder_options, option, whole_script_options, words
from tracer.cli.output import check_folder, show_blocks
from tracer.errors import UsageError
from tracer.plain import say

if TYPE_CHECKING:
    from tracer.runner.script import Task

DEPARTED = 1
UNKNOWN = 3

EXAMPLES = """\b
Examples:
  tracer resume --stop-after 40 --resume "--resume last.pt" train.py --epochs 2
  tracer resume --stop "--max-steps 40" --resume "--ckpt last.pt" train.py
  tracer resume --stop-after 40 --resume "" --format text,html -m mypackage.train

Exit code 0: the resumed run goes on bit for bit. 1: it does not. 3: nobody can
say, since the script does not repeat itself or is another one when interrupted."""


@click.command("resume", context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@option("--stop-after", "STEP", "End the interrupted run after this optimizer step.", type=click.IntRange(min=1))
@option("--stop", "ARGS", "Arguments of the interrupted run alone, as one word, by which it ends early.", read=words)
@option("--resume", "ARGS", "Arguments of the resumed run alone, as one word.", read=words)
@click.option("--children/--no-children", default=None, help="Compare the Python processes that SCRIPT starts too.")
@folder_options("resume")
@whole_script_options
def command(
    task: Task,
    stop_after: int | None,
    stop: tuple[str, ...] | None,
    resume: tuple[str, ...] | None,
    children: bool | None,
    folder: Path,
    formats: list[str],
) -> int:
    """Run SCRIPT whole, then interrupted, then resumed, and say whether it goes on bit for bit, and what it lacks.

    Each run works in a copy of the working directory; the resumed one finds what the interrupted one left. Options
    before SCRIPT are the tracer's, all after it are the script's, in every run.
    """
    from tracer.runner.ranks import current_rank
    from tracer.runner.repeated.launching import ENDING
    from tracer.runner.repeated.resuming import AskedResume, resume_script

    if (stop_after is None) == (stop is None):
        fault = "--stop-after and --stop exclude each other" if stop is not None else "nothing says where the run ends"
        raise UsageError(fault, hint='say one of --stop-after STEP and --stop "ARGS"')
    if resume is None:
        raise UsageError("nothing says how the run is resumed", hint='add --resume "ARGS", or --resume "" without any')
    if current_rank() is not None:
        hint = "start the launcher inside: tracer resume ... -m torch.distributed.run --nproc-per-node 2 SCRIPT"
        raise UsageError("tracer resume makes runs of a whole job, and this process is one of its ranks", hint=hint)
    check_script(task)
    check_folder(folder)
    ends = stop or ()
    asked = AskedResume(task=task, folder=folder, stop_after=stop_after, stop=ends, resume=resume, children=children)
    with ENDING.handling_signals():
        found = resume_script(asked)
        from tracer.report.compared import write_resumed

        written = write_resumed(found, folder, [name for name in formats if name != "text"])
        if "text" in formats:
            from tracer.report.render.terminal import READER
            from tracer.report.sections.resumed import resumed_blocks

            show_blocks(resumed_blocks(found, READER))
        say(f"tracer: wrote {', '.join(map(str, written)) if written else f'recordings in {folder}'}")
    if found.unknown:
        return UNKNOWN
    return 0 if found.agrees else DEPARTED
