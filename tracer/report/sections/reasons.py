"""Why runs diverge at a root, in one sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tracer.divergence.causes import Shows
from tracer.divergence.model import Changed, Loading, NotRestored, Place, Reason, Root, Seed
from tracer.names import Verdict
from tracer.report.words import joined, plural
from tracer.trace.values import ValueKind
from tracer.trace.values.digests import places_of, without_places

#: What a resumed run reads that earlier steps left.
_EARLIER_STATES: Mapping[ValueKind | None, str] = {
    ValueKind.OPTIMIZER_STATE: "the optimizer's state of earlier steps",
    ValueKind.DATA_POSITION: "data from before the resumed part",
    ValueKind.SCALER: "the scaler's state",
}


#: The most inputs that a sentence names.
_MOST_INPUTS = 3
#: Why a table is contradicted.
_VARIED = ", and is wrong here: it varied when it was replayed on the spot"


def why_of(root: Root) -> str:
    """The reason for ``root``, without a full stop; empty if nothing shows it."""
    reason = root.reason
    if reason is None:
        return ""
    why = reason.shows.says or _shown(root, reason)
    if root.cause.is_of_op:
        why += _of_region(root, reason) if root.region else _of_tables(root)
    elif reason.shows in (Shows.REPLAYED, Shows.NOT_REPLAYED, Shows.THREADS):
        why += _of_tables(root)
    if reason.loading is not None and reason.shows is not Shows.DRAW:
        why += _of_loading(reason.loading, is_given=reason.shows is Shows.BATCH)
    return why + _of_threads(reason.threads) + _of_processes(reason.processes)


def lack_of(lack: NotRestored) -> str:
    """Return why something counts as not restored."""
    if lack.root is not None:
        return why_of(lack.root)
    if lack.has_none:
        return f"the resumed run has none, and the other run has {lack.count:,}"
    if lack.is_missing:
        return f"the resumed run lacks it ({lack.count:,} in all)"
    if lack.first and lack.second:
        first, second = _parted(lack.first, lack.second)
        return f"it was {first}, and is {second} in the resumed run"
    return f"it differs in the resumed run ({lack.count:,} in all)" if lack.count else ""


def _shown(root: Root, reason: Reason) -> str:
    """The sentence for evidence that needs more than a fixed one."""
    shows = reason.shows
    if shows is Shows.SETTINGS:
        return _of_settings(reason.settings)
    if shows is Shows.ENTERED:
        return _of_entry(root, is_first=reason.is_first)
    if shows is Shows.BATCH:
        where = f" at position {reason.position}" if reason.position >= 0 else ""
        if reason.elsewhere is not None:
            where += f": the second run's is the first run's batch {reason.elsewhere}, so their order differs"
        return f"{root.name or 'the loader'} yielded a different batch{where}"
    if shows is Shows.OTHER_TENSORS:
        pairs = f": {root.first} in the first run, {root.second} in the second" if root.first and root.second else ""
        return f"it is given different tensors in the second run, or the same ones in another order{pairs}"
    if shows is Shows.NUMBERS:
        return _of_numbers(root.first, root.second)
    if shows is Shows.KEPT:
        state = _EARLIER_STATES.get(root.kind, "a state of earlier steps")
        return f"it reads {state}, which differs in the resumed run"
    if shows is Shows.DRAW:
        return _of_draw(root, reason)
    if shows is Shows.DRAWN_AHEAD:
        return _of_ahead(root, reason)
    if shows is Shows.UNWRITTEN:
        origin = root.earlier
        where = f" at {origin.location}" if origin is not None and origin.location else ""
        source = f", allocated by {origin.op}{where}" if origin is not None else ""
        return f"it reads unwritten memory{source}"
    if shows is Shows.THREADS:
        return "everything that it read agreed when it was digested, and what it wrote differs"
    return _of_structure(root.earlier, reason)


#: Global generators, as sentences speak of them.
_GENERATORS = {"python": "Python's `random`", "numpy": "NumPy's `numpy.random`", "torch": "torch's own generator"}


def _of_loading(loading: Loading, *, is_given: bool) -> str:
    """Whether its indices and its workers' seeds agree, and what drew as it was loaded.

    ``is_given``: the loader gave the batch; else it is being loaded.
    """
    said = [] if is_given else [f"{loading.loader} loads batch {loading.position} here"]
    if loading.indices_agree is not None:
        order = f": it drew them from generator {loading.order_from} in another state" if loading.order_from else ""
        said.append(f"the sampler's indices {'agree' if loading.indices_agree else 'differ'}{order}")
    elif loading.is_iterable:
        said.append("its data set gives the order itself, so there are no indices to compare")
    elif loading.workers is not None:
        said.append("its indices were not seen")
    if loading.seeds_agree is not None:
        said.append(f"its workers' seeds {'agree' if loading.seeds_agree else 'differ'}")
    generators = joined([_GENERATORS.get(name, name) for name in loading.draws])
    method = f" in {loading.fetched_by} ({loading.fetched_at})" if loading.fetched_by else ""
    if loading.workers and not loading.workers_seen:
        how = f"they are started by {loading.start_method}, not forked"
        said.append(f"what its workers drew{method} was not seen: {how}")
    elif loading.workers:
        said.append(f"its workers drew from {generators or 'no global generator'}{method}")
    elif loading.draws:
        said.append(f"it is loaded in the training process, where {generators} was in another state")
    return "".join(f"; {words}" for words in said)


def _of_tables(root: Root) -> str:
    """Return the tables' verdict on it, whether they agree or not."""
    if root.verdict is None:
        return ""
    named = f" (rule {root.rule})" if root.rule else ""
    if not root.contradicts and root.verdict in (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL, Verdict.RAISES):
        return f"; the table expects it{named}: {root.verdict}"
    if not root.contradicts and root.verdict is Verdict.UNKNOWN:
        return f"; the table has no answer{named}"
    return f"; the table calls it {root.verdict}{named}{_VARIED if root.contradicts else ''}"


def _of_region(root: Root, reason: Reason) -> str:
    """Return the suspect in a compiled region: kernels that add atomically, and the ops that went into them."""
    adding = reason.adding
    ops = list(dict.fromkeys(map(_call, reason.suspects)))[:3]
    if adding:
        several = len(adding) > 1
        names = " and ".join(adding[:3]) + (f" and {len(adding) - 3} more" if len(adding) > 3 else "")
        sources = f", of {' and '.join(ops)}" if ops else ""
        are, add = ("are its kernels", "add") if several else ("is its kernel", "adds")
        return f"; suspected {are} {names}, which {add} atomically{sources}"
    if ops:
        return f"; suspected in it: {' and '.join(ops)}{_of_tables(root)}"
    if root.contradicts:
        return f"; the tables call everything in it deterministic{_VARIED.replace(' is ', ' are ')}"
    return "; what is inside it is unknown" if root.verdict is None else ""


def _of_settings(changed: Sequence[Changed]) -> str:
    """As for a kernel, under different settings."""
    settings = ", ".join(f"{setting.name} ({setting.first}, {setting.second})" for setting in changed[:3])
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return f"everything that it read agrees, what it wrote differs, and so do settings of the runs: {settings}{more}"


def _of_entry(root: Root, *, is_first: bool) -> str:
    """Something that no recorded call wrote."""
    kind, name = root.kind, root.name
    named = f" {name}" if name else ""
    if kind is ValueKind.OUTSIDE_CHANGE:
        return f"the bytes of{named or ' what it reads'} changed while no op wrote, differently in the two runs"
    if kind is ValueKind.OUTSIDE or kind is None:
        named_data = f" ({name})" if name else ""
        return f"it reads data from outside the recorded calls{named_data}, and they differ"
    words = {ValueKind.OPTIMIZER_STATE: "optimizer state", ValueKind.GRADIENT: "gradient"}
    when = "before the first step" if is_first else f"when it was first read, in step {root.step}"
    return f"the {words.get(kind, kind.value)}{named} differs {when}"


def _of_numbers(first: str, second: str) -> str:
    """Numbers among the arguments, or the parts of tensors that it was given."""
    numbers, others = without_places(first), without_places(second)
    if numbers == others:
        parts = _parted(places_of(first) or "a whole tensor", places_of(second) or "a whole tensor")
        return f"it is given different parts of a tensor: {' and '.join(parts)}"
    pair = f": {' and '.join(_parted(numbers, others))}" if numbers and others else ""
    return f"one of its arguments differs{pair}"


def _parted(first: str, second: str) -> tuple[str, str]:
    """Return the arguments that differ, a list among them whole, if both texts have the same number of arguments."""
    ours, theirs = (re.split(r", (?![^\[\]()]*[\])])", text) for text in (first, second))
    if len(ours) != len(theirs):
        return first, second
    differing = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    return ", ".join(words for words, _ in differing), ", ".join(words for _, words in differing)


def _of_draw(root: Root, reason: Reason) -> str:
    """A generator in a different state, and since when."""
    state = f"the generator {root.name} was in a different state"
    place = "" if root.earlier is None else root.earlier.location or root.earlier.called_from or "an unknown line"
    if reason.is_resumed and root.earlier is not None:
        by = f"{root.earlier.op} at {place}"
        by = by if reason.loading is None else f"the iterator of {reason.loading.loader}, which draws ({by})"
        given = (
            f"was restored at {reason.seed.location}, and then"
            if reason.seed is not None
            else "had the first run's, and was"
        )
        return f"{state}: it {given} advanced by {by}: restore it after that"
    if root.earlier is not None:
        since = f"after {root.earlier.op} at {place} something other than a recorded call advanced or seeded it"
        return f"{state}, though earlier draws agree: {since}{_seeded(reason.seed)}"
    if reason.is_resumed and reason.seed is not None:
        given = f"it was given a saved state at {reason.seed.location}"
        return f"{state} where the run resumes: {given}, which was saved at another moment or drawn from since"
    if reason.is_resumed:
        return f"{state} where the run resumes: it was not restored"
    return f"{state} before its first recorded draw{_seeded(reason.seed)}"


def _seeded(seed: Seed | None) -> str:
    """Return who seeded a generator, and from what."""
    if seed is None:
        return ""
    numbers = f"with {seed.first}, in the second run with {seed.second}" if seed.first != seed.second else ""
    if seed.is_machines:
        at = f" (at {seed.location})" if seed.location else ""
        return f": it was never seeded, so the machine chose its state{at}"
    numbers = numbers or (f"with {seed.first} in both" if seed.first else "")
    return f": it was seeded at {seed.location} {numbers}".rstrip()


def _of_ahead(root: Root, reason: Reason) -> str:
    """A draw of a different size, or by one run only: the generator is ahead or behind from here on."""
    if reason.is_alone:
        draws = f"only the {'second' if root.only_second else 'first'} run draws here"
    else:
        counts = _parted(root.first, root.second)
        draws = "it draws " + (f"different numbers of values: {' and '.join(counts)}" if all(counts) else "differently")
    shows = f", {_call(reason.next_draw)}" if reason.next_draw is not None else ""
    return f"{draws}, so the generator {root.name} is in a different state before the next common draw{shows}"


def _of_threads(threads: Sequence[str]) -> str:
    """Threads that the program started: they may have written what the call reads."""
    if not threads:
        return ""
    started = " and ".join(list(filter(None, threads))[:2])
    which = "a thread" if len(threads) == 1 else "threads"
    where = f" that the program started at {started}" if started else " that ran before"
    return f"; {which}{where} may have written it, and {'is' if len(threads) == 1 else 'are'} not recorded"


def _of_processes(processes: Sequence[str]) -> str:
    """Processes beside the one that reads: with memory in common, each writes what the others read."""
    started = " and ".join(processes[:2])
    return f"; processes that were started at {started} compute beside it, and may share this memory" if started else ""


def _of_structure(before: Place | None, reason: Reason) -> str:
    """Return where the sequences diverge, and both continuations."""
    after = "from the beginning" if before is None else f"after {_call(before)}"
    first, second = ("ends" if place is None else f"continues with {_call(place)}" for place in reason.goes_on)
    extra = " and ".join(
        f"{plural(count, 'call')} of the {run} run"
        for count, run in zip(reason.only, ("first", "second"), strict=True)
        if count
    )
    return f"{after} the first run {first}, the second {second} ({extra} not in the other)"


def _call(place: Place) -> str:
    return f"{place.op} at {place.location}" if place.location else place.op
