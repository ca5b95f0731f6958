"""Running on fake tensors: ``torch.cuda`` answers as the machine that was asked for."""

from __future__ import annotations

import copy
import os
import shutil
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from operator import attrgetter
from types import FrameType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves
from torch.utils.data import _utils, dataloader

from tracer.names import BlindSpotKind
from tracer.recording.blind_spots import WATCHES
from tracer.recording.fake import gpu as fake_gpu
from tracer.recording.options import FakeMachine, OneRank
from tracer.recording.patching import Holder, answered_by
from tracer.recording.torch_private import seams
from tracer.recording.torch_private.compile_seams import compilation_off, dtype_of
from tracer.recording.torch_private.fake_tensors import fake_tensors


class _Slice:
    """``safe_open(...).get_slice(name)``: a tensor that is made once a part of it is asked for."""

    def __init__(self, header: Any, make: Callable[[Any], torch.Tensor]) -> None:
        self._header, self._make = header, make

    def __getattr__(self, name: str) -> Any:
        return getattr(self._header, name)

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self._make(self._header)[index]


class UnreadWeights:
    """``safetensors.safe_open``, of which the header alone is read: fake tensors of its types and shapes."""

    def __init__(self, file: Any, mode: Any, device: Any) -> None:
        self._file, self._mode, self._device = file, mode, device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> UnreadWeights:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to close."""

    def _made(self, header: Any) -> torch.Tensor:
        dtype = {"F8_E4M3": "f8e4m3fn"}.get(header.get_dtype(), header.get_dtype().lower().replace("_", ""))
        # What is in the file is written: no memory of the program's. transformers asks from threads of its own.
        with seams.without_recording(), self._mode:
            return torch.empty(header.get_shape(), dtype=dtype_of(dtype), device=self._device)

    def get_slice(self, name: str) -> _Slice:
        return _Slice(self._file.get_slice(name), self._made)

    def get_tensor(self, name: str) -> torch.Tensor:
        return self._made(self._file.get_slice(name))

    def get_tensors(self) -> dict[str, torch.Tensor]:
        """All of them (safetensors 0.8)."""
        return {name: self.get_tensor(name) for name in self._file.keys()}  # noqa: SIM118  (it is no dictionary)


def _note(name: str, frame: FrameType, **words: str) -> None:
    """A stand-in answered ``name``: whoever records lists it."""
    for listener in WATCHES.listeners:
        listener.note(BlindSpotKind.FAKE_VALUE, name, frame, **words)


_WEIGHTS, _SHAPES = "weights in {}", "only their shapes were read"


def opening_weights(mode: Any) -> Callable[..., Any]:
    """Return a stand-in for ``safe_open``, which lists each file."""

    def answer(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        path = kwargs.get("filename", (*args, None)[0])
        framework = kwargs.get("framework", (*args, None, None)[1])
        if path is None or str(framework) not in ("pt", "torch", "pytorch"):
            return call(*args, **kwargs)
        device = kwargs.get("device", "cpu" if len(args) < 3 else args[2])
        file = call(path, framework="np")
        _note(_WEIGHTS.format(os.path.basename(path)), sys._getframe(1), lost=_SHAPES)
        return UnreadWeights(file, mode, torch.device("cuda", device) if isinstance(device, int) else device)

    return answer


def holders_of_safe_open() -> list[Holder]:
    original: Any = getattr(sys.modules.get("safetensors"), "safe_open", None)
    modules = [module for module in list(sys.modules.values()) if isinstance(module, type(sys))]
    return [(module, "safe_open") for module in modules if original and vars(module).get("safe_open") is original]


def _returning(answer: Any, *, starts: bool = False) -> Callable[..., Any]:
    def around(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if starts:
            fake_gpu.start()
        return answer

    return around


#: Switches off that transformers loads weights on several threads, where set: torch's fake tensors are made for one.
_ON_THREADS = "HF_DEACTIVATE_ASYNC_LOAD"


def _unwritten(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Stand in for a function that writes weights: list the call, and write nothing."""
    _note(call.__qualname__, sys._getframe(1), lost="nothing was written")


class _Unwritten:
    """What ``torch.save`` was handed and did not write, by file: a program that loads it again gets it back."""

    def __init__(self) -> None:
        self._objects: dict[object, Any] = {}

    def save(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``torch.save``, unless there are fake tensors in what is to be written."""
        asked = {**dict(zip(("obj", "f"), args, strict=False)), **kwargs}
        written, key = asked.get("obj"), _file_of(asked.get("f"))
        if any(isinstance(leaf, (FakeTensor, torch.nn.Module)) for leaf in tree_leaves(written)):
            with suppress(Exception):  # somebody's own object may refuse
                self._objects[key] = copy.deepcopy(written)
            return _unwritten(call, args, kwargs)
        self._objects.pop(key, None)
        return call(*args, **kwargs)

    def load(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``torch.load``, which reads no contents where fake tensors are made. All of those lie on the CPU."""
        asked = {**dict(zip(("f", "map_location", "pickle_module"), args, strict=False)), **kwargs}
        key, place = _file_of(asked.get("f")), str(asked.get("map_location"))
        if key in self._objects:
            return copy.deepcopy(self._objects[key])
        name = os.path.basename(key) if isinstance(key, str) else "a file"
        _note(_WEIGHTS.format(name), sys._getframe(2), lost=_SHAPES)
        return call(**{**asked, "map_location": "meta" if place == "meta" else "cpu"})

    def move(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What renames or copies a file: one that was not written has another name now, and no other file is lost."""
        source, target = (*args, *(kwargs[name] for name in ("src", "dst") if name in kwargs))[:2]
        key = _file_of(source)
        if key not in self._objects:
            return call(*args, **kwargs)
        name = os.path.join(target, os.path.basename(source)) if os.path.isdir(target) else target
        self._objects[_file_of(name)] = self._objects[key]
        return name if call.__module__ == shutil.__name__ else None


#: What renames and copies files, as programs do that replace a checkpoint at once.
_MOVES: tuple[Holder, ...] = (
    *((os, name) for name in ("replace", "rename", "link")),
    *((shutil, name) for name in ("copyfile", "copy", "copy2", "move")),
)


def _file_of(file: Any) -> object:
    """The path of a file that is named or open; for another one, itself."""
    name = file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", None)
    return os.path.abspath(name) if isinstance(name, (str, os.PathLike)) else file


def _voting(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A stage of a pipeline says whether all are to take their shapes from their neighbours."""
    from tracer.recording.torch_private.fake_groups import check_stage

    check_stage(args[0], bool(kwargs.get("has_backward", args[1:2] == (True,))))
    return call(*args, **kwargs)


def _device_of_mesh(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """FSDP2 asks where its buffers lie."""
    from tracer.recording.torch_private.fake_groups import made_for

    return fake_gpu.ON_MESH if made_for(args[0]) == "cuda" else call(*args, **kwargs)


def _default_mesh(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """FSDP2 makes a mesh of the accelerator that this torch was built for."""
    mesh = call(*args, **kwargs)
    mesh._made_for = "cuda" if torch.cuda.is_available() else "cpu"
    return mesh


_FULLY_SHARD = "torch.distributed.fsdp._fully_shard"
#: What answers for functions of libraries, by module and name.
_OF_LIBRARIES = {
    ("transformers.utils.import_utils", "is_fake_tensor"): _returning(False),  # it takes another path for them
    ("transformers.modeling_utils", "PreTrainedModel.save_pretrained"): _unwritten,
    ("safetensors.torch", "save_file"): _unwritten,
    **{
        (module, name): around
        for module in (f"{_FULLY_SHARD}._fully_shard", "torch.distributed._composable.replicate_with_fsdp")
        for name, around in (("_init_default_mesh", _default_mesh), ("_get_device_from_mesh", _device_of_mesh))
    },
    (f"{_FULLY_SHARD}._fsdp_init", "_move_states_to_device"): fake_gpu.moved_to_mesh,
    ("torch.distributed.pipelining.stage", "PipelineStage._warmup_forward_vote"): _voting,
}
LIBRARIES = ("safetensors", *(module for module, _ in _OF_LIBRARIES))
"""Modules to look for again once they are imported."""


@contextmanager
def on_fake_tensors(machine: FakeMachine, one_rank: OneRank | None = None) -> Iterator[Callable[[str], None]]:
    """Run the block on fake tensors, as on ``machine``, and as one rank of a job where one is passed.

    Yields a function to call with the name of one of ``LIBRARIES`` once it was imported.
    """
    with ExitStack() as undo:
        is_over, mended = False, set[str]()
        if _ON_THREADS not in os.environ:
            os.environ[_ON_THREADS] = "1"
            undo.callback(os.environ.pop, _ON_THREADS, None)

        def put(around: Callable[..., Any], *holders: Holder) -> None:
            undo.callback(answered_by(around, *holders))

        def look(imported: str = "") -> None:
            for module in LIBRARIES if not is_over else ():
                held = sys.modules.get(module)
                # While its own lines are running, what it will hold is not there yet.
                is_running = getattr(getattr(held, "__spec__", None), "_initializing", False)
                if held is None or module in mended or (is_running and module != imported):
                    continue
                mended.add(module)
                if module == "safetensors":
                    put(opening_weights(mode), *holders_of_safe_open())
                for (owner, path), around in _OF_LIBRARIES.items():
                    holder, _, name = path.rpartition(".")
                    if owner == module:
                        put(around, (attrgetter(holder)(held) if holder else held, name))

        mode = undo.enter_context(fake_tensors(_note))  # first: it loads Dynamo, which lists torch's functions
        undo.enter_context(compilation_off())  # compiled code reads memory that fake tensors do not have
        unwritten = _Unwritten()
        put(unwritten.save, (torch, "save"))
        put(unwritten.load, (torch, "load"))
        put(unwritten.move, *_MOVES)
        for holder, answer in _answers_of_loaders():
            put(answer, holder)
        if machine.capability is not None:
            for module, name, stand_in in fake_gpu.stand_ins(machine):
                undo.callback(setattr, module, name, getattr(module, name))
                setattr(module, name, stand_in)
            for holder, around in fake_gpu.calls(machine, _note):
                put(around, holder)
            mode.uses_device, mode.has_devices = fake_gpu.start, True
        for holder, answer in fake_gpu.answers(machine).items():
            put(_returning(answer, starts=machine.capability is not None and holder[1] in fake_gpu.STARTING), holder)
        if one_rank is not None:
            from tracer.recording.torch_private.fake_groups import fake_groups

            undo.enter_context(one_rank.in_environment())
            backend = "gloo" if machine.capability is None else "nccl"
            undo.enter_context(
                fake_groups(one_rank.rank, one_rank.world_size, one_rank.groups, backend=backend, mode=mode)
            )
        look()
        try:
            yield look
        finally:
            is_over = True


def _answers_of_loaders() -> Iterator[tuple[Holder, Callable[..., Any]]]:
    """Methods of loaders, and what answers for them. A worker is a fork, which would have the fake tensors' mode."""
    fetchers: weakref.WeakSet[Any] = weakref.WeakSet()
    """Those that would live in a worker."""

    def iterator(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        loader = args[0]
        workers, timeout = loader.num_workers, loader.timeout
        if not workers:
            return call(*args, **kwargs)
        loader.num_workers, loader.timeout = 0, 0
        try:
            alone = call(*args, **kwargs)
        finally:
            loader.num_workers, loader.timeout = workers, timeout
        alone._num_workers = workers  # the recorder says what it does not see
        fetchers.add(alone._dataset_fetcher)
        return alone

    def fetch(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args[0] not in fetchers:
            return call(*args, **kwargs)
        with seams.without_recording():
            return call(*args, **kwargs)

    yield (dataloader.DataLoader, "_get_iterator"), iterator
    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        yield (getattr(_utils.fetch, name, None), "fetch"), fetch
