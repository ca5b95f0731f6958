"""``tracer run``: a training script, recorded."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tracer.cli.options import option, script_arguments, steps_in, window_options
from tracer.cli.output import check_writable
from tracer.errors import UsageError
from tracer.recording.options import KEEP_BYTES, TRIAL_MEMORY, Keep, Lines, PlaceOptions, RecordOptions, Trials
from tracer.runner import run_script
from tracer.runner.ranks import current_rank, path_of_rank
from tracer.runner.running import own_line

#: Asks for ranks in different positions.
ALL_DISTINCT = "all-distinct"

EXAMPLES = """\b
Examples:
  tracer run train.py --epochs 1
  tracer run --steps 0:3 --exit-after-steps -o step.json.gz train.py
  tracer run -m mypackage.train --config small.yaml
  tracer run --trials 5 train.py
  tracer run --children launch.py
  tracer run --fake --as cuda:8.0 train.py
  tracer run --fake --world-size 1024 --rank 17 train.py
  torchrun --nproc-per-node 2 -m tracer run train.py

Steps are counted by finished optimizer steps, from 0: 0:1 is all until the
first one has ended, 5:8 is steps 5, 6 and 7. Under torchrun each rank writes a
file of its own, trace.rank0.json and so on. With --values or --magnitudes a
file stands beside it, trace.values, for tracer diff. The exit code is the script's."""


@click.command("run", context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@option(
    "-o --output",
    "FILE",
    "Where the trace goes; .json.gz is compressed.",
    type=click.Path(path_type=Path),
    default=Path("trace.json"),
    show_default=True,
)
@window_options
@click.option("--values", is_flag=True, help="Keep digests of what every call reads and writes, beside the trace.")
@click.option("--lines", is_flag=True, help="Keep what each line of the program changed too; implies --values.")
@option("--library", "PACKAGE", "Follow this installed package's lines too; with --lines.", multiple=True)
@click.option("--magnitudes", is_flag=True, help="Keep how large results are, to compare two configurations.")
@option("--shake", "SEED", "Change results by rounding, as a yardstick: changes the run.", type=click.IntRange(0))
@option("--shake-in", "MODULE", "Shake inside this module alone; a path, as compare names it.", default="")
@option("--rows-of", "TRACE", "Record outputs as rows of TRACE's, which takes the batch as a whole.")
@option("--trials", "N", "Make calls at risk N times more, and compare.", type=click.IntRange(0), default=0)
@click.option("--trial-all", is_flag=True, help="Try every call; with --trials.")
@option("--trial-memory", "BYTES", "What the trials of one call may hold.", type=click.IntRange(0))
@click.option("--data-facts", is_flag=True, help="Look at indices and ties; reads values, so it waits for a device.")
@option("--keep-inputs", "GLOB", "Keep the data of these ops, lines, files or modules, once each.", multiple=True)
@option("--keep-bytes", "BYTES", "What kept data may take.  [default: 256 MiB]", type=click.IntRange(0))
@click.option("--with-source", is_flag=True, help="Keep the text of your own lines that findings can name.")
@click.option("--children", is_flag=True, help="Record the Python processes that the script starts too.")
@click.option("--eager", is_flag=True, help="Run what torch.compile would compile op by op, to see its ops.")
@click.option("--fake", is_flag=True, help="Run on fake tensors: no memory, no data; see the docs.")
@option("--as machine", "MACHINE", "What torch.cuda answers as: cpu, cuda:8.0; with --fake.  [default: cpu]")
@option("--world-size", "N", "Run as one rank of N; with --fake.", type=int)
@option("--rank", "K", f"Which rank, several (0,17), or {ALL_DISTINCT}: one of each position.  [default: 0]")
@script_arguments
def command(
    output: Path,
    window: str,
    exit_after_steps: bool,
    values: bool,
    lines: bool,
    library: tuple[str, ...],
    magnitudes: bool,
    shake: int | None,
    shake_in: str,
    rows_of: str | None,
    trials: int,
    trial_all: bool,
    trial_memory: int | None,
    data_facts: bool,
    keep_inputs: tuple[str, ...],
    keep_bytes: int | None,
    with_source: bool,
    children: bool,
    eager: bool,
    fake: bool,
    machine: str | None,
    world_size: int | None,
    rank: str | None,
    as_module: bool,
    script: str,
    args: tuple[str, ...],
) -> int:
    """Run SCRIPT as Python would and record every op that it dispatches.

    Options before SCRIPT are the tracer's, all after it are the script's. The trace is written as soon as the last
    of --steps was recorded, and even when the script fails or is interrupted.
    """
    steps = steps_in(window, exit_after_steps=exit_after_steps)
    if not trials and (trial_all or trial_memory is not None):
        raise UsageError("--trial-all and --trial-memory need trials", hint="add --trials 5")
    if shake is not None and not magnitudes:
        raise UsageError("--shake makes a yardstick, which is made of magnitudes", hint="add --magnitudes")
    if shake_in and shake is None:
        raise UsageError("--shake-in says where results are shaken", hint="add --shake SEED")
    if rows_of is not None and not magnitudes:
        raise UsageError("--rows-of places magnitudes", hint="add --magnitudes")
    if library and not lines:
        raise UsageError("--library names packages whose lines are followed", hint="add --lines")
    if machine is not None and not fake:
        raise UsageError("--as names the machine of a run on fake tensors", hint="add --fake")
    memory = TRIAL_MEMORY if trial_memory is None else trial_memory
    whole = "" if rows_of is None else _recorded_whole(rows_of)
    options = RecordOptions(
        values=values,
        magnitudes=magnitudes,
        places=PlaceOptions(shake=shake, shake_in=shake_in, rows_of=whole),
        trials=Trials(trials, all=trial_all, memory=memory),
        data_facts=data_facts,
        keep=Keep(keep_inputs, bytes=KEEP_BYTES if keep_bytes is None else keep_bytes),
        lines=Lines(library=library) if lines else None,
        children=children,
        eager=eager or shake is not None,
    )
    if fake:
        options.refuse_on_fake(_spelled)
    if world_size is not None and not fake:
        raise UsageError("--world-size makes process groups that are fake", hint="add --fake, or start it by torchrun")
    if rank is not None and world_size is None:
        raise UsageError("--rank names one rank of a job", hint="add --world-size, as in --world-size 1024 --rank 17")
    fake_machine = one_rank = groups_to = None
    if fake:
        from tracer.recording.fake.machine import Machine

        if world_size is not None:
            from tracer.recording.fake.machine import OneRank, ranks_in
            from tracer.runner.fake_ranks import groups_file, run_ranks

            ranks = [OneRank.of(0, world_size)] if rank == ALL_DISTINCT else ranks_in(rank or "0", world_size)
            one_rank = ranks[0]
            if rank == ALL_DISTINCT or len(ranks) > 1:
                line = ["--fake", "-o", str(output), *([f"--as={machine}"] if machine else [])]
                line += ["--steps", window] if window else []
                flags = {"--exit-after-steps": exit_after_steps, "--with-source": with_source, "--eager": eager}
                line += [name for name, is_set in flags.items() if is_set]
                line += [*(["-m"] if as_module else []), script, *args]
                numbers = None if rank == ALL_DISTINCT else [one.rank for one in ranks]
                return run_ranks(numbers, world_size, line, output)
            groups_to = groups_file()
            os.environ.update(one_rank.variables())
        fake_machine = Machine.parse(machine or "cpu", devices=1 if one_rank is None else one_rank.local_world_size)
    this_rank = current_rank()
    output = path_of_rank(output, this_rank)
    check_writable(output)
    if options.values or options.magnitudes:
        from tracer.trace.paths import values_path

        check_writable(values_path(output))
    code = run_script(
        script,
        args,
        output=output,
        as_module=as_module,
        steps=steps,
        exit_after_steps=exit_after_steps,
        with_source=with_source,
        options=options,
        machine=fake_machine,
        one_rank=one_rank,
        rank=this_rank,
        own_line=own_line(script, args),
    )
    if one_rank is not None and code == 0:
        from tracer.runner.fake_ranks import say_groups

        say_groups(one_rank.groups, groups_to)
    return code


def _spelled(option: str) -> str:
    """An option as it is spelled here."""
    return "--keep-inputs" if option == "keep" else f"--{option.replace('_', '-')}"


def _recorded_whole(trace: str) -> str:
    """The file of values beside ``trace``, which has magnitudes. Raises ``TracerError`` in one line."""
    from tracer.trace.paths import values_path
    from tracer.trace.values import read_magnitudes

    return os.path.abspath(read_magnitudes(values_path(trace)).places.path)
