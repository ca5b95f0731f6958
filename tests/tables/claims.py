"""Claims about ops, compactly: what a table must say of a call, in four versions and three modes.

A claim's verdicts are three letters a version, for the mode off, ``warn`` and on: ``NNR`` is nondeterministic, still so
under ``warn``, refused when on. One group of letters holds for all four versions, four groups for one each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
import torch._inductor.inductor_prims  # registers ops that compiled code is made of

from tracer.facts import Kind, Value
from tracer.facts.every_fact import of_kind
from tracer.names import TORCH_NAMESPACES, Backend, Verdict
from tracer.tables.compiled import load_compilers
from tracer.tables.conditions import BoundRule
from tracer.tables.loading import load_classes, load_libraries, load_table, load_tables
from tracer.tables.rules import Rule, load_translations
from tracer.tables.versions import release, speaks_of

VERSIONS = ("1.13", "2.6", "2.13", "2.15")
MODES = ("off", "warn", "on")
LETTERS = {
    Verdict.DETERMINISTIC: "D",
    Verdict.NONDETERMINISTIC: "N",
    Verdict.CONDITIONAL: "C",
    Verdict.RAISES: "R",
    Verdict.SEEDED: "S",
    Verdict.UNKNOWN: "U",
}
#: A plain call: a float32 matrix outside the backward pass, with settings that favour nothing.
FACTS: Mapping[str, Value] = {
    "dtype": "float32",
    "layout": "strided",
    "ndim": 2,
    **dict.fromkeys(of_kind(Kind.DERIVED), False),
    "index.broadcasts": "no",
}
SETTINGS: Mapping[str, Value] = {
    "fill_uninitialized_memory": True,
    "cublas_workspace": "unset",
    "cudnn_enabled": True,
    "cudnn_deterministic": False,
    "cudnn_benchmark": False,
    "threads": "many",
    "nccl_nvls": "allowed",
}


class Claim(NamedTuple):
    """What a table must say of one op."""

    name: str
    """The alert, kernel, branch or entry that the claim stands for."""
    op: str
    rule: str
    verdicts: str
    facts: Mapping[str, Value] = {}
    """Facts and settings that differ from the plain call's."""

    def __str__(self) -> str:
        return f"{self.name}-{self.op}-{self.rule}"


def rule_for(backend: Backend, op: str) -> Rule:
    """The rule that the backend's table finds for an op; an op without an overload stands for its default one."""
    rule = load_table(backend).find(op if op.count(".") == 2 else f"{op}.default")
    assert rule is not None, f"no rule for {op}"
    return rule


def verdicts(rule: Rule, facts: Mapping[str, Value]) -> str:
    """The rule's verdicts for a call with ``facts``, spelt as a claim spells them."""
    call = {**FACTS, **facts}
    settings = {**SETTINGS, **{key: value for key, value in facts.items() if key in SETTINGS}}
    groups = []
    for version in VERSIONS:
        bound = (BoundRule(rule, release(version), {**settings, "deterministic_mode": mode}) for mode in MODES)
        groups.append("".join(LETTERS[one.decide(call).verdict] for one in bound))
    return groups[0] if len(set(groups)) == 1 else " ".join(groups)


def check(backend: Backend, claim: Claim) -> None:
    """Hold a table to a claim."""
    rule = rule_for(backend, claim.op)
    assert rule.id == claim.rule
    assert verdicts(rule, claim.facts) == claim.verdicts


def tagged_ops() -> Iterator[Any]:
    """Every overload of this torch that carries the tag of ops that draw random numbers.

    Not what Inductor writes into its own graphs once it is loaded: the rules of compiled code speak of that.
    """
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if packet.startswith("inductor_"):
            continue
        found = getattr(getattr(torch.ops, namespace), packet, None)
        op = getattr(found, overload or "default", None)
        if op is not None and torch.Tag.nondeterministic_seeded in op.tags:
            yield op


def siblings(op: str) -> list[str]:
    """The in-place and the functional spelling of an op that this torch has, other than ``op`` itself.

    Under a dispatch mode autograd often takes the other one.
    """
    namespace, name, *_ = op.split(".")
    if namespace != "aten":
        return []
    other = name[:-1] if name.endswith("_") else f"{name}_"
    return [f"aten.{other}"] if hasattr(torch.ops.aten, other) else []


def ops_named_for(version: str) -> Iterator[tuple[str, str]]:
    """Torch's own ops that the tables name for this version of torch, each with the id of the row."""
    tables = (*load_tables().values(), load_libraries(), load_classes(), *load_compilers().values())
    rules = (rule for table in tables for rule in table.rule)
    named = [
        (rule.id, op) for rule in rules if any(speaks_of(each.torch, version) for each in rule.case) for op in rule.ops
    ]
    translations = load_translations()
    for row in translations.translation:
        named += [(row.id, op) for op in row.ops if speaks_of(row.recorded_by, version)]
        named += [(row.id, each.op) for each in row.becomes if each.op and speaks_of(each.torch, version)]
    named += [(note.id, op) for note in translations.note for op in note.seen]
    yield from ((id, op) for id, op in named if op.partition(".")[0] in TORCH_NAMESPACES)


def has_op(op: str) -> bool:
    """Whether the installed torch has ``op``."""
    namespace, name, *overload = op.split(".")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    return packet is not None and (not overload or hasattr(packet, overload[0]))
