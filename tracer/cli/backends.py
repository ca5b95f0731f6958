"""From ``--backend`` to the tables that it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracer.errors import UsageError
from tracer.names import Backend

if TYPE_CHECKING:
    from tracer.tables.rules import Table


def chosen(backend: str | None) -> Mapping[Backend, Table]:
    """The table of ``backend``, or every table where none is named, with what compilers make of ops there.

    Raises ``UsageError`` in one line.
    """
    from tracer.tables.compilers import with_compiled
    from tracer.tables.loading import existing_tables, load_table, load_tables

    if backend is None:
        return with_compiled(load_tables())
    if backend not in map(str, existing_tables()):
        known = ", ".join(map(str, existing_tables()))
        raise UsageError(f"there is no table for {backend!r}", hint=f"tables exist for {known}")
    return with_compiled({Backend(backend): load_table(Backend(backend))})
