"""What the tables say of an op, a rule or an API for one version of torch, without a trace; programs that show it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tracer.errors import UsageError
from tracer.names import SEVERITY, TORCH_NAMESPACES, Backend, Settings, Verdict
from tracer.tables.conditions import disjoint, in_deterministic_mode, may_hold, pieces, wanted_values, with_forward
from tracer.tables.rules import (
    NO_TRANSLATIONS,
    SCHEMA,
    AnsweredRule,
    Case,
    Cased,
    EnvironmentTable,
    Rule,
    RuleTable,
    SettingRow,
    Translation,
    Translations,
    check_ops,
    load,
    load_rows,
)
from tracer.tables.settings import settings_of
from tracer.tables.versions import RELEASES, named_release, placed, reviewed_releases, speaks_of
from tracer.trace.records import Environment

#: torch's default settings. The number of threads has no default.
_DEFAULTS = with_forward(settings_of(Environment(python="", platform="", torch=""), Settings.DEFAULT))


class VersionSpan(NamedTuple):
    """Adjacent versions for which a rule says the same."""

    first: str
    last: str
    cases: tuple[Case, ...]
    """Those that a call can come to, in their order: the first that matches decides."""
    as_is: tuple[Verdict, ...]
    """The verdicts that a call can have under torch's default settings, worst first."""
    in_mode: tuple[Verdict, ...]
    """The same with deterministic mode on and all other settings at torch's defaults."""


class Explanation(NamedTuple):
    """One backend's table on a name, for one version."""

    backend: Backend
    version: str
    """The requested release, ``2.13.0``."""
    place: str
    """The version's place among the reviewed ones; see ``tables.versions.placed``."""
    table: RuleTable
    rules: tuple[tuple[Rule, VersionSpan | None], ...]
    """Rules with the span that contains the version; ``None`` if the table was not reviewed for it."""
    becomes: tuple[Translation, ...]
    """Translations of the op, if recorded on a CPU, to the ops that run here; the rules are for both."""
    is_torchs: bool
    """Whether it is a name of torch's own. Then, without a rule, the kind of the table's list decides."""


def explain(
    text: str,
    tables: Mapping[Backend, RuleTable],
    version: str,
    backends: Collection[Backend] | None = None,
    translations: Translations = NO_TRANSLATIONS,
) -> list[Explanation]:
    """Explain an op, a rule's id or an API by the tables of ``backends`` (``None`` for all), for a torch version.

    A table without a rule for the name answers too if another one has a rule; a rule's id is looked up in its own
    table only. Raises ``UsageError`` with the nearest names if no table knows ``text``, ``TargetError`` for an invalid
    version.
    """
    wanted = named_release(version)
    rules_by_backend, name = find_rules(text, tables), spelled(text)
    rows = (row for row in translations.translation if any(_same_op(op, name) for op in row.ops))
    becomes = [row for row in rows if not tables.keys().isdisjoint(row.to)]
    if not rules_by_backend and not becomes:
        raise refusal(text, tables)
    asked = [b for b in (rules_by_backend if is_rule_id(text, tables) else tables) if backends is None or b in backends]
    if not asked:
        holding = ", ".join(map(str, rules_by_backend))
        raise UsageError(f"{text!r} is a rule of another table", hint=f"ask for {holding}")
    return [
        _explanation(
            tables[backend],
            rules_by_backend.get(backend, ()),
            wanted,
            tuple(row for row in becomes if backend in row.to),
            is_torchs(name),
        )
        for backend in asked
    ]


def spans(rule: Cased, reviewed: str) -> tuple[VersionSpan, ...]:
    """The rule's history: adjacent versions with the same answers merged, oldest first."""
    history: list[VersionSpan] = []
    for version in reviewed_releases(reviewed):
        reached = {id(case) for case, _ in pieces(rule.case, version)}
        cases = tuple(case for case in rule.case if id(case) in reached)
        if history and _answers(history[-1].cases) == _answers(cases):
            history[-1] = history[-1]._replace(last=version)
            continue
        verdicts = []
        for settings in (_DEFAULTS, in_deterministic_mode(_DEFAULTS)):
            live = [case for case in cases if may_hold(case, settings)]
            asked = [{key: wanted_values(case, key) for key in case.when if key not in settings} for case in live]
            reachable = {case.verdict for case, _ in disjoint(zip(live, asked, strict=True))}
            verdicts.append(tuple(verdict for verdict in SEVERITY if verdict in reachable))
        history.append(VersionSpan(version, version, cases, *verdicts))
    return tuple(history)


def _answers(cases: Iterable[Case]) -> list[tuple[object, ...]]:
    return [(case.when, case.verdict, case.route) for case in cases]


def _explanation(
    table: RuleTable, rules: tuple[Rule, ...], version: str, becomes: tuple[Translation, ...], its_own: bool
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


#: Abbreviations that people type or documents use.
_SHORT = (("torch.ops.", ""), ("F.", "torch.nn.functional."), ("nn.", "torch.nn."), ("Tensor.", "torch.Tensor."))

#: Namespaces for which a table answers even without a rule, and the root of the APIs that lead to them.
_TORCHS = (*TORCH_NAMESPACES, "torch")


def find_rules(text: str, tables: Mapping[Backend, RuleTable]) -> dict[Backend, tuple[Rule, ...]]:
    """The rules that ``text`` names, by backend, libraries' rules last. Backends without one are omitted."""
    is_id = is_rule_id(text, tables)
    name = text.strip() if is_id else spelled(text)
    spaces = {op.partition(".")[0] for table in tables.values() for rule in rules_of(table) for op in rule.ops}
    is_op = "." in name and name.partition(".")[0] in ({*TORCH_NAMESPACES} | spaces) - {"torch"}
    # A library may spell its ops and its functions alike: `torchvision.roi_align`, `torchvision.ops.roi_align`.
    ways: list[Callable[[Rule, str], bool]] = [_names_op, _names_api] if is_op else [_names_api]
    for names in [lambda rule, name: rule.id == name] if is_id else ways:
        by_backend = {
            backend: tuple(rule for rule in rules_of(table) if names(rule, name) and _stands(rule, table, name))
            for backend, table in tables.items()
        }
        if named := {backend: rules for backend, rules in by_backend.items() if rules}:
            return named
    return {}


def is_torchs(name: str) -> bool:
    """Return whether a normalized name is torch's own, so that a table answers even without a rule."""
    return name.partition(".")[0] in _TORCHS


def rules_of(table: RuleTable) -> tuple[Rule, ...]:
    """The rules that hold on a table's backend: its own, the libraries', the compilers'."""
    return (*table.rule, *table.libraries, *table.compiled)


def refusal(text: str, tables: Mapping[Backend, RuleTable]) -> UsageError:
    """The error to raise if no table knows ``text``, with the nearest names, or the command that lists all."""
    rules = [rule for table in tables.values() for rule in rules_of(table)]
    names = {name for rule in rules for name in (rule.id, *rule.ops, *map(spelled, rule.apis))}
    names.update(name for row in load_rows().row for name in names_of(row))
    near = get_close_matches(spelled(text), sorted(names), n=3, cutoff=0.7)
    hint = f"did you mean {' or '.join(near)}?" if near else "`tracer tables list --backend B` lists what they know"
    return UsageError(f"no table knows {text!r}", hint=hint)


def is_rule_id(text: str, tables: Mapping[Backend, RuleTable]) -> bool:
    """Return whether ``text`` is a rule's id."""
    return any(rule.id == text.strip() for table in tables.values() for rule in rules_of(table))


def spelled(text: str) -> str:
    """A name as tables spell it: ``aten.index_add_`` for ``aten::index_add_``, ``torch.nn.CTCLoss`` for
    ``nn.CTCLoss``; what follows an opening bracket or a space says which calls are meant and is cut off."""
    name = re.split(r"[\s(]", text.strip().replace("::", "."), maxsplit=1)[0]
    for short, whole in _SHORT:
        if name.startswith(short):
            return whole + name[len(short) :]
    return name


def _stands(rule: Rule, table: RuleTable, name: str) -> bool:
    """Return whether ``rule`` is the one that applies. An overload has only one."""
    if name.count(".") != 2 or name.startswith(("torch", "lib")):
        return True
    if isinstance(rule, AnsweredRule):
        return name in rule.ops or all(name not in other.ops for other in table.compiled)
    return table.find(name) in (rule, None)


def _names_op(rule: Rule, name: str) -> bool:
    """Return whether a rule covers an op. A packet covers its overloads; a packet's rule covers an overload."""
    return any(op == f"{name.partition('.')[0]}.*" or _same_op(op, name) for op in rule.ops)


def _same_op(op: str, other: str) -> bool:
    return op == other or op.startswith(f"{other}.") or other.startswith(f"{op}.")


def _names_api(rule: Rule, name: str) -> bool:
    """Return whether a rule lists an API, or an op of that name. A name without a dot may belong to any package."""
    key = _loose(name.rpartition(".")[2])
    if any(_loose(api.rpartition(".")[2]) == key and _same_root(api, name) for api in map(spelled, rule.apis)):
        return True
    ops = (_loose(op.split(".")[1]) for op in rule.ops if op.startswith("aten."))
    return _same_root(name, "torch.") and any(op in (key, f"{key}forward", f"{key}backward") for op in ops)


def _same_root(name: str, other: str) -> bool:
    """Return whether two names begin with the same package. A bare ``nll_loss`` may belong to any."""
    return name.partition(".")[0] == other.partition(".")[0] or "." not in name or "." not in other


def _loose(name: str) -> str:
    return name.replace("_", "").lower()


def names_of(row: SettingRow) -> Iterator[str]:
    """Names of a row: its id, and its setting up to a bracket or a space."""
    named = (row.id, *row.name.split(", "), *row.aliases, row.variable, row.read)
    yield from dict.fromkeys(spelled(name) for name in named if name)


def find_rows(text: str, table: EnvironmentTable) -> tuple[SettingRow, ...]:
    """The rows that ``text`` names: by id, else by setting, in full or from a dot on (``cudnn.benchmark``)."""
    wanted = spelled(text).lower()

    def ends_alike(name: str) -> bool:
        return "." in wanted and (name.endswith(f".{wanted}") or ("." not in name and wanted.endswith(f".{name}")))

    names = {row.id: [name.lower() for name in names_of(row)] for row in table.row}
    by_id = [row for row in table.row if row.id == text.strip()]
    whole = by_id or [row for row in table.row if wanted in names[row.id]]
    return tuple(whole or [row for row in table.row if any(map(ends_alike, names[row.id]))])


# --- examples: programs that dispatch certain ops, for all backends ---

EXAMPLES = Path(__file__).with_name("examples.toml")

#: torch's name of a backend's device, where it differs.
_DEVICES: Mapping[Backend, str] = {Backend.ROCM: "cuda"}


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A program that dispatches certain ops."""

    ops: tuple[str, ...]
    """Packets or overloads that it dispatches, or that the target runs instead of what a CPU dispatches."""
    code: str
    """Its lines. ``torch`` is imported and ``device`` is set before them."""
    cuda_only: str = ""
    """The reason why it cannot run on a CPU, as a phrase; empty if it can."""

    def __post_init__(self) -> None:
        check_ops(self.ops)
        if not self.ops:
            raise ValueError("dispatches no op")
        if not self.code.strip():
            raise ValueError("has no code")


class Examples(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All examples, in the order in which rules search them."""

    schema: int
    example: tuple[Example, ...]

    def of(self, rule: Rule) -> Example | None:
        """The example of a rule: the first one that dispatches one of its ops, its packet, or one of its overloads."""
        alike = (example for example in self.example for op in example.ops for own in rule.ops if _same_op(own, op))
        return next(alike, None)


NO_EXAMPLES = Examples(schema=SCHEMA, example=())


@cache
def load_examples() -> Examples:
    """The packaged examples, read and checked once."""
    return load(EXAMPLES, Examples)


def program(example: Example, backend: Backend) -> str:
    """The complete program for a backend, with its imports and its device."""
    imports = "import torch\nimport torch_npu" if backend is Backend.NPU else "import torch"
    return f'{imports}\n\ndevice = "{_DEVICES.get(backend, backend.value)}"\n\n{example.code.strip()}\n'
