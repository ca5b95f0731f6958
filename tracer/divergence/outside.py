"""What two runs took in from outside, held against each other: which inputs differ, and which may explain a root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tracer.divergence.causes import RootCause
from tracer.divergence.model import Outside, Root
from tracer.names import OutsideKind
from tracer.trace.file import Trace
from tracer.trace.records import OutsideInput, Place

#: What stands for an input in a run that did not take it in.
NOT_TAKEN_IN = "not taken in"
#: The first schema of traces that know of it.
_SCHEMA = 4
#: Another value in every process, whatever else differs: named only where nothing else differs.
_ALWAYS_ANOTHER = (
    *(OutsideKind.MACHINE_NUMBER, OutsideKind.FILE_TIME, OutsideKind.TEMPORARY_NAME, OutsideKind.CLOCK),
    *(OutsideKind.THREAD, OutsideKind.UNWRITTEN_MEMORY, OutsideKind.PORT),
)
#: They decide which calls follow, where they decide anything.
_DECIDING = (OutsideKind.READINESS, OutsideKind.EXISTENCE)
#: Named only where nothing else differs.
_WEAK = (*_ALWAYS_ANOTHER, *_DECIDING)
#: These differ wherever they stand: nothing repeats them.
_NEVER_ALIKE = (OutsideKind.RANDOM_QUERY, OutsideKind.THREAD)
#: Causes that may lie in what the program took in; a kernel's and those of unwritten memory and settings do not.
_MAY_COME_FROM_OUTSIDE = frozenset(
    {
        *(RootCause.INPUT_DATA, RootCause.OUTSIDE_CHANGE, RootCause.INITIAL_STATE, RootCause.ARGUMENT),
        *(RootCause.STRUCTURE, RootCause.DRAW, RootCause.UNKNOWN),
    }
)
#: A weak one is named only where the data themselves differ, or a number does.
_MAY_COME_FROM_WEAK = frozenset({RootCause.INPUT_DATA, RootCause.OUTSIDE_CHANGE, RootCause.ARGUMENT})

#: They answer the program, and their answers are seen only in part.
_ANSWERING = (OutsideKind.FOREIGN_CALL, OutsideKind.PROGRAM, OutsideKind.CONNECTION)

_KINDS = list(OutsideKind)

_Key = tuple[OutsideKind, str, Place]


def compare_outside(first: Trace | None, second: Trace | None, *, began: int = 0) -> tuple[Outside, ...]:
    """Each input of either run: those that differ first, then in the order in which a difference explains more.

    What imports took in stands among them only where it differs. ``began``: when the first run began, in milliseconds
    since 1970; a file that was written since and that only the second run found so was written by the first.
    """
    if first is None or second is None or min(first.schema, second.schema) < _SCHEMA:
        return ()
    ours, theirs = _by_key(first.outside), _by_key(second.outside)
    pairs = [_pair(key, ours.get(key), theirs.get(key), began) for key in dict.fromkeys((*ours, *theirs))]
    return tuple(sorted((pair for pair in pairs if pair.differs or not pair.by_import), key=_order))


def joined_outside(compared: Iterable[Sequence[Outside]]) -> tuple[Outside, ...]:
    """Of several comparisons with one first run, each input once: as it is where it differs, if it does."""
    joined: dict[_Key, Outside] = {}
    for inputs in compared:
        for outside in inputs:
            key = (outside.kind, outside.name, outside.place)
            if key not in joined or (outside.differs and not joined[key].differs):
                joined[key] = outside
    return tuple(sorted(joined.values(), key=_order))


def _order(outside: Outside) -> tuple[object, ...]:
    return not outside.differs, _KINDS.index(outside.kind), outside.calls


def is_always_another(outside: Outside) -> bool:
    """Return whether it is another one in every process, whatever else differs."""
    return outside.kind in _ALWAYS_ANOTHER


def is_weak(outside: Outside) -> bool:
    """Return whether it explains something only where nothing else differs."""
    asks_clock = outside.kind is OutsideKind.RANDOM_QUERY and not outside.name.startswith("random")
    return asks_clock or outside.kind in _WEAK


def before(root: Root, inputs: Iterable[Outside]) -> tuple[Outside, ...]:
    """Those of ``inputs`` that differ, precede ``root``, and may explain it.

    If nothing but what differs in most runs does, those that are not compared come before it, the latest first.
    """
    if root.cause not in _MAY_COME_FROM_OUTSIDE:
        return ()
    differing = [outside for outside in inputs if outside.differs and outside.calls <= root.call]
    strong = tuple(outside for outside in differing if not is_weak(outside))
    if strong:
        return strong
    seed = root.reason.seed if root.reason is not None else None
    if seed is not None and seed.first != seed.second and seed.source is None:
        differing = [outside for outside in differing if outside.kind is not OutsideKind.CLOCK]
    elif root.cause not in _MAY_COME_FROM_WEAK:
        return tuple(outside for outside in differing if outside.kind in (OutsideKind.THREAD, *_DECIDING))
    here = tuple(outside for outside in differing if root.location in (outside.location, outside.called_from))
    if here or root.cause not in _MAY_COME_FROM_WEAK:
        return here or tuple(differing)
    unanswered = [
        outside
        for outside in inputs
        if outside.differs is None and outside.kind in _ANSWERING and outside.calls <= root.call
    ]
    return (*sorted(unanswered, key=lambda outside: -outside.calls), *differing)


def at_the_end(inputs: Iterable[Outside]) -> tuple[Outside, ...]:
    """Those of ``inputs`` that differ, and may explain what runs leave although all calls agree."""
    differing = [outside for outside in inputs if outside.differs]
    strong = tuple(outside for outside in differing if not is_weak(outside))
    return strong or tuple(outside for outside in differing if outside.kind is OutsideKind.THREAD)


def _by_key(inputs: Iterable[OutsideInput]) -> dict[_Key, OutsideInput]:
    by_key: dict[_Key, OutsideInput] = {}
    for outside_input in inputs:
        by_key.setdefault((outside_input.kind, outside_input.name, outside_input.place), outside_input)
    return by_key


def _pair(key: _Key, ours: OutsideInput | None, theirs: OutsideInput | None, began: int) -> Outside:
    kind, name, place = key
    either = ours or theirs
    assert either is not None
    differs = _differs(ours, theirs)
    return Outside(
        kind=kind,
        name=name,
        **place._asdict(),
        differs=differs,
        first=_said(ours),
        second=_said(theirs),
        only_order=bool(differs and ours and theirs and ours.order and ours.digest == theirs.digest),
        by_first_run=bool(differs and began and theirs and theirs.modified >= began and not _is_since(ours, began)),
        by_import=either.by_import,
        calls=min(side.calls for side in (ours, theirs) if side is not None),
    )


def _is_since(ours: OutsideInput | None, began: int) -> bool:
    """Return whether the first run read a file written since it began: each run writes its own before it reads it."""
    return ours is not None and ours.modified > began  # in milliseconds: one of the same may have been before


def _differs(ours: OutsideInput | None, theirs: OutsideInput | None) -> bool | None:
    """Return whether it is another one; ``None`` if that is unknown."""
    if ours is None or theirs is None or ours.kind in _NEVER_ALIKE:
        return True
    if not (ours.digest and theirs.digest) or _key_of(ours.digest) != _key_of(theirs.digest):
        return None
    if (ours.digest, ours.order) != (theirs.digest, theirs.order):
        return True
    return None if ours.is_partial or theirs.is_partial else False


def _key_of(digest: str) -> str:
    """Return the key that the digest was made by; empty for a digest without."""
    return digest.rpartition(":")[0]


def _said(outside_input: OutsideInput | None) -> str:
    return ", ".join(_words(outside_input)) if outside_input is not None else NOT_TAKEN_IN


def _words(outside_input: OutsideInput) -> Iterator[str]:
    """Yield what is known of an input in one run, without its contents."""
    if outside_input.kind is OutsideKind.THREAD:
        yield f"while {outside_input.size:,} {'call was' if outside_input.size == 1 else 'calls were'} recorded"
        return
    if outside_input.kind is OutsideKind.DIRECTORY:
        yield f"{outside_input.size:,} {'entry' if outside_input.size == 1 else 'entries'}"
    elif outside_input.size:
        yield f"{outside_input.size:,} {'byte' if outside_input.size == 1 else 'bytes'}"
    yield f"digest {outside_input.digest.rpartition(':')[2]}" if outside_input.digest else "not digested"
    if outside_input.order:
        yield f"order {outside_input.order}"
    if outside_input.count > 1:
        yield f"{outside_input.count:,} times"
