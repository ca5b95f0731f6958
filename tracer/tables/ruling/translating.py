"""Translations bound to one target: which ops a recorded call may run as there.

Three-valued like the rules: a candidate is out only where a fact or a setting that is known contradicts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from tracer.names import Backend
from tracer.tables.ruling.conditions import may_hold, wanted_values
from tracer.tables.translation import STAYS, Candidate, Note, Translation, Translations
from tracer.tables.versions import speaks_of
from tracer.tables.vocabulary import SETTINGS, UNNOTED, Value, in_domain


class _Choice(NamedTuple):
    """A candidate with version and settings already answered: what is left to ask of a call."""

    candidate: Candidate
    asks: tuple[tuple[str, frozenset[Value]], ...]

    def is_open(self, facts: Mapping[str, Value]) -> bool:
        """Whether no known fact contradicts it. A value outside the vocabulary counts as not recorded."""
        for key, wanted in self.asks:
            value = facts.get(key, UNNOTED.get(key))
            if value is not None and value not in wanted and in_domain(key, value):
                return False
        return True


class BoundTranslation:
    """One row for one version, as things stand and in deterministic mode."""

    def __init__(self, row: Translation, op: str, version: str, settings: Mapping[str, Value]) -> None:
        """``op`` is the recorded overload."""
        self.row = row
        self._as_is = tuple(_choices(row, op, version, settings))
        self._mode_on = tuple(_choices(row, op, version, {**settings, "deterministic_mode": "on"}))
        choices = (*self._as_is, *self._mode_on)
        self.facts = tuple(dict.fromkeys(key for choice in choices for key, _ in choice.asks))
        """Facts that can matter, in a fixed order."""
        self.ops = tuple(dict.fromkeys(choice.candidate.op for choice in choices if choice.candidate.op))
        """Every op that can come out of it."""

    def candidates(self, facts: Mapping[str, Value]) -> tuple[tuple[Candidate, ...], tuple[Candidate, ...]]:
        """What a call with ``facts`` may run as: as things stand, and in deterministic mode."""
        as_is, in_mode = (
            tuple(choice.candidate for choice in choices if choice.is_open(facts))
            for choices in (self._as_is, self._mode_on)
        )
        return as_is, in_mode


class Translator:
    """The rows that speak of one target, found by recorded op."""

    def __init__(self, table: Translations, backend: Backend, version: str, settings: Mapping[str, Value]) -> None:
        self._version = version
        self._settings = settings
        self._rows = {op: row for row in table.translation if backend in row.to for op in row.ops}
        self._notes = {op: note for note in table.note if backend in note.to for op in note.seen}
        self.notes: dict[str, Note] = {}
        """Notes whose ops were met, by id."""

    def row_of(self, op: str) -> BoundTranslation | None:
        """The row for a recorded overload: one that names it, else one that names its packet. Ask once an op."""
        packet = op.rpartition(".")[0]
        note = self._notes.get(op) or self._notes.get(packet)
        if note is not None:
            self.notes[note.id] = note
        row = self._rows.get(op) or self._rows.get(packet)
        return None if row is None else BoundTranslation(row, op, self._version, self._settings)


def _choices(row: Translation, op: str, version: str, settings: Mapping[str, Value]) -> Iterator[_Choice]:
    for named in row.becomes:
        candidate = replace(named, op=op) if named.op == STAYS else named
        if speaks_of(candidate.torch, version) and may_hold(candidate, settings):
            asks = tuple((key, wanted_values(candidate, key)) for key in candidate.when if key not in SETTINGS)
            yield _Choice(candidate, asks)
