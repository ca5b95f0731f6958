"""Observers of calls, each asked once per overload which calls it wants; and the one that keeps inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from tracer.errors import TraceError, UsageError
from tracer.facts import Args, Kwargs
from tracer.files import write_whole
from tracer.recording.options import Keep
from tracer.recording.torch_private import seams
from tracer.trace.records import CallGroup, Environment

if TYPE_CHECKING:
    from tracer.recording.calls.groups import CallCounter, OverloadInfo

Caller = FrameType | None
Interest = bool | Mapping[Any, Any]
"""``True``: every call. A mapping: the calls that are made while it holds anything. Nothing: no call."""


class Observer:
    """Told before and after each call that it wants. Where it fails, the program goes on."""

    reads_data = True
    """Whether it reads the values of tensors. Calls on fake tensors, which have none, reach it as ``not_computed``."""

    def start(self, environment: Environment) -> None:
        """Recording begins, in this environment."""

    def wants(self, info: OverloadInfo) -> Interest:
        """Return which calls of this overload it wants. Asked once, when the overload is first met."""
        raise NotImplementedError

    def before(self, info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs) -> Any:
        """A call is about to be made; what this returns is handed to ``after`` as ``begun``.

        ``counter`` is its group, already counted, or ``None`` for a call without tensor arguments, whose group depends
        on its result. ``asked`` are the facts of the call, in the order of ``info.readers``.
        """

    def after(
        self,
        begun: Any,
        info: OverloadInfo,
        counter: CallCounter,
        args: Args,
        kwargs: Kwargs,
        result: Any,
        frame: Caller,
    ) -> None:
        """The call returned ``result``; ``frame`` is the innermost Python frame that made it, if any did."""

    def not_computed(self, info: OverloadInfo, counter: CallCounter) -> None:
        """A call on fake tensors is about to be made; observers that read values get no other notice."""

    def group_fields(self, counter: CallCounter) -> dict[str, Any]:
        """Return what it adds to the group of ``counter`` in the trace, by field; empty without a result."""
        return {}


class Wanted(NamedTuple):
    """One observer of an overload, as the mode calls it."""

    before: Callable[..., Any] | None
    """``None``: it looks only once the call has returned."""
    after: Callable[..., None]
    interest: Interest
    reads_data: bool


def wanted_by(observers: Iterable[Observer], info: OverloadInfo) -> tuple[Wanted, ...]:
    """Ask each observer whether it wants calls of this overload. An empty mapping may fill later: it is an answer."""
    wanted = []
    for observer in observers:
        if (interest := observer.wants(info)) is not False:
            before = None if type(observer).before is Observer.before else observer.before
            wanted.append(Wanted(before, observer.after, interest, observer.reads_data))
    return tuple(wanted)


class KeptInputs(Observer):
    """Copies on the host of what the first call of each chosen group reads; each waits for its device."""

    def __init__(self, keep: Keep, describe: Callable[[OverloadInfo, CallCounter], CallGroup]) -> None:
        try:
            import safetensors  # noqa: F401
        except ImportError as problem:
            raise UsageError("keeping inputs needs safetensors", hint="pip install safetensors") from problem
        self._globs = tuple(keep.globs)
        self._describe = describe
        self._room = keep.bytes
        self._names: dict[CallCounter, str] = {}
        self._tensors: dict[str, torch.Tensor] = {}

    def wants(self, info: OverloadInfo) -> Interest:
        """Every call: globs may name lines and modules."""
        return True

    def before(self, info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs) -> None:
        """Copy what the first call of a chosen group is about to read."""
        if counter is None or counter.count != 1 or counter in self._names:
            return
        group = self._describe(info, counter)
        packet, places = group.op.rpartition(".")[0], (group.location, group.called_from)
        files = (place.rpartition(":")[0] for place in places)
        names = (group.op, packet, packet.partition(".")[2], *places, *files, group.module)
        if not any(fnmatchcase(name, glob) for name in names if name for glob in self._globs):
            return
        with seams.without_torch_function(), seams.without_modes():
            tensors = dict(_tensors(info.func, args, kwargs))
            plain = all(map(seams.is_dense, tensors.values()))
            size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()) if plain else 0
            if not plain or size > self._room:
                return
            name = str(len(self._names))
            self._room -= size
            self._names[counter] = name
            for argument, tensor in tensors.items():
                copied = tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
                self._tensors[f"{name}/{argument}"] = copied.resolve_conj().resolve_neg()

    def group_fields(self, counter: CallCounter) -> dict[str, Any]:
        return {"inputs": self._names[counter]} if counter in self._names else {}

    def write(self, path: Path) -> None:
        from safetensors.torch import save

        write_whole(path, save(self._tensors, {"format": "pt"}), error=TraceError)


def _tensors(func: Any, args: Args, kwargs: Kwargs) -> Iterator[tuple[str, torch.Tensor]]:
    """Each tensor of a call by its argument's name; one in a list has its position appended."""
    schema = getattr(func, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema is not None else []
    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, (list, tuple)):
            yield from ((f"{name}.{place}", item) for place, item in enumerate(value) if isinstance(item, torch.Tensor))
