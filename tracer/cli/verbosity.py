"""``--quiet`` and ``--verbose``: how much of a result a terminal is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tracer.errors import UsageError
from tracer.names import Detail

Function = TypeVar("Function", bound=Callable[..., Any])


def verbosity(command: Function) -> Function:
    """Adds both options to a command, which hands them to ``detail_of``."""
    quiet = click.option("-q", "--quiet", is_flag=True, help="Print the verdict and the counts alone.")
    verbose = click.option("-v", "--verbose", is_flag=True, help="Print every finding, why, and its evidence.")
    return quiet(verbose(command))


def detail_of(*, quiet: bool, verbose: bool) -> Detail:
    """What the two options ask for. Raises ``UsageError`` for both."""
    if quiet and verbose:
        raise UsageError("--quiet and --verbose exclude each other", hint="leave one out")
    return Detail.BRIEF if quiet else Detail.WHOLE if verbose else Detail.USUAL
