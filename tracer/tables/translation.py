"""What a step recorded on a CPU runs on another device: the model of ``translations.toml``.

nn.LSTM and scaled_dot_product_attention decompose differently on each device. A translation names ops that the CPU
shows and what a target may run instead; dtype, hardware and sizes decide among several candidates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import msgspec

from tracer.facts import Value
from tracer.names import Backend
from tracer.tables.rules import (
    BACKWARD_OF,
    FORWARD_FACTS,
    OP,
    RECORDED_FACTS,
    SCHEMA,
    Conditioned,
    Reviewed,
    RuleEvidence,
    RuleTable,
    check_ids,
    check_ops,
    check_range,
    in_domain,
    load,
)

#: The table's file.
TRANSLATIONS = Path(__file__).parent / "translations.toml"
#: Prefix of every id, which distinguishes it from a rule's.
_LEAD = "to"
#: Stands for the recorded op, if the target may run it too.
STAYS = "recorded"
#: Devices whose recordings are translated. Ops recorded on others are judged as recorded.
RECORDED_ON = "cpu"


class TargetOp(Conditioned, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An op that the target may run, and under which conditions."""

    op: str = ""
    """An overload, ``aten._cudnn_rnn.default``; ``recorded`` for the recorded op itself; empty if it is not known which
    op runs, as ``why`` says."""
    facts: dict[str, Value] = {}  # noqa: RUF012 (msgspec copies it)
    """Facts of this op that the recorded call does not have."""
    why: str = ""
    """The reason why no op is known, if ``op`` is empty."""
    perhaps: bool = False
    """The program may choose another call there, by the device. If only such candidates raise, the verdict is
    ``conditional``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, value in self.facts.items():
            if (key not in RECORDED_FACTS and key != "dtype") or not in_domain(key, value):
                raise ValueError(f"{key} = {value!r} is not a recorded fact")


class Translation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ops that a CPU recording shows and a target runs as others."""

    id: str
    """Permanent, kebab-case, prefixed with ``to-``: ``to-cuda-attention-backward``."""
    to: tuple[Backend, ...]
    """Targets for which it holds."""
    ops: tuple[str, ...]
    """Recorded ops, named as in a rule."""
    why: str
    """The criterion between the candidates, in sentences for the reader of a finding."""
    becomes: tuple[TargetOp, ...]
    """Every op that the target may run. If the conditions of several hold, it may be any of them."""
    evidence: tuple[RuleEvidence, ...]
    forward: str = ""
    """For backward ops: the packet of the forward op whose facts at the same place are used too."""
    recorded_by: str = ""
    """Versions of torch whose recordings contain the ops; empty for every one."""

    def __post_init__(self) -> None:
        check_ops(self.ops)
        _check_targets(self.to)
        check_range(self.recorded_by, ("<", ">="))
        for op in (candidate.op for candidate in self.becomes):
            if op not in ("", STAYS) and not (OP.fullmatch(op) and op.count(".") == 2):
                raise ValueError(f"{op!r} is not of the form namespace.name.overload")
        if self.forward and not (OP.fullmatch(self.forward) and self.forward.count(".") == 1):
            raise ValueError(f"{self.forward!r} is not of the form namespace.name")


class TargetNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A difference that single ops do not show: reported, never applied."""

    id: str
    to: tuple[Backend, ...]
    says: str
    seen: tuple[str, ...] = ()
    """Ops whose presence in a recording puts ``says`` at the top of the report; empty if it is for readers of the table
    only, because verdicts do not depend on it."""
    evidence: tuple[RuleEvidence, ...]

    def __post_init__(self) -> None:
        check_ops(self.seen)
        _check_targets(self.to)


class Translations(Reviewed, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """All known differences between a CPU recording and a run on another device."""

    translation: tuple[Translation, ...] = ()
    note: tuple[TargetNote, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ids((*self.translation, *self.note), _LEAD)


def _check_targets(to: tuple[Backend, ...]) -> None:
    if Backend.RECORDED in to or Backend(RECORDED_ON) in to:
        raise ValueError(f"a recording on {RECORDED_ON} can only be translated to another backend")


#: No translations: every op runs as it was recorded.
NO_TRANSLATIONS = Translations(schema=SCHEMA, reviewed=">=1.11")


@cache
def load_translations() -> Translations:
    """The packaged table, read and checked once."""
    return load(TRANSLATIONS, Translations)


def translated_facts(table: Translations, tables: Mapping[Backend, RuleTable]) -> Mapping[str, frozenset[str]]:
    """Recorded op to the facts that must be recorded so that every op that it may become can be judged."""
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for row in table.translation:
        keys = {key for candidate in row.becomes for key in candidate.when}
        for candidate in row.becomes:
            if candidate.op in ("", STAYS):  # facts of its own rules are recorded anyway
                continue
            rules = (tables[backend].find(candidate.op) for backend in row.to if backend in tables)
            asked = {key for rule in rules if rule is not None for case in rule.case for key in case.when}
            keys |= asked - candidate.facts.keys()
        for op in row.ops:
            wanted[op.removesuffix(BACKWARD_OF)].update(FORWARD_FACTS[key] for key in keys.intersection(FORWARD_FACTS))
        for op in (*row.ops, row.forward) if row.forward else row.ops:
            wanted[op].update(keys.intersection(RECORDED_FACTS))
    return MappingProxyType({op: frozenset(keys) for op, keys in wanted.items() if keys})
