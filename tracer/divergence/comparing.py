"""Two recordings with values, compared: the roots in order, their causes, and what follows."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from tracer.divergence.following import Candidate, Differences, Roots, differences, followed, leading_to
from tracer.divergence.model import Divergence, Drift, EndState, Loss, Outputs, Recording, Replicas, Root
from tracer.divergence.pairing import AlignedCalls, Ints, pair
from tracer.divergence.resuming import begins_of, digests_by_step, not_restored, without_orders_drawn
from tracer.divergence.roots import Compared, RootEvidence, Tables, changed_settings
from tracer.errors import TraceError
from tracer.findings import Finding
from tracer.names import Phase, RootKind, Training
from tracer.trace.file import Trace
from tracer.trace.values import ValueKind, Values
from tracer.trace.values.columns import NO_DIGEST, STEPS_ON_ANOTHER_THREAD, U8

#: Phases whose calls train.
_TRAINING = frozenset({Phase.BACKWARD, Phase.RECOMPUTE, Phase.OPTIMIZER})


def compare_recordings(
    first: Recording,
    second: Recording,
    *,
    align_step: tuple[int, int] | None = None,
    may_resume: bool = True,
    findings: Callable[[], Sequence[Finding] | None] | Sequence[Finding] | None = None,
    replayed: Trace | None = None,
    in_any_order: bool = False,
) -> Divergence:
    """Return where two recordings diverge, and why.

    ``align_step``: the steps to align, for a resumed run. By default they are found if the second recording begins with
    the parameters of a later step of the first, unless ``may_resume=False`` says that both are whole runs of one
    program. ``findings``: those of the first recording's trace, or a function that judges it, called only if the
    recordings diverge. ``replayed``: a third recording, in which calls were replayed. ``in_any_order``: calls of a
    step that read and wrote the same are compared wherever they stand, as they are where threads decide the order.
    Raises ``TraceError`` if the digests are of two kinds, or a step is missing.
    """
    ours, theirs = first.values, second.values
    if ours.header.digest != theirs.header.digest:
        raise TraceError(
            f"{first.name} and {second.name} were digested in two ways ({ours.header.digest}, {theirs.header.digest})",
            hint="record both on the same kind of device",
        )
    replicas = compare_replicas(first, second) if are_ranks(first, second) else None
    looks = replicas is None and (may_resume or align_step is not None)
    resumed, begins = (begins_of(ours, theirs, align_step) if looks else None) or (None, (0, 0))
    pairs = pair(
        ours,
        theirs,
        begins,
        is_resumed=resumed is not None,
        in_any_order=in_any_order or (replicas is None and any(map(_threads_compute, (first, second)))),
    )
    differing = differences(pairs)
    candidates, parents = (
        Roots(pairs, differing).all() if replicas is None else _follow_ranks(pairs, differing, replicas)
    )
    changed = changed_settings((first.environment, second.environment), (first.trace, second.trace))
    if callable(findings):
        findings = findings() if candidates else None
    both = Compared(pairs, (first, second), changed, Tables(first, findings, replayed))
    roots = tuple(_roots(candidates, parents, differing, both))
    if resumed is not None:
        roots = without_orders_drawn(roots)
        resumed = replace(resumed, not_restored=not_restored(pairs, resumed, roots))
    undigested = differing.undigested & ~differing.any
    is_same_program = replicas is None and resumed is None
    left = compare_ends(ours, theirs) if is_same_program else ComparedEnds()
    if roots and not in_any_order and left.states_compared and not kept_otherwise(left.ends):
        # An evaluation at other steps shifts calls against each other, and coroutines make them in another order.
        again = compare_recordings(
            first, second, may_resume=may_resume, findings=findings, replayed=replayed, in_any_order=True
        )
        if again.reaches_nothing or not again.roots:
            return again
    is_same_training = not roots and not any(end.kind in (*OF_TRAINING, ValueKind.RETURNED) for end in left.ends)
    return Divergence(
        agrees=is_same_training if replicas is None else replicas.agree,
        **left._asdict(),
        is_inference=all(
            recording.trace is not None and recording.trace.training is Training.INFERENCE
            for recording in (first, second)
        ),
        nan=nan_in_both(ours, theirs) if is_same_program else (),
        calls_compared=pairs.size,
        calls=(len(ours), len(theirs)),
        reordered=pairs.reordered,
        roots=roots,
        reaches_nothing=replicas is None and _reaches_nothing(pairs, differing),
        has_optimizer=any(group.phase is Phase.OPTIMIZER for group in ours.groups),
        follows=sum(root.follows for root in roots),
        only=(
            sum(gap.first_end - gap.first for gap in pairs.gaps),
            sum(gap.second_end - gap.second for gap in pairs.gaps),
        ),
        partial=(ours.partial, theirs.partial),
        not_digested=int(undigested.sum()),
        settings=changed,
        resumed=resumed,
        replicas=replicas,
        losses=_compare_losses(ours, theirs) if is_same_program else (),
        names=(first.name, second.name),
    )


def _threads_compute(recording: Recording) -> bool:
    """Return whether threads decide the order of calls: of ``torch.jit.fork``, or whose graphs a backward evaluates."""
    is_followed = any(group.is_forked for group in recording.values.groups)
    return is_followed or (recording.trace is not None and recording.trace.threads_not_followed > 0)


def _reaches_nothing(pairs: AlignedCalls, differing: Differences) -> bool:
    """Return whether no difference reaches training: every compared call of backward and of an optimizer agrees, and no
    call that one run alone made is such a call. Without training, the differences are draws that no call reads."""
    if not (pairs.gaps or differing.any.any()):
        return False
    trains = np.array([group.phase in _TRAINING for group in pairs.first.groups], np.bool_)
    training = trains[pairs.first.group[pairs.at[0]]]
    unread = differing.inputs | differing.numbers | differing.entered | differing.undigested | ~differing.drawn
    if (differing.any & (training if training.any() else unread)).any():
        return False
    return not any(
        values.groups[number].phase in _TRAINING
        for gap in pairs.gaps
        for values, begin, end in pairs.stretches(gap)
        for number in np.unique(values.group[begin:end]).tolist()
    )


def _follow_ranks(pairs: AlignedCalls, differing: Differences, replicas: Replicas) -> tuple[list[Candidate], Ints]:
    """The first optimizer call that differs between two ranks, if their parameters drift apart: data differ before."""
    parents = np.full(pairs.size + len(pairs.gaps), -1, np.int64)
    phases = np.array([group.phase is Phase.OPTIMIZER for group in pairs.first.groups], np.bool_)
    rows = np.flatnonzero(phases[pairs.first.group[pairs.at[0]]] & differing.any)
    if replicas.drift is None or not len(rows):
        return [], parents
    node = int(rows[0])
    parents[differing.any.nonzero()[0]] = node
    parents[node] = -1
    way = RootKind.RANKS if differing.inputs[node] else RootKind.NUMBERS if differing.numbers[node] else RootKind.WROTE
    return [Candidate(node, way, way)], parents


def _roots(
    candidates: Sequence[Candidate], parents: Ints, differing: Differences, compared: Compared
) -> Iterator[Root]:
    """One root per cause, in order of execution, with the number of calls that follow from it."""
    ends, differs = followed(parents), np.flatnonzero(differing.any)
    counted = np.bincount(ends[differs], minlength=len(ends))
    trains = np.array([group.phase in _TRAINING for group in compared.pairs.first.groups], np.bool_)
    nodes = differs[differs < compared.pairs.size]
    training = nodes[trains[compared.pairs.first.group[compared.pairs.at[0][nodes]]]]
    reaching = np.zeros(len(ends), np.bool_)
    reaching[ends[training]] = True
    is_whole = not compared.pairs.is_resumed  # what was not restored explains the calls that follow from it
    if is_whole and len(training) and not all(reaching[candidate.node] for candidate in candidates):
        reaching = leading_to(compared.pairs, differing, parents, training)
    alike = defaultdict[Hashable, list[Candidate]](list)
    for candidate in candidates:
        alike[candidate.same].append(candidate)
    for several in alike.values():
        at_pairs = sum(candidate.more + 1 for candidate in several if not compared.pairs.is_gap(candidate.node))
        count = sum(candidate.more + 1 for candidate in several)
        root = RootEvidence(compared, several[0]).root()
        follows = sum(int(counted[candidate.node]) for candidate in several) - at_pairs
        is_reaching = any(bool(reaching[candidate.node]) for candidate in several)
        yield replace(root, follows=follows, same_cause=count - 1, reaches_training=is_reaching)


def _compare_losses(first: Values, second: Values) -> tuple[Loss, ...]:
    """The loss of each step in both runs: the mean, where ``backward`` was called several times in a step."""
    sides: list[dict[int, U8]] = []
    for values in (first, second):
        rows = values.moments_of(ValueKind.LOSS)
        steps = values.moments.step[rows]
        sides.append({step: values.moments.digest[rows[steps == step]] for step in np.unique(steps).tolist()})
    losses = []
    for step in sorted(sides[0].keys() | sides[1].keys()):
        ours, theirs = (side.get(step) for side in sides)
        means = [None if each is None else float(each.view(np.float64).mean()) for each in (ours, theirs)]
        differs = ours is None or theirs is None or not np.array_equal(ours, theirs)
        losses.append(Loss(step=step, first=means[0], second=means[1], differs=differs))
    return tuple(losses)


# --- ranks of one job: replicas that should agree after each step, and where they drift apart ---------------

_Sides = Sequence[Mapping[int, Mapping[str, int]]]
"""By step and name: the digest on each of two ranks."""


def are_ranks(first: Recording, second: Recording) -> bool:
    """Return whether these two are ranks of one job, rather than two runs."""
    ours, theirs = first.values.header, second.values.header
    same_job = ours.world_size is not None and ours.world_size == theirs.world_size
    return same_job and None not in (ours.rank, theirs.rank) and ours.rank != theirs.rank


def compare_replicas(first: Recording, second: Recording) -> Replicas:
    """The first step after which parameters that agreed on both ranks no longer do; nothing is claimed of shards."""
    parameters, buffers, gradients = (
        [digests_by_step(recording.values, kind) for recording in (first, second)]
        for kind in (ValueKind.PARAMETER, ValueKind.BUFFER, ValueKind.GRADIENT)
    )
    ranks = tuple(recording.values.header.rank or 0 for recording in (first, second))
    steps = [step for step in parameters[0] if step in parameters[1]]
    are_replicas = bool(steps) and not _differing(parameters, steps[0])
    replicas = Replicas(ranks=ranks, steps=len(steps), are_replicas=are_replicas)
    if not are_replicas:
        return replicas
    buffers_differ: dict[str, int] = {}
    for step in steps:
        for name in _differing(buffers, step):
            buffers_differ.setdefault(name, step)
    counts = [len({name for step in steps for name, *_ in _both(sides, step)}) for sides in (parameters, buffers)]
    replicas = replace(replicas, parameters=counts[0], buffers=counts[1], buffers_differ=buffers_differ)
    for before, step in pairwise(steps):
        if differing := _differing(parameters, step):
            made = [side.get(before, {}).get(differing[0]) for side in gradients]
            differ = None if None in made else made[0] != made[1]
            drift = Drift(step=step, name=differing[0], parameters=len(differing), gradients_differ=differ)
            return replace(replicas, drift=drift)
    return replicas


def _both(sides: _Sides, step: int) -> Iterator[tuple[str, int, int]]:
    """What both ranks have in a step: its name, and both digests."""
    ours, theirs = (side.get(step, {}) for side in sides)
    return ((name, digest, theirs[name]) for name, digest in ours.items() if name in theirs)


def _differing(sides: _Sides, step: int) -> list[str]:
    return [name for name, ours, theirs in _both(sides, step) if ours != theirs]


# --- what two runs left behind ---


#: What training leaves.
OF_TRAINING = (ValueKind.PARAMETER, ValueKind.BUFFER, ValueKind.OPTIMIZER_STATE)
_FILES = (ValueKind.FILE, ValueKind.TEXT)
_KINDS = (*OF_TRAINING, *_FILES, ValueKind.OUTPUT, ValueKind.RETURNED)
#: What holds dates, durations and names, so that a difference decides nothing where all calls agree.
_TEXTS = (ValueKind.TEXT, ValueKind.OUTPUT)

#: The position of the digest of what was appended to a file.
_APPENDED = 1

_Named = tuple[ValueKind, str]
_Digests = tuple[int, ...]
#: Digests by kind, name and position, in the order in which they were written.
_Ends = dict[tuple[ValueKind, str, int], _Digests]


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
    differ += [*_other_files(ends), *_other_lines(ends)]
    decides = {True: list[EndState](), False: list[EndState]()}
    for end in differ:
        decides[not (end.only_one or end.kind in _TEXTS)].append(end)
    printed = sum(kind is ValueKind.OUTPUT for kind, _, _ in ends[0])
    states = [{key: NO_DIGEST in digests for key, digests in side.items() if key[0] in OF_TRAINING} for side in ends]
    is_whole = states[0].keys() == states[1].keys() and not any((*states[0].values(), *states[1].values()))
    return ComparedEnds(
        ends=tuple(decides[True]),
        notes=tuple(decides[False]),
        ends_compared=len(pairs) + printed,
        states_compared=len(states[0]) if is_whole else 0,
        outputs=Outputs(
            returned=sum(len(ours) for (kind, _, _), (ours, _) in pairs.items() if kind is ValueKind.RETURNED),
            printed=printed,
            files=min(len({name for kind, name, _ in side if kind in _FILES}) for side in ends),
        ),
    )


def kept_otherwise(ends: tuple[EndState, ...]) -> tuple[EndState, ...]:
    """Those of ``ends`` that outlive the runs: what a model returned does not."""
    return tuple(end for end in ends if end.kind is not ValueKind.RETURNED)


def nan_in_both(first: Values, second: Values) -> tuple[str, ...]:
    """States that hold NaN in both recordings when they end, in the order of the first."""
    sides = [values.moments_of(ValueKind.NAN) for values in (first, second)]
    names = [
        [values.names[name].name for name in values.moments.name[rows[values.moments.call[rows] == len(values)]]]
        for values, rows in zip((first, second), sides, strict=True)
    ]
    return tuple(name for name in dict.fromkeys(names[0]) if name in names[1])


def _ends(values: Values) -> _Ends:
    """What was left when recording ended, and what was returned, whenever it was."""
    moments = values.moments
    ends = defaultdict[tuple[ValueKind, str, int], tuple[int, ...]](tuple)
    returned = [number for number, name in enumerate(values.names) if name.kind is ValueKind.RETURNED]
    for row in np.flatnonzero((moments.call == len(values)) | np.isin(moments.name, returned)).tolist():
        name = values.names[int(moments.name[row])]
        if name.kind in _KINDS:
            ends[name.kind, name.name, int(moments.position[row])] += (int(moments.digest[row]),)
    return dict(ends)


def _beyond(side: Mapping[_Named, _Digests], other: Mapping[_Named, _Digests]) -> Iterator[_Named]:
    """What ``side`` holds more often than ``other``, under whatever name."""
    left = Counter(other.values())
    for named, digests in side.items():
        left[digests] -= 1
        if left[digests] < 0:
            yield named


def _other_files(ends: tuple[_Ends, _Ends]) -> Iterator[EndState]:
    """Files that the other run has not, under that name or with these bytes.

    A date or a number may stand in a name: as many as the other run has of that kind and ending are its own renamed.
    """
    sides = [
        {(kind, name): digests for (kind, name, position), digests in side.items() if kind in _FILES and position < 0}
        for side in ends
    ]
    alone = [
        {named: side[named] for named in side if named not in other}
        for side, other in zip(sides, sides[::-1], strict=True)
    ]
    left = [list(_beyond(side, other)) for side, other in zip(alone, alone[::-1], strict=True)]
    endings = [Counter(map(_ending, files)) for files in left]
    for number, files in enumerate(left):
        renamed = endings[0] & endings[1]
        for kind, name in files:
            is_renamed = renamed[_ending((kind, name))] > 0
            renamed[_ending((kind, name))] -= 1
            if not number or not is_renamed:
                yield EndState(kind=kind, name=name, only_second=bool(number), only_one=not is_renamed)


def _ending(file: _Named) -> tuple[ValueKind, str]:
    ending = os.path.splitext(file[1])[1]
    return file[0], "" if any(map(str.isdigit, ending)) else ending


def _other_lines(ends: tuple[_Ends, _Ends]) -> list[EndState]:
    """The first line that the one run printed more often than the other; at most one."""
    lines: list[dict[_Named, _Digests]] = [
        {(kind, name): digests[-1:] for (kind, name, _), digests in side.items() if kind is ValueKind.OUTPUT}
        for side in ends
    ]
    for number in (0, 1):
        for kind, name in _beyond(lines[number], lines[1 - number]):
            return [EndState(kind=kind, name=name, only_second=bool(number))]
    return []
