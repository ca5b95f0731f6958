"""Long lists of cases: some of each in every run, all of them in ``make test-all``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings


def thinned(cases: Iterable[Any], kept: Collection[Any] | Callable[[Any], bool]) -> list[Any]:
    """Every case for ``parametrize``, slow where it is not ``kept``; a tuple is a case of several arguments.

    ``ValueError`` where none is kept: a test that no run makes is none.
    """
    every = list(cases)
    keeps = [kept(case) if callable(kept) else case in kept for case in every]
    if not any(keeps):
        raise ValueError("no case is left for every run")
    spread = [case if isinstance(case, tuple) else (case,) for case in every]
    slow = pytest.mark.slow
    return [pytest.param(*one, marks=() if keep else slow) for one, keep in zip(spread, keeps, strict=True)]


def examples(wanted: int) -> int:
    """How many examples a property is tried on: ``wanted`` in ``make test-all``, a third of them in every run."""
    return max(10, wanted * settings.default.max_examples // 100)
