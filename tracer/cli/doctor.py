"""``tracer doctor``: this process's settings against the table, with no trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tracer.cli import completing
from tracer.cli.output import show
from tracer.errors import UsageError
from tracer.names import Backend, Verdict

if TYPE_CHECKING:
    from tracer.doctor import Diagnosis

FAILED = 1
FORMATS = ("text", "json")
BACKENDS = tuple(backend.value for backend in Backend if backend is not Backend.RECORDED)

EXAMPLES = """\b
Examples:
  tracer doctor
  tracer doctor --backend cuda
  tracer doctor --all
  tracer doctor --fail-on nondeterministic --format json

It speaks of the process that it runs in: of the shell's variables, and of torch as it is before a script changes
anything. What a script sets is seen by `tracer run`. Exit code 1: a setting has a verdict of --fail-on."""


@click.command("doctor", epilog=EXAMPLES, short_help="Check this process's settings, with no trace.")
@click.option(
    "--backend",
    metavar="B",
    shell_complete=completing.device,
    help=f"Check for {', '.join(BACKENDS)}; by default those that torch was built for.",
)
@click.option(
    "--fail-on",
    metavar="V[,V]",
    shell_complete=completing.verdicts,
    help="Verdicts that fail; by default none does.",
)
@click.option(
    "--format",
    "form",
    default="text",
    show_default=True,
    metavar="F",
    shell_complete=completing.words(lambda: FORMATS),
    help="text or json.",
)
@click.option("--all", "all_settings", is_flag=True, help="List every setting, and what differs between machines.")
def command(backend: str | None, fail_on: str | None, form: str, all_settings: bool) -> int:
    """Check versions, devices and settings of this process against the table of settings.

    Each setting is judged as if every op that it bears on had run. No device is started. Where torch is missing,
    environment variables and Python are checked alone.
    """
    if backend is not None and backend not in BACKENDS:
        raise UsageError(f"there is no backend {backend!r}", hint=f"choose from {', '.join(BACKENDS)}")
    if form not in FORMATS:
        raise UsageError(f"there is no format {form!r}", hint=f"choose from {', '.join(FORMATS)}")
    failing = _verdicts(fail_on)
    from tracer.doctor import diagnose
    from tracer.doctor.installation import read_process
    from tracer.tables.settings.rows import load_rows

    environment, outlook = read_process(None if backend is None else Backend(backend))
    diagnosis = diagnose(load_rows(), environment, outlook)
    show(_rendered(diagnosis, form, all_settings=all_settings))
    return FAILED if diagnosis.of(failing) else 0


def _rendered(diagnosis: Diagnosis, form: str, *, all_settings: bool) -> str:
    if form == "json":
        from tracer.doctor import as_json

        return as_json(diagnosis)
    from tracer.doctor.text import diagnosis_parts
    from tracer.report.render.terminal import printed

    return printed(lambda width: diagnosis_parts(diagnosis, width, all_settings=all_settings))


def _verdicts(text: str | None) -> frozenset[Verdict]:
    if text is None:
        return frozenset()
    from tracer.gate.gating import NEW, parse_fail_on

    verdicts, new = parse_fail_on(text)
    if new:
        raise UsageError(f"--fail-on: {NEW!r} needs a baseline", hint="`tracer check` has one")
    return verdicts
