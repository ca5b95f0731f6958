"""Changes of torch's process-wide settings, each with its line.

A call makes an event only if the value changes. Attention kernels chosen for one block (``sdpa_kernel``) make none:
they are an argument of that block's calls, not a setting of the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import Any

import torch

from tracer.names import EventKind
from tracer.recording.events import EventLog
from tracer.recording.patching import Call
from tracer.recording.process.settings import read_now
from tracer.recording.torch_private import setting_seams as seams
from tracer.recording.watchers import Target, Watchers

#: Functions that a block of attention goes through; their caller set nothing for the process.
_BLOCKS = frozenset({"sdp_kernel", "sdpa_kernel", "_sdpa_kernel"})
_CUDNN = "torch.backends.cudnn."
_CUDNN_ENABLED = _CUDNN + "enabled"


class SettingEvents:
    """Notes in ``log`` which of torch's settings take another value."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._unheard: dict[str, str] = {}
        """cuDNN's settings that changed while cuDNN was off, with their values before."""

    def start(self) -> None:
        """Begin to watch."""
        _SETTINGS.add(self)

    def stop(self) -> None:
        """Stop watching."""
        _SETTINGS.discard(self)

    def changed(self, name: str, before: str, value: str, frame: FrameType) -> None:
        """``name`` was set; noted if its value changed."""
        if before != value and not _is_of_a_block(frame) and not self._is_without_effect(name, before, value):
            self._log.changed(EventKind.SETTING, name, frame=frame, before=before, value=value)

    def _is_without_effect(self, name: str, before: str, value: str) -> bool:
        """Return whether a setting of cuDNN changed while cuDNN was off, or returned to its value before that.

        ``torch.backends.cudnn.flags(enabled=False)`` sets all of them, and puts them back after it switched cuDNN on.
        """
        if not name.startswith(_CUDNN) or name == _CUDNN_ENABLED:
            return False
        if not torch.backends.cudnn.enabled:
            self._unheard.setdefault(name, before)
            return True
        return self._unheard.pop(name, None) == value


def _is_of_a_block(frame: FrameType) -> bool:
    outer = frame.f_back
    return frame.f_code.co_name in _BLOCKS or (outer is not None and outer.f_code.co_name in _BLOCKS)


def _targets() -> Iterator[Target]:
    for setting, getter in seams.settings():
        # If a setting has words for its values, torch answers in parts or in numbers.
        read = partial(read_now, setting) if setting.said else getter
        yield Target(seams.holders_of(setting), look=partial(_look, read), after=partial(_tell, setting.name, read))


def _look(read: Any, call: Call) -> None:
    call.before = str(read())


def _tell(name: str, read: Any, listener: SettingEvents, call: Call) -> None:
    listener.changed(name, call.before, str(read()), call.frame)


_SETTINGS: Watchers[SettingEvents] = Watchers(_targets)
