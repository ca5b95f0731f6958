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
_ALWAYS_ANOTHER = (OutsideKind.MACHINE_NUMBER, OutsideKind.TEMPORARY_NAME, OutsideKind.CLOCK)
#: Causes that may lie in what the program took in; a kernel's and those of unwritten memory and settings do not.
_MAY_COME_FROM_OUTSIDE = frozenset(
    {
        *(RootCause.INPUT_DATA, RootCause.OUTSIDE_CHANGE, RootCause.INITIAL_STATE, RootCause.ARGUMENT),
        *(RootCause.STRUCTURE, RootCause.DRAW, RootCause.UNKNOWN),
    }
)
#: A weak one is named only where the data themselves differ, or a number does.
_MAY_COME_FROM_WEAK = frozenset({RootCause.INPUT_DATA, RootCause.OUTSIDE_CHANGE, RootCause.ARGUMENT})

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
    found: dict[_Key, Outside] = {}
    for inputs in compared:
        for one in inputs:
            key = (one.kind, one.name, one.place)
            if key not in found or (one.differs and not found[key].differs):
                found[key] = one
    return tuple(sorted(found.values(), key=_order))


def _order(one: Outside) -> tuple[object, ...]:
    return not one.differs, _KINDS.index(one.kind), one.calls


def is_always_another(one: Outside) -> bool:
    """Is it another one in every process, whatever else differs?"""
    return one.kind in _ALWAYS_ANOTHER


def before(root: Root, inputs: Iterable[Outside]) -> tuple[Outside, ...]:
    """Those of ``inputs`` that differ, came in before ``root``, and may be where it comes from."""
    if root.cause not in _MAY_COME_FROM_OUTSIDE:
        return ()
    differing = [one for one in inputs if one.differs and one.calls <= root.call]
    strong = tuple(one for one in differing if not is_always_another(one))
    if strong or root.cause not in _MAY_COME_FROM_WEAK:
        return strong
    here = tuple(one for one in differing if root.location in (one.location, one.called_from))
    return here or tuple(differing)


def _by_key(inputs: Iterable[OutsideInput]) -> dict[_Key, OutsideInput]:
    found: dict[_Key, OutsideInput] = {}
    for one in inputs:
        found.setdefault((one.kind, one.name, one.place), one)
    return found


def _pair(key: _Key, one: OutsideInput | None, two: OutsideInput | None, began: int) -> Outside:
    kind, name, place = key
    known = one or two
    assert known is not None
    differs = _differs(one, two)
    return Outside(
        kind=kind,
        name=name,
        **place._asdict(),
        differs=differs,
        first=_said(one),
        second=_said(two),
        only_order=bool(differs and one is not None and two is not None and one.digest == two.digest),
        by_first_run=bool(differs and began and two is not None and two.modified >= began),
        by_import=known.by_import,
        calls=min(side.calls for side in (one, two) if side is not None),
    )


def _differs(one: OutsideInput | None, two: OutsideInput | None) -> bool | None:
    """Is it another one? ``None`` where that cannot be told."""
    if one is None or two is None:
        return True
    if not (one.digest and two.digest) or _key_of(one.digest) != _key_of(two.digest):
        return None
    if (one.digest, one.order) != (two.digest, two.order):
        return True
    return None if one.is_partial or two.is_partial else False


def _key_of(digest: str) -> str:
    """By which key it was made; empty for a digest without."""
    return digest.rpartition(":")[0]


def _said(one: OutsideInput | None) -> str:
    return ", ".join(_words(one)) if one is not None else NOT_TAKEN_IN


def _words(one: OutsideInput) -> Iterator[str]:
    """What is known of an input in one run, without what it holds."""
    if one.kind is OutsideKind.DIRECTORY:
        yield f"{one.size:,} {'entry' if one.size == 1 else 'entries'}"
    elif one.size:
        yield f"{one.size:,} {'byte' if one.size == 1 else 'bytes'}"
    yield f"digest {one.digest.rpartition(':')[2]}" if one.digest else "not digested"
    if one.order:
        yield f"order {one.order}"
    if one.count > 1:
        yield f"{one.count:,} times"
