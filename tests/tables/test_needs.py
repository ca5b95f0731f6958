"""A remedy that says that it works under deterministic mode alone says so as a field, too."""

from __future__ import annotations

import re

import pytest

from tracer.names import Backend, Prerequisite
from tracer.tables.loading import load_tables
from tracer.tables.rules import Case, Rule

#: An edit under the mode; not the advice to switch the mode on, which is a setting, or to do one or the other.
UNDER_THE_MODE = re.compile(
    r"(?<!, or) with deterministic mode on|(?<!or) `[^`]*`,? (which|whose gradient) deterministic"
)


@pytest.mark.parametrize("backend", load_tables(), ids=str)
def test_what_works_under_the_mode_alone_needs_it(backend: Backend) -> None:
    table = load_tables()[backend]
    speaking: list[Rule | Case] = [*table.rule, *table.libraries]
    speaking += [case for rule in (*table.rule, *table.libraries) for case in rule.case]
    silent = [
        one.remedy
        for one in speaking
        if UNDER_THE_MODE.search(one.remedy) and Prerequisite.DETERMINISTIC_MODE not in one.needs
    ]
    assert silent == []
    if backend is Backend.CUDA:
        assert sum(bool(UNDER_THE_MODE.search(one.remedy)) for one in speaking) > 5
