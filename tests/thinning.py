"""Long lists of cases: some of each in every run, all of them in ``make test-all``; very many tiny ones in one test."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

Check = Callable[..., None]


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
    """How many examples a property is tried on: ``wanted`` in ``make test-all``, a quarter of them in every run."""
    return max(10, wanted * settings.default.max_examples // 100)


def every(cases: Iterable[Any], named: Callable[..., str] | None = None) -> Callable[[Check], Callable[[], None]]:
    """In place of ``parametrize``: one test that checks every case, and names each that fails.

    A test costs more than many a case. ``named`` says what a case is called, where it is no ``pytest.param`` with an
    ``id`` and ``str`` does not say it. A case that skips says nothing.
    """
    kept = [_Case.of(case, named) for case in cases]
    if not kept:
        raise ValueError("no case")

    def made(check: Check) -> Callable[[], None]:
        def test() -> None:
            wrong = []
            for case in kept:
                try:
                    check(*case.values)
                except pytest.skip.Exception:
                    continue
                except Exception as error:
                    wrong.append(f"{case.name}: {type(error).__name__}: {error}")
            assert not wrong, "\n".join(wrong)

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return made


class _Case(NamedTuple):
    name: str
    values: tuple[Any, ...]

    @classmethod
    def of(cls, case: Any, named: Callable[..., str] | None) -> _Case:
        is_param = hasattr(case, "marks") and hasattr(case, "values")
        values = tuple(case.values) if is_param else case if type(case) is tuple else (case,)
        if named is not None:
            return cls(named(*values), values)
        return cls(str(case.id) if is_param and case.id else ", ".join(map(str, values)), values)
