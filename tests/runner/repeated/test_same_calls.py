"""When a run with a circumstance held still is the same program: by the calls that it makes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.support.build import call
from tracer.runner.repeated.holding import makes_calls_of
from tracer.trace.values import Values


def values(ops: str) -> Values:
    """The values of a run whose calls are of these ops, a letter each; an upper one stands at the line of the lower."""
    groups = [call(op=f"aten.{letter}.default", location=f"{letter.lower()}.py:1") for letter in sorted(set(ops))]
    numbers = np.array([sorted(set(ops)).index(letter) for letter in ops])
    return cast(Values, cast(Any, SimpleNamespace(groups=groups, group=numbers)))


@pytest.mark.parametrize(
    ("held", "unheld", "is_same"),
    [
        ("abc", ("abc", "abc"), True),
        ("acb", ("abc", "abc"), True),
        ("abbbc", ("abc", "abbc"), True),
        ("ab", ("abc", "abc"), False),
        ("abcd", ("abc", "abc"), False),
        ("abe", ("abc", "abd"), True),
        ("aBe", ("abc", "abd"), True),
        ("ae", ("abc", "abd"), False),
    ],
    ids=[
        "same",
        "reordered",
        "other counts",
        "fewer kinds",
        "more kinds",
        "kinds vary",
        "others at their lines",
        "lacks what is shared",
    ],
)
def test_a_run_makes_the_calls_of_others(held: str, unheld: tuple[str, ...], is_same: bool) -> None:
    assert makes_calls_of(values(held), [values(ops) for ops in unheld]) is is_same
