"""Long lists of cases: some of them in every run, all of them in ``make test-all``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest


def slow_unless(kept: Collection[Any] | Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """Every case for ``parametrize``, slow where it is not ``kept``; a plain tuple is a case of several.

    ``ValueError`` where none is kept: a test that no run makes is none.
    """
    every = list(cases)
    keeps = [kept(case) if callable(kept) else case in kept for case in every]
    if not any(keeps):
        raise ValueError("no case is left for every run")
    spread = [case if type(case) is tuple else (case,) for case in every]
    slow = pytest.mark.slow
    return [pytest.param(*values, marks=() if keep else slow) for values, keep in zip(spread, keeps, strict=True)]
