"""What a comparison of two recordings with values says, in a sentence."""

from __future__ import annotations

from tracer.divergence import Divergence, NotRestored, Root, RootCause
from tracer.names import Phase
from tracer.plan import name_of
from tracer.report.wording.words import plural
from tracer.trace.values import ValueKind

#: A cause in the words of a sentence: ``by its kernel``.
CAUSES = {
    RootCause.KERNEL: "by its kernel",
    RootCause.DRAW: "by a random draw",
    RootCause.UNWRITTEN_MEMORY: "by memory that nobody wrote",
    RootCause.INPUT_DATA: "by the data that came in",
    RootCause.INITIAL_STATE: "by the state at the start",
    RootCause.ARGUMENT: "by a number among its arguments",
    RootCause.OUTSIDE_CHANGE: "by bytes that changed from outside",
    RootCause.STRUCTURE: "by other calls",
    RootCause.SETTING: "by another setting",
    RootCause.COLLECTIVE: "by what other processes gave",
    RootCause.UNKNOWN: "by what is not known",
}

_NOT_RESTORED = {
    ValueKind.GENERATOR: "generator state",
    ValueKind.OPTIMIZER_STATE: "optimizer state",
    ValueKind.DATA_POSITION: "data position",
    ValueKind.PARAMETER: "parameters",
    ValueKind.BUFFER: "buffers",
    ValueKind.HYPERPARAMETER: "an optimizer's settings",
    ValueKind.BATCH: "data position",
}


def headline(found: Divergence, first: str = "the first run", second: str = "the second run") -> str:
    """One sentence: where they part, or that they agree and how far that goes."""
    root = found.first
    if found.replicas is not None:
        return _of_replicas(found)
    if root is not None:
        return f"{_capital(second)} parts from {first} in {place_of(root)}, {CAUSES[root.cause]}."
    told = f"{_capital(second)} agrees with {first} in all {plural(found.calls_compared, 'compared call')}"
    if not found.calls_compared:
        return f"{_capital(second)} and {first} have no call in common to compare."
    if found.not_digested:
        told += f", as far as they were digested ({found.not_digested:,} were not)"
    if found.resumed is not None and found.resumed.not_restored:
        told += ", but not everything was restored"
    return f"{told}."


def place_of(root: Root) -> str:
    """``step 3, forward, at train.py:41 (aten.index_put_.default)``."""
    phase = f", {root.phase}" if root.phase is not Phase.OTHER else ""
    where = f", at {root.location}" if root.location else ""
    of = " of the second run" if root.only_second else ""
    return f"step {root.step}{of}{phase}{where} ({call_of(root)})"


def call_of(root: Root) -> str:
    """The op, or the compiled region that differed as a whole."""
    return f"compiled region {root.region}" if root.region else root.op


def short_call_of(root: Root) -> str:
    """The same with the op as people call it: ``aten.index_put_``."""
    return call_of(root) if root.region else name_of(root.op) or "the sequence of calls"


def consequence(root: Root) -> str:
    """What follows from a root, and how often its cause shows again."""
    follows = f"{plural(root.follows, 'call')} {'follows' if root.follows == 1 else 'follow'} from it"
    follows = follows if root.follows else "Nothing follows from it"
    again = f"; the same cause shows at {plural(root.same_cause, 'further call')}" if root.same_cause else ""
    return follows + again


def not_restored(one: NotRestored) -> str:
    """``optimizer state: the resumed run has none (12 were there); exp_avg of fc.weight``."""
    kind = _NOT_RESTORED.get(one.kind, one.kind.value)
    name = f" ({one.name})" if one.name else ""
    return f"{kind}{name}: {one.why}" if one.why else f"{kind}{name}"


def caveats(found: Divergence) -> list[str]:
    """What the comparison leaves open."""
    told = [
        f"The {which} recording is not whole: {why}."
        for which, why in zip(("first", "second"), found.partial, strict=True)
        if why
    ]
    if found.not_digested and found.first is not None:
        told.append(f"{plural(found.not_digested, 'call')} could not be digested: whether they agree is not known.")
    if found.agrees and found.calls_compared and found.replicas is None:
        told.append("Agreement of two runs is no proof that a third agrees.")
    return told


def _of_replicas(found: Divergence) -> str:
    replicas = found.replicas
    assert replicas is not None
    ranks = f"Ranks {' and '.join(map(str, replicas.ranks))}"
    if not replicas.steps:
        return f"{ranks} of one job: nothing was recorded of their parameters, so nothing is known."
    if not replicas.are_replicas:
        return f"{ranks} of one job begin with other parameters: they are no replicas, and nothing is claimed of them."
    drift = replicas.drift
    if drift is None:
        return f"{ranks} of one job have the same parameters in all {plural(replicas.steps, 'compared step')}."
    more = f" and {drift.parameters - 1:,} more" if drift.parameters > 1 else ""
    gradient = {
        True: "; its gradients differed in the step before",
        False: "; its gradients agreed in the step before",
        None: "",
    }[drift.gradients_differ]
    differ = "differ" if more else "differs"
    return f"{ranks} of one job drift apart: by step {drift.step} {drift.name}{more} {differ}{gradient}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
