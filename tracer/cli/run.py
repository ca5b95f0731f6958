"""``tracer run``: a training script, recorded."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import click

from tracer.cli.options import option, script_options, together
from tracer.cli.output import check_writable
from tracer.errors import UsageError
from tracer.plain import say
from tracer.recording.options import KEEP_BYTES, TRIAL_MEMORY, Keep, LineOptions, PlaceOptions, RecordOptions, Trials
from tracer.runner.outcome import ScriptRecording
from tracer.runner.ranks import current_rank, path_of_rank
from tracer.runner.running import run_script
from tracer.runner.script import Task


def _spelled(option: str) -> str:
    return "--keep-inputs" if option == "keep" else f"--{option.replace('_', '-')}"


#: Takes a number or none: what follows it may be the script.
_ROWS = "--rows"


class _RunCommand(click.Command):
    """A command whose option ``--rows`` takes the next word only if that is a number."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for place, word in enumerate(args):
            if word == _ROWS and not (args[place + 1 : place + 2] or [""])[0].isdecimal():
                with suppress(click.UsageError):  # the words before are told of when all are parsed
                    if not isinstance(self.make_parser(ctx).parse_args(args[:place])[0].get("script"), str):
                        args = [*args[:place], f"{_ROWS}=0", *args[place + 1 :]]
                break
        return super().parse_args(ctx, args)


def _options(
    values: bool,
    magnitudes: bool,
    data_facts: bool,
    children: bool,
    eager: bool,
    lines: bool,
    library: tuple[str, ...],
    shake: int | None,
    rows_of: str | None,
    trials: int,
    trial_all: bool,
    trial_memory: int,
    rows: int | None,
    keep_inputs: tuple[str, ...],
    keep_bytes: int,
) -> RecordOptions:
    for is_asked, has, what, hint in (
        (trial_all or trial_memory != TRIAL_MEMORY, trials, "--trial-all and --trial-memory need trials", "--trials 5"),
        (shake is not None, magnitudes, "--shake makes a yardstick, which is made of magnitudes", "--magnitudes"),
        (rows_of is not None, magnitudes, "--rows-of places magnitudes", "--magnitudes"),
        (library, lines, "--library names packages whose lines are followed", "--lines"),
    ):
        if is_asked and not has:
            raise UsageError(what, hint=f"add {hint}")
    whole = ""
    if rows_of is not None:
        from tracer.trace.file import values_path
        from tracer.trace.values import read_magnitudes

        whole = os.path.abspath(read_magnitudes(values_path(rows_of)).places.path)
    return RecordOptions(
        values=values,
        magnitudes=magnitudes,
        places=PlaceOptions(shake=shake, rows_of=whole),
        trials=Trials(trials, all=trial_all, memory=trial_memory),
        data_facts=data_facts,
        rows=rows is not None and (rows or True),
        keep=Keep(keep_inputs, bytes=keep_bytes),
        lines=LineOptions(library=library) if lines else None,
        children=children,
        eager=eager or shake is not None,
    )


#: ``options``: what is recorded.
_record_options = together(
    *(
        click.option(name, is_flag=True, help=text)
        for name, text in {
            "--values": "Keep digests of what every call reads and writes, beside the trace.",
            "--magnitudes": "Keep how large results are, to compare two configurations.",
            "--lines": "Keep what each line of the program changed too; implies --values.",
            "--data-facts": "Look at indices and ties; reads values, so it waits for a device.",
            "--children": "Record the Python processes that the script starts too.",
            "--eager": "Run what torch.compile would compile op by op, to see its ops.",
        }.items()
    ),
    option("--library", "PACKAGE", "Follow this installed package's lines too; with --lines.", multiple=True),
    option("--shake", "SEED", "Change results by rounding, as a yardstick: changes the run.", type=click.IntRange(0)),
    option("--rows-of", "TRACE", "Record outputs as rows of TRACE's, which takes the batch as a whole."),
    option("--trials", "N", "Make calls at risk N times more, and compare.", type=click.IntRange(0), default=0),
    click.option("--trial-all", is_flag=True, help="Try every call; with --trials."),
    option(
        "--trial-memory", "BYTES", "What the trials of one call may hold.", type=click.IntRange(0), default=TRIAL_MEMORY
    ),
    option(
        _ROWS,
        "[N]",
        "Make calls again on a part of their rows; N: samples in a batch.",
        type=click.IntRange(0),
        is_flag=False,
        flag_value=0,
    ),
    option("--keep-inputs", "GLOB", "Keep the data of these ops, lines, files or modules, once each.", multiple=True),
    option(
        "--keep-bytes",
        "BYTES",
        "What kept data may take.  [default: 256 MiB]",
        type=click.IntRange(0),
        default=KEEP_BYTES,
    ),
    into="options",
    by=_options,
)


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


@click.command("run", cls=_RunCommand, context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@option(
    "-o --output",
    "FILE",
    "Where the trace goes; .json.gz is compressed.",
    type=click.Path(path_type=Path),
    default=Path("trace.json"),
    show_default=True,
)
@_record_options
@click.option("--with-source", is_flag=True, help="Keep the text of your own lines that findings can name.")
@click.option("--fake", is_flag=True, help="Run on fake tensors: no memory, no data; see the docs.")
@option("--as machine", "MACHINE", "What torch.cuda answers as: cpu, cuda:8.0; with --fake.  [default: cpu]")
@option("--world-size", "N", "Run as one rank of N; with --fake.", type=int)
@option("--rank", "K", "Which of them.  [default: 0]", type=int)
@script_options
def command(
    output: Path,
    task: Task,
    options: RecordOptions,
    with_source: bool,
    fake: bool,
    machine: str | None,
    world_size: int | None,
    rank: int | None,
) -> int:
    """Run SCRIPT as Python would and record every op that it dispatches.

    Options before SCRIPT are the tracer's, all after it are the script's. The trace is written as soon as the last
    of --steps was recorded, and even when the script fails or is interrupted.
    """
    if machine is not None and not fake:
        raise UsageError("--as names the machine of a run on fake tensors", hint="add --fake")
    if fake:
        options.refuse_on_fake(_spelled)
    if world_size is not None and not fake:
        raise UsageError("--world-size makes process groups that are fake", hint="add --fake, or start it by torchrun")
    if rank is not None and world_size is None:
        raise UsageError("--rank names one rank of a job", hint="add --world-size, as in --world-size 1024 --rank 17")
    fake_machine = one_rank = None
    if fake:
        from tracer.recording.options import FakeMachine, OneRank

        if world_size is not None:
            one_rank = OneRank.of(rank or 0, world_size)
            os.environ.update(one_rank.variables())
        fake_machine = FakeMachine.parse(machine or "cpu", devices=1 if one_rank is None else one_rank.local_world_size)
    this_rank = current_rank()
    output = path_of_rank(output, this_rank)
    check_writable(output)
    if options.values or options.magnitudes:
        from tracer.trace.file import values_path

        check_writable(values_path(output))
    recording = ScriptRecording(
        task,
        output,
        rank=this_rank,
        options=options,
        source_folder=os.getcwd() if with_source else None,
        hint_folder=os.getcwd(),
        machine=fake_machine,
        one_rank=one_rank,
    )
    code = run_script(recording)
    if one_rank is not None and code == 0 and not one_rank.groups:
        why = "it runs alone, or reads its rank elsewhere than in RANK and WORLD_SIZE"
        say(f"tracer: the script made no process group: {why}")
    return code
