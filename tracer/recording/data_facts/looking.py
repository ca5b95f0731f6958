"""The data of calls that write by an index or choose among values, looked at as they are made.

It reads values, and so waits for a device. Where sizes alone settle a call the tables know it already and nothing is
read; after the first call of a group whose data leave two ways, that group is not looked at again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from tracer.facts.arguments import Getter, argument_getter
from tracer.names import SETTLING_DATA, DataShown
from tracer.ops.op import Op
from tracer.ops.rows import row_of
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.data_facts import sums
from tracer.recording.data_facts.destinations import Find, destinations_of, most_at_one_place
from tracer.recording.data_facts.ties import Look, ties_of
from tracer.recording.observers import Interest, Observer
from tracer.recording.torch_private import seams
from tracer.recording.values.digesting.device import is_capturing

_Args = tuple[Any, ...]
_BY_SHAPE = "index.distinct"
_SUMS = ("sum", "add")
Test = Callable[[_Args, Mapping[str, Any]], DataShown]


class DataFacts(Observer):
    """What the data of one recording's calls showed."""

    def __init__(self) -> None:
        self._tests: dict[OverloadInfo, tuple[Test | None, Look | None]] = {}
        self._tallies: dict[CallCounter, Counter[DataShown]] = {}

    def wants(self, info: OverloadInfo) -> Interest:
        """Calls that write by an index or choose among values."""
        test, choice = self._tests[info] = _tests_of(info.func)
        return test is not None or choice is not None

    def before(
        self,
        info: OverloadInfo,
        counter: CallCounter | None,
        asked: tuple[Any, ...] | None,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Look | None:
        """Look at where a call is about to write; returns what is to be looked at once it has chosen."""
        if counter is None or self._is_open(counter) or _is_known_by_shape(info, counter):
            return None
        test, choice = self._tests[info]
        if test is None:
            return choice
        self._note(counter, lambda: test(args, kwargs), args)
        return None

    def after(
        self,
        begun: Look | None,
        info: OverloadInfo,
        counter: CallCounter,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        result: Any,
        frame: FrameType | None,
    ) -> None:
        """A call has chosen."""
        if begun is not None:
            self._note(counter, lambda: begun(args, kwargs, result), args)

    def group_fields(self, counter: CallCounter) -> dict[str, Any]:
        """The calls of a group by what their data showed."""
        tally = self._tallies.get(counter)
        return {} if tally is None else {"data": dict(tally)}

    def _is_open(self, counter: CallCounter) -> bool:
        """Did a call of the group leave two ways?"""
        tally = self._tallies.get(counter)
        return tally is not None and not tally.keys() <= SETTLING_DATA

    def _note(self, counter: CallCounter, look: Callable[[], DataShown], args: _Args) -> None:
        shown = DataShown.UNREAD
        if not any(isinstance(value, torch.Tensor) and is_capturing(value) for value in args):
            try:
                with _unseen():
                    shown = look()
            except Exception:  # sparse, out of bounds, a tensor of an unforeseen kind: nothing is known
                shown = DataShown.UNREAD
        self._tallies.setdefault(counter, Counter())[shown] += 1


def _is_known_by_shape(info: OverloadInfo, counter: CallCounter) -> bool:
    if counter.asked is None or _BY_SHAPE not in info.readers:
        return False
    return dict(zip(info.readers, counter.asked, strict=True))[_BY_SHAPE] is True


def _tests_of(func: Any) -> tuple[Test | None, Look | None]:
    namespace, _, rest = str(func).partition(".")
    if namespace != "aten" or getattr(func, "_schema", None) is None:
        return None, None
    op = row_of(rest.partition(".")[0])
    find = destinations_of(func, op)
    return (None if find is None else _writes(func, op, find)), ties_of(func, op)


def _writes(func: Any, op: Op, find: Find) -> Test:
    """A test of where a call writes, and of what it adds there."""
    adds = _adds(func, op)
    target = argument_getter(func, "self")
    added = argument_getter(func, "src", "source", "values", "grad_output")
    factor = argument_getter(func, "alpha")
    keeps_target = argument_getter(func, "include_self")

    def test(args: _Args, kwargs: Mapping[str, Any]) -> DataShown:
        most = most_at_one_place(find(args, kwargs))
        if most <= 1:
            return DataShown.DISTINCT
        if added is None or not adds(args, kwargs):
            return DataShown.DUPLICATES
        numbers = added(args, kwargs)
        onto = None
        if not op.onto_zeros and target is not None and "backward" not in op.name:
            onto = target(args, kwargs) if keeps_target is None or keeps_target(args, kwargs) else None
        if most == 2 and (onto is None or sums.are_zeros(onto)) and not sums.holds_nan(numbers):
            return DataShown.TWICE_ONTO_ZEROS
        times = 1 if factor is None else factor(args, kwargs)
        if sums.add_exactly(onto, numbers, most, times):
            return DataShown.EXACT
        return DataShown.DUPLICATES

    return test


def _adds(func: Any, op: Op) -> Callable[[_Args, Mapping[str, Any]], bool]:
    """Does a call sum up what falls together?"""
    if "backward" in op.name:
        by_frequency = argument_getter(func, "scale_grad_by_freq")
        return lambda args, kwargs: by_frequency is None or not by_frequency(args, kwargs)
    if op.sums:
        return lambda args, kwargs: True
    reduce, accumulate = argument_getter(func, "reduce"), argument_getter(func, "accumulate")
    if reduce is not None:
        how: Getter = reduce
        return lambda args, kwargs: how(args, kwargs) in _SUMS
    if accumulate is not None:
        does: Getter = accumulate
        return lambda args, kwargs: bool(does(args, kwargs))
    return lambda args, kwargs: False


@contextmanager
def _unseen() -> Iterator[None]:
    """Ops in here are seen by no mode, no subclass and no autograd."""
    with torch.no_grad(), seams.without_torch_function(), seams.without_modes():
        yield
