"""Two recordings with values, compared: the roots in order, their causes, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

import msgspec
import numpy as np

from tracer.divergence.end_states import OF_TRAINING, ComparedEnds, compare_ends, kept_otherwise, nan_in_both
from tracer.divergence.matching.differing import Differences, differences
from tracer.divergence.matching.following import Candidate, Following, follow
from tracer.divergence.matching.pairing import Pairs, pair
from tracer.divergence.model import Divergence, Fork, Loss, Place, Replicas, Root
from tracer.divergence.recordings import Recording
from tracer.divergence.replicas import are_ranks, compare_replicas
from tracer.divergence.resuming import begins_of, resumed, without_orders_drawn
from tracer.divergence.roots import Classifier, Tables, changed_settings, place
from tracer.errors import TraceError
from tracer.findings import Finding
from tracer.names import Phase, Training, Way
from tracer.trace.file import Trace
from tracer.trace.values import ValueKind, Values

#: The most places reported at which the sequences diverge, and the calls reported of each continuation.
_MOST_FORKS, _CONTINUED = 20, 4


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
    replicas = compare_replicas((first, second)) if are_ranks(first, second) else None
    looks = replicas is None and (may_resume or align_step is not None)
    begins = begins_of(ours, theirs, align_step) if looks else None
    pairs = pair(
        ours,
        theirs,
        begins.calls if begins else (0, 0),
        is_resumed=begins is not None,
        in_any_order=in_any_order or (replicas is None and any(map(_threads_compute, (first, second)))),
    )
    differing = differences(pairs)
    following = follow(pairs, differing) if replicas is None else follow_ranks(pairs, differing, replicas)
    changed = changed_settings(first, second)
    if callable(findings):
        findings = findings() if following.candidates else None
    classifier = Classifier(pairs, (first, second), changed, Tables(first, findings, replayed))
    roots = tuple(_roots(following, pairs, differing, classifier))
    if begins is not None:
        roots = without_orders_drawn(roots)
    undigested = differing.undigested & ~differing.any
    is_same_program = replicas is None and begins is None
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
        is_inference=all(_is_inference(recording) for recording in (first, second)),
        nan=nan_in_both(ours, theirs) if is_same_program else (),
        calls_compared=pairs.size,
        calls=(len(ours), len(theirs)),
        reordered=pairs.reordered,
        roots=roots,
        reaches_nothing=is_same_program and _reaches_nothing(pairs, differing),
        follows=sum(root.follows for root in roots),
        structure=tuple(_forks(pairs, following)),
        only=(
            sum(gap.first_end - gap.first for gap in pairs.gaps),
            sum(gap.second_end - gap.second for gap in pairs.gaps),
        ),
        partial=(ours.partial, theirs.partial),
        not_digested=int(undigested.sum()),
        settings=changed,
        resumed=resumed(pairs, begins, roots) if begins else None,
        replicas=replicas,
        losses=_compare_losses(ours, theirs) if is_same_program else (),
        names=(first.name, second.name),
    )


def _threads_compute(recording: Recording) -> bool:
    """Return whether threads decide the order of calls: branches of ``torch.jit.fork`` make some, or a thread recorded
    a graph, whose nodes the backward evaluates by numbers that each thread counts for itself."""
    is_followed = any(group.is_forked for group in recording.values.groups)
    return is_followed or (recording.trace is not None and recording.trace.threads_not_followed > 0)


#: Phases whose calls train.
_TRAINING = frozenset({Phase.BACKWARD, Phase.RECOMPUTE, Phase.OPTIMIZER})


def _reaches_nothing(pairs: Pairs, differing: Differences) -> bool:
    """Return whether no difference reaches training: every compared call of backward and of an optimizer agrees, and no
    call that one run alone made is such a call. Without training, the differences are draws that no call reads."""
    if not (pairs.gaps or differing.any.any()):
        return False
    trains = np.array([group.phase in _TRAINING for group in pairs.first.groups], np.bool_)
    training = trains[pairs.first.group[pairs.at[0]]]
    unread = differing.inputs | differing.numbers | differing.entered | differing.undigested | ~differing.drawn
    if (differing.any & (training if training.any() else unread)).any():
        return False
    alone = [(pairs.first, gap.first, gap.first_end) for gap in pairs.gaps]
    alone += [(pairs.second, gap.second, gap.second_end) for gap in pairs.gaps]
    return not any(_trains(*stretch) for stretch in alone)


def _trains(side: Values, begin: int, end: int) -> bool:
    """Return whether one of these calls is of backward or of an optimizer."""
    return any(side.groups[number].phase in _TRAINING for number in np.unique(side.group[begin:end]).tolist())


def _is_inference(recording: Recording) -> bool:
    return recording.trace is not None and recording.trace.training is Training.INFERENCE


def follow_ranks(pairs: Pairs, differing: Differences, replicas: Replicas) -> Following:
    """The first optimizer call that differs between two ranks, if their parameters drift apart.

    Earlier calls differ legitimately: they read each rank's own data, and collectives bring the results together.
    """
    ends = np.arange(pairs.size + len(pairs.gaps), dtype=np.int64)
    roots = np.zeros(pairs.size, np.bool_)
    if replicas.drift is None:
        return Following((), ends, frozenset(), roots)
    phases = np.array([group.phase is Phase.OPTIMIZER for group in pairs.first.groups], np.bool_)
    rows = np.flatnonzero(phases[pairs.first.group[pairs.at[0]]] & differing.any)
    if not len(rows):
        return Following((), ends, frozenset(), roots)
    node = int(rows[0])
    ends[differing.any.nonzero()[0]] = node
    way = Way.RANKS if differing.inputs[node] else Way.NUMBERS if differing.numbers[node] else Way.WROTE
    roots[node] = True
    return Following((Candidate(node, way, way),), ends, frozenset(), roots)


def _roots(following: Following, pairs: Pairs, differing: Differences, classifier: Classifier) -> Iterator[Root]:
    """One root per cause, in order of execution, with the number of calls that follow from it."""
    differs = np.flatnonzero(differing.any)
    counted = np.bincount(following.ends[differs], minlength=len(following.ends))
    alike: dict[Hashable, list[Candidate]] = {}
    for candidate in following.candidates:
        alike.setdefault(candidate.same, []).append(candidate)
    for several in alike.values():
        at_pairs = sum(candidate.more + 1 for candidate in several if not pairs.is_gap(candidate.node))
        count = sum(candidate.more + 1 for candidate in several)
        root = classifier.root(several[0])
        follows = sum(int(counted[candidate.node]) for candidate in several) - at_pairs
        yield msgspec.structs.replace(root, follows=follows, same_cause=count - 1)


def _forks(pairs: Pairs, following: Following) -> Iterator[Fork]:
    """Yield the places where the sequences diverge, with both continuations."""
    for number, gap in enumerate(pairs.gaps[:_MOST_FORKS], pairs.size):
        has_first = gap.first < gap.first_end
        side, call = (pairs.first, gap.first) if has_first else (pairs.second, gap.second)
        yield Fork(
            step=side.step_of(call),
            after=place(pairs.first, gap.first - 1) if gap.first > pairs.begins[0] else None,
            first=_continued(pairs.first, gap.first),
            second=_continued(pairs.second, gap.second),
            only_first=gap.first_end - gap.first,
            only_second=gap.second_end - gap.second,
            is_root=number not in following.follows,
        )


def _continued(values: Values, call: int) -> tuple[Place, ...]:
    return tuple(place(values, at) for at in range(call, min(call + _CONTINUED, len(values))))


def _compare_losses(first: Values, second: Values) -> tuple[Loss, ...]:
    """The loss of each step in both runs: the mean, where ``backward`` was called several times in a step."""
    ours, theirs = _by_step(first), _by_step(second)
    return tuple(
        Loss(
            step=step,
            first=_mean(ours.get(step)),
            second=_mean(theirs.get(step)),
            differs=ours.get(step, b"") != theirs.get(step, b""),
        )
        for step in sorted(ours.keys() | theirs.keys())
    )


def _by_step(values: Values) -> dict[int, bytes]:
    """The bytes of the losses of each step, as doubles."""
    moments = values.moments
    numbers = [place for place, name in enumerate(values.names) if name.kind is ValueKind.LOSS]
    losses: dict[int, bytes] = {}
    for row in np.flatnonzero(np.isin(moments.name, numbers)).tolist():
        step = int(moments.step[row])
        losses[step] = losses.get(step, b"") + int(moments.digest[row]).to_bytes(8, "little")
    return losses


def _mean(losses: bytes | None) -> float | None:
    return None if losses is None else float(np.frombuffer(losses, "<f8").mean())
