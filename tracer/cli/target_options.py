"""What one finding or one report is judged for: backend, version of torch and settings, as recorded by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tracer.cli import completing


def target_options(*, backend: str, torch: str, settings: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--backend``, ``--torch`` (``torch_version``) and ``--settings``, each with its help."""
    options = [
        _option("--backend", metavar="B", shell_complete=completing.backend, help=backend),
        _option("--torch", "torch_version", metavar="V", shell_complete=completing.release, help=torch),
        _option("--settings", metavar="S", shell_complete=completing.settings, help=settings),
    ]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):  # the last one that decorates is the first one of the help
            command = option(command)
        return command

    return decorate


def _option(*names: str, **how: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(*names, default="recorded", show_default=True, **how)
