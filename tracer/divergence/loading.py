"""How a batch came about that differs between two runs: its indices, its workers' seeds, and what they drew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tracer.divergence.model import Loading, Root
from tracer.divergence.recordings import Recording
from tracer.names import GeneratorKind
from tracer.trace.records import Loader
from tracer.trace.values import ValueKind, Values
from tracer.trace.values.columns import NO_DIGEST

#: Global generators that a data set may draw from in the training process.
_OF_HOST = (GeneratorKind.PYTHON.value, GeneratorKind.NUMPY.value)
#: Global generators, as sentences speak of them.
_GENERATORS = {"python": "Python's `random`", "numpy": "NumPy's `numpy.random`", "torch": "torch's own generator"}


def loads_in(call: int, values: Values) -> tuple[str, int] | None:
    """The loader that made ``call`` to load a batch in the training process, and the number of that batch."""
    moments = values.moments
    for name in (named.name for named in values.names if named.kind is ValueKind.INDICES):
        rows = values.moments_of(ValueKind.INDICES, name)
        asked = rows[moments.call[rows] <= call]
        if len(asked) > len(_digests(ValueKind.BATCH, name, values, call)):
            return name, int(moments.position[asked[-1]])
    return None


def loading_of(
    name: str,
    root: Root,
    values: tuple[Values, Values],
    recordings: tuple[Recording, Recording],
    *,
    position: int | None = None,
) -> Loading:
    """Return what both recordings show of the loader ``name`` until it gave the batch that ``root`` reads or makes.
    ``position``: of the batch that is being loaded; ``None`` for one that the loader gave."""
    until = (root.call, root.call if root.other_call is None else root.other_call)
    loaders = []
    for recording in recordings:
        line = name.removeprefix("DataLoader at ")
        iterated = recording.trace.loaders if recording.trace is not None else ()
        there = [loader for loader in iterated if line in loader.iterated_at]
        loaders += there if len(there) == 1 else []  # of several at one line nobody knows which
    indices_agree = _agree(ValueKind.INDICES, name, values, until)
    seeds_agree = _agree(ValueKind.WORKER_SEED, name, values, until)
    order_from = _order_from(name, values, until) if indices_agree is False else ""
    said = [] if position is None else [f"{name} loads batch {position} here"]
    if indices_agree is not None:
        order = f": it drew them from generator {order_from} in another state" if order_from else ""
        said.append(f"the sampler's indices {'agree' if indices_agree else 'differ'}{order}")
    elif loaders:
        of_itself = "its data set gives the order itself, so there are no indices to compare"
        said.append("its indices were not seen" if loaders[0].sampler else of_itself)
    if seeds_agree is not None:
        said.append(f"its workers' seeds {'agree' if seeds_agree else 'differ'}")
    if loaders:
        moved = [
            generator
            for generator in _OF_HOST
            if _agree(ValueKind.GENERATOR, generator, values, until, only_last=True) is False
        ]
        said += _draws(loaders, moved)
    says = "".join(f"; {words}" for words in said)
    return Loading(loader=name, indices_agree=indices_agree, order_from=order_from, says=says)


def _draws(loaders: Sequence[Loader], moved: Sequence[str]) -> Iterator[str]:
    """Yield from which global generators its workers drew, or which of them stood otherwise where it loads itself."""
    loader = loaders[0]
    method = f" in {loader.fetched_by} ({loader.fetched_at})" if loader.fetched_by else ""
    if loader.workers and not all(side.workers_seen for side in loaders):
        yield f"what its workers drew{method} was not seen: they are started by {loader.start_method}, not forked"
    elif loader.workers:
        drawn = dict.fromkeys(_GENERATORS.get(draw, draw) for side in loaders for draw in side.worker_draws)
        yield f"its workers drew from {' and '.join(drawn) or 'no global generator'}{method}"
    elif moved:
        named = " and ".join(_GENERATORS[generator] for generator in moved)
        yield f"it is loaded in the training process{method}, where {named} was in another state"


#: Draws from which a sampler's order comes: a seed for a generator of its own, and the permutation.
_OF_ORDER = 2


def _order_from(name: str, values: tuple[Values, Values], until: tuple[int, int]) -> str:
    """The generator that was in another state when the sampler of the loader drew its order; empty if none was."""
    line = name.removeprefix("DataLoader at ")
    drawn = []
    for side, call in zip(values, until, strict=True):
        at_line = [line in (group.location, group.called_from) and not group.module for group in side.groups]
        calls, names, states = side.draws
        rows = np.flatnonzero(np.array(at_line, np.bool_)[side.group[calls]] & (calls <= call))[-_OF_ORDER:]
        drawn.append([(side.names[int(names[row])].name, int(states[row])) for row in rows.tolist()])
    return next((ours[0] for ours, theirs in zip(*drawn, strict=False) if ours != theirs), "")


def _agree(
    kind: ValueKind, name: str, values: tuple[Values, Values], until: tuple[int, int], *, only_last: bool = False
) -> bool | None:
    """Return whether both runs have the same states of that kind and name before those calls; ``None`` without any."""
    ours, theirs = (_digests(kind, name, side, call) for side, call in zip(values, until, strict=True))
    if not ours or not theirs or NO_DIGEST in (*ours, *theirs):
        return None
    return ours[-1:] == theirs[-1:] if only_last else ours == theirs


def _digests(kind: ValueKind, name: str, values: Values, call: int) -> list[int]:
    rows = values.moments_of(kind, name)
    digests: list[int] = values.moments.digest[rows[values.moments.call[rows] <= call]].tolist()
    return digests
