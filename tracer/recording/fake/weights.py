"""Files of weights that a run on fake tensors asks for: their headers are read, their contents are not."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import msgspec
import torch

from tracer.recording.patching import Holder
from tracer.recording.torch_private import seams

#: Types by their names in files of the safetensors format.
_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "I64": "int64",
    "U64": "uint64",
    "F64": "float64",
    "C64": "complex64",
}
#: Bytes of the largest header that the safetensors library reads.
_LARGEST_HEADER = 100_000_000


class _Entry(msgspec.Struct):
    """One tensor of a file."""

    dtype: str
    shape: list[int]


class _Slice:
    """The result of ``safe_open(...).get_slice(name)``: a tensor that is made once a part of it is asked for."""

    def __init__(self, entry: _Entry, make: Callable[[_Entry], torch.Tensor]) -> None:
        self._entry, self._make = entry, make

    def get_shape(self) -> list[int]:
        """The whole tensor's."""
        return list(self._entry.shape)

    def get_dtype(self) -> str:
        """As files spell it: ``F32``."""
        return self._entry.dtype

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self._make(self._entry)[index]


class UnreadWeights:
    """``safetensors.safe_open`` of a file whose contents are not read: fake tensors of its types and shapes."""

    def __init__(self, path: str | os.PathLike[str], mode: Any, device: Any) -> None:
        """``mode``: the fake tensors'. Raises ``FileNotFoundError``, or ``ValueError`` if the header is none."""
        with Path(path).open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = file.read(length) if length <= _LARGEST_HEADER else b""
        try:
            entries = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
            self._metadata: dict[str, str] | None = None
            if "__metadata__" in entries:
                self._metadata = msgspec.json.decode(entries.pop("__metadata__"), type=dict[str, str])
            self._entries = {name: msgspec.json.decode(entry, type=_Entry) for name, entry in entries.items()}
            self._dtypes = {name: getattr(torch, _DTYPES[name]) for name in {e.dtype for e in self._entries.values()}}
        except (msgspec.MsgspecError, KeyError, AttributeError) as problem:
            raise ValueError(f"{path} has no header of safetensors that can be read: {problem}") from None
        self._mode, self._device = mode, device

    def __enter__(self) -> UnreadWeights:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """There is nothing to close."""

    def _made(self, entry: _Entry) -> torch.Tensor:
        # What is in the file is written: no memory of the program's. transformers asks from threads of its own.
        with seams.without_recording(), self._mode:
            return torch.empty(entry.shape, dtype=self._dtypes[entry.dtype], device=self._device)

    def keys(self) -> list[str]:
        """Names of the tensors."""
        return list(self._entries)

    offset_keys = keys

    def metadata(self) -> dict[str, str] | None:
        """Return the metadata of the file."""
        return self._metadata

    def get_slice(self, name: str) -> _Slice:
        """A tensor, or a part of it, to come."""
        return _Slice(self._entries[name], self._made)

    def get_tensor(self, name: str) -> torch.Tensor:
        """A fake tensor."""
        return self._made(self._entries[name])

    def get_tensors(self) -> dict[str, torch.Tensor]:
        """All of them (safetensors 0.8)."""
        return {name: self.get_tensor(name) for name in self._entries}


def opening(mode: Any, note: Callable[[str, FrameType], None]) -> Callable[..., Any]:
    """Return a stand-in for ``safe_open``; it calls ``note`` with each file's name and the frame that opened it."""

    def answer(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        path = kwargs.get("filename", (*args, None)[0])
        framework = kwargs.get("framework", (*args, None, None)[1])
        if path is None or str(framework) not in ("pt", "torch", "pytorch"):
            return call(*args, **kwargs)
        device = kwargs.get("device", "cpu" if len(args) < 3 else args[2])
        weights = UnreadWeights(path, mode, torch.device("cuda", device) if isinstance(device, int) else device)
        note(os.path.basename(path), sys._getframe(1))
        return weights

    return answer


def holders() -> list[Holder]:
    """Modules that hold ``safe_open``."""
    original: Any = getattr(sys.modules.get("safetensors"), "safe_open", None)
    modules = [module for module in list(sys.modules.values()) if isinstance(module, type(sys))]
    return [(module, "safe_open") for module in modules if original and vars(module).get("safe_open") is original]
