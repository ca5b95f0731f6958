"""From a name as people write it to the rows of the table of settings: an id, a setting, a variable, an API."""

from __future__ import annotations

from tracer.tables.lookup import names_of, spelled
from tracer.tables.settings.rows import EnvironmentTable, Row


def find_rows(text: str, table: EnvironmentTable) -> tuple[Row, ...]:
    """The rows that ``text`` names: the one of that id, else those whose setting it spells, whole or from a dot on.

    ``cudnn.benchmark`` stands for ``torch.backends.cudnn.benchmark``; variables are told apart by their letters alone.
    """
    by_id = tuple(row for row in table.row if row.id == text.strip())
    if by_id:
        return by_id
    wanted = _loose(spelled(text))
    whole = tuple(row for row in table.row if wanted in map(_loose, names_of(row)))
    if whole or "." not in wanted:
        return whole
    return tuple(row for row in table.row if any(_end_alike(_loose(name), wanted) for name in names_of(row)))


def _end_alike(name: str, wanted: str) -> bool:
    return name.endswith(f".{wanted}") or ("." not in name and wanted.endswith(f".{name}"))


def _loose(name: str) -> str:
    return name.strip().lower()
