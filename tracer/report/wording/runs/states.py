"""What comparing says of a call, as a picture's legend and a table's heading spell it."""

from __future__ import annotations

from typing import NamedTuple

from tracer.divergence.model import State


class StateWords(NamedTuple):
    """A state in words."""

    label: str
    meaning: str


STATES = {
    State.AGREES: StateWords("agrees", "All that it read and wrote is the same in both runs."),
    State.ROOT: StateWords("root", "The runs part here."),
    State.FOLLOWS: StateWords("follows", "It differs only because a root before it did."),
    State.ONLY_FIRST: StateWords("only in run 1", "The other run does not make this call."),
    State.ONLY_SECOND: StateWords("only in the other run", "Run 1 does not make this call."),
    State.NOT_DIGESTED: StateWords("not known", "Its bytes were not digested, so nothing is said of it."),
}
