"""Why runs diverge at a root, in words: what depends on the values that differ, without a full stop."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracer.divergence.model import Changed, Place, Root, Seed
from tracer.names import SAFE, Verdict
from tracer.trace.values import ValueKind
from tracer.trace.values.columns import places_of, without_places

#: What a resumed run reads that earlier steps left.
_EARLIER_STATES = {
    ValueKind.OPTIMIZER_STATE: "the optimizer's state of earlier steps",
    ValueKind.DATA_POSITION: "data from before the resumed part",
    ValueKind.SCALER: "the scaler's state",
}
#: The most names that a sentence lists.
_MOST = 3
#: Why a table is contradicted.
_VARIED = ", and is wrong here: it varied when it was replayed on the spot"


def of_tables(root: Root) -> str:
    """Return the tables' verdict on it, whether they agree or not."""
    if root.verdict is None:
        return ""
    named = f" (rule {root.rule})" if root.rule else ""
    if root.verdict in SAFE:
        return f"; the table calls it {root.verdict}{named}{_VARIED if root.contradicts else ''}"
    if root.verdict is Verdict.UNKNOWN:
        return f"; the table has no answer{named}"
    return f"; the table expects it{named}: {root.verdict}"


def of_region(root: Root, adding: Sequence[str], suspects: Sequence[Place]) -> str:
    """Return the suspect in a compiled region: kernels that add atomically, and the ops that went into them."""
    ops = " and ".join(list(dict.fromkeys(place.words for place in suspects))[:_MOST])
    if adding:
        names = " and ".join(adding[:_MOST]) + (f" and {len(adding) - _MOST} more" if len(adding) > _MOST else "")
        are, add = ("are its kernels", "add") if len(adding) > 1 else ("is its kernel", "adds")
        return f"; suspected {are} {names}, which {add} atomically{f', of {ops}' if ops else ''}"
    if ops:
        return f"; suspected in it: {ops}{of_tables(root)}"
    if root.contradicts:
        return f"; the tables call everything in it deterministic{_VARIED.replace(' is ', ' are ')}"
    return "; what is inside it is unknown" if root.verdict is None else ""


def of_settings(changed: Sequence[Changed]) -> str:
    """As for a kernel, under different settings."""
    settings = ", ".join(f"{setting.name} ({setting.first}, {setting.second})" for setting in changed[:_MOST])
    more = f" and {len(changed) - _MOST} more" if len(changed) > _MOST else ""
    return f"everything that it read agrees, what it wrote differs, and so do settings of the runs: {settings}{more}"


def of_entry(kind: ValueKind, name: str, when: str) -> str:
    """Something that no recorded call wrote."""
    named = f" {name}" if name else ""
    if kind is ValueKind.OUTSIDE_CHANGE:
        return f"the bytes of{named or ' what it reads'} changed while no op wrote, differently in the two runs"
    if kind is ValueKind.OUTSIDE:
        return f"it reads data from outside the recorded calls{f' ({name})' if name else ''}, and they differ"
    return f"the {kind.value.replace('-', ' ')}{named} differs {when}"


def of_earlier_state(kind: ValueKind) -> str:
    """What a resumed run reads of the steps before."""
    return f"it reads {_EARLIER_STATES.get(kind, 'a state of earlier steps')}, which differs in the resumed run"


def of_numbers(first: str, second: str) -> str:
    """Numbers among the arguments, or the parts of tensors that it was given."""
    numbers, others = without_places(first), without_places(second)
    if numbers == others:
        parts = parted(places_of(first) or "a whole tensor", places_of(second) or "a whole tensor")
        return f"it is given different parts of a tensor: {' and '.join(parts)}"
    pair = f": {' and '.join(parted(numbers, others))}" if numbers and others else ""
    return f"one of its arguments differs{pair}"


def parted(first: str, second: str) -> tuple[str, str]:
    """Return the arguments that differ, a list among them whole, if both texts have the same number of arguments."""
    ours, theirs = (re.split(r", (?![^\[\]()]*[\])])", text) for text in (first, second))
    if len(ours) != len(theirs):
        return first, second
    differing = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    return ", ".join(words for words, _ in differing), ", ".join(words for _, words in differing)


def of_seed(seed: Seed | None) -> str:
    """Return who seeded a generator, and from what."""
    if seed is None:
        return ""
    if seed.is_machines:
        at = f" (at {seed.location})" if seed.location else ""
        return f": it was never seeded, so the machine chose its state{at}"
    numbers = f"with {seed.first} in both" if seed.first else ""
    if seed.first != seed.second:
        numbers = f"with {seed.first}, in the second run with {seed.second}"
    return f": it was seeded at {seed.location} {numbers}".rstrip()


def of_threads(threads: Sequence[str]) -> str:
    """Threads that the program started: they may have written what the call reads."""
    if not threads:
        return ""
    started = " and ".join(list(filter(None, threads))[:2])
    which, are = ("a thread", "is") if len(threads) == 1 else ("threads", "are")
    where = f" that the program started at {started}" if started else " that ran before"
    return f"; {which}{where} may have written it, and {are} not recorded"


def of_processes(started: Sequence[str]) -> str:
    """Processes beside the one that reads: with memory in common, each writes what the others read."""
    where = " and ".join(started[:2])
    return f"; processes that were started at {where} compute beside it, and may share this memory"


def of_structure(before: Place | None, goes_on: Sequence[Place | None], only: Sequence[int]) -> str:
    """Return where the sequences diverge, both continuations, and how many calls each has alone."""
    after = "from the beginning" if before is None else f"after {before.words}"
    first, second = ("ends" if place is None else f"continues with {place.words}" for place in goes_on)
    extra = " and ".join(
        f"{count:,} call{'s' if count > 1 else ''} of the {run} run"
        for count, run in zip(only, ("first", "second"), strict=True)
        if count
    )
    return f"{after} the first run {first}, the second {second} ({extra} not in the other)"
