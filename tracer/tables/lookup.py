"""Finds the rules for a name as people write it: an op, a rule's id, or an API.

A module and its function are one API (``nn.CTCLoss``, ``F.ctc_loss``), and so are a function and its method.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches

from tracer.errors import UsageError
from tracer.names import TORCH_NAMESPACES, Backend
from tracer.tables.rules import AnsweredRule, Rule, Table
from tracer.tables.settings.rows import EnvironmentTable, SettingRow, load_rows
from tracer.tables.translation import Translation, Translations

#: Abbreviations that people type or documents use.
_SHORT = (("torch.ops.", ""), ("F.", "torch.nn.functional."), ("nn.", "torch.nn."), ("Tensor.", "torch.Tensor."))

#: Namespaces for which a table answers even without a rule, and the root of the APIs that lead to them.
_TORCHS = (*TORCH_NAMESPACES, "torch")


def find_rules(text: str, tables: Mapping[Backend, Table]) -> dict[Backend, tuple[Rule, ...]]:
    """The rules that ``text`` names, by backend, libraries' rules last. Backends without one are omitted."""
    name = text.strip() if is_rule_id(text, tables) else spelled(text)
    if is_rule_id(text, tables):
        return _named(_has_id, name, tables)
    # A library may spell its ops and its functions alike: `torchvision.roi_align`, `torchvision.ops.roi_align`.
    return (is_op(name, tables) and _named(_names_op, name, tables)) or _named(_names_api, name, tables)


def _named(
    names: Callable[[Rule, str], bool], name: str, tables: Mapping[Backend, Table]
) -> dict[Backend, tuple[Rule, ...]]:
    by_backend = {
        backend: tuple(rule for rule in rules_of(table) if names(rule, name) and _stands(rule, table, name))
        for backend, table in tables.items()
    }
    return {backend: rules for backend, rules in by_backend.items() if rules}


def find_translations(
    text: str, tables: Mapping[Backend, Table], translations: Translations
) -> dict[Backend, tuple[Translation, ...]]:
    """Return the ops that a CPU's op becomes elsewhere, by target. Targets that run the same op are omitted."""
    name = spelled(text)
    rows = [row for row in translations.translation if any(_same_op(op, name) for op in row.ops)]
    by_target = {backend: tuple(row for row in rows if backend in row.to) for backend in tables}
    return {backend: becomes for backend, becomes in by_target.items() if becomes}


def is_op(name: str, tables: Mapping[Backend, Table]) -> bool:
    """Return whether a normalized name is an op's, by its namespace."""
    named = {op.partition(".")[0] for table in tables.values() for rule in rules_of(table) for op in rule.ops}
    return "." in name and name.partition(".")[0] in ({*TORCH_NAMESPACES} | named) - {"torch"}


def is_torchs(name: str) -> bool:
    """Return whether a normalized name is torch's own, so that a table answers even without a rule."""
    return name.partition(".")[0] in _TORCHS


def rules_of(table: Table) -> tuple[Rule, ...]:
    """The rules that hold on a table's backend: its own, the libraries', the compilers'."""
    return (*table.rule, *table.libraries, *table.compiled)


def refusal(text: str, tables: Mapping[Backend, Table]) -> UsageError:
    """The error to raise if no table knows ``text``, with the nearest names."""
    return UsageError(f"no table knows {text!r}", hint=_hint(text, tables))


def is_rule_id(text: str, tables: Mapping[Backend, Table]) -> bool:
    """Return whether ``text`` is a rule's id."""
    return any(_has_id(rule, text.strip()) for table in tables.values() for rule in rules_of(table))


def spelled(text: str) -> str:
    """A name as tables spell it: ``aten.index_add_`` for ``aten::index_add_``, ``torch.nn.CTCLoss`` for
    ``nn.CTCLoss``; what follows an opening bracket or a space says which calls are meant and is cut off."""
    name = re.split(r"[\s(]", text.strip().replace("::", "."), maxsplit=1)[0]
    for short, whole in _SHORT:
        if name.startswith(short):
            return whole + name[len(short) :]
    return name


def _stands(rule: Rule, table: Table, name: str) -> bool:
    """Return whether ``rule`` is the one that applies. An overload has only one."""
    if name.count(".") != 2 or name.startswith(("torch", "lib")):
        return True
    if isinstance(rule, AnsweredRule):
        return name in rule.ops or all(name not in other.ops for other in table.compiled)
    return table.find(name) in (rule, None)


def _has_id(rule: Rule, name: str) -> bool:
    return rule.id == name


def _names_op(rule: Rule, name: str) -> bool:
    """Return whether a rule covers an op. A packet covers its overloads; a packet's rule covers an overload."""
    namespace = f"{name.partition('.')[0]}.*"
    return any(op == namespace or _same_op(op, name) for op in rule.ops)


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


def _hint(text: str, tables: Mapping[Backend, Table]) -> str:
    """The names nearest to ``text``, or the command that lists all names."""
    rules = [rule for table in tables.values() for rule in rules_of(table)]
    names = {name for rule in rules for name in (rule.id, *rule.ops, *map(spelled, rule.apis))}
    names.update(name for row in load_rows().row for name in names_of(row))
    near = get_close_matches(spelled(text), sorted(names), n=3, cutoff=0.7)
    return f"did you mean {' or '.join(near)}?" if near else "`tracer tables list --backend B` lists what they know"


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
