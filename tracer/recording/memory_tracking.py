"""What each call does to memory, as far as it matters: unwritten memory that it gives out or reads, overlapping writes.

An ordinary call costs two truth tests: does the overload write or allocate, and is any storage watched?
"""

from __future__ import annotations

from types import FrameType
from typing import Any

import torch

from tracer.names import Overlap
from tracer.recording.calls import facts
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.origin.sites import spell
from tracer.recording.storage.indices import Indices
from tracer.recording.storage.overlaps import overlaps_of, writes_over_itself
from tracer.recording.storage.unwritten import Given, Memory
from tracer.recording.torch_private import seams, storages
from tracer.trace.records import Allocation, OverlapWrite, UnwrittenRead

_Tensor = torch.Tensor
_Parameter = torch.nn.Parameter
#: What most arguments are that are no tensors.
_PLAIN = frozenset({int, float, bool, type(None), str, torch.dtype, torch.device})
_identify = storages.storage_id_of_strided
_is_contiguous = torch.Tensor.is_contiguous


class Tracking:
    """Memory and overlaps of one recording. ``is_on`` is there to measure what it costs."""

    def __init__(self) -> None:
        self.is_on = True
        self.indices = Indices()
        self.memory = Memory(self.indices)
        self._live = self.memory.live
        self.overlaps: dict[tuple[CallCounter, Overlap, str], tuple[str, int]] = {}
        self.failures = 0
        """Calls that this module itself could not deal with; whatever was watched then was given up."""

    def after(
        self,
        info: OverloadInfo,
        counter: CallCounter,
        args: tuple[Any, ...],
        kwargs: Any,
        result: Any,
        frame: FrameType | None,
    ) -> None:
        """A call returned whose overload allocates or writes (``info.checks``)."""
        access = info.access
        live = self._live
        try:
            is_watched = False
            if access.is_simple:
                written = args[0]
                is_doubtful = not written.is_contiguous() and writes_over_itself(written)
                identity = _identify(written) if live else 0
                for value in args:
                    kind = type(value)
                    if kind is float or kind is int or value is written:
                        continue
                    if kind is _Tensor or kind is _Parameter or isinstance(value, _Tensor):
                        other = _identify(value)
                        identity = identity or _identify(written)
                        if other == identity:
                            is_doubtful = True
                        elif other in live:
                            is_watched = True
                is_watched = is_watched or identity in live
            else:
                if info.is_listed and not kwargs:
                    is_doubtful = self._is_doubtful_list(args)
                else:
                    is_doubtful = access.writes_at_known_places
                is_watched = bool(live) and self._is_watched(args, kwargs)
            if is_doubtful:
                self._look_for_overlaps(info, counter, args, kwargs)
            if access.allocates:
                self.memory.gave(info.name, counter, result, frame)
            elif is_watched:
                self.memory.follow(access, info.name, counter, args, kwargs, result)
        except Exception:
            self._fail(args)

    def touched(
        self, info: OverloadInfo, counter: CallCounter, args: tuple[Any, ...], kwargs: Any, result: Any
    ) -> None:
        """A call returned whose overload reads, while storages are watched."""
        try:
            if self._is_watched(args, kwargs):
                self.memory.follow(info.access, info.name, counter, args, kwargs, result)
        except Exception:
            self._fail(args)

    def _is_watched(self, args: tuple[Any, ...], kwargs: Any) -> bool:
        """Does a call have an argument on a watched storage?"""
        live = self._live
        try:
            for value in args:
                kind = type(value)
                if kind is _Tensor or kind is _Parameter:
                    if _identify(value) in live:
                        return True
                elif kind is list or kind is tuple:
                    if value and isinstance(value[0], (_Tensor, type(None))) and self._is_watched(value, None):
                        return True
                elif kind not in _PLAIN and isinstance(value, _Tensor) and _identify(value) in live:
                    return True
            return bool(kwargs) and self._is_watched(tuple(kwargs.values()), None)
        except (NotImplementedError, RuntimeError):  # a tensor without a storage among them: each by itself
            return True

    def grew(self, info: OverloadInfo, counter: CallCounter, tensor: Any, before: int, frame: FrameType | None) -> None:
        """A call returned that may have enlarged the storage of ``tensor``, which had ``before`` bytes."""
        try:
            self.memory.grew(info.name, counter, tensor, before, frame)
        except Exception:
            self._fail(())

    def opaque(self, info: OverloadInfo, args: tuple[Any, ...], kwargs: Any) -> None:
        """A call is to be made of which nothing but the arguments is known."""
        for tensor, _ in info.access.tensors(args, kwargs):
            self.memory.escaped(tensor)
            self.indices.escaped(tensor)
        if isinstance(info.func, seams.HigherOrderOperator):
            self.give_up_all()

    def handed_over(self, inputs: Any) -> list[tuple[int, Given]]:
        """A region is about to run on ``inputs`` alone: those of which nothing was written, by place."""
        found = []
        try:
            for place, value in enumerate(inputs):
                if isinstance(value, _Tensor):
                    given = self.memory.handed_over(value)
                    self.indices.escaped(value)
                    if given is not None:
                        found.append((place, given))
        except Exception:  # a tensor without a storage
            self.give_up_all()
        return found

    def prune(self) -> None:
        """Forget storages that are gone."""
        self.memory.prune()
        self.indices.prune()

    def give_up_all(self) -> None:
        """Something ran that may write to any tensor, unseen."""
        self.memory.give_up_all()
        self.indices.give_up_all()

    def _fail(self, args: tuple[Any, ...]) -> None:
        # A sparse tensor has no storage; anything else is unforeseen, and silence is better than a guess.
        if not any(isinstance(value, _Tensor) and not storages.storage_id(value) for value in args):
            self.failures += 1
        self.memory.give_up_all()

    @staticmethod
    def _is_doubtful_list(args: tuple[Any, ...]) -> bool:
        written = args[0]
        if not all(map(_is_contiguous, written)) and any(map(writes_over_itself, written)):
            return True
        others = [value for value in args[1:] if type(value) is list or type(value) is tuple]
        if not others or not any(value and isinstance(value[0], _Tensor) for value in others):
            return False
        storages = set(map(_identify, written))
        return any(isinstance(item, _Tensor) and _identify(item) in storages for value in others for item in value)

    def _look_for_overlaps(self, info: OverloadInfo, counter: CallCounter, args: tuple[Any, ...], kwargs: Any) -> None:
        found = overlaps_of(info.access, args, kwargs)
        for kind, tensor in ((Overlap.ITSELF, found.itself), (Overlap.SOURCE, found.source)):
            if tensor is not None:
                key = (counter, kind, facts.device_word(tensor.device))
                self.overlaps[key] = (info.name, self.overlaps.get(key, ("", 0))[1] + 1)

    # --- for the trace ---

    def allocations(self, working_directory: str) -> list[Allocation]:
        """What was given out, in the order of the first calls."""
        given = sorted(self.memory.given.values(), key=lambda one: one.counter.order)
        return [
            Allocation(
                op=value.op,
                **value.counter.origin.in_words(working_directory),
                count=value.count,
                bytes=value.bytes,
                unfollowed=value.unfollowed,
            )
            for value in given
        ]

    def unwritten_reads(self, working_directory: str) -> list[UnwrittenRead]:
        """What was read unwritten."""
        return [
            UnwrittenRead(
                op=op,
                **counter.origin.in_words(working_directory),
                count=count,
                allocated_by=given.op,
                allocated_at=spell(given.counter.origin.site, working_directory),
                allocated_from=spell(given.counter.origin.called_from, working_directory),
            )
            for given, counter, op, count in self.memory.unwritten_reads()
        ]

    def overlapping_writes(self, working_directory: str) -> list[OverlapWrite]:
        """What was written while it overlapped."""
        found = sorted(self.overlaps.items(), key=lambda item: item[0][0].order)
        return [
            OverlapWrite(op=op, kind=kind, **counter.origin.in_words(working_directory), count=count, device=device)
            for (counter, kind, device), (op, count) in found
        ]
