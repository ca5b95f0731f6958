"""Makes calls again on a part of their rows: does a row's result depend on the rows beside it?

Samples are what the outermost module is handed. Memory that a call makes of them is known to hold samples too, by how
far apart in it they lie, so that neither a transposed gradient nor a weight of the batch's size is taken for rows.
Which arguments of an op hold rows says ``ops.row_wise``; what it does not know is not tried.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._pytree import tree_leaves, tree_map_only

from tracer.facts import Args, Kwargs
from tracer.names import Phase, RowOutcome
from tracer.ops import bare_name, row_of
from tracer.ops.row_wise import POINTWISE, RowWise, row_wise
from tracer.recording.calls import may_draw
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.observers import Caller, Interest, Observer
from tracer.recording.origin.modules import OWN_HOOK, ModuleStack, Origin
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


class _Plan(NamedTuple):
    """How calls of an overload are made on a part of their rows."""

    func: Any
    known: RowWise | None
    """``None``: nothing is."""
    arguments: tuple[Any, ...]
    """Of the schema."""
    may_draw: bool
    mutates: bool

    def bound(self, args: Args, kwargs: Kwargs) -> dict[str, Any]:
        """The arguments of a call by name, in the order of the schema."""
        return {
            each.name: args[place] if place < len(args) else kwargs.get(each.name, each.default_value)
            for place, each in enumerate(self.arguments)
        }

    def call(self, bound: dict[str, Any]) -> Any:
        named = {each.name: bound[each.name] for each in self.arguments if each.kwarg_only}
        return quietly(partial(self.func, *(value for name, value in bound.items() if name not in named), **named))


class _Call(NamedTuple):
    """One call whose arguments hold samples."""

    plan: _Plan
    known: RowWise
    bound: dict[str, Any]
    rows: RowsOf
    samples: Samples
    shape: torch.Size
    """That of the tensor in which ``rows`` were found."""
    is_due: bool

    @property
    def size(self) -> int:
        return self.shape[self.rows.dim]

    def worked_along(self) -> set[int]:
        """The dimensions that the op works along."""
        dims = len(self.shape)
        if self.known.last:
            return set(range(dims - len(self.bound[self.known.last]), dims))
        if not self.known.along:
            return set()
        named, sizes = self.bound.get(self.known.along), self.bound.get(self.known.sizes)
        if isinstance(named, int):
            named = (named,)
        return {dim % (len(sizes) if isinstance(sizes, list | tuple) else dims) for dim in named or range(dims)}

    def dim_in(self, tensor: torch.Tensor, fewer: int = 0) -> int:
        """The dimension in which an argument or a result holds rows; -1: in none."""
        dim = self.rows.dim - fewer
        if self.known.is_pointwise:
            dim += tensor.ndim - len(self.shape)
        return dim if 0 <= dim < tensor.ndim and tensor.shape[dim] == self.size else -1

    def held(self, results: list[torch.Tensor]) -> dict[int, int]:
        """The dimension in which each result holds rows, by its place among them."""
        along = self.worked_along()
        if self.rows.dim in along or (self.known.is_leading and self.rows.dim):
            return {}
        before = sum(dim < self.rows.dim for dim in along)
        dims = [self.dim_in(one, before if one.ndim < len(self.shape) else 0) for one in results[: self.known.results]]
        return {place: dim for place, dim in enumerate(dims) if dim >= 0}

    def part(self, samples: int) -> dict[str, Any]:
        """The arguments for the rows of the first ``samples`` alone."""

        def cut(tensor: torch.Tensor) -> torch.Tensor:
            part = tensor if (dim := self.dim_in(tensor)) < 0 else self.rows.part(tensor, dim, samples)
            return part.clone() if self.plan.mutates else part

        names = self.known.arguments or tuple(self.bound)
        parts = {name: tree_map_only(torch.Tensor, cut, self.bound[name]) for name in names if name in self.bound}
        if self.known.sizes:
            size, rows = self.bound[self.known.sizes], samples * self.rows.each
            parts[self.known.sizes] = rows if isinstance(size, int) else [rows, *size[1:]]
        return {**self.bound, **parts}


class _Tally:
    def __init__(self) -> None:
        self.count, self.relative = 0, 0.0


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
        self._plans: dict[OverloadInfo, _Plan] = {}
        self._calls: dict[tuple[CallCounter | None, int], int] = {}
        """How many there were of a group and of a number of rows."""
        self._tallies: dict[tuple[str, Origin | None, RowOutcome, int, int], _Tally] = {}
        self._remove: Callable[[], None] = lambda: None

    def watch(self) -> None:
        """Begin to look at what outermost modules are handed."""

        def hook(module: torch.nn.Module, inputs: Any) -> None:
            if is_compiling() or (entry := self._modules.entry) is None or entry.module is not module:
                return
            if entry.outer is None and not entry.inside_engine:
                with suppress(Exception):  # what a program passes may refuse to be read
                    self._hand((inputs, sys._getframe(1).f_locals.get("kwargs")))

        setattr(hook, OWN_HOOK, True)
        self._remove = register_module_forward_pre_hook(hook).remove

    def leave(self) -> None:
        """Forget the samples."""
        self._remove()
        self._samples.clear()

    def _hand(self, values: Any) -> None:
        tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor) and leaf.ndim]
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
        schema = getattr(info.func, "_schema", None)
        name = bare_name(info.name)
        if schema is None or info.func.is_view or row_of(name).is_view:
            return False
        is_pointwise = torch.Tag.pointwise in info.func.tags
        known = POINTWISE if is_pointwise else row_wise(name)
        arguments = tuple(schema.arguments)
        self._plans[info] = _Plan(info.func, known, arguments, may_draw(info.func), info.mutates)
        return self._samples

    def before(
        self, info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs
    ) -> _Call | None:
        """Find the samples among the arguments of a call that is about to be made."""
        with suppress(Exception), unseen_by_modes():  # a tensor of an unforeseen kind
            plan = self._plans[info]
            known = plan.known or POINTWISE
            bound = plan.bound(args, kwargs)
            for name in known.arguments or bound:
                for tensor in tensors_in(bound.get(name)):
                    samples = self._samples.get(storage_id(tensor))
                    rows = None if samples is None else rows_of(tensor, samples)
                    if samples is None or rows is None:
                        continue
                    key = counter, tensor.shape[rows.dim]
                    count = self._calls[key] = self._calls.get(key, 0) + 1
                    is_tried = is_due(count)
                    if is_tried and plan.mutates:
                        bound = tree_map_only(torch.Tensor, torch.clone, bound)
                    return _Call(plan, known, bound, rows, samples, tensor.shape, is_tried)
        return None

    def after(
        self,
        begun: _Call | None,
        info: OverloadInfo,
        counter: CallCounter,
        args: Args,
        kwargs: Kwargs,
        result: Any,
        frame: Caller,
    ) -> None:
        """Make the call again on one sample and on half of them; note what its result holds."""
        with suppress(Exception), unseen_by_modes():
            results = tensors_in(result)
            held: dict[int, int] = {}
            if begun is not None:
                held = begun.held(results) if begun.plan.known is not None else {}
                if begun.is_due and counter.origin.phase is not Phase.OPTIMIZER:
                    self._try(begun, info.name, counter.origin, results, held)
            of_arguments = {storage_id(tensor) for tensor in tensors_in((args, kwargs))}
            for tensor in results:
                if (storage := storage_id(tensor)) not in of_arguments:
                    self._samples.pop(storage, None)  # another one's memory, before
            for place, dim in held.items():
                assert begun is not None
                each = 1 if begun.rows.is_interleaved else begun.rows.each
                tensor = results[place]
                self._note_samples(storage_id(tensor), tensor.stride(dim) * each, begun.samples.number)

    def _try(self, call: _Call, op: str, origin: Origin, results: list[torch.Tensor], held: dict[int, int]) -> None:
        at = origin if origin.phase is Phase.FORWARD else None  # a weight's gradient is always made of all rows
        draws = call.plan.may_draw and call.bound.get("dropout_p", 1) != 0
        if call.plan.known is None:
            return self._note(op, RowOutcome.UNKNOWN)
        if draws or not call.known.is_tried or any(map(is_capturing, results)):
            return self._note(op, RowOutcome.UNTRIED)
        if not held or call.known.mixes:
            return self._note(op, RowOutcome.MIXED, at)
        for samples in sorted({1, call.samples.number // 2}):
            try:
                again = tensors_in(call.plan.call(call.part(samples)))
                own = {place: call.rows.part(results[place], dim, samples) for place, dim in held.items()}
                apart = max(_apart(call, whole, again[place]) for place, whole in own.items())
            except Exception:  # an argument of another form than the table says
                return self._note(op, RowOutcome.UNTRIED)
            if apart == math.inf:
                return self._note(op, RowOutcome.MIXED, at)
            if apart and _varies(call, results, held):
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
        tally = self._tallies.setdefault((op, origin, outcome, part, size), _Tally())
        tally.count += 1
        tally.relative = max(tally.relative, relative)

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
                count=tally.count,
                relative=tally.relative,
                **({} if origin is None else origin.in_words()),
            )
            for (op, origin, outcome, part, size), tally in self._tallies.items()
        ]


def _varies(call: _Call, results: list[torch.Tensor], held: dict[int, int]) -> bool:
    """Whether the call gives other results from the same rows too, or fails: then its rows show nothing."""
    try:
        for _ in range(_CONTROLS):
            again = tensors_in(call.plan.call(call.part(call.samples.number)))
            if any(_apart(call, results[at], again[at]) for at in held):
                return True
    except Exception:
        return True
    return False


def _apart(call: _Call, whole: torch.Tensor, part: torch.Tensor) -> float:
    """The norm of their difference in relation to that of ``whole``; 0: equal bits; infinite: no rounding.

    Where numbers cancel, rounding is as large as those that went in make it.
    """
    if whole.shape != part.shape or whole.dtype != part.dtype:
        return math.inf
    if torch.equal(whole, part):
        return 0.0
    differs = (whole != part) & ~(whole.isnan() & part.isnan())
    difference = float((whole[differs].double() - part[differs].double()).norm())
    size, *went_in = (
        float(one.double().nan_to_num(0, 0, 0).norm())
        for one in (whole, *tensors_in(call.bound))
        if one.is_floating_point()
    )
    is_rounding = difference <= _ROUNDING.get(whole.dtype, 0.0) * max(size, *went_in)
    return difference / max(size, _LEAST) if is_rounding else math.inf
