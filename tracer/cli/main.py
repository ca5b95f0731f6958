"""The entry point: the group of subcommands, and the place that turns an error into a line and a code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

import click

from tracer import __version__
from tracer.cli.output import drop_output
from tracer.errors import TracerError, reason_of
from tracer.plain import one_line, say

#: Each subcommand's module, and the line that the group's help shows.
COMMANDS = {
    "demo": ("tracer.cli.demo", "Record and report a bundled training step."),
    "run": ("tracer.cli.run", "Run a training script and record what it does."),
    "repeat": ("tracer.cli.repeat", "Run a training script several times and say where the runs diverge."),
    "resume": ("tracer.cli.resume", "Run a script whole, interrupted and resumed: does it go on bit for bit?"),
    "compare": ("tracer.cli.compare", "Run a script in two configurations: rounding, or a fault, and where."),
    "report": ("tracer.cli.report", "Say what a trace means for a backend, a torch version and settings."),
    "check": ("tracer.cli.check", "Fail when a trace holds findings that nobody accepted."),
    "diff": ("tracer.cli.diff", "Say what changed between two traces, or two targets of one."),
    "repro": ("tracer.cli.repro", "Write a program that makes one finding's call again."),
    "explain": ("tracer.cli.explain", "Say what the tables know of an op, an API, a rule or a setting."),
    "doctor": ("tracer.cli.doctor", "Check this process's settings, with no trace."),
    "tables": ("tracer.cli.tables", "List, show and prove the determinism tables."),
}

EXAMPLES = """\b
Examples:
  tracer demo
  tracer run --steps 0:3 train.py --epochs 1
  tracer report trace.json --backend cuda -o report.html"""


class LazyGroup(click.Group):
    """The group of ``COMMANDS``, each imported only to run it: ``--help`` costs what click costs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, summary = COMMANDS[cmd_name]
        command: click.Command = import_module(module).command
        command.short_help = summary
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXAMPLES, no_args_is_help=False
)
@click.version_option(__version__, prog_name="tracer", message="%(prog)s %(version)s")
def tracer() -> None:
    """Find the ops that can make two runs of a PyTorch training step differ, and what to change.

    A step is recorded once, on any machine, into a trace. A trace is judged for any backend, torch version
    and settings.
    """


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 clean, 1 a gate failed, 2 wrong usage or input, 3 a partial trace."""
    if "_TRACER_COMPLETE" in os.environ:
        tracer.main(prog_name="tracer")
    try:
        code = _invoke(list(sys.argv[1:] if args is None else args))
        with suppress(ValueError, AttributeError):  # the script that ran may have closed or replaced it
            sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
        code = 141  # as a shell has it of a program whose reader went away (``tracer report ... | head``)
    except OSError as problem:  # what the script printed
        drop_output()
        code = _refuse(f"cannot write standard output: {reason_of(problem)}", code or 120)  # Python's own code
    if code < 0:
        from tracer.runner.interrupts import end_by

        end_by(-code)
    sys.exit(code)


def _invoke(args: list[str]) -> int:
    """Run one subcommand and return the exit code; what it refuses becomes one line on standard error."""
    try:
        with tracer.make_context("tracer", args) as context:
            return int(tracer.invoke(context) or 0)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.UsageError as problem:
        where = problem.ctx.command_path if problem.ctx else "tracer"
        return _refuse(f"{problem.format_message().rstrip('.')}; see `{where} --help`", problem.exit_code)
    except click.ClickException as problem:
        return _refuse(problem.format_message(), 2)
    except TracerError as problem:
        return _refuse(str(problem), problem.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return _refuse("interrupted", -signal.SIGINT)  # the signal that this process then dies of, as Python does
    except BrokenPipeError:
        raise
    except OSError as problem:
        if isinstance(problem.filename, (str, bytes)):
            return _refuse(f"cannot use {os.fsdecode(problem.filename)}: {reason_of(problem)}; check the path", 2)
        drop_output()  # click's help has nowhere to go
        return _refuse(f"cannot read or write: {reason_of(problem)}; check the disk and where output goes", 2)
    except Exception as problem:
        if os.environ.get("TRACER_DEBUG") == "1":
            raise
        said = f"{type(problem).__name__}: {problem}"
        return _refuse(f"internal error, please report it ({said}); TRACER_DEBUG=1 shows where", 2)


def _refuse(message: str, code: int) -> int:
    say(f"tracer: error: {one_line(message)}")
    return code
