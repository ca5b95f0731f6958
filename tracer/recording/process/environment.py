"""Reads the process's versions and settings, and notes their changes and when CUDA and its libraries were first used.

Only what can influence a step: no host name, no user name, and of the environment variables only those that a table
names. Reading starts no device.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, TypeVar

import msgspec
import torch

from tracer.names import DeterministicMode, EventKind, Subsystem
from tracer.recording.calls import dtype_word
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.events import EventLog
from tracer.recording.origin import placed
from tracer.recording.patching import WatchedCall, WatchedFunction, Watchers
from tracer.recording.process.settings import deterministic_mode, read_now, read_settings, set_variables
from tracer.recording.torch_private import seams
from tracer.recording.torch_private.seams import cudnn_number
from tracer.tables.asked import asked
from tracer.tables.settings import DECLARED, MODE
from tracer.trace.records import CudaDevice, Environment, Event, FactValue

T = TypeVar("T")


def _read(reader: Callable[[], T]) -> T | None:
    """The result of ``reader``; ``None`` if this build of torch lacks it."""
    try:
        return reader()
    except Exception:  # a missing attribute, a missing library, a build without the backend
        return None


def capture_environment(*, before_calls: bool = False) -> Environment:
    """Read the settings of this process; ``before_calls`` leaves what reading would initialize to ``completed``."""
    settings = read_settings(asked().settings, before_calls=before_calls)
    own = (setting for setting in DECLARED if "." in setting.key and setting.condition is not None)
    settings |= {setting.key: value for setting in own if (value := read_now(setting)) is not None}
    return Environment(
        python=platform.python_version(),
        platform=f"{platform.system()}-{platform.machine()}",
        torch=str(torch.__version__),
        cuda=torch.version.cuda,
        hip=_read(lambda: torch.version.hip),
        cudnn=str(number) if torch.version.cuda and (number := _read(cudnn_number)) is not None else None,
        nccl=_read(lambda: ".".join(str(part) for part in torch.cuda.nccl.version())) if torch.version.cuda else None,
        devices=_read(devices) or (),
        **{setting.key: read_now(setting) for setting in DECLARED if setting.is_field and setting.key != MODE},  # type: ignore[arg-type]
        deterministic_mode=deterministic_mode(),
        sdp_backends=_read(_sdp_backends),
        default_dtype=dtype_word(torch.get_default_dtype()),
        torch_seed=_read(torch.initial_seed),
        cuda_seed=_read(torch.cuda.initial_seed) if torch.cuda.is_initialized() else None,
        variables=set_variables(asked().variables),
        settings=settings,
    )


def under(environment: Environment, values: Mapping[str, str]) -> Environment:
    """``environment`` with the settings under which the calls ran: ``values``, by the names that events have."""
    fields: dict[str, Any] = {}
    dotted = dict(environment.settings)
    for key, value in values_of(values).items():
        if key == MODE:
            fields[MODE] = DeterministicMode(str(value))
        elif key in Environment.__struct_fields__:
            fields[key] = value
        elif key in dotted:
            dotted[key] = value
    return msgspec.structs.replace(environment, **fields, settings=dotted)


#: Settings with a list of values, by the names that events have, and those that verdicts hang on.
HAVE_VALUES = {setting.name: setting for setting in DECLARED if not isinstance(setting.values, type)}
JUDGED = {name for name, setting in HAVE_VALUES.items() if setting.condition is not None}


def values_of(texts: Mapping[str, str]) -> dict[str, FactValue]:
    """The values, by ``Setting.key``, that events spell as ``texts``; without settings that have no list of values."""
    values: dict[str, FactValue] = {}
    for name, setting in HAVE_VALUES.items():
        spelt = {str(value): value for value in setting.values} if isinstance(setting.values, tuple) else {}
        if (text := texts.get(name)) in spelt:
            values[setting.key] = spelt[text]
    return values


def values_now() -> dict[str, str]:
    """The values that the settings have whose changes are observed, as events spell both."""
    return {name: str(read_now(setting)) for name, setting in HAVE_VALUES.items() if setting.watched[0]}


def completed(environment: Environment) -> Environment:
    """``environment`` with what had not started or was not loaded when it was captured."""
    settings = read_settings(asked().settings)
    cuda_devices = environment.devices or _read(devices) or ()
    return msgspec.structs.replace(environment, devices=cuda_devices, settings=settings | environment.settings)


def _sdp_backends() -> tuple[str, ...]:
    cuda: Any = torch.backends.cuda
    asked = {
        "flash": cuda.flash_sdp_enabled,
        "mem_efficient": cuda.mem_efficient_sdp_enabled,
        "math": cuda.math_sdp_enabled,
        "cudnn": getattr(cuda, "cudnn_sdp_enabled", lambda: False),
    }
    return tuple(name for name, is_enabled in asked.items() if is_enabled())


def has_triton() -> bool | None:
    """Whether Triton can be imported, without importing it; ``None`` in a build of torch without a GPU's kernels."""
    return find_spec("triton") is not None if torch.version.cuda or torch.version.hip else None


def devices() -> tuple[CudaDevice, ...]:
    """The CUDA devices, once the program has started CUDA: asking earlier would start it."""
    indices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    properties = map(torch.cuda.get_device_properties, indices)
    return tuple(CudaDevice(name=each.name, capability=f"{each.major}.{each.minor}") for each in properties)


#: Functions that a block of attention goes through; their caller set nothing for the process.
_BLOCKS = frozenset({"sdp_kernel", "sdpa_kernel", "_sdpa_kernel"})


class SettingEvents:
    """Notes in ``log`` which of torch's settings take another value."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._unheard: dict[str, str] = {}
        """cuDNN's settings that changed while cuDNN was off, with their values before."""

    def is_set(self, call: WatchedCall, *, name: str, read: Callable[[], Any]) -> None:
        """``name`` was set; noted if its value changed."""
        before, value, outer = call.before, str(read()), call.frame.f_back
        is_of_a_block = {each.f_code.co_name for each in (call.frame, outer) if each is not None} & _BLOCKS
        if before == value or is_of_a_block:
            return
        is_unheard = False
        if name.startswith("torch.backends.cudnn.") and name != "torch.backends.cudnn.enabled":
            if torch.backends.cudnn.enabled:  # back at its value, as in ``torch.backends.cudnn.flags(enabled=False)``
                is_unheard = self._unheard.pop(name, None) == value
            else:
                is_unheard = bool(self._unheard.setdefault(name, before))
        if not is_unheard:
            self._log.changed(EventKind.SETTING, name, frame=call.frame, before=before, value=value)


def _setters() -> Iterator[WatchedFunction]:
    for setting, getter in seams.settings():
        # If a setting has words for its values, torch answers in parts or in numbers.
        read = partial(read_now, setting) if setting.said else getter
        yield WatchedFunction(
            seams.holders_of(setting),
            look=lambda call, read=read: setattr(call, "before", str(read())),  # type: ignore[misc]
            after=partial(SettingEvents.is_set, name=setting.name, read=read),
        )


SETTINGS: Watchers[SettingEvents] = Watchers(_setters)


#: Groups of calls of the table of settings, and the library that such a call uses on CUDA.
_GROUPS = {"matrix-products": Subsystem.CUBLAS, "convolutions": Subsystem.CUDNN}
#: Namespaces of collectives, and the library that they use, by device.
_COLLECTIVES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")
_COLLECTIVE_LIBRARIES = {"cuda": Subsystem.NCCL, "npu": Subsystem.HCCL}
#: What starts with the first call on a device.
_DEVICES = {"cuda": Subsystem.CUDA, "npu": Subsystem.NPU}


class FirstUses:
    """Notes in ``log`` what starts."""

    def __init__(self, log: EventLog) -> None:
        self.log = log

    def start(self) -> None:
        """Begin to watch; what runs already was first used before."""
        _STARTS.add(self)
        self.look()

    def stop(self) -> None:
        self.look()
        _STARTS.discard(self)

    def look(self) -> None:
        """Watch what was loaded since, and note what started unseen."""
        _STARTS.look_again()
        self.cuda_started(None)

    def cuda_started(self, call: WatchedCall | None) -> None:
        """CUDA's start was called, which calls itself again before it is done; or nobody saw it start."""
        if Subsystem.CUDA not in self.log.used and torch.cuda.is_initialized():
            self.log.first_use(Subsystem.CUDA, None if call is None else call.frame)

    def group_made(self, call: WatchedCall) -> None:
        """A process group was made. Without a backend, torch starts each device's library at its first collective."""
        words = (argument for argument in (*call.args, call.kwargs.get("backend")) if isinstance(argument, str))
        backend = next(words, "").lower()
        for subsystem in _COLLECTIVE_LIBRARIES.values():
            if subsystem in backend:
                self.log.first_use(subsystem, call.frame)


def _is_first_use(event: Event, subsystem: Subsystem) -> bool:
    return event.kind is EventKind.FIRST_USE and event.name == subsystem.value


def where_cuda_started() -> str:
    """``path:line`` of the call that started CUDA; empty if nobody was watching."""
    for watch in _STARTS.listeners:
        watch.look()
        for event in watch.log.listed():
            if _is_first_use(event, Subsystem.CUDA) and event.location:
                return event.location
    return ""


def first_calls(counted: Iterable[tuple[OverloadInfo, CallCounter]], recorded: Iterable[Event] = ()) -> Iterator[Event]:
    """The first recorded call of each library and device, as an event of that call's position and line.

    On fake tensors that run as a machine with GPUs, the CPU's calls are CUDA's once it was started (``recorded``).
    """
    started = (event.first for event in recorded if _is_first_use(event, Subsystem.CUDA) and seams.answers_reads())
    since = next(started, None)
    counters: dict[Subsystem, CallCounter] = {}
    for info, counter in counted:
        for subsystem in _used_by(info.name, counter, since):
            if subsystem not in counters or counter.order < counters[subsystem].order:
                counters[subsystem] = counter
    for subsystem, counter in counters.items():
        yield Event(
            kind=EventKind.FIRST_USE,
            name=str(subsystem),
            **placed(counter.origin.site, counter.origin.called_from),
            phase=counter.origin.phase,
            while_recording=True,
            first=counter.order,
            last=counter.order,
        )


def with_first_calls(recorded: Iterable[Event], calls: Iterable[Event]) -> tuple[Event, ...]:
    """All events in order; of several first uses of one library, the earliest."""
    events = list(recorded)
    for call in calls:
        same = [event for event in events if event.kind is EventKind.FIRST_USE and event.name == call.name]
        if all(call.first <= other.first for other in same):
            events = [*(event for event in events if event not in same), call]
    return tuple(sorted(events, key=lambda event: event.first))


def _used_by(op: str, counter: CallCounter, since: int | None) -> Iterator[Subsystem]:
    device = getattr(counter.raw[1], "type", "") if counter.raw is not None else ""
    if device == "cpu" and since is not None and counter.order > since:
        device = "cuda"
    if device not in _DEVICES:
        return
    yield _DEVICES[device]
    if op.partition(".")[0] in _COLLECTIVES:
        yield _COLLECTIVE_LIBRARIES[device]
    elif device == "cuda":
        for subsystem, ops in _ops_of_libraries().items():
            if op in ops or op.rpartition(".")[0] in ops:
                yield subsystem


@cache
def _ops_of_libraries() -> dict[Subsystem, frozenset[str]]:
    from tracer.tables.rules import load_rows  # asked for with the first call on CUDA

    return {_GROUPS[group.name]: frozenset(group.ops) for group in load_rows().group if group.name in _GROUPS}


_STARTS: Watchers[FirstUses] = Watchers(
    lambda: [
        WatchedFunction([seams.START_OF_CUDA], after=FirstUses.cuda_started),
        *(WatchedFunction(holders, after=FirstUses.group_made) for holders in seams.process_group_starts()),
    ]
)
