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


@click.command("demo", epilog=EXAMPLES, short_help="Record and report a bundled training step.")
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
    with progress("recording a training step"):
        from tracer.bundled.training_step import make_training
        from tracer.session import DeterminismTracer, judge

        training = make_training()
        with DeterminismTracer(training.model, name="demo") as recorder:
            training.step()
        recorder.trace.save(output_dir / "step.trace.json")
    with progress("judging it for CUDA and writing the report"):
        report = judge(recorder.trace, backend="cuda")
        report.write(output_dir / "report.html")
        report.write(output_dir / "report.csv")
        text = report.to_text()
    show(text)
    page, trace = output_dir / "report.html", output_dir / "step.trace.json"
    show(
        f"\nOpen {page} in a browser; {output_dir / 'report.csv'} holds the same findings as rows.\n"
        f"The step is kept in {trace}. Judge it for another target:\n"
        f"  tracer report {trace} --backend npu\n"
        f"  tracer report {trace} --backend cuda --settings deterministic"
    )
    return 0
