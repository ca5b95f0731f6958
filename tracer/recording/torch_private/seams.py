"""Every private name of torch that the recorder leans on, each behind a feature test with a named fallback.

Checked on torch 2.4.1 and 2.13.0. Nothing else calls into ``torch._C`` or ``torch._ops``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import product
from types import CodeType, FrameType
from typing import Any

import torch
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from tracer.names import TORCH_NAMESPACES
from tracer.recording.patching import held_by
from tracer.tables.settings import DECLARED, Setting

#: Marks the class of the recorder's mode.
OWN_MODE = "_is_the_recorders"

HigherOrderOperator = torch._ops.HigherOrderOperator

#: What autograd gives nodes without a number (gradient accumulation).
NO_NUMBER = 2**64 - 1


def find(owner: Any, *names: str) -> Any | None:
    for name in names:
        owner = getattr(owner, name, None)
    return owner


def loaded(module: str, *names: str) -> Any | None:
    """Return the object at the path ``names`` in ``module``; ``None`` if the module is not loaded."""
    return find(sys.modules.get(module), *names)


#: The autograd node that the engine evaluates on this thread, or ``None`` outside the engine.
current_node: Callable[[], Any] = find(torch._C, "_current_autograd_node") or (lambda: None)
#: The number that the next autograd node made on this thread will bear.
next_sequence_number: Callable[[], int] = find(torch._C, "_autograd", "_get_sequence_nr") or int
#: The number of the running backward pass; -1 outside the engine.
graph_task_id: Callable[[], int] = find(torch._C, "_current_graph_task_id") or (lambda: -1)
#: How many ``TorchFunctionMode`` are active; reading ``tensor.dtype`` calls them.
function_mode_count: Callable[[], int] = find(torch._C, "_len_torch_function_stack") or int
#: How many dispatch modes are below the running one.
dispatch_mode_count: Callable[[], int] = find(torch._C, "_len_torch_dispatch_stack") or int
#: Pop the top dispatch mode and push one; without them a recorder goes on top of the script's own modes.
pop_mode: Callable[[], Any] | None = getattr(_python_dispatch, "_pop_mode", None)
push_mode: Callable[[Any], None] | None = getattr(_python_dispatch, "_push_mode", None)
#: The dispatch mode at a position of this thread's stack.
_mode_at: Callable[[int], Any] | None = find(torch._C, "_get_dispatch_stack_at")
#: A context in which no dispatch mode sees an op.
without_modes: Callable[[], Any] = getattr(_python_dispatch, "_disable_current_modes", nullcontext)
#: A context in which no ``__torch_function__`` is called.
without_torch_function: Any = find(torch._C, "DisableTorchFunction") or torch._C.DisableTorchFunctionSubclass

#: Without these three, backward calls cannot be linked to their forward op, and the trace says so.
HAS_FORWARD_LINK = (
    hasattr(torch._C, "_current_autograd_node")
    and next_sequence_number is not int
    and hasattr(torch._C._functions, "AccumulateGrad")
)
#: A mode may ask that compiled code stays compiled while it is active (torch 2.9 and newer).
KEEPS_COMPILED_CODE = hasattr(TorchDispatchMode, "ignore_compile_internals")

#: Functions of dynamo that a compiled callable goes through at each call, newest torch first.
COMPILED_CALL_STEPS = ("_callback_from_stance", "_maybe_set_eval_frame", "maybe_set_eval_frame", "set_eval_frame")
#: ``torch.compile`` hands each graph to it if Inductor is the backend.
inductor_wrapper: Any = find(torch, "_TorchCompileInductorWrapper")
INDUCTOR_ENTRY = ("torch._inductor.compile_fx", "compile_fx")
#: Up to about torch 2.5, a higher-order op refuses a mode class that was not registered with it.
_NEEDS_REGISTRATION = not hasattr(TorchDispatchMode, "supports_higher_order_operators")

#: The code that starts the autograd engine: a C++ node's calls have its frame as their caller.
ENGINE_CODE = getattr(find(torch.autograd, "graph", "_engine_run_backward"), "__code__", None)
_CODES_OF_CALL = {getattr(value, "co_name", "") for value in torch.nn.Module._call_impl.__code__.co_consts}
#: Name of the innermost function of a module's call with forward hooks.
MODULE_CALL_NAME = "inner" if "inner" in _CODES_OF_CALL else "_call_impl"

_TORCH = os.path.dirname(torch.__file__)
#: Where activation checkpointing and ``autograd.Function`` live.
CHECKPOINT_FILE = os.path.join(_TORCH, "utils", "checkpoint.py")
FUNCTION_FILE = os.path.join(_TORCH, "autograd", "function.py")
#: The saved-tensor hooks of the running block; before torch 2.5 they are unknown, and their ops keep their own line.
_top_saved_tensor_hooks = find(torch._C, "_autograd", "_top_saved_tensors_default_hooks")

_plain_dispatch = {find(torch._C, "_disabled_torch_dispatch_impl"), getattr(torch.Tensor, "__torch_dispatch__", None)}

#: Whether calling an overload does nothing but call its ``_op``.
_FORWARDS_TO_OP = torch._ops.OpOverload.__call__.__code__.co_names == ("_op",)


def direct_call(func: Any) -> Callable[..., Any]:
    """torch's own entry behind ``func``, without the Python function that forwards to it."""
    return func._op if _FORWARDS_TO_OP and type(func) is torch._ops.OpOverload else func


def dispatches_itself(cls: type) -> bool:
    """Return whether ``cls`` is a tensor subclass with a ``__torch_dispatch__`` of its own."""
    return getattr(cls, "__torch_dispatch__", None) not in _plain_dispatch


def is_dense(tensor: torch.Tensor) -> bool:
    """Return whether ``tensor`` has data in a strided layout, and is no subclass that dispatches itself."""
    if dispatches_itself(type(tensor)) or tensor.layout is not torch.strided:
        return False
    return not (tensor.is_nested or tensor.is_quantized or tensor.device.type == "meta")


def is_fake(cls: type) -> bool:
    """Return whether ``cls`` is torch's ``FakeTensor``, which has a shape and a device, and computes nothing."""
    return cls.__name__ == "FakeTensor" and cls.__module__.startswith("torch._subclasses")


def answers_for_itself(cls: type) -> bool:
    """Return whether ``cls`` is a subclass that may dispatch when its sizes are read. A fake tensor does not."""
    return dispatches_itself(cls) and not is_fake(cls)


def is_foreign_op(func: Any) -> bool:
    """Return whether ``func`` is an overload of a library's op."""
    return isinstance(func, torch._ops.OpOverload) and func.namespace not in TORCH_NAMESPACES


def distributed_tensor() -> Any | None:
    """The class ``DTensor``; ``None`` where it is not loaded."""
    return loaded("torch.distributed.tensor", "DTensor") or loaded("torch.distributed._tensor", "DTensor")


def asynchronous_tensor() -> Any | None:
    """The class of a collective's result that may not be there yet; ``None`` where it is not loaded."""
    return loaded("torch.distributed._functional_collectives", "AsyncCollectiveTensor")


def _dispatch_modes() -> Iterator[Any]:
    """The active ones, the outermost first; none where torch does not tell."""
    return iter(()) if _mode_at is None else map(_mode_at, range(dispatch_mode_count()))


def answers_reads() -> bool:
    """Return whether the recorder's own mode of fake tensors is active, which has stand-ins for values."""
    mode = loaded("tracer.recording.torch_private.fake_tensors", "ValuesAsOne")
    return mode is not None and any(type(active) is mode for active in _dispatch_modes())


#: C++ asks a fake tensor for its device by this op, which is no call of the program.
ASKS_DEVICE = find(torch.ops, "prim", "device", "default")
#: Where torch calls ops on fake tensors to work out shapes, or to compile.
_TRACING = tuple(
    os.path.join(_TORCH, *path.split("/"))
    for path in (
        "_dynamo/convert_frame.py",
        "_inductor/compile_fx.py",
        "_inductor/fx_passes/",
        "fx/experimental/proxy_tensor.py",
        "fx/passes/",
        "distributed/tensor/_sharding_prop.py",
        "distributed/_tensor/sharding_prop.py",
        "distributed/_tensor/_sharding_prop.py",
    )
)


def is_traced(cls: type) -> bool:
    """Return whether ``cls`` is the wrapper of torch's tracers: ``torch.export``'s and AOTAutograd's."""
    return cls.__module__ == "torch._subclasses.functional_tensor"


def is_tracing(frame: FrameType | None) -> bool:
    """Return whether torch makes this call on fake tensors for its own purposes. Such calls are not the program's."""
    while frame is not None and frame.f_code.co_filename.startswith(_TORCH):
        if frame.f_code.co_filename.startswith(_TRACING):
            return True
        frame = frame.f_back
    return False


def pack_hook_code() -> CodeType | None:
    """The code of the function that packs tensors as autograd saves them, if one is active."""
    hooks = _top_saved_tensor_hooks(True) if _top_saved_tensor_hooks is not None else None
    return None if hooks is None else getattr(hooks[0], "__code__", None)


def skip_code(codes: Iterable[CodeType], *, with_callees: bool) -> None:
    """Tell dynamo's frame evaluator, if it is loaded, to leave this code alone.

    ``with_callees``: also what it calls (torch 2.7 and newer). It costs nothing per call, unlike torch's own wrapper.
    """
    eval_frame: Any = sys.modules.get("torch._dynamo.eval_frame")
    skip = find(eval_frame, "skip_code") or find(torch._C, "_dynamo", "eval_frame", "skip_code")
    strategy = find(eval_frame, "FrameExecStrategy")
    for code in codes:
        if strategy is not None and with_callees:
            action = eval_frame.FrameAction.SKIP
            eval_frame.set_code_exec_strategy(code, strategy(action, action))
        elif skip is not None:
            skip(code)


def has_looked_at(codes: Iterable[CodeType]) -> bool:
    """Return whether dynamo began to compile any of this code since it started or was reset; ``True`` if unknown."""
    converting = sys.modules.get("torch._dynamo.convert_frame")
    converted = find(converting, "input_codes")
    return converting is not None and (converted is None or any(code in converted for code in codes))


def lists_of_functions() -> Iterator[set[int]]:
    """Dynamo's own lists of functions that it knows by ``id``, each filled by now (torch 2.13)."""
    for name in ("_numpy_function_ids", "_builtin_function_ids", "_polyfilled_function_ids"):
        listed = loaded("torch._dynamo.trace_rules", name)
        numbers = listed() if callable(listed) else None
        if isinstance(numbers, set):
            yield numbers


def private_backend_name() -> str:
    """The name of the backend that registered itself under ``privateuseone``: ``npu``, for torch_npu."""
    get = find(torch._C, "_get_privateuse1_backend_name")
    return "privateuseone" if get is None else str(get())


def seed_queue(device: Any) -> Any | None:
    """The queue of seeds that wait until ``device`` (``torch.cuda``, ``torch.xpu``) starts, if torch has one."""
    queue = getattr(device, "_lazy_seed_tracker", None)
    return queue if hasattr(queue, "get_calls") else None


def inductor_settings() -> Any | None:
    """Inductor's settings, if they have a flag of their own for deterministic mode (torch 2.10 and newer)."""
    try:
        from torch._inductor import config
    except ImportError:
        return None
    return config if hasattr(config, "deterministic") else None


def is_engine_frame(frame: FrameType) -> bool:
    """Return whether ``frame`` is the Python frame that started the autograd engine."""
    code = frame.f_code
    return code.co_name == "_engine_run_backward" or (
        code.co_name in ("backward", "grad") and code.co_filename.endswith("autograd/__init__.py")
    )


def dispatch_modes_keep_compiled() -> bool:
    """Return whether every active dispatch mode lets compiled code stay compiled."""
    stay = (getattr(type(mode), "ignore_compile_internals", lambda: False)() for mode in _dispatch_modes())
    return _mode_at is not None and all(stay)


def own_mode_count() -> int:
    """Return the number of dispatch modes that the program and the recorder entered; torch's own are not counted."""
    if _mode_at is None:
        return dispatch_mode_count()
    return sum(getattr(mode, "_mode_key", None) is None for mode in _dispatch_modes())


def is_compiled_module(module: torch.nn.Module) -> bool:
    """Return whether ``module`` is what ``torch.compile(module)`` returned."""
    return type(module).__name__ == "OptimizedModule" and type(module).__module__.startswith("torch.")


def without_compile_wrapper(module: torch.nn.Module) -> torch.nn.Module:
    """The module that was given to ``torch.compile``; any other module as it is."""
    inner = module._modules.get("_orig_mod") if is_compiled_module(module) else None
    return module if inner is None else inner


def is_generated_module(module: torch.nn.Module) -> bool:
    """Return whether ``module`` is a graph that torch.compile made. It is no part of the model."""
    return isinstance(module, loaded("torch.fx.graph_module", "GraphModule") or ())


def register_with_higher_order_ops(mode_class: type[TorchDispatchMode]) -> None:
    """Let every higher-order op call ``mode_class``, if torch does not do so by itself."""
    for op in [*getattr(torch._ops, "_higher_order_ops", {}).values()] if _NEEDS_REGISTRATION else ():
        table = getattr(op, "python_key_mode_table", None) or getattr(op, "python_key_table", {})
        if mode_class not in table:
            op.py_impl(mode_class)(lambda mode, *args, _op=op, **kwargs: mode.__torch_dispatch__(_op, (), args, kwargs))


#: A compiled module asks it only to decide whether to warn (torch 2.13).
COUNTS_HOOKS = (sys.modules["torch.nn.modules.module"], "_has_any_global_hook")


def has_hook_without(mark: str, *_: Any) -> bool:
    """Return whether there is a global module hook without ``mark``."""
    kinds = ("backward_pre", "backward", "forward_pre", "forward")
    tables = (getattr(COUNTS_HOOKS[0], f"_global_{kind}_hooks", {}) for kind in kinds)
    return any(not hasattr(hook, mark) for table in tables for hook in table.values())


# --- random generators ---

_default_cpu_generator = torch.default_generator


def default_generator(device: torch.device) -> tuple[str, Any]:
    """Name and object of a device's default generator; ``None`` if it has none or was not started."""
    kind = device.type
    if kind == "cpu":
        return "cpu", _default_cpu_generator
    module = getattr(torch, kind, None)
    if kind == "mps":
        get = getattr(module, "_get_default_mps_generator", None)
        return "mps", get() if get is not None and torch.backends.mps.is_available() else None
    index = device.index
    generators = getattr(module, "default_generators", ())
    if index is None and generators:
        index = module.current_device()
    return f"{kind}:{index or 0}", generators[index] if generators else None


def _devices(*, is_awake: bool) -> Iterator[tuple[str, Any]]:
    """Kind and module of each accelerator that was started, or was not."""
    for kind in ("cuda", "xpu", private_backend_name()):
        is_initialized = find(torch, kind, "is_initialized")
        if is_initialized is not None and bool(is_initialized()) is is_awake:
            yield kind, getattr(torch, kind)


def default_generators() -> Iterator[tuple[str, Any]]:
    """Name and object of each default generator that exists by now. No device is started for it."""
    yield "cpu", _default_cpu_generator
    for kind, module in _devices(is_awake=True):
        for index, generator in enumerate(getattr(module, "default_generators", ())):
            yield f"{kind}:{index}", generator


#: Queues what seeds a device until it starts. Dynamo, as it loads, must not find ``set_rng_state`` itself replaced: it
#: takes two replaced functions with defaults for one (torch 2.13).
QUEUES_SEEDS = "_lazy_call"


def seeds_of_devices() -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Kinds of accelerators, whatever this build and machine support; modules, and their functions that seed."""
    for kind in ("cuda", "xpu", "mps", private_backend_name()):
        module = getattr(torch, kind, None)
        for owner in filter(None, (module, getattr(module, "random", None))):
            is_replaced = held_by(owner, "set_rng_state") is not getattr(owner, "set_rng_state", None)
            states = "set_rng_state" if is_replaced else QUEUES_SEEDS
            yield kind, owner, ("manual_seed", "manual_seed_all", "seed", "seed_all", states)


def waits_for_cuda() -> list[tuple[Any, str]]:
    """The holders of the functions by which the host waits for a device. ``synchronize`` itself has a default."""
    is_replaced = held_by(torch.cuda, "synchronize") is not torch.cuda.synchronize
    whole = (torch.cuda, "synchronize") if is_replaced else (torch._C, "_cuda_synchronize")
    owners = [whole, (torch.cuda.Stream, "synchronize"), (torch.cuda.Event, "synchronize")]
    return [(owner, name) for owner, name in owners if hasattr(owner, name)]


def sleeping_devices() -> list[Any]:
    """torch's modules of devices that nobody started and queue seeds. Asking the driver would break later forks."""
    asleep = (module for _, module in _devices(is_awake=False))
    return [module for module in asleep if (getattr(module, "_is_compiled", None) or module.is_available)()]


def cudnn_number() -> int | None:
    """cuDNN's version. ``torch.backends.cudnn.version`` would start CUDA to read it (torch 2.10 and newer)."""
    get = find(torch._C, "_cudnn", "getVersionInt")
    return None if get is None else int(get())


def default_device() -> torch.device:
    """The device of a factory's result if none is passed; an active ``torch.device`` block changes it."""
    get = find(torch._C, "_get_default_device")
    return torch.device("cpu") if get is None else torch.device(get())


def is_coalesced(tensor: torch.Tensor) -> bool:
    """Return whether a sparse tensor is coalesced. Asking is an op, which no mode shall see."""
    with without_modes():
        return tensor.is_coalesced()


def indices_of(tensor: torch.Tensor) -> torch.Tensor:
    """The indices of a sparse tensor, coalesced or not."""
    with without_modes():
        return tensor._indices()


@contextmanager
def without_recording() -> Iterator[bool]:
    """Take the recorder's modes off this thread's stack and put them back after; yield whether there were any."""
    pop, push = pop_mode, push_mode
    if pop is None or push is None:
        yield False
        return
    lifted = []
    while dispatch_mode_count():
        lifted.append(pop())
    others = [mode for mode in lifted if not hasattr(type(mode), OWN_MODE)]
    for mode in reversed(others):
        push(mode)
    try:
        yield len(others) < len(lifted)
    finally:
        for _ in others:
            pop()
        for mode in reversed(lifted):
            push(mode)


def leave_mode(mode: TorchDispatchMode) -> None:
    """Leave ``mode`` on this thread, whatever was entered since: two tracers in two tasks are left in any order."""
    above = []
    if _mode_at is not None and pop_mode is not None and push_mode is not None:
        # torch's own modes stand outside the stack, and are passed over.
        stack = [pushed for pushed in _dispatch_modes() if getattr(pushed, "_mode_key", None) is None]
        position = next((at for at, pushed in enumerate(stack) if pushed is mode), len(stack) - 1)
        above = [pop_mode() for _ in stack[position + 1 :]]
    try:
        mode.__exit__(None, None, None)
    finally:
        for pushed in reversed(above):
            push_mode(pushed)  # type: ignore[misc]


def group_size(group: Any) -> int | None:
    """Return the number of ranks in ``group``, an op's argument; ``None`` if unknown.

    ``c10d::*_`` take the group as a script object, ``_c10d_functional::*`` its name (Ops.cpp, Functional.cpp, 2.13.0).
    """
    words = ("_resolve_process_group",) if isinstance(group, str) else ("ProcessGroup", "unbox")
    read = loaded("torch._C._distributed_c10d", *words)
    try:
        return None if read is None else int(read(group).size())
    except (RuntimeError, TypeError, ValueError):  # the group was destroyed, or is of another kind
        return None


# --- settings of the process, and its starts ---


def settings() -> list[tuple[Setting, Callable[[], Any]]]:
    """Each declared setting that can be watched, with its reader, if this torch has the two functions."""
    return [
        (setting, getattr(torch._C, setting.watched[1]))
        for setting in DECLARED
        if all(name and hasattr(torch._C, name) for name in setting.watched)
    ]


def holders_of(setting: Setting) -> list[tuple[Any, str]]:
    """Return the holders of the setter of ``torch._C``: that module, ``torch``, the property that users assign to."""
    setter = setting.watched[0]
    original = held_by(torch._C, setter)
    faces: list[tuple[Any, str]] = [(torch, setter)]
    module = sys.modules.get(setting.made_by.rpartition(".")[0])
    if module is not None:
        faces += ((face, "setter") for face in vars(type(module)).values() if "setter" in getattr(face, "__dict__", ()))
    return [(torch._C, setter), *(holder for holder in faces if held_by(*holder) is original)]


#: Starts CUDA for this process, called by whoever needs it.
START_OF_CUDA = (torch.cuda, "_lazy_init")


def process_group_starts() -> list[list[tuple[Any, str]]]:
    """The holders of each function that makes process groups, if ``torch.distributed`` is loaded and built."""
    modules = [sys.modules.get(name) for name in ("torch.distributed.distributed_c10d", "torch.distributed")]
    names = [name for name in ("init_process_group", "new_group") if held_by(modules[0], name) is not None]
    return [[(owner, name) for owner in modules if held_by(owner, name) is held_by(modules[0], name)] for name in names]


_storage_of: Callable[[Any], Any] = torch._C.TensorBase.untyped_storage
_storage_id = find(torch._C, "_storage_id")


def storage_id(tensor: torch.Tensor) -> int:
    """Return a number that tells the storage of ``tensor`` from every live one; 0 without one (sparse, opaque)."""
    try:
        return int(_storage_id(tensor)) if _storage_id is not None else int(_storage_of(tensor)._cdata)
    except (NotImplementedError, RuntimeError):
        return 0


#: The same for a tensor that has a storage; raises ``NotImplementedError`` for one that has none.
storage_id_of_strided: Callable[[Any], int] = _storage_id or storage_id


def storage_bytes(tensor: torch.Tensor) -> int:
    return int(_storage_of(tensor).nbytes())


def claimed_device(tensor: torch.Tensor) -> str | None:
    """Kind of the device on which a fake tensor would lie; ``None`` if unknown, or if the tensor is real."""
    place = claimed_place(tensor)
    return "cpu" if place == "pinned" else place


def claimed_devices(tensors: Iterable[torch.Tensor]) -> set[str | None]:
    """Those of ``tensors``; a real one beside fake ones lies on the host."""
    return {"cpu" if type(tensor) is torch.Tensor else claimed_device(tensor) for tensor in tensors}


def claimed_place(tensor: torch.Tensor) -> str | None:
    """The same, and ``pinned`` for pinned memory of the host."""
    is_fake = hasattr(tensor, "fake_device") and tensor.layout is torch.strided
    return getattr(_storage_of(tensor), "_claimed", None) if is_fake else None


def claim_device(result: Any, kind: str | None, *, anew: bool = False) -> None:
    """Note on which kind of device a fake tensor would lie, ``None`` if unknown; ``anew``: noted before or not."""
    is_fake = hasattr(result, "fake_device") and result.layout is torch.strided
    if is_fake and (anew or claimed_device(result) is None):
        _storage_of(result)._claimed = kind


def version_of(tensor: torch.Tensor) -> int:
    """Return the number of writes to the memory that autograd counted; -1 for an inference tensor."""
    try:
        return int(tensor._version)
    except RuntimeError:
        return -1


#: Whether a storage can be watched without being kept alive.
WATCHES_STORAGES = all(hasattr(torch.UntypedStorage, name) for name in ("_weak_ref", "_expired", "_free_weak_ref"))


def weak_storage(tensor: torch.Tensor) -> int:
    """A weak reference to the storage of ``tensor``: its memory can go, its identity is not given to another."""
    return int(_storage_of(tensor)._weak_ref())


is_expired: Callable[[int], bool] = getattr(torch.UntypedStorage, "_expired", bool)
free_weak_storage: Callable[[int], None] = getattr(torch.UntypedStorage, "_free_weak_ref", lambda _: None)

_fills: Callable[[], bool] = find(torch._C, "_get_deterministic_fill_uninitialized_memory") or (lambda: True)


def fills_uninitialized_memory() -> bool:
    """Return whether torch fills what ``empty`` returns, under the current settings."""
    return torch.are_deterministic_algorithms_enabled() and _fills()


_has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
#: Dispatch keys by type of device.
_KEYS = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "mps": "MPS", "privateuseone": "PrivateUse1"}


def _has_any_kernel(func: Any, keys: Iterable[str]) -> bool:
    for key in keys:
        with suppress(RuntimeError, AttributeError):  # a key of another build
            if _has_kernel(func.name(), key):
                return True
    return False


def has_composite_kernel(func: Any) -> bool:
    """Return whether ``func`` has a composite kernel (made of other ops) and none of its own for CPU or CUDA."""
    return _has_any_kernel(func, ["CompositeImplicitAutograd"]) and not _has_any_kernel(func, _KEYS.values())


def has_kernel_of_a_layout(func: Any) -> bool:
    """Return whether ``func`` has a kernel of its own for nested, sparse, MKL-DNN or quantized tensors."""
    layouts = ("NestedTensor", "Sparse", "SparseCsr", "Mkldnn", "Quantized")
    keys = map("".join, product(layouts, ("CPU", "CUDA")))
    return _has_any_kernel(func, ("CompositeImplicitAutogradNestedTensor", *keys))


def call_composite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the kernel that torch would have run; ``func.decompose`` prefers Python, which differs in the last bits."""
    return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def lacks_autograd(func: Any) -> bool:
    """Return whether ``func`` is a custom op with device kernels only, and no autograd kernel.

    Autograd sees the ops inside such a kernel; under a dispatch mode it does not, and gradients are lost.
    """
    is_callable = hasattr(func, "_op_dk") and hasattr(torch._C, "_SetExcludeDispatchKeyGuard")
    is_extension = getattr(func, "namespace", "aten") not in ("aten", "prims", "prim")
    keys = ("Autograd", "CompositeImplicitAutograd", *(f"Autograd{key}" for key in _KEYS.values()))
    return is_extension and is_callable and not _has_any_kernel(func, keys)


def kernel_of(func: Any, tensor: torch.Tensor) -> Any | None:
    """The key of the kernel that a call on ``tensor`` runs; ``None`` if it is not certain."""
    key = _KEYS.get(tensor.device.type)
    if key is None or tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        return None
    names = (name for name in (key, "CompositeExplicitAutograd") if _has_kernel(func.name(), name))
    return getattr(torch._C.DispatchKey, next(names, ""), None)


def is_made_of_ops(func: Any) -> bool:
    """Return whether the kernel is a Python function of torch's that calls other ops, and touches no memory itself."""
    return str(func.namespace) == "fsdp"


def call_kernel(func: Any, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run one kernel of ``func`` with autograd watching what it is made of and versions counted, as without a mode."""
    keys, guard = torch._C.DispatchKey, torch._C._SetExcludeDispatchKeyGuard
    with guard(keys.AutogradFunctionality, False), guard(keys.ADInplaceOrView, False):
        return func._op_dk(key, *args, **kwargs)


def is_native_function(name: str) -> bool:
    """Return whether torch has a function or a method ``name`` that is written in C++, as far as names tell."""
    owners = (torch._C._VariableFunctions, torch._C.TensorBase, torch._C._nn, torch.linalg, torch.fft, torch.special)
    return any(hasattr(owner, name) for owner in owners) or (name.startswith("_") and hasattr(torch._C, name))


#: A kernel of an op as torch lists it: its key, file and line. Those that were overridden are marked, and do not match.
_REGISTERED = re.compile(r"^(\w+)(?:\[alias\])?: registered at (.+:\d+) ::", re.MULTILINE)
#: Where torch registers what others hand to it.
_FOR_OTHERS = tuple(os.path.join(_TORCH, name) for name in ("library.py", "_library"))


def overriding_kernels(func: Any) -> dict[str, str]:
    """Who registered kernels of ``func``, an op of torch's, that are no part of torch, by type of device.

    Torch's own files lie where it was built, or is installed. A kernel for all devices serves those without their own.
    """
    if getattr(func, "namespace", "") != "aten":
        return {}
    try:
        listed = torch._C._dispatch_dump(func.name())
    except (RuntimeError, AttributeError):
        return {}
    found: dict[str, str] = {}
    root, is_known, _ = listed.partition("debug: registered at ")[2].partition("build/aten/src/ATen/")
    lines: dict[str, str] = dict(_REGISTERED.findall(listed))
    for device, key in _KEYS.items() if is_known else ():
        line = lines.get(key, lines.get("CompositeExplicitAutograd", ""))
        if line.startswith(_FOR_OTHERS):
            found[device] = "by torch.library"
        elif line and not line.startswith((root or "build/aten/", _TORCH)):
            found[device] = f"at {line}"
    return found
