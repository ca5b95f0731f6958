"""What two runs left behind, compared: parameters, buffers, optimizer states, outputs, files, printed lines."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from tracer.divergence.model import EndState, Outputs
from tracer.trace.values import ValueKind, Values
from tracer.trace.values.columns import NO_DIGEST, STEPS_ON_ANOTHER_THREAD

#: What training leaves.
OF_TRAINING = (ValueKind.PARAMETER, ValueKind.BUFFER, ValueKind.OPTIMIZER_STATE)
_FILES = (ValueKind.FILE, ValueKind.TEXT)
_KINDS = (*OF_TRAINING, *_FILES, ValueKind.OUTPUT, ValueKind.RETURNED)
#: What holds dates, durations and names, so that a difference decides nothing where all calls agree.
_TEXTS = (ValueKind.TEXT, ValueKind.OUTPUT)

#: The position of the digest of what was appended to a file.
_APPENDED = 1

#: Digests by kind, name and position, in the order in which they were written.
_Ends = dict[tuple[ValueKind, str, int], tuple[int, ...]]


class ComparedEnds(NamedTuple):
    """The states that two recordings left behind, as the fields of ``Divergence`` say it."""

    ends: tuple[EndState, ...] = ()
    notes: tuple[EndState, ...] = ()
    ends_compared: int = 0
    states_compared: int = 0
    outputs: Outputs = Outputs()


def compare_ends(first: Values, second: Values) -> ComparedEnds:
    """Compare what both recordings left: what has other bytes, and how many states and outputs were compared.

    Nothing is compared if one of them was cut short, as a run is not whose steps another thread made. A file that one
    run wrote anew and the other appended to is not compared. Of the printed lines, their order is not. Text is a note,
    and so is a file that one run alone has: another process may have written it meanwhile.
    """
    if {first.partial, second.partial} - {"", STEPS_ON_ANOTHER_THREAD}:
        return ComparedEnds()
    ends = (_ends(first), _ends(second))
    pairs = {
        key: (ends[0][key], ends[1][key])
        for key in ends[0]
        if key in ends[1] and key[0] is not ValueKind.OUTPUT and NO_DIGEST not in (*ends[0][key], *ends[1][key])
    }
    one_appended = {name for side in ends for _, name, position in side if position == _APPENDED}
    both_appended = {name: pair for (_, name, position), pair in pairs.items() if position == _APPENDED}
    differ = []
    for (kind, name, position), (ours, theirs) in pairs.items():
        if kind in _FILES and name in one_appended:
            ours, theirs = both_appended.get(name, ((), ()))
        if ours != theirs and position != _APPENDED:
            differ.append(EndState(kind=kind, name=name))
    differ += _other_files(ends[0], ends[1])
    differ += _other_lines(*ends)
    printed = sum(kind is ValueKind.OUTPUT for kind, _, _ in ends[0])
    states = [{key: NO_DIGEST in digests for key, digests in side.items() if key[0] in OF_TRAINING} for side in ends]
    is_whole = states[0].keys() == states[1].keys() and not any((*states[0].values(), *states[1].values()))
    outputs = Outputs(
        returned=sum(len(ours) for (kind, _, _), (ours, _) in pairs.items() if kind is ValueKind.RETURNED),
        printed=printed,
        files=len({name for kind, name, _ in pairs if kind in _FILES}),
    )
    return ComparedEnds(
        ends=tuple(end for end in differ if not (end.only_one or end.kind in _TEXTS)),
        notes=tuple(end for end in differ if end.only_one or end.kind in _TEXTS),
        ends_compared=len(pairs) + printed,
        states_compared=len(states[0]) if is_whole else 0,
        outputs=outputs,
    )


def kept_otherwise(ends: tuple[EndState, ...]) -> tuple[EndState, ...]:
    """Those of ``ends`` that outlive the runs: what a model returned does not."""
    return tuple(end for end in ends if end.kind is not ValueKind.RETURNED)


def nan_in_both(first: Values, second: Values) -> tuple[str, ...]:
    """States that hold NaN in both recordings when they end, in the order of the first."""
    ours, theirs = (
        [
            name.name
            for row in np.flatnonzero(values.moments.call == len(values)).tolist()
            if (name := values.names[int(values.moments.name[row])]).kind is ValueKind.NAN
        ]
        for values in (first, second)
    )
    return tuple(name for name in dict.fromkeys(ours) if name in set(theirs))


def _ends(values: Values) -> _Ends:
    """What was left when recording ended, and what was returned, whenever it was."""
    moments = values.moments
    ends: _Ends = {}
    returned = [number for number, name in enumerate(values.names) if name.kind is ValueKind.RETURNED]
    for row in np.flatnonzero((moments.call == len(values)) | np.isin(moments.name, returned)).tolist():
        name = values.names[int(moments.name[row])]
        if name.kind in _KINDS:
            key = (name.kind, name.name, int(moments.position[row]))
            ends[key] = (*ends.get(key, ()), int(moments.digest[row]))
    return ends


def _other_files(first: _Ends, second: _Ends) -> list[EndState]:
    """Files that the other run has not, under that name or with these bytes: a date or a number may stand in a name."""
    sides = [
        {(kind, name): digests for (kind, name, position), digests in side.items() if kind in _FILES and position < 0}
        for side in (first, second)
    ]
    left: list[list[tuple[ValueKind, str]]] = []
    for side, other in zip(sides, sides[::-1], strict=True):
        elsewhere = Counter(digests for key, digests in other.items() if key not in side)
        left.append([])
        for key, digests in side.items():
            if key not in other:
                elsewhere[digests] -= 1
                if elsewhere[digests] < 0:
                    left[-1].append(key)
    renamed = min(map(len, left))
    return [
        EndState(kind=kind, name=name, only_second=bool(number), only_one=at >= renamed)
        for number, keys in enumerate(left)
        for at, (kind, name) in enumerate(keys)
        if not number or at >= renamed
    ]


def _other_lines(first: _Ends, second: _Ends) -> list[EndState]:
    """The first line that the one run printed more often than the other; at most one."""
    lines = [
        {name: digests[-1] for (kind, name, _), digests in side.items() if kind is ValueKind.OUTPUT}
        for side in (first, second)
    ]
    for number in (0, 1):
        left = Counter(lines[1 - number].values())
        for name, digest in lines[number].items():
            left[digest] -= 1
            if left[digest] < 0:
                return [EndState(kind=ValueKind.OUTPUT, name=name, only_second=bool(number))]
    return []
