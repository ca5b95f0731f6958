"""Saves the inputs of the first call of each chosen group, for a reproducer, up to a number of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch

from tracer.errors import TraceError, UsageError
from tracer.facts import Args, Kwargs
from tracer.files import write_whole
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.observers import Interest, Observer
from tracer.recording.options import Keep
from tracer.recording.torch_private import seams
from tracer.trace.records import CallGroup


class KeptInputs(Observer):
    """Copies on the host of the inputs of chosen calls. On a device, each copy waits for it."""

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
        if not self._is_chosen(self._describe(info, counter)):
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

    def _is_chosen(self, group: CallGroup) -> bool:
        packet = group.op.rpartition(".")[0]
        names = (group.op, packet, packet.partition(".")[2], group.location, group.called_from, group.module)
        files = (place.rpartition(":")[0] for place in (group.location, group.called_from))
        return any(fnmatchcase(name, glob) for name in (*names, *files) if name for glob in self._globs)


def _tensors(func: Any, args: Args, kwargs: Kwargs) -> Iterator[tuple[str, torch.Tensor]]:
    """Each tensor of a call by its argument's name; one in a list has its position appended."""
    schema = getattr(func, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema is not None else []
    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, (list, tuple)):
            yield from ((f"{name}.{place}", item) for place, item in enumerate(value) if isinstance(item, torch.Tensor))
