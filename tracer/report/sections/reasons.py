"""Why runs part at a root, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.divergence.causes import Shows
from tracer.divergence.model import Changed, NotRestored, Place, Reason, Root, Seed, Taken
from tracer.names import NumberSource, Verdict
from tracer.trace.values import ValueKind, places_of, without_places

_SOURCES = {
    NumberSource.CLOCK: "the clock",
    NumberSource.PROCESS_ID: "the process id",
    NumberSource.ENTROPY: "the system's random numbers",
    NumberSource.HASH: "the hash of a text",
    NumberSource.ADDRESS: "an object's address",
}


def why_of(root: Root) -> str:
    """The reason of ``root``, without its full stop; empty where nothing shows it."""
    reason = root.reason
    if reason is None:
        return ""
    told = reason.shows.says or _shown(root, reason)
    if root.cause.is_of_op:
        told += _of_region(root, reason) if root.region else _of_tables(root)
    return told + _of_machine(reason.taken)


def lack_of(one: NotRestored) -> str:
    """Why something counts as not restored."""
    if one.root is not None:
        return why_of(one.root)
    if one.has_none:
        return f"the resumed run has none, and the other has {one.count:,}"
    if one.is_missing:
        return f"the resumed run does not have it ({one.count:,} such)"
    if one.first and one.second:
        first, second = _parted(one.first, one.second)
        return f"it was {first}, and is {second} in the resumed run"
    return f"the resumed run has another one ({one.count:,} such)" if one.count else ""


def _shown(root: Root, reason: Reason) -> str:
    """What shows it, where that is more than a sentence."""
    if reason.shows is Shows.SETTINGS:
        return _of_settings(reason.settings)
    if reason.shows is Shows.ENTERED:
        return _of_entry(root, is_first=reason.is_first)
    if reason.shows is Shows.BATCH:
        where = f" at position {reason.position}" if reason.position >= 0 else ""
        told = f"{root.name or 'the loader'} gave another batch{where}"
        moved = f": the second run's is the first run's batch {reason.elsewhere}, so their order differs"
        return told if reason.elsewhere is None else told + moved
    if reason.shows is Shows.OTHER_TENSORS:
        return _of_another(root.first, root.second)
    if reason.shows is Shows.NUMBERS:
        return _of_numbers(root.first, root.second)
    if reason.shows is Shows.KEPT:
        return _of_kept(root.kind)
    if reason.shows is Shows.DRAW:
        return _of_draw(root, reason)
    if reason.shows is Shows.DRAWN_AHEAD:
        return _of_ahead(root, reason)
    if reason.shows is Shows.UNWRITTEN:
        return _of_unwritten(root.earlier)
    return _of_structure(root.earlier, reason)


def _of_tables(root: Root) -> str:
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


def _of_region(root: Root, reason: Reason) -> str:
    """What is suspected in a compiled region: kernels that add atomically, and the ops that went into them."""
    adding = reason.adding
    ops = list(dict.fromkeys(map(_call, reason.suspects)))[:3]
    if adding:
        several = len(adding) > 1
        names = " and ".join(adding[:3]) + (f" and {len(adding) - 3} more" if len(adding) > 3 else "")
        made = f", of {' and '.join(ops)}" if ops else ""
        are, add = ("are its kernels", "add") if several else ("is its kernel", "adds")
        return f"; suspected {are} {names}, which {add} atomically{made}"
    if ops:
        return f"; suspected is {' and '.join(ops)} in it{_of_tables(root).replace('; the', ': the', 1)}"
    if root.contradicts:
        return "; the tables know of nothing in it that differs, and are wrong here"
    return "; what is inside it is not known" if root.verdict is None else ""


def _of_settings(changed: Sequence[Changed]) -> str:
    """As for a kernel, under other settings."""
    told = ", ".join(f"{one.name} ({one.first}, {one.second})" for one in changed[:3])
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return f"all that it read agrees, and what it wrote differs, while the runs differ in {told}{more}"


def _of_entry(root: Root, *, is_first: bool) -> str:
    """Something that no recorded call wrote."""
    kind, name = root.kind, root.name
    named = f" {name}" if name else ""
    if kind is ValueKind.OUTSIDE_CHANGE:
        return f"the bytes of{named or ' what it reads'} changed while no op wrote, and not alike in both runs"
    if kind is ValueKind.OUTSIDE or kind is None:
        made = f" ({name})" if name else ""
        return f"it reads data from outside the recorded calls{made}, and they are others"
    words = {ValueKind.OPTIMIZER_STATE: "optimizer state", ValueKind.GRADIENT: "gradient"}
    when = "before the first step" if is_first else f"when it was first read, in step {root.step}"
    return f"the {words.get(kind, kind.value)}{named} was another one {when}"


def _of_another(first: str, second: str) -> str:
    """Other tensors, or the same ones in another order."""
    told = "it is given other tensors in the second run, or the same ones in another order"
    return f"{told}: {first} in the first run, {second} in the second" if first and second else told


def _of_numbers(first: str, second: str) -> str:
    """Numbers among the arguments, or the parts of tensors that it was given."""
    if without_places(first) == without_places(second):
        ours, theirs = (places_of(text) or "a whole tensor" for text in (first, second))
        one, two = _parted(ours, theirs)
        return f"it is given another part of a tensor: {one} and {two}"
    first, second = without_places(first), without_places(second)
    if first and second:
        one, two = _parted(first, second)
        return f"a number among its arguments is another one: {one} and {two}"
    return "a number among its arguments is another one"


def _parted(first: str, second: str) -> tuple[str, str]:
    """The words that differ, where the texts are lists of equally many."""
    ours, theirs = first.split(", "), second.split(", ")
    if len(ours) != len(theirs):
        return first, second
    apart = [(one, two) for one, two in zip(ours, theirs, strict=True) if one != two]
    return ", ".join(one for one, _ in apart), ", ".join(two for _, two in apart)


def _of_kept(kind: ValueKind | None) -> str:
    """What a resumed run reads that was there before it went on."""
    words = {
        ValueKind.OPTIMIZER_STATE: "what the optimizer kept of the steps before",
        ValueKind.DATA_POSITION: "data that were made before the resumed part",
        ValueKind.SCALER: "the scaler's state",
    }
    kept = "a state that was kept from the steps before"
    return f"it reads {kept if kind is None else words.get(kind, kept)}, and the resumed run has others"


def _of_draw(root: Root, reason: Reason) -> str:
    """A generator in another state, and since when."""
    told = f"the generator {root.name} was in another state"
    if root.earlier is not None:
        place = root.earlier.location or root.earlier.called_from or "an unknown line"
        since = f"after {root.earlier.op} at {place} something that is no recorded call moved or seeded it"
        return f"{told}, though both runs drew alike before: {since}{_seeded(reason.seed)}"
    if reason.is_resumed:
        return f"{told} where the resumed run goes on: it was not restored"
    return f"{told} before its first recorded draw{_seeded(reason.seed)}"


def _seeded(seed: Seed | None) -> str:
    """Who seeded a generator, and from what."""
    if seed is None:
        return ""
    if seed.source is not None:
        return f": its seed came from {_SOURCES[seed.source]}, at {seed.location or 'an unknown line'}"
    if seed.is_machines:
        at = f" (at {seed.location})" if seed.location else ""
        return f": its state was left to the machine{at}, and nobody seeded it"
    return f": it was seeded at {seed.location}"


def _of_ahead(root: Root, reason: Reason) -> str:
    """A draw of another size, or of one run alone: the generator is ahead, or behind, from here on."""
    if reason.is_alone:
        told = f"only the {'second' if root.only_second else 'first'} run draws here"
    else:
        one, two = _parted(root.first, root.second)
        told = f"it draws another number of values: {one} and {two}" if one and two else "it draws otherwise"
    shows = _call(reason.next_draw) if reason.next_draw is not None else "which shows it"
    return f"{told}, so the generator {root.name} is in another state before the next draw of both, {shows}"


def _of_machine(taken: Sequence[Taken]) -> str:
    """What the program takes that is another number in every process: it may be where this comes from."""
    told = " and ".join(map(_taken, taken))
    return f"; the program takes another number in every process: {told}" if told else ""


def _taken(one: Taken) -> str:
    if one.is_unseeded:
        return f"{one.what} at {one.location}, whose generator nobody seeded"
    return f"{one.what or (_SOURCES[one.source] if one.source is not None else 'a number')} at {one.location}"


def _of_unwritten(origin: Place | None) -> str:
    """Memory that nobody had written."""
    if origin is None:
        return "it reads memory that nobody had written"
    where = f" at {origin.location}" if origin.location else ""
    return f"it reads memory that nobody had written: {origin.op}{where} gave it"


def _of_structure(before: Place | None, reason: Reason) -> str:
    """Where the sequences part, and both continuations."""
    after = "from the beginning" if before is None else f"after {_call(before)}"
    ours, theirs = map(_goes_on, reason.goes_on)
    extra = " and ".join(
        f"{count:,} call{'s' * (count != 1)} of the {run} run"
        for count, run in zip(reason.only, ("first", "second"), strict=True)
        if count
    )
    return f"{after} the first run {ours}, the second {theirs} ({extra} not in the other)"


def _goes_on(one: Place | None) -> str:
    return "ends" if one is None else f"goes on with {_call(one)}"


def _call(one: Place) -> str:
    return f"{one.op} at {one.location}" if one.location else one.op
