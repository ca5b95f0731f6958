"""``tracer compare``: a training script in two configurations: rounding, or a fault, and where it begins."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracer.cli.options import check_script, folder_options, option, script_options, words
from tracer.cli.output import check_folder, show_blocks
from tracer.errors import UsageError
from tracer.plain import say

if TYPE_CHECKING:
    from tracer.runner.script import Task

EXAMPLES = """\b
Examples:
  tracer compare --a "--attention eager" --b "--attention sdpa" train.py
  tracer compare --b "--dtype bfloat16" --steps 0:2 --exit-after-steps train.py
  tracer compare --env-b OMP_NUM_THREADS=1 --format text,html train.py
  tracer compare --python-b ../torch-2.14/bin/python train.py --epochs 1

Exit code 0: they are equal, or differ by rounding alone. 1: somewhere by more
than rounding explains. 3: undecided, or a recording is not whole."""


def _variables(name: str, pairs: tuple[str, ...]) -> dict[str, str]:
    for pair in pairs:
        if not pair.partition("=")[1] or pair.startswith("="):
            raise UsageError(f"{name} {pair!r} is no variable", hint="write NAME=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


def _python(name: str, path: str) -> str:
    interpreter = shutil.which(path)
    if interpreter is None:
        raise UsageError(f"{name} {path} is no program", hint="name a Python interpreter")
    return os.path.abspath(interpreter)


@click.command("compare", context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@option("--a first", "ARGS", "Arguments of the first configuration alone, as one word.", default="", read=words)
@option("--b second", "ARGS", "Arguments of the second configuration alone, as one word.", default="", read=words)
@option("--env-a first_variables", "K=V", "A variable of the first configuration.", multiple=True, read=_variables)
@option("--env-b second_variables", "K=V", "A variable of the second configuration.", multiple=True, read=_variables)
@option("--python-b python", "PATH", "Another environment's interpreter for the second configuration.", read=_python)
@option(
    "--yardstick-runs",
    "N",
    "Shaken runs of the first configuration.",
    type=click.IntRange(min=1, max=100),
    default=3,
    show_default=True,
)
@click.option("--children/--no-children", default=None, help="Compare the Python processes that SCRIPT starts too.")
@folder_options("compare")
@script_options
def command(
    task: Task,
    first: tuple[str, ...],
    second: tuple[str, ...],
    first_variables: dict[str, str],
    second_variables: dict[str, str],
    python: str | None,
    yardstick_runs: int,
    children: bool | None,
    folder: Path,
    formats: list[str],
) -> int:
    """Run SCRIPT in two configurations, and say whether their difference is rounding, and where it begins if not.

    The first configuration runs a few times more, with each result changed by up to half a unit in the last place: how
    far the places of the step move then is what rounding does to it. Options before SCRIPT are the tracer's, all after
    it are the script's, in both configurations.
    """
    from tracer.runner.configurations import AskedConfigurations, SideOptions, compare_script
    from tracer.runner.repeated.launching import ENDING

    check_script(task)
    one = SideOptions(args=first, variables=first_variables)
    other = SideOptions(args=second, variables=second_variables, python=python or sys.executable)
    if one == other:
        raise UsageError(
            "both configurations are the same",
            hint='say what differs: --b "--dtype bfloat16", --env-b K=V or --python-b PATH; for one configuration, '
            "tracer repeat",
        )
    check_folder(folder)
    with ENDING.handling_signals():
        comparison = compare_script(AskedConfigurations(task, one, other, folder, yardstick_runs, children))
        from tracer.report.compared import code_of, write_comparison
        from tracer.report.render.terminal import READER
        from tracer.report.sections.configurations import configuration_blocks

        written = write_comparison(comparison, folder, [word for word in formats if word != "text"], task.target)
        if "text" in formats:
            show_blocks(configuration_blocks(comparison, READER))
        say(f"tracer: wrote {', '.join(map(str, written)) if written else f'recordings in {folder}'}")
        return code_of(comparison)
