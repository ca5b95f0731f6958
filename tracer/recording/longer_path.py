"""What is looked at around a call that took the mode's longer path: its memory, its indices, its digests."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Any

from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.inputs.forms import form_of
from tracer.recording.memory_tracking import Tracking
from tracer.recording.storage.indices import MAKES
from tracer.recording.torch_private import seams, storages

if TYPE_CHECKING:  # who keeps no values loads none of what digests them
    from tracer.recording.values.calls import CallValues
    from tracer.recording.values.outcome import Reading


class LongerPath:
    """Looks for one recording. No ``__torch_function__`` is called meanwhile."""

    def __init__(self, tracking: Tracking, values: CallValues | None) -> None:
        self._tracking = tracking
        self._values = values
        self._watched = tracking.memory.live
        self._known = tracking.indices.live

    def first(self, counter: CallCounter, args: Any, kwargs: Any) -> None:
        """Keep what the first call of a group is called with."""
        if counter.form is None:
            with seams.without_torch_function():
                counter.form = form_of(args, kwargs)

    def before(self, info: OverloadInfo, asked: Any, args: Any, kwargs: Any) -> Reading | None:
        """Digest what a call is about to read, where that was asked for."""
        if self._values is None or info.plan is None:
            return None
        with seams.without_torch_function():
            return self._values.before(info.plan, info, asked, args, kwargs)

    def digest(
        self, info: OverloadInfo, counter: CallCounter, reading: Reading | None, args: Any, kwargs: Any, result: Any
    ) -> None:
        """Digest what a call wrote, if what it read was."""
        if self._values is not None and reading is not None:
            with seams.without_torch_function():
                self._values.after(info.plan, info, counter, reading, args, kwargs, result)

    def after(
        self,
        info: OverloadInfo,
        counter: CallCounter,
        args: Any,
        kwargs: Any,
        result: Any,
        frame: FrameType | None,
        reading: Reading | None,
    ) -> None:
        """A call returned."""
        if info.checks or (self._watched and info.touches):
            with seams.without_torch_function():
                if info.checks:
                    self._tracking.after(info, counter, args, kwargs, result, frame)
                else:
                    self._tracking.touched(info, counter, args, kwargs, result)
        if info.index_role and (self._known or info.index_role == MAKES):
            with seams.without_torch_function():
                self._tracking.indices.after(info.func, info.index_role, args, kwargs, result)
        self.digest(info, counter, reading, args, kwargs, result)

    def growing(
        self,
        info: OverloadInfo,
        counter: CallCounter,
        func: Any,
        tensor: Any,
        args: Any,
        kwargs: Any,
        frame: FrameType | None,
        reading: Reading | None,
    ) -> Any:
        """Make a call that may enlarge the storage of ``tensor``."""
        with seams.without_torch_function():
            before = storages.storage_bytes(tensor) if storages.storage_id(tensor) else 0
        result = func(*args, **kwargs)
        with seams.without_torch_function():
            self._tracking.grew(info, counter, tensor, before, frame)
        self.digest(info, counter, reading, args, kwargs, result)
        return result
