"""``tracer repro``: a program that makes the call of one finding again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tracer.cli.options import files, option, target_options
from tracer.cli.output import check_writable, progress, show
from tracer.errors import ReportError, UsageError
from tracer.names import Backend
from tracer.plain import say

EXAMPLES = """\b
Examples:
  tracer repro trace.json 1
  tracer repro trace.json cuda-index-add --backend cuda -o repro.py
  tracer repro trace.json cuda-index-add@train.py:31 --backend cuda
  tracer repro trace.json cpu-index-put --with-values -o repro.py

FINDING is a number (1 is the worst), a rule, an op, a line, or a rule or an op at
a line; where several are named so, the first is taken. The program exits with 1
when the call's result varied, 0 when every run agreed, 2 when it lacks something."""


@click.command("repro", epilog=EXAMPLES)
@click.argument("trace", metavar="TRACE", shell_complete=files)
@click.argument("finding", metavar="FINDING")
@target_options(
    backend=f"The finding is one for {', '.join(Backend)} (each call's own device).",
    torch="The finding is one for this version of torch.",
    settings="The finding is one under these settings.",
)
@click.option("--with-values", is_flag=True, help="With the recorded data, in a file beside it; see run --keep-inputs.")
@option("--import imports", "MODULE", "A module that registers the op.", multiple=True)
@option(
    "-o --output",
    "FILE.py",
    "Where the program goes; by default to standard output.",
    shell_complete=files,
    type=click.Path(path_type=Path),
)
def command(
    trace: str, finding: str, target: dict[str, Any], with_values: bool, imports: tuple[str, ...], output: Path | None
) -> int:
    """Write a program that makes the call of FINDING in TRACE again and counts its distinct results.

    The program needs torch and what the op itself needs, not this package. It rebuilds shapes, strides, dtypes and
    numbers as they were recorded, and data of the same kind.
    """
    if output is not None:
        check_writable(output, error=ReportError)
    elif with_values:
        raise UsageError("recorded data stand in a file beside the program", hint="name the program's with -o")
    beside = output.with_suffix(".safetensors") if output is not None and with_values else None
    with progress("judging"):
        from tracer.files import write_whole
        from tracer.gate import host_lines
        from tracer.one_call import chosen_finding, copy_data, program_of
        from tracer.session import judge
        from tracer.trace import Trace

        loaded = Trace.load(trace)
        target["host"] = (*target["host"], *host_lines(loaded.calls, Path.cwd()))
        report = judge(loaded, **target)
        place, named = chosen_finding(report.findings, finding)
        chosen = report.findings[place]
        name = output.name if output is not None else "repro.py"
        values = "" if beside is None else beside.name
        program = program_of(report, chosen, file=name, values=values, imports=imports)
        if beside is not None:
            copy_data(trace, program.group, program.tensors, beside)
    if named > 1:
        say(f"tracer: {named} findings are named so; this is number {place + 1}, {chosen.location}")
    if output is None:
        show(program.text)
        return 0
    write_whole(output, program.text.encode("utf-8"), error=ReportError)
    say(f"tracer: wrote {output}: python {output}")
    return 0
