"""Sets of calls made up to test the tables: when each was written, and whether a rule had seen it by then."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Made:
    """When a set was made, and how much its first figures could mean."""

    suite: str
    """The name under which recordings of it are kept (``tests/data/dispatched``)."""
    date: str
    unseen: bool
    """No rule had been written or mended by any of its calls when the tables were first judged by it."""
    about: str


#: Whoever mends a rule because of a call writes a new set, so that the figures go on meaning something. How the tables
#: did on each at first sight stands in the documentation's page on CUDA builds; since then rules were mended by them.
FIRST = Made("calls", "2026-11-22", True, "parameters that torch's database of operators lacks; after the rules")
SECOND = Made("later", "2026-11-22", True, "after the rules had been mended by the first")
THIRD = Made("unseen", "2026-11-22", True, "by someone who had read neither the tables nor what a build does")
FOURTH = Made(
    "fresh",
    "2026-11-22",
    True,
    "by reach: ops below the public API, in place, into given results and by lists; seldom dtypes; whole algorithms",
)
FIFTH = Made("last", "2026-11-22", True, "public functions in the shapes, dtypes and switches of training scripts")
SIXTH = Made(
    "sixth",
    "2026-11-22",
    True,
    "what a user's own code calls, page by page of torch's documentation; recorded before anybody looked at a verdict",
)
SETS = (FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH)
