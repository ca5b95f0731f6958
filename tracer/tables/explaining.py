"""What the tables say about an op, a rule or an API for one version of torch, without a trace."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from tracer.errors import TargetError, UsageError
from tracer.names import SEVERITY, Backend, DeterministicMode, Settings, Verdict
from tracer.tables.conditions import Conditions, disjoint, wanted_values, with_forward
from tracer.tables.lookup import find_rules, find_translations, is_rule_id, is_torchs, refusal, spelled
from tracer.tables.rules import Case, Cased, Rule, Table
from tracer.tables.settings.declared import FORWARD, MODE
from tracer.tables.settings.target_settings import settings_of
from tracer.tables.translation import NO_TRANSLATIONS, Translation, Translations
from tracer.tables.versions import RELEASES, placed, release, reviewed_releases, speaks_of
from tracer.tables.vocabulary import DOMAINS
from tracer.trace.records import Environment

#: torch's default settings. The number of threads has no default.
_DEFAULTS = with_forward(settings_of(Environment(python="", platform="", torch=""), Settings.DEFAULT))


class VerdictRow(NamedTuple):
    """A set of calls that have the same verdicts, in each state of deterministic mode."""

    when: Conditions
    """Facts and settings, joined by AND; the values of each by OR. Empty for every call."""
    off: Verdict
    warn: Verdict
    on: Verdict
    notes: tuple[str, ...] = ()
    """The cases' additions to the rule's ``why``."""
    route: str = ""
    """The replacement of the op in deterministic mode, if any; see ``Case.route``."""

    @property
    def verdicts(self) -> tuple[Verdict, Verdict, Verdict]:
        """With the mode off, in ``warn_only``, and on."""
        return self.off, self.warn, self.on


class VersionSpan(NamedTuple):
    """Adjacent versions for which a rule says the same."""

    first: str
    last: str
    rows: tuple[VerdictRow, ...]

    @property
    def as_is(self) -> tuple[Verdict, ...]:
        """The verdicts that a call can have under torch's default settings, worst first."""
        return _at_defaults(self.rows, 0)

    @property
    def in_mode(self) -> tuple[Verdict, ...]:
        """The same with deterministic mode on and all other settings at torch's defaults."""
        return _at_defaults(self.rows, 2)


class Explanation(NamedTuple):
    """One backend's table on a name, for one version."""

    backend: Backend
    version: str
    """The requested release, ``2.13.0``."""
    place: str
    """The version's place among the reviewed ones; see ``tables.versions.placed``."""
    table: Table
    rules: tuple[tuple[Rule, VersionSpan | None], ...]
    """Rules with the span that contains the version; ``None`` if the table was not reviewed for it."""
    becomes: tuple[Translation, ...]
    """Translations of the op, if recorded on a CPU, to the ops that run here; the rules are for both."""
    is_torchs: bool
    """Whether it is a name of torch's own. Then, without a rule, the kind of the table's list decides."""


def explain(
    text: str,
    tables: Mapping[Backend, Table],
    version: str,
    backends: Collection[Backend] | None = None,
    translations: Translations = NO_TRANSLATIONS,
) -> list[Explanation]:
    """Explain an op, a rule's id or an API by the tables of ``backends`` (``None`` for all), for a torch version.

    A table without a rule for the name answers too if another one has a rule; a rule's id is looked up in its own
    table only. Raises ``UsageError`` with the nearest names if no table knows ``text``, ``TargetError`` for an invalid
    version.
    """
    try:
        wanted = release(version)
    except ValueError as problem:
        raise TargetError(f"torch version {problem}", hint="write a release such as 2.13") from problem
    rules_by_backend, becomes = find_rules(text, tables), find_translations(text, tables, translations)
    if not rules_by_backend and not becomes:
        raise refusal(text, tables)
    asked = [b for b in (rules_by_backend if is_rule_id(text, tables) else tables) if backends is None or b in backends]
    if not asked:
        holding = ", ".join(map(str, rules_by_backend))
        raise UsageError(f"{text!r} is a rule of another table", hint=f"ask for {holding}")
    its_own = is_torchs(spelled(text))
    return [
        _explanation(tables[backend], rules_by_backend.get(backend, ()), wanted, becomes.get(backend, ()), its_own)
        for backend in asked
    ]


def spans(rule: Cased, reviewed: str) -> tuple[VersionSpan, ...]:
    """The rule's history: adjacent versions with the same answers merged, oldest first."""
    history: list[VersionSpan] = []
    before: list[Case] = []
    for version in reviewed_releases(reviewed):
        live = [case for case in rule.case if speaks_of(case.torch, version)]
        if history and (live == before or _answers(history[-1].rows) == _answers(_rows(live))):
            history[-1] = history[-1]._replace(last=version)
        else:
            history.append(VersionSpan(version, version, _rows(live)))
        before = live
    return tuple(history)


def _rows(live: list[Case]) -> tuple[VerdictRow, ...]:
    """Intersections of the cases for each state of the mode; equal rows are merged.

    The forward of a backward call is taken to have run in the same state.
    """
    modes = (MODE, FORWARD + MODE)
    asked = [(case, {key: wanted_values(case, key) for key in case.when if key not in modes}) for case in live]
    offs, warns, ons = (
        [*disjoint((case, when) for case, when in asked if all(mode in wanted_values(case, key) for key in modes))]
        for mode in map(str, DeterministicMode)
    )
    rows: list[VerdictRow] = []
    for (off, when_off), (warn, when_warn) in product(offs, warns):
        met = _meet(when_off, when_warn)
        for on, when_on in ons if met is not None else ():
            if (when := _meet(met or {}, when_on)) is not None:
                notes = tuple(dict.fromkeys(case.why for case in (off, warn, on) if case.why))
                rows.append(VerdictRow(when, off.verdict, warn.verdict, on.verdict, notes, on.route))
    return tuple(_joined(rows))


def _explanation(
    table: Table, rules: tuple[Rule, ...], version: str, becomes: tuple[Translation, ...], its_own: bool
) -> Explanation:
    place = placed(table.reviewed, version)
    minors = reviewed_releases(table.reviewed)
    minor = minors[-1] if place == "newer" else ".".join(version.split(".")[:2])
    at = RELEASES.index(minor) if minor in RELEASES else -1
    becomes = tuple(replace(row, becomes=tuple(c for c in row.becomes if speaks_of(c.torch, minor))) for row in becomes)
    candidates = (table.find(candidate.op) for row in becomes for candidate in row.becomes if candidate.op)
    there = [rule for rule in candidates if rule is not None]
    explained: list[tuple[Rule, VersionSpan | None]] = []
    for rule in {rule.id: rule for rule in (*rules, *there)}.values():
        history = spans(rule, table.reviewed_for(rule)) if place in ("reviewed", "newer") else ()
        holding = (span for span in history if RELEASES.index(span.first) <= at <= RELEASES.index(span.last))
        explained.append((rule, next(holding, None)))
    return Explanation(table.backend, version, place, table, tuple(explained), becomes, its_own)


def _answers(rows: tuple[VerdictRow, ...]) -> list[tuple[Conditions, tuple[Verdict, ...]]]:
    return [(row.when, row.verdicts) for row in rows]


def _at_defaults(rows: tuple[VerdictRow, ...], column: int) -> tuple[Verdict, ...]:
    defaults = (row for row in rows if all(_DEFAULTS[key] in row.when[key] for key in row.when if key in _DEFAULTS))
    verdicts = {row.verdicts[column] for row in defaults}
    return tuple(verdict for verdict in SEVERITY if verdict in verdicts)


def _meet(first: Conditions, second: Conditions) -> Conditions | None:
    """The intersection of both conditions; ``None`` if it is empty."""
    met = {**first, **{key: first.get(key, values) & values for key, values in second.items()}}
    return met if all(met.values()) else None


def _joined(rows: list[VerdictRow]) -> list[VerdictRow]:
    """Rows with equal verdicts that differ in one condition, merged."""
    rows = list(rows)
    while pair := next(_neighbours(rows), None):
        first, second, key = pair
        values = rows[first].when[key] | rows[second].when[key]
        when = {**rows[first].when, key: values}
        if len(values) == len(DOMAINS[key]):
            del when[key]
        notes = tuple(dict.fromkeys((*rows[first].notes, *rows[second].notes)))
        rows[first] = rows[first]._replace(when=when, notes=notes)
        del rows[second]
    return rows


def _neighbours(rows: list[VerdictRow]) -> Iterator[tuple[int, int, str]]:
    for first, row in enumerate(rows):
        for second in range(first + 1, len(rows)):
            below = rows[second]
            if (row.verdicts, row.route) != (below.verdicts, below.route) or row.when.keys() != below.when.keys():
                continue
            differing = [key for key, values in row.when.items() if below.when[key] != values]
            if len(differing) == 1:
                yield first, second, differing[0]
