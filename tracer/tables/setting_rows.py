"""The table of settings, seeds, memory and data loading, which no op shows.

A row is like a rule, but about the process (``names.About``). It applies if certain calls ran (``needs``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import msgspec

from tracer.facts import Value
from tracer.names import About, Backend, Differs, EventKind, GeneratorKind, Subsystem
from tracer.tables.rules import (
    PROCESS_FACTS,
    SETTINGS,
    Case,
    Cased,
    Reviewed,
    RuleEvidence,
    WantedValue,
    check_conditions,
    check_ids,
    check_ops,
    check_range,
    check_variables,
    in_domain,
    load,
)

ROWS = Path(__file__).with_name("environment.toml")
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

    def __post_init__(self) -> None:
        check_ops(self.ops, namespaces=True)
        check_conditions(self.when)


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
    """The lines to paste, if any: Python, or shell where each begins with ``export``."""
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

    def __post_init__(self) -> None:
        check_ids([self], LEADER)
        check_range(self.torch, ("<", ">="))
        check_variables(filter(None, [self.variable]))
        if self.about is About.CALL:
            raise ValueError("a row cannot be about calls; rules of a backend's table are")
        if self.category not in CATEGORIES:
            raise ValueError(f"unknown category {self.category!r}")
        if self.read and not _PATH.fullmatch(self.read):
            raise ValueError(f"{self.read!r} is not a dotted name")
        if len([source for source in (self.field, self.variable, self.read) if source]) > 1:
            raise ValueError("names more than one of field, variable and read")
        for key in (key for case in self.case for key in case.when):
            if key not in PROCESS_FACTS and key not in SETTINGS:
                raise ValueError(f"{key!r} is not a fact of the process")
        for key, value in self.sets.items():
            if key in SETTINGS and not in_domain(key, value):
                raise ValueError(f"sets {key} to {value!r}, which is not one of its values")


class EnvironmentTable(Reviewed, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """All rows, and the groups of calls that they name."""

    row: tuple[SettingRow, ...]
    group: tuple[AffectedCalls, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        known = {group.name for group in self.group} | RESERVED.keys()
        for row in self.row:
            if unknown := [group for group in row.needs if group not in known]:
                raise ValueError(f"{row.id} needs {unknown[0]!r}, which is not a group")


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
