"""The table of settings, seeds, memory and data loading, which no op shows.

A row is like a rule, but about the process (``names.About``). It applies if certain calls ran (``needs``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from tracer.facts.fact import Value
from tracer.names import About, Backend, Differs, EventKind, GeneratorKind, Subsystem
from tracer.tables.rules import (
    ID,
    OP,
    VARIABLE,
    Case,
    Cased,
    Reviewed,
    RuleEvidence,
    WantedValue,
    bad_range,
    load,
    misspelt_conditions,
)
from tracer.tables.vocabulary import PROCESS_FACTS, SETTINGS, in_domain

ROWS = Path(__file__).parent.parent / "environment.toml"
#: Prefix of every row's id.
LEADER = "environment"
#: Names in ``SettingRow.needs`` that are not groups: the judge determines their calls.
RESERVED: Mapping[str, str] = {
    "fixed-by-mode": "calls that vary and that deterministic mode makes deterministic without filling memory",
    "raised-by-mode": "calls that raise in deterministic mode",
    "unwritten-reads": "calls that read memory before it was fully written",
    "compiled-products": "matrix products in compiled code",
    "padded-products": "matrix products in compiled code whose sizes are not all aligned to 16 bytes",
    "compiled-templates": "matrix products, convolutions and attention in compiled code",
    "compiled-reductions": "sums and other reductions in compiled code",
    "timed-reductions": "sums and other reductions in compiled code, unless at most 1,024 numbers become one",
    "unseen": "none: no call shows whether a step depends on it; it is a finding only if it was set too late",
}
#: Groups that narrow what a row needs; no row needs one of them by itself.
UNROLLED = "unrolled-sums"
SINGLE = "sums-to-one-number"
ALIGNED, PADDABLE = "aligned-products", "paddable-products"
OWN_DEPTHWISE = "own-depthwise-convolutions"
NARROWING = frozenset({UNROLLED, SINGLE, ALIGNED, PADDABLE, OWN_DEPTHWISE})

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+(\(\))?")


class AffectedCalls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Calls that a setting affects: matrix products, convolutions, collectives."""

    name: str
    ops: tuple[str, ...] = ()
    """``aten.mm`` (every overload), ``aten.mm.default``, ``c10d.*``; empty for any op for which ``when`` holds."""
    when: dict[str, WantedValue] = {}
    """Facts that the call must have, as in a rule's condition; a dtype class stands for its members."""


class SettingRow(Cased, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One setting, or one thing that a process can do, and its effect on reproducibility."""

    about: About
    name: str
    """Its name in users' code: ``torch.backends.cudnn.benchmark``, ``CUBLAS_WORKSPACE_CONFIG``, ``DataLoader``."""
    aliases: tuple[str, ...] = ()
    """Other names of the same setting: the variable that sets it at import, the call for another device."""
    category: str
    """The heading under which it is listed: one of ``CATEGORIES``."""
    code: str = ""
    """The lines to paste, if any."""
    where: str = ""
    """Their place, as a phrase: "before torch is imported, or in the shell that starts the script"."""
    sets: dict[str, Value] = {}  # noqa: RUF012 (msgspec copies it)
    """The settings after ``code`` ran, as ``judge(..., settings=...)`` takes them: an ``Environment`` field, a
    variable or a dotted name to its value; ``seed.torch``, ``seed.python``, ``seed.numpy`` to ``true``."""
    field: str = ""
    """The ``Environment`` field that holds the setting; one of several words is joined by commas. A row about a setting
    has one of the three, or none if a process cannot read it: such a row is for reference, and never a finding."""
    variable: str = ""
    """The environment variable that holds it."""
    read: str = ""
    """The dotted name that holds it, with ``()`` after a function; read only if its module is already loaded."""
    default: Value | None = None
    """The value of an unset setting; a value equal to it counts as unset."""
    safe: tuple[Value, ...] = ()
    """Values with which runs repeat."""
    read_by: tuple[Subsystem, ...] = ()
    """The subsystems that read it once, at their first use. A change after that has no effect."""
    watches: EventKind | None = None
    """The kind of event that a row about a late or changed setting is about."""
    events: tuple[str, ...] = ()
    """The names of those events."""
    generator: tuple[GeneratorKind, ...] = ()
    """The generators that a row about generators applies to."""
    backends: tuple[Backend, ...] = ()
    """Backends that it affects; empty for every one."""
    needs: tuple[str, ...] = ()
    """Groups of calls that it affects, or words of ``RESERVED``; empty for every step, or for whatever was observed."""
    differs: Differs = Differs.RUNS
    """Which executions it makes differ. For ``machines`` every case is ``deterministic``, and a note is given for a
    value that is neither unset nor safe, or unset with a ``default`` that is not among ``safe``."""
    torch: str = ""
    """Versions of torch that have it; empty for every reviewed one."""
    case: tuple[Case, ...] = ()
    evidence: tuple[RuleEvidence, ...] = ()


class EnvironmentTable(Reviewed, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """All rows, and the groups of calls that they name."""

    row: tuple[SettingRow, ...]
    group: tuple[AffectedCalls, ...] = ()

    def misspelt(self) -> Iterator[tuple[str, str]]:
        yield from super().misspelt()
        names = {group.name for group in self.group}
        for number, group in enumerate(self.group):
            path = f"$.group[{number}] ({group.name})"
            for op in group.ops:
                if not (OP.fullmatch(op) or re.fullmatch(r"\w+\.\*", op)):
                    yield path, f"{op!r} is not of the form namespace.name[.overload]"
            yield from misspelt_conditions(path, group.when, "")
        for number, row in enumerate(self.row):
            yield from _misspelt_row(f"$.row[{number}] ({row.id})", row, names)


#: The headings under which rows are listed, in their order.
CATEGORIES = (
    *("deterministic mode", "cuDNN and MIOpen", "BLAS and linear algebra", "precision", "attention"),
    *("CPU threads and libraries", "random generators", "memory", "data loading", "collectives"),
    *("torch.compile", "Ascend", "training loop", "hardware and versions"),
)


@cache
def load_rows() -> EnvironmentTable:
    """The packaged table of settings, read and checked once."""
    return load(ROWS, EnvironmentTable)


def variables_of(rows: Iterable[SettingRow]) -> frozenset[str]:
    """Environment variables that rows name, by value or as set too late."""
    named = {row.variable for row in rows if row.variable}
    return frozenset(named.union(*(row.events for row in rows if row.watches is EventKind.VARIABLE)))


def _misspelt_row(path: str, row: SettingRow, groups: set[str]) -> Iterator[tuple[str, str]]:
    if not (ID.fullmatch(row.id) and row.id.startswith(f"{LEADER}-")):
        yield path, f"{row.id!r} is not kebab-case with the prefix `{LEADER}-`"
    if row.about is About.CALL:
        yield path, "a row cannot be about calls; rules of a backend's table are"
    if row.category not in CATEGORIES:
        yield path, f"unknown category {row.category!r}"
    if row.variable and not VARIABLE.fullmatch(row.variable):
        yield path, f"{row.variable!r} is not the name of an environment variable"
    if row.read and not _PATH.fullmatch(row.read):
        yield path, f"{row.read!r} is not a dotted name"
    if len([source for source in (row.field, row.variable, row.read) if source]) > 1:
        yield path, "names more than one of field, variable and read"
    for group in row.needs:
        if group not in groups and group not in RESERVED:
            yield path, f"needs {group!r}, which is not a group"
    if row.torch:
        yield from bad_range(path, row.torch, ("<", ">="))
    for place, case in enumerate(row.case):
        where = f"{path}.case[{place}]"
        yield from misspelt_conditions(where, case.when, case.torch)
        for key in case.when:
            if key not in PROCESS_FACTS and key not in SETTINGS:
                yield where, f"{key!r} is not a fact of the process"
    for key, value in row.sets.items():
        if key in SETTINGS and not in_domain(key, value):
            yield path, f"sets {key} to {value!r}, which is not one of its values"
