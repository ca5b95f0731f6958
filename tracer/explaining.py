"""What the tables say of a name: an op, a rule or an API, for one version of torch, without any trace.

A trace asks about a call; a reader asks about a name. Several rules of one table may answer, because one API
reaches several ops; each is explained with what its verdict hangs on and with the versions at which it changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from itertools import product
from typing import NamedTuple

from tracer.errors import TargetError, UsageError
from tracer.names import SEVERITY, Backend, DeterministicMode, Settings, Verdict
from tracer.tables.conditions import wanted_values
from tracer.tables.model import Case, Rule, Table
from tracer.tables.settings import settings_of
from tracer.tables.versions import placed, release, reviewed_releases, speaks_of
from tracer.tables.vocabulary import DOMAINS, DTYPE_CLASSES, Value
from tracer.trace.model import Environment

_MODE = "deterministic_mode"

#: torch's own settings, as they are when nobody touched them; the number of threads is nobody's default.
_NOBODYS = Environment(python="", platform="", torch="")
_DEFAULTS: Mapping[str, Value] = {
    key: value for key, value in settings_of(_NOBODYS, Settings.DEFAULT).items() if key != _MODE
}

#: What people type, and what documents write.
_SHORT = (("torch.ops.", ""), ("F.", "torch.nn.functional."), ("nn.", "torch.nn."), ("Tensor.", "torch.Tensor."))

Conditions = dict[str, frozenset[Value]]


class Row(NamedTuple):
    """A set of calls on which the verdicts agree, in each state of deterministic mode."""

    when: Conditions
    """Facts and settings, joined by AND; the values of each by OR. Empty: every call."""
    off: Verdict
    warn: Verdict
    on: Verdict
    notes: tuple[str, ...] = ()
    """What the cases themselves add to the rule's ``why``."""

    @property
    def verdicts(self) -> tuple[Verdict, Verdict, Verdict]:
        """With the mode off, in ``warn_only``, and on."""
        return self.off, self.warn, self.on


class Span(NamedTuple):
    """Neighbouring versions between which nothing of a rule changed."""

    first: str
    last: str
    rows: tuple[Row, ...]

    @property
    def as_is(self) -> tuple[Verdict, ...]:
        """The verdicts that a call can have under torch's default settings, worst first."""
        return _at_defaults(self.rows, 0)

    @property
    def mode_on(self) -> tuple[Verdict, ...]:
        """The same with deterministic mode on and every other setting as torch has it."""
        return _at_defaults(self.rows, 2)


class Explanation(NamedTuple):
    """What one backend's table says of a name for one version."""

    backend: Backend
    version: str
    """The release that was asked for, ``2.13.0``."""
    place: str
    """Where that lies against what the table was reviewed for; see ``tables.versions.placed``."""
    table: Table
    rules: tuple[tuple[Rule, Span | None], ...]
    """Rules with the span that holds the version; ``None`` where the table was not reviewed for it."""


def explain(
    text: str, tables: Mapping[Backend, Table], version: str, backends: Collection[Backend] | None = None
) -> list[Explanation]:
    """What the tables of ``backends`` (of all where it is ``None``) say of an op, a rule's id or an API.

    ``text`` is spelt as people spell it, and ``version`` is a torch version. A table that has no rule for a name
    answers too, as long as another one knows the name; a rule's id is a question to its own table. Raises
    ``UsageError`` in one line, with the names nearest to ``text``, where no table knows it, and ``TargetError`` for
    a version that is none.
    """
    try:
        wanted = release(version)
    except ValueError as problem:
        raise TargetError(f"torch version {problem}", hint="write a release such as 2.13") from problem
    found = find_rules(text, tables)
    if not found:
        raise refusal(text, tables)
    asked = [b for b in (found if is_rule_id(text, tables) else tables) if backends is None or b in backends]
    if not asked:
        known = ", ".join(map(str, found))
        raise UsageError(f"{text!r} is a rule of another table", hint=f"ask for {known}")
    return [_explanation(tables[backend], found.get(backend, ()), wanted) for backend in asked]


def find_rules(text: str, tables: Mapping[Backend, Table]) -> dict[Backend, tuple[Rule, ...]]:
    """The rules that ``text`` names, by backend, libraries' rules last; a backend without one is left out."""
    names: Callable[[Rule, str], bool]
    if is_rule_id(text, tables):
        name, names = text.strip(), _is
    else:
        name = spelled(text)
        names = _names_op if name.partition(".")[0] in _namespaces(tables) else _names_api
    found = {
        backend: tuple(rule for rule in rules_of(table) if names(rule, name) and _stands(rule, table, name))
        for backend, table in tables.items()
    }
    return {backend: rules for backend, rules in found.items() if rules}


def rules_of(table: Table) -> tuple[Rule, ...]:
    """The rules that hold on a table's backend, its own before those for libraries."""
    return (*table.rule, *table.libraries)


def refusal(text: str, tables: Mapping[Backend, Table]) -> UsageError:
    """What to raise where no table knows ``text``: one line, with the names nearest to it."""
    return UsageError(f"no table knows {text!r}", hint=_hint(text, tables))


def is_rule_id(text: str, tables: Mapping[Backend, Table]) -> bool:
    """Whether ``text`` is a rule's id."""
    return any(_is(rule, text.strip()) for table in tables.values() for rule in rules_of(table))


def spelled(text: str) -> str:
    """A name as tables spell it: ``aten.index_add_`` for ``aten::index_add_``, ``torch.nn.CTCLoss`` for
    ``nn.CTCLoss``; what follows an opening bracket or a space says which calls are meant and is cut off."""
    name = re.split(r"[\s(]", text.strip().replace("::", "."), maxsplit=1)[0]
    for short, whole in _SHORT:
        if name.startswith(short):
            return whole + name[len(short) :]
    return name


def spans(rule: Rule, reviewed: str) -> tuple[Span, ...]:
    """The rule's history: neighbouring versions with the same answers taken together, oldest first."""
    made: list[Span] = []
    for version in reviewed_releases(reviewed):
        rows = rows_of(rule, version)
        if made and _answers(made[-1].rows) == _answers(rows):
            made[-1] = made[-1]._replace(last=version)
        else:
            made.append(Span(version, version, rows))
    return tuple(made)


def rows_of(rule: Rule, version: str) -> tuple[Row, ...]:
    """What the rule says for one version: sets of calls that leave no call out and share none.

    The cases for each state of the mode are such sets already (the lint proves it), so their meets are too;
    neighbours that agree are joined again.
    """
    live = [case for case in rule.case if speaks_of(case.torch, version)]
    by_mode = [[c for c in live if str(mode) in wanted_values(c, _MODE)] for mode in DeterministicMode]
    rows: list[Row] = []
    for off, warn, on in product(*by_mode):
        when = _meet(off, warn, on)
        if when is not None:
            notes = tuple(dict.fromkeys(case.why for case in (off, warn, on) if case.why))
            rows.append(Row(when, off.verdict, warn.verdict, on.verdict, notes))
    return tuple(_joined(rows))


def in_words(key: str, values: frozenset[Value]) -> str:
    """One condition as people read it: ``dtype: floating or complex``, ``device: not cuda``."""
    domain = frozenset(DOMAINS[key])
    if not any(isinstance(value, bool) for value in values) and 2 * len(values) > len(domain) + 1:
        return f"{key}: not {' or '.join(_values_in_words(key, domain - values))}"
    return f"{key}: {' or '.join(_values_in_words(key, values))}"


def _explanation(table: Table, rules: tuple[Rule, ...], version: str) -> Explanation:
    place = placed(table.reviewed, version)
    known = reviewed_releases(table.reviewed)
    minor = known[-1] if place == "newer" else ".".join(version.split(".")[:2])
    told: list[tuple[Rule, Span | None]] = []
    for rule in rules:
        history = spans(rule, table.reviewed) if place in ("reviewed", "newer") else ()
        told.append((rule, next((s for s in history if minor in _releases_of(s, known)), None)))
    return Explanation(table.backend, version, place, table, tuple(told))


def _releases_of(span: Span, known: tuple[str, ...]) -> tuple[str, ...]:
    return known[known.index(span.first) : known.index(span.last) + 1]


def _answers(rows: tuple[Row, ...]) -> list[tuple[Conditions, tuple[Verdict, ...]]]:
    return [(row.when, row.verdicts) for row in rows]


def _at_defaults(rows: tuple[Row, ...], column: int) -> tuple[Verdict, ...]:
    said = {
        row.verdicts[column]
        for row in rows
        if all(_DEFAULTS[key] in values for key, values in row.when.items() if key in _DEFAULTS)
    }
    return tuple(verdict for verdict in SEVERITY if verdict in said)


def _meet(*cases: Case) -> Conditions | None:
    """What all cases ask for but the mode; ``None`` where no call meets all of them."""
    keys = dict.fromkeys(key for case in cases for key in case.when if key != _MODE)
    when = {key: frozenset.intersection(*(wanted_values(case, key) for case in cases)) for key in keys}
    return when if all(when.values()) else None


def _joined(rows: list[Row]) -> list[Row]:
    """Rows that agree in their verdicts and differ in one condition, as one."""
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


def _neighbours(rows: list[Row]) -> Iterator[tuple[int, int, str]]:
    for first, one in enumerate(rows):
        for second in range(first + 1, len(rows)):
            other = rows[second]
            if one.verdicts != other.verdicts or one.when.keys() != other.when.keys():
                continue
            apart = [key for key, values in one.when.items() if other.when[key] != values]
            if len(apart) == 1:
                yield first, second, apart[0]


def _values_in_words(key: str, values: frozenset[Value]) -> list[str]:
    words: list[str] = []
    left = set(values)
    if key == "dtype":
        for name, members in DTYPE_CLASSES.items():
            if left.issuperset(members):
                words.append(name)
                left.difference_update(members)
    return words + [
        str(value).lower() if isinstance(value, bool) else str(value) for value in DOMAINS[key] if value in left
    ]


def _namespaces(tables: Mapping[Backend, Table]) -> frozenset[str]:
    """Namespaces of ops, as far as the tables name them."""
    named = {op.partition(".")[0] for table in tables.values() for rule in rules_of(table) for op in rule.ops}
    return frozenset({"aten", "prims"} | named) - {"torch"}


def _stands(rule: Rule, table: Table, name: str) -> bool:
    """Whether no better rule speaks in ``rule``'s place: for an overload, only one does."""
    return name.count(".") != 2 or name.startswith(("torch", "lib")) or table.find(name) in (rule, None)


def _is(rule: Rule, name: str) -> bool:
    return rule.id == name


def _names_op(rule: Rule, name: str) -> bool:
    """Whether a rule speaks of an op; a packet stands for its overloads, and an overload for its packet's rule."""
    namespace = f"{name.partition('.')[0]}.*"
    return any(op in (name, namespace) or op.startswith(f"{name}.") or name.startswith(f"{op}.") for op in rule.ops)


def _names_api(rule: Rule, name: str) -> bool:
    """Whether a rule speaks of an API: one that it lists, or one that is called as one of its ops is.

    A module and its function are one (``nn.CTCLoss``, ``F.ctc_loss``), and so are a function and its method.
    """
    root, _, last = name.rpartition(".")
    if not root:
        return False
    key = _loose(last)
    if any(_loose(api.rpartition(".")[2]) == key and _same_root(api, name) for api in map(spelled, rule.apis)):
        return True
    if root.split(".")[0] != "torch":
        return False
    return any(
        _loose(op.split(".")[1]) in (key, f"{key}forward", f"{key}backward")
        for op in rule.ops
        if op.startswith("aten.")
    )


def _same_root(one: str, other: str) -> bool:
    return one.partition(".")[0] == other.partition(".")[0]


def _loose(name: str) -> str:
    return name.replace("_", "").lower()


def _hint(text: str, tables: Mapping[Backend, Table]) -> str:
    """The names nearest to ``text``, or where all of them are listed."""
    rules = [rule for table in tables.values() for rule in rules_of(table)]
    known = {name for rule in rules for name in (rule.id, *rule.ops, *map(spelled, rule.apis))}
    near = get_close_matches(spelled(text), sorted(known), n=3, cutoff=0.7)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return "`tracer tables list --backend B` lists what they know"
