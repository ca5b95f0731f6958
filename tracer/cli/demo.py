"""``tracer demo``: a bundled training step from recording to report."""

from __future__ import annotations

from pathlib import Path

import click

from tracer.cli.options import option
from tracer.cli.output import check_folder, progress, show

EXAMPLES = """\b
Examples:
  tracer demo
  tracer demo --output-dir /tmp/demo
  tracer demo && tracer report step.trace.json --backend npu

Writes report.html, report.csv and step.trace.json."""


@click.command("demo", epilog=EXAMPLES)
@option(
    "--output-dir",
    "DIR",
    "Where the files go; the working directory by default.",
    type=click.Path(path_type=Path),
    default=Path(),
)
def command(output_dir: Path) -> int:
    """Record one step of a small model on this machine, judge it for CUDA, and report.

    No GPU is needed: what is recorded is which ops the step calls, and the tables know what each does there.
    """
    check_folder(output_dir)
    page, rows, trace = (output_dir / name for name in ("report.html", "report.csv", "step.trace.json"))
    with progress("recording a training step"):
        from tracer.bundled import make_training
        from tracer.session import DeterminismTracer, judge

        training = make_training()
        with DeterminismTracer(training.model, name="demo") as recorder:
            training.step()
        recorder.trace.save(trace)
    with progress("judging it for CUDA and writing the report"):
        report = judge(recorder.trace, backend="cuda")
        report.write(page)
        report.write(rows)
        text = report.to_text()
    show(text)
    show(
        f"\nOpen {page} in a browser; {rows} holds the same findings as rows.\n"
        f"The step is kept in {trace}. Judge it for another target:\n"
        f"  tracer report {trace} --backend npu\n"
        f"  tracer report {trace} --backend cuda --settings deterministic"
    )
    return 0
