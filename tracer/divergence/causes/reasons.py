"""The reason of a root in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tracer.divergence.matching.alignment import Gap
from tracer.divergence.model import Changed, Place, Root
from tracer.divergence.recordings import Recording
from tracer.findings import Finding
from tracer.names import GeneratorKind, NumberSource, NumberUse, SeedOrigin, Verdict
from tracer.trace.values import Mark, ValueKind, Values, places_of, without_places

COLLECTIVE = (
    "what this process gave agrees in both runs, and what came back differs: the other processes gave otherwise"
)
RANKS = (
    "it is the first call of an optimizer that reads otherwise on the two ranks: what it reads was not brought together"
)
NOT_DIGESTED = "it reads something that could not be digested, so what differs first is not known"
CHANGED_OUTSIDE = (
    "the calls that wrote what it reads agree in both runs, and yet it reads other bytes: something that is no op wrote"
    " to this memory"
)
LIES_OTHERWISE = (
    "the calls that wrote what it reads agree in both runs, but it is given a view that lies otherwise in memory:"
    " Python chose another order of axes, or an op gave its result in another layout"
)

_SOURCES = {
    NumberSource.CLOCK: "the clock",
    NumberSource.PROCESS_ID: "the process id",
    NumberSource.ENTROPY: "the system's random numbers",
    NumberSource.HASH: "the hash of a text",
    NumberSource.ADDRESS: "an object's address",
}


def of_kernel(root: Root, marks: Mark) -> str:
    """All that the call read agrees."""
    if Mark.COMPILED in marks:
        return "all that the compiled region read agrees in both runs, and what it gave differs"
    return "all that it read agrees in both runs, and what it wrote differs: its kernel does not repeat itself"


def of_tables(root: Root) -> str:
    """What the tables say beside it, agreement and contradiction alike."""
    if root.verdict is None:
        return ""
    named = f" (rule {root.rule})" if root.rule else ""
    if root.contradicts:
        return f"; the table calls it {root.verdict}{named}, and is wrong here"
    if root.verdict in (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL, Verdict.RAISES):
        return f"; the table knows of it{named}: {root.verdict}"
    if root.verdict is Verdict.UNKNOWN:
        return f"; the table does not know{named}"
    return f"; the table calls it {root.verdict}{named}"


def of_region(root: Root, adding: Sequence[str], suspects: Sequence[Finding]) -> str:
    """What is suspected in a compiled region: kernels that add atomically, and the ops that went into them."""
    ops = dict.fromkeys(f"{one.op} at {one.location}" if one.location else one.op for one in suspects)
    made = f", of {' and '.join(list(ops)[:3])}" if ops else ""
    if adding:
        several = len(adding) > 1
        names = " and ".join(adding[:3]) + (f" and {len(adding) - 3} more" if len(adding) > 3 else "")
        return f"; suspected {'are its kernels' if several else 'is its kernel'} {names}, which {_adds(several)}{made}"
    if suspects:
        return f"; suspected is {' and '.join(list(ops)[:3])} in it{of_tables(root).replace('; the', ': the', 1)}"
    if root.contradicts:
        return "; the tables know of nothing in it that differs, and are wrong here"
    return "; what is inside it is not known" if root.verdict is None else ""


def _adds(several: bool) -> str:
    return "add atomically" if several else "adds atomically"


def of_settings(changed: Sequence[Changed]) -> str:
    """As for a kernel, under other settings."""
    told = ", ".join(f"{one.name} ({one.first}, {one.second})" for one in changed[:3])
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return f"all that it read agrees, and what it wrote differs, while the runs differ in {told}{more}"


def of_entry(kind: ValueKind, name: str, step: int, *, is_first: bool) -> str:
    """Something that no recorded call wrote."""
    named = f" {name}" if name else ""
    if kind is ValueKind.OUTSIDE_CHANGE:
        return f"the bytes of{named or ' what it reads'} changed while no op wrote, and not alike in both runs"
    if kind is ValueKind.OUTSIDE:
        made = f" ({name})" if name else ""
        return f"it reads data from outside the recorded calls{made}, and they are others"
    words = {ValueKind.OPTIMIZER_STATE: "optimizer state", ValueKind.GRADIENT: "gradient"}
    when = "before the first step" if is_first else f"when it was first read, in step {step}"
    return f"the {words.get(kind, kind.value)}{named} was another one {when}"


def with_batch(root: Root, first: Values, second: Values, position: int) -> Root:
    """A batch that differs: which loader and position, and whether the other run has it elsewhere."""
    where = f" at position {position}" if position >= 0 else ""
    named = root.name or "the loader"
    sides = [_batches(values, root.name) for values in (first, second)]
    moved = _elsewhere(sides[0], sides[1], position)
    told = f"{named} gave another batch{where}"
    if moved is not None:
        told += f": the second run's is the first run's batch {moved}, so their order differs"
    return msgspec.structs.replace(
        root,
        why=told,
        first=str(position) if position >= 0 else "",
        second=str(moved) if moved is not None else "",
    )


def _batches(values: Values, name: str) -> dict[int, int]:
    """Position -> digest of the batches of one loader, its first epoch."""
    numbers = [at for at, one in enumerate(values.names) if one.kind is ValueKind.BATCH and one.name == name]
    moments = values.moments
    rows = np.flatnonzero(np.isin(moments.name, numbers)).tolist()
    found: dict[int, int] = {}
    for row in rows:
        found.setdefault(int(moments.position[row]), int(moments.digest[row]))
    return found


def _elsewhere(first: dict[int, int], second: dict[int, int], position: int) -> int | None:
    """Where the first run has the batch that the second has at ``position``."""
    there = second.get(position)
    if there is None:
        return None
    return next((at for at, digest in first.items() if digest == there and at != position), None)


def of_another(first: str, second: str) -> str:
    """Other tensors, or the same ones in another order."""
    told = "it is given other tensors in the second run, or the same ones in another order"
    return f"{told}: {first} in the first run, {second} in the second" if first and second else told


def of_numbers(first: str, second: str) -> str:
    """Numbers among the arguments, or the parts of tensors that it was given."""
    if without_places(first) == without_places(second):
        ours, theirs = (places_of(text) or "a whole tensor" for text in (first, second))
        one, two = parted(ours, theirs)
        return f"it is given another part of a tensor: {one} and {two}"
    first, second = without_places(first), without_places(second)
    if first and second:
        one, two = parted(first, second)
        return f"a number among its arguments is another one: {one} and {two}"
    return "a number among its arguments is another one"


def parted(first: str, second: str) -> tuple[str, str]:
    """The words that differ, where the texts are lists of equally many."""
    ours, theirs = first.split(", "), second.split(", ")
    if len(ours) != len(theirs):
        return first, second
    apart = [(one, two) for one, two in zip(ours, theirs, strict=True) if one != two]
    return ", ".join(one for one, _ in apart), ", ".join(two for _, two in apart)


def of_kept(kind: ValueKind) -> str:
    """What a resumed run reads that was there before it went on."""
    words = {
        ValueKind.OPTIMIZER_STATE: "what the optimizer kept of the steps before",
        ValueKind.DATA_POSITION: "data that were made before the resumed part",
        ValueKind.SCALER: "the scaler's state",
    }
    return f"it reads {words.get(kind, 'a state that was kept from the steps before')}, and the resumed run has others"


def of_draw(root: Root, recordings: tuple[Recording, Recording], *, is_resumed: bool = False) -> str:
    """A generator in another state, and since when."""
    told = f"the generator {root.name} was in another state"
    if root.earlier is not None:
        place = root.earlier.location or root.earlier.called_from or "an unknown line"
        seed = _machine_seed(root.name, recordings)
        since = f"after {root.earlier.op} at {place} something that is no recorded call moved or seeded it{seed}"
        return f"{told}, though both runs drew alike before: {since}"
    if is_resumed:
        return f"{told} where the resumed run goes on: it was not restored"
    seeded = _machine_seed(root.name, recordings) or _seeded(root.name, recordings[0])
    return f"{told} before its first recorded draw{seeded}"


def of_ahead(root: Root, name: str, shows: Place, *, is_alone: bool) -> str:
    """A draw of another size, or of one run alone: the generator is ahead, or behind, from here on."""
    if is_alone:
        told = f"only the {'second' if root.only_second else 'first'} run draws here"
    else:
        one, two = parted(root.first, root.second)
        told = f"it draws another number of values: {one} and {two}" if one and two else "it draws otherwise"
    return f"{told}, so the generator {name} is in another state before the next draw of both, {_call(shows)}"


def _machine_seed(name: str, recordings: tuple[Recording, Recording]) -> str:
    """Where a seed came from that is another number in every process."""
    names = (name, GeneratorKind.spelt(name).value)
    for recording in recordings:
        for number in recording.trace.machine_numbers if recording.trace is not None else ():
            if number.use is NumberUse.SEED and number.what in names:
                return f": its seed came from {_SOURCES[number.source]}, at {number.location or 'an unknown line'}"
    return ""


def of_machine(root: Root, recordings: tuple[Recording, Recording]) -> str:
    """What the program takes that is another number in every process: it may be where this comes from."""
    found = {
        number.location: f"{number.what or _SOURCES[number.source]} at {number.location}"
        for recording in recordings
        for number in (recording.trace.machine_numbers if recording.trace is not None else ())
        if number.use is not NumberUse.SEED and number.location and not (number.by_library or number.is_read_in_text)
    }
    for recording in recordings:
        for draw in recording.trace.host_draws if recording.trace is not None else ():
            if draw.origin is SeedOrigin.MACHINE and draw.location:
                found.setdefault(draw.location, f"{draw.op} at {draw.location}, whose generator nobody seeded")
    here = [found[place] for place in (root.location, root.called_from) if place in found]
    told = here[:1] or list(found.values())[:2]
    return f"; the program takes another number in every process: {' and '.join(told)}" if told else ""


def _seeded(name: str, recording: Recording) -> str:
    """Who seeded a generator, as the first run's trace has it."""
    if recording.trace is None:
        return ""
    for generator in recording.trace.generators:
        if generator.name != name:
            continue
        if generator.origin is SeedOrigin.MACHINE:
            at = f" (at {generator.seeded_at})" if generator.seeded_at else ""
            return f": its state was left to the machine{at}, and nobody seeded it"
        if generator.seeded_at:
            return f": it was seeded at {generator.seeded_at}"
    return ""


def of_unwritten(origin: Place | None) -> str:
    """Memory that nobody had written."""
    if origin is None:
        return "it reads memory that nobody had written"
    where = f" at {origin.location}" if origin.location else ""
    return f"it reads memory that nobody had written: {origin.op}{where} gave it"


def of_structure(before: Place | None, first: Place | None, second: Place | None, gap: Gap) -> str:
    """Where the sequences part, and both continuations."""
    after = "from the beginning" if before is None else f"after {_call(before)}"
    ours, theirs = (_goes_on(one) for one in (first, second))
    only = ((gap.first_end - gap.first, "first"), (gap.second_end - gap.second, "second"))
    extra = " and ".join(f"{count:,} call{'s' * (count != 1)} of the {run} run" for count, run in only if count)
    return f"{after} the first run {ours}, the second {theirs} ({extra} not in the other)"


def _goes_on(one: Place | None) -> str:
    return "ends" if one is None else f"goes on with {_call(one)}"


def _call(one: Place) -> str:
    return f"{one.op} at {one.location}" if one.location else one.op
