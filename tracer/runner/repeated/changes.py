"""What an order changes in the process of a run, before the script's first line, and in each process that it starts."""

from __future__ import annotations

import msgspec

from tracer.runner.repeated.circumstances.declared import Inside
from tracer.runner.repeated.circumstances.planned import make_before_the_script
from tracer.runner.repeated.circumstances.replacing import Replacements
from tracer.runner.repeated.task import Order


def change_circumstances(order: Order, role: str = "") -> None:
    """Make settings, and vary or hold circumstances in this process, the child ``role`` or the first one."""
    inside = Inside(Replacements(order.uses), order.began, order.planned, role=role)
    make_before_the_script(inside.replaced, order.settings)
    for change in (
        *(circumstance.held for circumstance in order.held),
        order.varied.varied if order.varied is not None else None,
    ):
        if change is not None and change.inside is not None:
            change.inside(inside)


def change_in_child(role: str, task: msgspec.Raw) -> None:
    """``change_circumstances`` in a child process that was not forked, as Python starts there."""
    change_circumstances(msgspec.json.decode(task, type=Order), role)
