"""``tracer doctor``: this process's settings against the table, with no trace."""

from __future__ import annotations

from pathlib import Path

import click

from tracer.cli.options import DEVICES, files, option
from tracer.cli.output import check_writable, show, show_blocks
from tracer.errors import UsageError
from tracer.names import Backend, Verdict

FAILED = 1

EXAMPLES = """\b
Examples:
  tracer doctor
  tracer doctor --backend cuda
  tracer doctor --all
  tracer doctor --fail-on nondeterministic --format json
  tracer doctor --save here.doctor.json
  tracer diff here.doctor.json there.doctor.json

It speaks of the process that it runs in: of the shell's variables, and of torch as it is before a script changes
anything. What a script sets is seen by `tracer run`. Exit code 1: a setting has a verdict of --fail-on."""


@click.command("doctor", epilog=EXAMPLES)
@click.option("--backend", type=click.Choice(DEVICES), help="Check for this one, and not those torch was built for.")
@option("--fail-on", "V[,V]", "Verdicts that fail; by default none does.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
@option("--save", "FILE", "Keep what was read, for tracer diff with another machine's file.", shell_complete=files)
@click.option("--all", "all_settings", is_flag=True, help="List every setting, and what differs between machines.")
def command(backend: str | None, fail_on: str | None, form: str, save: str | None, all_settings: bool) -> int:
    """Check versions, devices and settings of this process against the table of settings.

    Each setting is judged as if every op that it affects had run. No device is initialized. Without torch, only
    environment variables and Python are checked. tracer diff compares what --save keeps on two machines.
    """
    failing: frozenset[Verdict] = frozenset()
    if fail_on is not None:
        from tracer.gate import NEW, parse_fail_on

        failing, new = parse_fail_on(fail_on)
        if new:
            raise UsageError(f"--fail-on: {NEW!r} needs a baseline", hint="`tracer check` has one")
    if save is not None:
        check_writable(Path(save))
    from tracer.doctor import diagnose, diagnosis_blocks, read_process
    from tracer.plain import json_text, say
    from tracer.report.words import plural
    from tracer.tables.rules import load_rows

    environment, outlook = read_process(None if backend is None else Backend(backend))
    diagnosis = diagnose(load_rows(), environment, outlook)
    if save is not None:
        from tracer import __version__
        from tracer.doctor.two_machines import save_machine

        save_machine(save, environment, outlook, version=__version__)
        say(f"tracer: {save} keeps {plural(len(diagnosis.settings), 'setting')}; tracer diff compares it with another")
    if form == "json":
        show(json_text(diagnosis))
    else:
        show_blocks(diagnosis_blocks(diagnosis, all_settings=all_settings))
    return FAILED if diagnosis.of(failing) else 0
