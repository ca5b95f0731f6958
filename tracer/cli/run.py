"""``tracer run``: a training script, recorded."""

from __future__ import annotations

from pathlib import Path

import click

from tracer.cli import completing
from tracer.cli.output import check_writable
from tracer.errors import UsageError
from tracer.recording.options import KEEP_BYTES, TRIAL_MEMORY, Keep, Trials
from tracer.runner import Steps, run_script
from tracer.runner.ranks import current_rank, path_of_rank

EXAMPLES = """\b
Examples:
  tracer run train.py --epochs 1
  tracer run --steps 0:3 --exit-after-steps -o step.json.gz train.py
  tracer run -m mypackage.train --config small.yaml
  tracer run --trials 5 train.py
  torchrun --nproc-per-node 2 -m tracer run train.py

Steps are counted by finished optimizer steps, from 0: 0:1 is all until the
first one has ended, 5:8 is steps 5, 6 and 7. Under torchrun each rank writes a
file of its own, trace.rank0.json and so on. With --values a file of digests
stands beside it, trace.values, for tracer diff. The exit code is the script's."""


@click.command(
    "run",
    context_settings={"allow_interspersed_args": False},
    epilog=EXAMPLES,
    short_help="Run a training script and record what it does.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("trace.json"),
    show_default=True,
    metavar="FILE",
    help="Where the trace goes; .json.gz is compressed.",
)
@click.option("--steps", "window", metavar="A:B", default=":", help="Record these optimizer steps only.")
@click.option("--exit-after-steps", is_flag=True, help="End the script when they are recorded.")
@click.option("--values", is_flag=True, help="Keep digests of what every call reads and writes, beside the trace.")
@click.option(
    "--trials", type=click.IntRange(0), default=0, metavar="N", help="Make calls at risk N times more, and compare."
)
@click.option("--trial-all", is_flag=True, help="Try every call; with --trials.")
@click.option("--trial-memory", type=click.IntRange(0), metavar="BYTES", help="What the trials of one call may hold.")
@click.option("--trial-threads", is_flag=True, help="Try on another number of threads too.")
@click.option("--data-facts", is_flag=True, help="Look at indices and ties; reads values, so it waits for a device.")
@click.option(
    "--keep-inputs",
    multiple=True,
    metavar="GLOB",
    help="Keep the data of these ops, lines, files or modules, once each.",
)
@click.option(
    "--keep-bytes", type=click.IntRange(0), metavar="BYTES", help="What kept data may take.  [default: 256 MiB]"
)
@click.option("--with-source", is_flag=True, help="Keep the text of your own lines that findings can name.")
@click.option("--eager", is_flag=True, help="Run what torch.compile would compile op by op, to see its ops.")
@click.option("-m", "as_module", is_flag=True, help="SCRIPT is a module's name, as for python -m.")
@click.argument("script", shell_complete=completing.files)
@click.argument("args", nargs=-1, type=click.UNPROCESSED, shell_complete=completing.files)
def command(
    output: Path,
    window: str,
    exit_after_steps: bool,
    values: bool,
    trials: int,
    trial_all: bool,
    trial_memory: int | None,
    trial_threads: bool,
    data_facts: bool,
    keep_inputs: tuple[str, ...],
    keep_bytes: int | None,
    with_source: bool,
    eager: bool,
    as_module: bool,
    script: str,
    args: tuple[str, ...],
) -> int:
    """Run SCRIPT as Python would and record every op that it dispatches.

    Options before SCRIPT are the tracer's, all after it are the script's. The trace is written as soon as the last
    of --steps was recorded, and even when the script fails or is interrupted.
    """
    steps = Steps.parse(window)
    if exit_after_steps and steps.stop is None:
        raise UsageError("--exit-after-steps needs to know the last step", hint="add --steps A:B")
    if not trials and (trial_all or trial_threads or trial_memory is not None):
        raise UsageError("--trial-all, --trial-memory and --trial-threads need trials", hint="add --trials 5")
    rank = current_rank()
    output = path_of_rank(output, rank)
    check_writable(output)
    beside: Path | None = None
    if values:
        from tracer.trace.values import values_path

        check_writable(beside := values_path(output))
    return run_script(
        script,
        args,
        output=output,
        as_module=as_module,
        steps=steps,
        exit_after_steps=exit_after_steps,
        with_source=with_source,
        eager=eager,
        values=beside,
        options={
            "trials": Trials(
                trials,
                all=trial_all,
                threads=trial_threads,
                memory=TRIAL_MEMORY if trial_memory is None else trial_memory,
            ),
            "data_facts": data_facts,
            "keep": Keep(keep_inputs, bytes=KEEP_BYTES if keep_bytes is None else keep_bytes),
        },
        rank=rank,
    )
