"""Makes calls again on a part of their rows: does a row's result depend on the rows beside it?

Samples are what the outermost module is handed. Memory that a call makes of them is known to hold samples too, by how
far apart in it they lie, so that neither a transposed gradient nor a weight of the batch's size is taken for rows.
Which arguments of an op hold rows says ``ops.row_wise``; what it does not know is not tried.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._pytree import tree_map_only

from tracer.facts import Args, Kwargs
from tracer.names import Phase, RowOutcome
from tracer.ops import bare_name, row_of
from tracer.ops.row_wise import POINTWISE, RowWise, row_wise
from tracer.recording.calls import may_draw
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.observers import Interest, Observer
from tracer.recording.origin.modules import OWN_HOOK, ModuleStack, Origin
from tracer.recording.storage import bound
from tracer.recording.torch_private.seams import storage_id
from tracer.recording.trials import is_due, quietly, tensors_in, unseen_by_modes
from tracer.recording.values.digest_table import is_capturing
from tracer.trace.records import RowTrial

#: A larger part of a result's norm is no rounding of these dtypes: the rows decide together.
_ROUNDING = {torch.float64: 1e-12, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
#: The least norm that a difference is held against.
_LEAST = 1e-30
#: How often a call is made on all of its rows again, to see whether it varies by itself.
_CONTROLS = 3
#: Storages that are known to hold samples, at most.
_MOST = 100_000


class Samples(NamedTuple):
    """How the samples of a batch lie in a storage."""

    apart: int
    """Elements from one to the next."""
    number: int


class RowsOf(NamedTuple):
    """Where a tensor holds samples."""

    dim: int
    each: int
    """Its size for one sample."""
    is_interleaved: bool
    """Whether the samples' first rows come first, then all second ones."""

    def part(self, tensor: torch.Tensor, dim: int, samples: int) -> torch.Tensor:
        """The rows of the first ``samples``, where ``tensor`` holds rows along ``dim``; as dense as ``tensor``."""
        if not self.is_interleaved:
            part = tensor.narrow(dim, 0, samples * self.each)
            strides = tensor.stride()
            return part if strides[dim] == max(strides) or 0 in strides else part.clone()
        apart: torch.Tensor = tensor.unflatten(dim, (self.each, -1))
        return apart.narrow(dim + 1, 0, samples).flatten(dim, dim + 1)


def rows_of(tensor: torch.Tensor, samples: Samples) -> RowsOf | None:
    """Where ``tensor``, on a storage that holds ``samples``, holds them; ``None`` if it does along no dimension."""
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if size and size % samples.number == 0:
            each = size // samples.number
            if stride * each == samples.apart:
                return RowsOf(dim, each, is_interleaved=False)
            if stride == samples.apart:
                return RowsOf(dim, each, is_interleaved=True)
    return None


class _Call(NamedTuple):
    """One call whose arguments hold samples."""

    info: OverloadInfo
    known: RowWise
    arguments: dict[str, Any]
    rows: RowsOf
    samples: Samples
    shape: torch.Size
    """That of the tensor in which ``rows`` were found."""

    @property
    def size(self) -> int:
        return self.shape[self.rows.dim]

    def again(self, samples: int) -> list[torch.Tensor]:
        """The results of the call, made again for the rows of the first ``samples`` alone."""

        def cut(tensor: torch.Tensor) -> torch.Tensor:
            part = tensor if (dim := self.dim_in(tensor)) < 0 else self.rows.part(tensor, dim, samples)
            return part.clone() if self.info.mutates else part

        given = dict(self.arguments)
        for name in self.known.arguments or tuple(given):
            if name in given:
                given[name] = tree_map_only(torch.Tensor, cut, given[name])
        if self.known.sizes:
            size, rows = given[self.known.sizes], samples * self.rows.each
            given[self.known.sizes] = rows if isinstance(size, int) else [rows, *size[1:]]
        named = {each.name: given.pop(each.name) for each in self.info.func._schema.arguments if each.kwarg_only}
        return tensors_in(quietly(partial(self.info.func, *given.values(), **named)))

    def dim_in(self, tensor: torch.Tensor, fewer: int = 0) -> int:
        """The dimension in which an argument or a result holds rows; -1: in none."""
        dim = self.rows.dim - fewer
        if self.known.is_pointwise:
            dim += tensor.ndim - len(self.shape)
        return dim if 0 <= dim < tensor.ndim and tensor.shape[dim] == self.size else -1

    def held(self, results: list[torch.Tensor]) -> dict[int, int]:
        """The dimension in which each result holds rows, by its place among them."""
        dims, known = len(self.shape), self.known
        along: set[int] = set()
        """The dimensions that the op works along."""
        if known.last:
            along = set(range(dims - len(self.arguments[known.last]), dims))
        elif known.along:
            named, sizes = self.arguments.get(known.along), self.arguments.get(known.sizes)
            named = (named,) if isinstance(named, int) else named
            along = {dim % (len(sizes) if isinstance(sizes, list | tuple) else dims) for dim in named or range(dims)}
        if self.rows.dim in along or (known.is_leading and self.rows.dim):
            return {}
        before = sum(dim < self.rows.dim for dim in along)
        places = [self.dim_in(one, before if one.ndim < dims else 0) for one in results[: known.results]]
        return {place: dim for place, dim in enumerate(places) if dim >= 0}

    def varies(self, results: list[torch.Tensor], held: dict[int, int]) -> bool:
        """Whether the call gives other results from the same rows too, or fails: then its rows show nothing."""
        try:
            for _ in range(_CONTROLS):
                again = self.again(self.samples.number)
                if any(_apart(self, results[at], again[at]) for at in held):
                    return True
        except Exception:
            return True
        return False


class RowTrials(Observer):
    """The calls of one recording, made again on parts of their rows.

    ``modules`` knows which module runs; ``batch``: the samples that the model is handed, 0: as many as its first tensor
    has rows.
    """

    def __init__(self, modules: ModuleStack, batch: int) -> None:
        self._modules = modules
        self._batch = batch
        self._samples: dict[int, Samples] = {}
        """By storage."""
        self._known: dict[OverloadInfo, RowWise | None] = {}
        """``None``: nothing is known of an overload's rows."""
        self._calls: Counter[tuple[CallCounter | None, int]] = Counter()
        """How many there were of a group and of a number of rows."""
        self._tallies: dict[tuple[str, Origin | None, RowOutcome, int, int], tuple[int, float]] = {}
        """Calls by outcome, and the largest difference."""
        self._remove: Callable[[], None] = lambda: None

    def watch(self) -> None:
        """Begin to look at what outermost modules are handed."""

        def hook(module: torch.nn.Module, inputs: Any) -> None:
            if is_compiling() or (entry := self._modules.entry) is None or entry.module is not module:
                return
            if entry.outer is None and not entry.inside_engine:
                with suppress(Exception):  # what a program passes may refuse to be read
                    self._hand(tensors_in((inputs, sys._getframe(1).f_locals.get("kwargs"))))

        setattr(hook, OWN_HOOK, True)
        self._remove = register_module_forward_pre_hook(hook).remove

    def leave(self) -> None:
        """Forget the samples."""
        self._remove()
        self._samples.clear()

    def _hand(self, tensors: list[torch.Tensor]) -> None:
        tensors = [tensor for tensor in tensors if tensor.ndim]
        count = self._batch or next((tensor.shape[0] for tensor in tensors), 0)
        for tensor in tensors if count > 1 else ():
            dim = next((dim for dim, size in enumerate(tensor.shape) if size == count), 0)
            if tensor.shape[dim] % count == 0 and (storage := storage_id(tensor)) not in self._samples:
                self._note_samples(storage, tensor.stride(dim) * (tensor.shape[dim] // count), count)

    def _note_samples(self, storage: int, apart: int, count: int) -> None:
        if len(self._samples) >= _MOST:
            self._samples.clear()
        if storage and apart:
            self._samples[storage] = Samples(apart, count)

    def wants(self, info: OverloadInfo) -> Interest:
        """Every overload that makes tensors, once there are samples: they are followed through all calls."""
        name = bare_name(info.name)
        if getattr(info.func, "_schema", None) is None or info.func.is_view or row_of(name).is_view:
            return False
        self._known[info] = POINTWISE if torch.Tag.pointwise in info.func.tags else row_wise(name)
        return self._samples

    def before(
        self, info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs
    ) -> tuple[_Call, bool] | None:
        """Find the samples among the arguments of a call that is about to be made; returns too whether it is tried."""
        with suppress(Exception), unseen_by_modes():  # a tensor of an unforeseen kind
            known = self._known[info] or POINTWISE
            given = bound(info.func, args, kwargs)
            for name in known.arguments or given:
                for tensor in tensors_in(given.get(name)):
                    samples = self._samples.get(storage_id(tensor))
                    rows = None if samples is None else rows_of(tensor, samples)
                    if samples is None or rows is None:
                        continue
                    key = counter, tensor.shape[rows.dim]
                    self._calls[key] += 1
                    is_tried = is_due(self._calls[key])
                    if is_tried and info.mutates:
                        given = tree_map_only(torch.Tensor, torch.clone, given)
                    return _Call(info, known, given, rows, samples, tensor.shape), is_tried
        return None

    def after(
        self, begun: Any, info: OverloadInfo, counter: CallCounter, args: Args, kwargs: Kwargs, result: Any, frame: Any
    ) -> None:
        """Make the call again on one sample and on half of them; note what its result holds."""
        with suppress(Exception), unseen_by_modes():
            results = tensors_in(result)
            call: Any
            call, is_tried = begun or (None, False)
            held = call.held(results) if call is not None and self._known[info] is not None else {}
            if is_tried and counter.origin.phase is not Phase.OPTIMIZER:
                self._try(call, counter.origin, results, held)
            of_arguments = {storage_id(tensor) for tensor in tensors_in((args, kwargs))}
            for tensor in results:
                if (storage := storage_id(tensor)) not in of_arguments:
                    self._samples.pop(storage, None)  # another one's memory, before
            for place, dim in held.items():
                each = 1 if call.rows.is_interleaved else call.rows.each
                tensor = results[place]
                self._note_samples(storage_id(tensor), tensor.stride(dim) * each, call.samples.number)

    def _try(self, call: _Call, origin: Origin, results: list[torch.Tensor], held: dict[int, int]) -> None:
        op = call.info.name
        at = origin if origin.phase is Phase.FORWARD else None  # a weight's gradient is always made of all rows
        draws = may_draw(call.info.func) and call.arguments.get("dropout_p", 1) != 0
        if self._known[call.info] is None:
            return self._note(op, RowOutcome.UNKNOWN)
        if draws or not call.known.is_tried or any(map(is_capturing, results)):
            return self._note(op, RowOutcome.UNTRIED)
        if not held or call.known.mixes:
            return self._note(op, RowOutcome.MIXED, at)
        for samples in sorted({1, call.samples.number // 2}):
            try:
                again = call.again(samples)
                own = {place: call.rows.part(results[place], dim, samples) for place, dim in held.items()}
                apart = max(_apart(call, whole, again[place]) for place, whole in own.items())
            except Exception:  # an argument of another form than the table says
                return self._note(op, RowOutcome.UNTRIED)
            if apart == math.inf:
                return self._note(op, RowOutcome.MIXED, at)
            if apart and call.varies(results, held):
                return self._note(op, RowOutcome.UNTRIED)
            if apart:
                return self._note(op, RowOutcome.ROUNDING, origin, samples * call.rows.each, call.size, apart)
        return self._note(op, RowOutcome.EQUAL)

    def _note(
        self,
        op: str,
        outcome: RowOutcome,
        origin: Origin | None = None,
        part: int = 0,
        size: int = 0,
        relative: float = 0.0,
    ) -> None:
        key = op, origin, outcome, part, size
        count, largest = self._tallies.get(key, (0, 0.0))
        self._tallies[key] = count + 1, max(largest, relative)

    def listed(self) -> list[RowTrial]:
        """The outcomes, as stored in a trace: those that depend on the rows by place, all others by op.

        One of no call says that there were no samples.
        """
        if not self._tallies:
            return [RowTrial(op="", outcome=RowOutcome.UNTRIED, count=0)]
        return [
            RowTrial(
                op=op,
                outcome=outcome,
                part=part,
                of=size,
                count=count,
                relative=relative,
                **({} if origin is None else origin.in_words()),
            )
            for (op, origin, outcome, part, size), (count, relative) in self._tallies.items()
        ]


def _apart(call: _Call, whole: torch.Tensor, part: torch.Tensor) -> float:
    """The norm of their difference in relation to that of ``whole``; 0: equal bits; infinite: no rounding. Where
    numbers cancel, rounding is as large as the arguments make it."""
    if whole.shape != part.shape or whole.dtype != part.dtype:
        return math.inf
    if torch.equal(whole, part):
        return 0.0
    differs = (whole != part) & ~(whole.isnan() & part.isnan())
    difference = float((whole[differs].double() - part[differs].double()).norm())
    size, *went_in = (
        float(one.double().nan_to_num(0, 0, 0).norm())
        for one in (whole, *tensors_in(call.arguments))
        if one.is_floating_point()
    )
    is_rounding = difference <= _ROUNDING.get(whole.dtype, 0.0) * max(size, *went_in)
    return difference / max(size, _LEAST) if is_rounding else math.inf
