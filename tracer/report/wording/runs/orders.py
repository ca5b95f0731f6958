"""What is said of additions that were made again in other orders."""

from __future__ import annotations

from collections.abc import Iterable

from tracer.findings import OrderSpread
from tracer.report.wording.words import plural

ORDERS = "How much the order could matter: an estimate"
LEAD = (
    "The kept data of these calls, added up in random orders on the CPU. An estimate: a device takes other orders, and "
    "what was not kept, or adds inside a kernel of another kind, is not listed."
)
NONE = "No finding's additions were kept."


def spread_words(spread: OrderSpread) -> str:
    """One finding's spread."""
    relative = "no difference" if not spread.ulp else f"about {spread.relative:.1e} of the largest element"
    steps = f", {spread.ulp:,} ulp at most" if spread.ulp else ""
    where = f" at {spread.location}" if spread.location else ""
    return f"{spread.op}{where}: {relative}{steps}, {spread.orders} orders of {plural(spread.calls, 'call')}"


def spreads_in_words(spreads: Iterable[OrderSpread]) -> list[str]:
    """Each finding's spread, widest first."""
    return [spread_words(spread) for spread in spreads]
