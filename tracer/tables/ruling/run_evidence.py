"""Evidence of the run itself on a call, besides the tables: draws, data, trials.

A draw from an unseeded generator never repeats. Where the data of every call exclude a risk, the call is deterministic
for these data. Where a trial gave another result, the call varies, and a table that denies it is wrong for this device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from msgspec.structs import replace

from tracer.findings import Deciding
from tracer.names import (
    REPEATABLE,
    SAFE,
    SETTLING_DATA,
    VARYING,
    Backend,
    Cause,
    DataShown,
    GeneratorKind,
    Phase,
    SeedOrigin,
    UnknownReason,
    Verdict,
)
from tracer.tables.loading import load_classes
from tracer.tables.rules import Ruling
from tracer.tables.ruling.bound_table import safe_ruling, unknown_ruling
from tracer.trace.records import GENERATOR, META, NO_DEVICE, ORIGIN, CallGroup, FactValue, kind_drawn_from

#: Not the optimizer: it counts its steps on the CPU, whatever device its parameters are on.
_PASSES = (Phase.FORWARD, Phase.RECOMPUTE, Phase.BACKWARD)
#: Classes of ops that allocate, view, fill or copy.
_MOVES = frozenset({"class-views", "class-copies", "class-bookkeeping"})
#: Part of the names of ops that only allocate.
_ALLOCATES = "empty"
_COMPUTE = (
    "Record the step on real tensors, or under torch's `FakeTensorMode`: fake tensors claim a device, and take the path"
    " of real ones on it."
)
#: As facts spell them.
_REPEATABLE = frozenset(origin.value for origin in REPEATABLE)
_KEEP = (
    "The generator starts from the same state in every run. Keep it so, and save and restore generator states when"
    " training is resumed."
)


def drawn(ruling: Ruling, facts: Mapping[str, FactValue]) -> Ruling:
    """``ruling`` for a call with ``facts``: the origin of the generator's state decides whether ``seeded`` repeats."""
    origin = facts.get(ORIGIN)
    if origin is None or Verdict.SEEDED not in ruling.both:
        return ruling
    if origin == SeedOrigin.MACHINE:
        whose, remedy = "Torch's default generator", "Call `torch.manual_seed(0)` before the first draw"
        if not str(facts.get(GENERATOR)).startswith("cpu"):
            whose += " of the device, which no seed of the CPU's alone reaches,"
        if kind_drawn_from(facts) is GeneratorKind.PASSED:
            whose, remedy = "The generator that the call was given", "Call `manual_seed(0)` on it where it is made"
        return _unseeded(ruling, whose, remedy)
    if origin == SeedOrigin.MOVED_ON:
        as_is, in_mode = (Verdict.CONDITIONAL if v is Verdict.SEEDED else v for v in ruling.both)
        return replace(ruling, verdict=as_is, deterministic_mode=in_mode, why=_RECOMPUTED, remedy=_PRESERVE, needs=())
    if origin == SeedOrigin.DEVICE:
        return _unseeded(ruling, _EITHER, _SEED_ALL, Verdict.CONDITIONAL)
    if origin in _REPEATABLE and ruling.verdict is ruling.deterministic_mode:
        return replace(ruling, remedy=_KEEP, needs=())
    return ruling


_RECOMPUTED = (
    "Checkpointing runs this forward again in the backward pass and draws other numbers than the first time, so that"
    " the gradient belongs to another result than the loss."
)
_PRESERVE = "Leave `preserve_rng_state` of `torch.utils.checkpoint.checkpoint` at its default, True."
_EITHER = (
    "The recording does not tell whether the call draws from the host's generator or from the device's, and one of the"
    " two"
)
_SEED_ALL = "Call `torch.manual_seed(0)`, which seeds the generators of all devices, before the first draw"


def _unseeded(ruling: Ruling, whose: str, remedy: str, verdict: Verdict = Verdict.NONDETERMINISTIC) -> Ruling:
    """``ruling`` for calls whose generator has a random seed: what is ``seeded`` differs from run to run."""
    why = f"{whose} was seeded at random, differently in every process: each run draws other numbers."
    as_is, in_mode = (verdict if v is Verdict.SEEDED else v for v in ruling.both)
    return replace(
        ruling,
        verdict=as_is,
        deterministic_mode=in_mode,
        cause=Cause.RNG,
        why=f"{why} {ruling.why}".rstrip(),
        remedy=f"{remedy}, and do not call `seed()`, which sets a random seed.",
        needs=(),
        decided=Deciding(),
    )


#: The risks that each fact of the data excludes.
_RULED_OUT = {
    DataShown.DISTINCT: (Cause.ATOMIC_ACCUMULATION, Cause.WRITE_RACE),
    DataShown.TWICE_ONTO_ZEROS: (Cause.ATOMIC_ACCUMULATION,),
    DataShown.EXACT: (Cause.ATOMIC_ACCUMULATION,),
    DataShown.NO_TIES: (Cause.TIE_ORDER,),
}
_FOR_THESE_DATA = (
    "The data of this run exclude the risk: the call is deterministic for these data, but may not be for others."
)
_REFUTED = (
    "Replayed in this run with the same inputs, the call gave other results, although the table calls it {verdict}:"
    " the table is wrong for this device."
)
_MEND = "It varies on this device: fix its kernel, or avoid the call where results must repeat."
_VARIED = "Replayed in this run with the same inputs, the call gave other results."
_REPORT = (
    "Please report it: the report begins with the text to paste. Until the reason is known, avoid the call where"
    " results must repeat."
)


def settled_by_data(group: CallGroup, ruling: Ruling) -> Ruling:
    """``ruling`` if the data of all the calls exclude the table's risk."""
    is_accused = any(verdict in VARYING for verdict in ruling.both)
    is_whole = group.data.keys() <= SETTLING_DATA and sum(group.data.values()) == group.count
    if not is_accused or not is_whole or any(ruling.cause not in _RULED_OUT[shown] for shown in group.data):
        return ruling
    as_is, in_mode = (Verdict.DETERMINISTIC if verdict in VARYING else verdict for verdict in ruling.both)
    return replace(
        ruling, verdict=as_is, deterministic_mode=in_mode, why=f"{ruling.why} {_FOR_THESE_DATA}", observed=True
    )


def refuted_by_trials(ruling: Ruling, as_recorded: Ruling, *, in_mode: bool, is_recorded: bool) -> Ruling:
    """``ruling`` on calls that varied in trials. ``as_recorded`` is the tables' ruling under the settings of the
    trials; ``is_recorded``: whether ``ruling`` is on those. ``in_mode``: whether deterministic mode was on there."""
    varies = Verdict.NONDETERMINISTIC
    as_is, mode = ruling.both
    if as_recorded.verdict in SAFE:  # no known mechanism makes it vary, so there is no known remedy
        return replace(
            ruling,
            rule=ruling.rule or f"{ruling.backend}-tried",
            verdict=varies if as_is in SAFE else as_is,
            deterministic_mode=varies if mode in SAFE else mode,
            why=f"{_REFUTED.format(verdict=as_recorded.verdict)} {ruling.why}".rstrip(),
            remedy=_REPORT,
            needs=(),
            refuted=as_recorded.verdict,
        )
    if is_recorded:
        as_is = varies
        if in_mode or mode is Verdict.CONDITIONAL:
            mode = varies
    if (as_is, mode) == ruling.both:
        return ruling
    return replace(
        ruling,
        verdict=as_is,
        deterministic_mode=mode,
        why=f"{_VARIED} {ruling.why}".rstrip(),
        remedy=_MEND if ruling.source is None else ruling.remedy,
    )


def on_the_device_alone(ruling: Ruling) -> Ruling:
    """``ruling`` for calls that are deterministic on a CPU, and run there unless a library keeps them on the device."""
    as_is, in_mode = (verdict if verdict in _LEFT_OPEN else Verdict.CONDITIONAL for verdict in ruling.both)
    why = f"{_SET_UP} {ruling.why}".rstrip()
    return replace(ruling, verdict=as_is, deterministic_mode=in_mode, why=why, refuted=None)


#: Verdicts that cannot get worse by where the call runs.
_LEFT_OPEN = (*SAFE, Verdict.UNKNOWN)
_SET_UP = (
    "A library's constructor makes the call, outside every module and without a gradient: most such code runs on the"
    " host, where the call is deterministic. On the device:"
)


def on_meta(
    group: CallGroup,
    backend: Backend,
    on_target: Callable[[], Ruling],
    *,
    has_computed_step: bool,
    has_trained: bool,
) -> Ruling:
    """The ruling on a call on ``meta`` tensors, which computed nothing; ``on_target``: as if on tensors of the target.

    Models are often built on ``meta`` and materialized later (deferred initialization): allocating, viewing, filling
    and drawing there is not held against a recording in which some step was computed. Nor is anything there, such as a
    pass that counts operations, against one whose optimizers stepped tensors with data: none of it reaches those.
    """
    if ORIGIN in group.facts or GENERATOR in group.facts:  # its result is on another device
        return on_target()
    if has_trained or moves_only(group.op):
        return safe_ruling(backend)
    if group.phase is Phase.OTHER:
        both = on_target().both
        if set(both) <= set(SAFE) and (Verdict.SEEDED in both or has_computed_step):
            return safe_ruling(backend)
    return unknown_ruling(backend, "not-computed", UnknownReason.NOT_COMPUTED, META, remedy=_COMPUTE)


def has_computed_step(calls: Iterable[CallGroup]) -> bool:
    """Return whether a forward or backward pass called an op on an accelerator, or on fake tensors that claim one."""
    return any(group.phase in _PASSES and group.facts.get("device") not in NO_DEVICE for group in calls)


def has_trained(calls: Iterable[CallGroup]) -> bool:
    """Return whether optimizers stepped tensors with data, and none on ``meta``."""
    stepped = {group.facts.get("device") for group in calls if group.phase is Phase.OPTIMIZER}
    return META not in stepped and not stepped <= {*NO_DEVICE, None}


def meta_calls(calls: Iterable[CallGroup]) -> int:
    """Return the number of ``calls`` that would compute if not on ``meta``, without initialization before a step."""
    calls = tuple(calls)
    if has_trained(calls):
        return 0
    computed = has_computed_step(calls)
    return sum(
        group.count
        for group in calls
        if group.facts.get("device") == META
        and not (computed and group.phase is Phase.OTHER)
        and not moves_only(group.op)
    )


@cache
def moves_only(op: str) -> bool:
    """Return whether ``op`` allocates, views, fills or copies, and computes nothing."""
    packet = op.rpartition(".")[0]
    return _ALLOCATES in packet or any(packet in rule.ops for rule in load_classes().rule if rule.id in _MOVES)
