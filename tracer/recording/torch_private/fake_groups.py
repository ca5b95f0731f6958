"""torch's "fake" process group: one rank of a job runs alone, and its collectives return at once (torch 2.13.0)."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

import torch

from tracer.errors import RankError, UsageError
from tracer.recording.patching import answered_by
from tracer.recording.torch_private import seams
from tracer.recording.torch_private.fake_tensors import ValuesAsOne

try:
    import torch.distributed as dist
    from torch._C._distributed_c10d import Reducer, _create_work_from_future  # type: ignore[attr-defined]
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.distributed import _functional_collectives, _meta_registrations, device_mesh, distributed_c10d
    from torch.nn.parallel import DistributedDataParallel
    from torch.testing._internal.distributed.fake_pg import FakeStore

    IS_AVAILABLE = True
except (ImportError, AttributeError):  # built without torch.distributed, or too old
    IS_AVAILABLE = False

_BACKEND = "fake"
#: What makes, slices and reads meshes of ranks, by computing with tensors.
_MESH_METHODS = (
    *("__getitem__", "from_group", "_flatten", "_unflatten", "_concatenate", "_get_all_submeshes"),
    *("_compute_coordinates_from_mesh", "get_local_rank", "size"),
)


def _with_results(func: Any, args: Sequence[Any], call: Callable[[], Any]) -> Any:
    """A collective, whose work hands out what it wrote: torch's fake work hands out nothing."""
    result = call()
    *outputs, work = result if isinstance(result, tuple) else (result,)
    if not isinstance(work, torch.ScriptObject):
        return result
    written = outputs[0] if outputs else []
    while isinstance(written, (list, tuple)) and written and isinstance(written[0], (list, tuple)):
        written = written[0]
    tensors = [written] if isinstance(written, torch.Tensor) else list(written)
    if not tensors:
        return result
    future = torch._C.fork(list, tensors)  # called at once; `torch.futures` would hold what C++ cannot read
    done = _create_work_from_future(future).boxed()
    return (*outputs, done) if isinstance(result, tuple) else done


def _in_flight(func: Any, args: Sequence[Any], call: Callable[[], Any]) -> Any:
    """A functional collective's result is waited for when it is read, as on real tensors."""
    is_wrapped = func.name() == "_c10d_functional::_wrap_tensor_autograd"
    return _functional_collectives.AsyncCollectiveTensor(args[0]) if is_wrapped else call()


def _asked(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of its parameters; without those that were not passed."""
    return inspect.signature(call).bind(*args, **kwargs).arguments


def _on_real_tensors(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with unset_fake_temporarily():
        return call(*args, **kwargs)


def _on_cpu(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A mesh is made: of CPUs, where all fake tensors lie."""
    mesh, *others = args
    mesh._made_for = (*others, kwargs.get("device_type"))[0]
    if others:
        others[0] = "cpu"
    else:
        kwargs = {**kwargs, "device_type": "cpu"}
    return _on_real_tensors(call, (mesh, *others), kwargs)


def made_for(mesh: Any) -> str:
    """The kind of device that the program asked for when it made a mesh, or the one that this is a part of."""
    return str(mesh._get_root_mesh()._made_for)


class _Groups:
    """Answers for the functions that make process groups, as one rank of a job."""

    def __init__(
        self, rank: int, world_size: int, joined: list[tuple[int, ...]], backend: str, mode: ValuesAsOne
    ) -> None:
        """``joined`` takes the ranks of each group; ``backend`` answers ``get_backend`` if the program named none."""
        self._rank, self._size, self._joined, self._mode = rank, world_size, joined, mode
        self._default = backend
        self._asked: dict[str, str] = {}
        """The backend that the program asked for, by the group's name."""

    def init(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``init_process_group``, whatever backend and place to meet it names."""
        asked = _asked(call, args, kwargs)
        rank, size = asked.get("rank", -1), asked.get("world_size", -1)
        if (rank not in (-1, None, self._rank)) or (size not in (-1, None, self._size)):
            raise RankError(
                f"the script is rank {rank} of {size}, and not rank {self._rank} of {self._size}",
                hint="have it read RANK and WORLD_SIZE, as under torchrun",
            )
        self._default = _word(asked.get("backend")) or self._default
        return call(_BACKEND, store=FakeStore(), rank=self._rank, world_size=self._size)

    def new(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Create each process group, the default one too."""
        asked = _asked(call, args, kwargs)
        backend, ranks = _word(asked["backend"]), tuple(asked["global_ranks_in_group"])
        group, store = call(**{**asked, "backend": _BACKEND, "backend_options": None, "device_id": None})
        if (name := getattr(group, "group_name", None)) is not None:
            self._joined.append(ranks or tuple(range(self._size)))
            if backend not in ("", _BACKEND):
                self._asked[name] = backend
        return group, store

    def backend(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``get_backend``: the one that the program asked for."""
        if (answer := call(*args, **kwargs)) != _BACKEND:
            return answer
        group = (*args, *kwargs.values(), None)[0]
        asked = self._asked.get(getattr(group, "group_name", ""), self._default)
        choices = dict(choice.split(":", 1) for choice in asked.split(",") if ":" in choice)
        return choices.get("cuda" if torch.cuda.is_available() else "cpu", asked)

    def rebuild(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``DistributedDataParallel`` orders its buckets anew: C++ reads the order that rank 0 sent."""
        self._mode.has_real_integers = True
        try:
            return call(*args, **kwargs)
        finally:
            self._mode.has_real_integers = False

    def send(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Objects are broadcast: nobody else runs, so the list stays this rank's own, as if it had sent it."""
        asked = _asked(call, args, kwargs)
        asked.pop("group_src", None)
        return _on_real_tensors(call, (), {**asked, "src": self._rank})

    def watches(self) -> Iterator[tuple[list[tuple[Any, str]], Callable[..., Any]]]:
        """Holders of functions, and what answers for them."""
        for name, answer in (("init_process_group", self.init), ("init_device_mesh", _on_real_tensors)):
            yield [(module, name) for module in (dist, distributed_c10d, device_mesh)], answer
        yield [(distributed_c10d, "_new_process_group_helper")], self.new
        yield [(dist, "get_backend")], self.backend
        yield [(dist, "_verify_params_across_processes")], _compared
        yield [(DistributedDataParallel, "__init__")], _wrapped
        # torch takes fake tensors for a compiler's, and waits for each collective at once.
        yield [(_functional_collectives, "_are_we_tracing")], lambda *_: torch.compiler.is_dynamo_compiling()
        yield [(Reducer, "_rebuild_buckets")], self.rebuild
        # torch draws the number of a fake piece of work from Python's generator, which is the program's.
        yield [(_meta_registrations, "generate_unique_id")], lambda *_: next(_WORKS)
        yield [(device_mesh.DeviceMesh, "__init__")], _on_cpu
        for name in _MESH_METHODS:
            yield [(device_mesh.DeviceMesh, name)], _on_real_tensors
        for name, answer in (
            ("all_gather_object", _on_real_tensors),
            ("broadcast_object_list", self.send),
            ("scatter_object_list", _scattered),
            ("gather_object", _gathered),
            ("monitored_barrier", _barrier),
        ):
            yield [(dist, name), (distributed_c10d, name)], answer
        if self._default == "nccl":
            yield [(torch.nn.functional, "scaled_dot_product_attention")], _attention


def _word(backend: Any) -> str:
    return "" if backend is None or backend == "undefined" else str(backend).lower()


def _scattered(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Objects are scattered: this rank's own is in the list if it is the source; else nothing arrives."""
    asked = _asked(call, args, kwargs)
    if objects := asked.get("scatter_object_input_list"):
        asked["scatter_object_output_list"][0] = objects[dist.get_rank(asked.get("group"))]


def _gathered(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Objects are gathered: this rank's own stands for everybody's."""
    asked = _asked(call, args, kwargs)
    if (objects := asked.get("object_gather_list")) is not None:
        objects[:] = [asked["obj"]] * len(objects)


def _barrier(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Gloo's barrier, which asks whether the backend is gloo."""
    dist.barrier(_asked(call, args, kwargs).get("group"))


def _wrapped(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``DistributedDataParallel``: its model lies on the CPU, whatever device it was moved to."""
    asked = _asked(call, args, kwargs)
    return call(**{name: value for name, value in asked.items() if name not in ("device_ids", "output_device")})


def _attention(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Attention of distributed tensors (context parallel) on a GPU; the CPU's kernel has no way to be distributed."""
    distributed = seams.distributed_tensor()
    query, key, value, *others = (*args, *(kwargs[name] for name in ("query", "key", "value") if name in kwargs))
    if distributed is None or not isinstance(query, distributed):
        return call(*args, **kwargs)
    asked = {**dict(zip(("attn_mask", "dropout_p", "is_causal"), others, strict=False)), **kwargs}
    if asked.get("attn_mask") is not None:
        return call(*args, **kwargs)
    flash = torch.ops.aten._scaled_dot_product_flash_attention.default
    rate, is_causal = asked.get("dropout_p", 0.0), asked.get("is_causal", False)
    return flash(query, key, value, rate, is_causal, scale=asked.get("scale"))[0]


_WORKS = count(1)


def _compared(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``DistributedDataParallel`` compares the ranks' parameters by their sizes: C++ reads what was gathered."""
    group, parameters, *others = args
    with unset_fake_temporarily():
        with seams.without_modes():
            stand_ins = [torch.empty((), dtype=one.dtype).expand(one.shape) for one in parameters]
        return call(group, stand_ins, *others, **kwargs)


def check_stage(stage: Any, has_backward: bool) -> None:
    """Raises ``RankError`` where a stage of a pipeline would ask its neighbours for shapes."""
    needs_neighbours = sys.modules[type(stage).__module__].InferenceMode.needs_dynamic(stage._user_meta, has_backward)
    if needs_neighbours and not (stage.is_first and stage.is_last):
        raise RankError(
            f"stage {stage.stage_index} of the pipeline takes its shapes from its neighbours, which do not run",
            hint="pass input_args and output_args to PipelineStage",
        )


@contextmanager
def fake_groups(
    rank: int, world_size: int, joined: list[tuple[int, ...]], *, backend: str, mode: ValuesAsOne
) -> Iterator[None]:
    """Process groups of the block are torch's fake ones, as ``rank`` of a job; entered within ``mode``.

    ``joined`` takes the ranks of each group as it is made; ``backend`` answers ``get_backend`` if the program named
    none. Raises ``UsageError`` if this torch has none.
    """
    if not IS_AVAILABLE:
        raise UsageError(
            "this torch has no fake process groups", hint="leave out --world-size, or install a newer torch"
        )
    mode.answers.update(c10d=_with_results, _c10d_functional=_in_flight)
    with ExitStack() as undo:
        if not dist.is_initialized():
            undo.callback(lambda: dist.is_initialized() and dist.destroy_process_group())
        for holders, answer in _Groups(rank, world_size, joined, backend, mode).watches():
            undo.callback(answered_by(answer, *(holder for holder in holders if hasattr(*holder))))
        mesh = vars(device_mesh.DeviceMesh).get("mesh")
        if isinstance(mesh, property):
            read: Any = mesh.fget
            undo.callback(setattr, device_mesh.DeviceMesh, "mesh", mesh)
            ours = property(lambda self: _on_real_tensors(read, (self,), {}))
            setattr(device_mesh.DeviceMesh, "mesh", ours)  # noqa: B010  (a property is no method to mypy)
        yield
