"""``seams``, continued: what torch's compiler made. Checked on torch 2.13.0."""

from __future__ import annotations

import concurrent.futures
import importlib
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType
from typing import Any

import torch
from torch.utils import _python_dispatch

from tracer.recording.torch_private import seams
from tracer.recording.torch_private.seams import loaded

#: The class of Inductor's compiled graphs, and the function that compiles one graph.
OUTPUT_CODE = ("torch._inductor.output_code", "CompiledFxGraph")
COMPILER = ("torch._inductor.compile_fx", "_compile_fx_inner")
#: Generates and loads a graph's code. To time candidates, it makes calls that are not the program's.
GENERATOR = (COMPILER[0], "fx_codegen_and_compile")
#: Times the configurations of a Triton kernel at its first run.
TUNER = ("torch._inductor.runtime.triton_heuristics", "CachingAutotuner")
#: Called for each kernel with the nodes fused into it. Triton code has them in comments too, except for foreach ops.
CPP_KERNELS = ("torch._inductor.codegen.cpp", "CppScheduling", "define_kernel")
TRITON_KERNELS = ("torch._inductor.codegen.triton", "TritonScheduling", "define_kernel")
#: Chooses among the candidates for one call.
CHOOSING = ("torch._inductor.select_algorithm", "AlgorithmSelectorCache")
#: The name of the graph's call that Inductor works on.
CALL_BEING_LOWERED = ("torch._inductor.virtualized", "V", "graph", "current_node", "name")
#: Whether Inductor takes the first candidate for a call, as it does under deterministic mode.
TAKES_FIRST = ("torch._inductor.config", "deterministic")
#: Makes the guards of a function that dynamo has read.
GUARD_MAKER = ("torch._dynamo.guards", "CheckFunctionManager")
#: What a compilation goes through.
COMPILER_MODULES = (OUTPUT_CODE[0], COMPILER[0], CPP_KERNELS[0], TRITON_KERNELS[0], CHOOSING[0])
#: Dynamo calls it to read a function of the program.
FRAME_COMPILER = ("torch._dynamo.convert_frame", "CatchErrorsWrapper")
#: Captured CUDA graphs; this torch may have none.
CUDA_GRAPH = ("torch.cuda.graphs", "CUDAGraph")
#: Runs a package of AOTInductor's; this torch may have none.
package_loader: Any = seams.find(torch._C, "_aoti", "AOTIModelPackageLoader")
#: The logger of graphs as texts, also for code from a cache.
TRACE_LOG = logging.getLogger("torch.__trace")
#: ``torch.compile`` hands each graph to it if the backend is not Inductor.
other_backend: Any = seams.find(torch, "_TorchCompileWrapper")

#: The name of torch's own compiler as a backend in a trace.
INDUCTOR = "inductor"
#: Backends that compile nothing: what they run is dispatched op by op.
DISPATCHING = frozenset({"eager", "aot_eager", "aot_eager_decomp_partition", "aot_eager_default_partitioner"})
#: Whether regions can be seen at all. If a dispatch mode makes compiled code run eagerly, there are none.
SEES_REGIONS = seams.KEEPS_COMPILED_CODE and seams.inductor_wrapper is not None

#: Before 2.10, a guard on a tensor fails if a dispatch mode was active when it was made and is not now, or the reverse.
#: (Ran on 2.4.1, 2.9.1 and 2.10.0; releases between the first two compile nothing under a mode.)
GUARDS_SEE_MODES: bool = torch.__version__ < (2, 10)  # type: ignore[operator]
#: From 2.5 to 2.8 whatever is compiled runs eagerly while a mode of a user's is active.
FALLS_BACK = not seams.KEEPS_COMPILED_CODE and "include_infra_modes" in getattr(
    getattr(_python_dispatch.is_in_torch_dispatch_mode, "__code__", None), "co_varnames", ()
)

#: Folders of the standard library's threads and pools.
_THREADING = (os.path.dirname(threading.__file__), os.path.dirname(concurrent.futures.__file__))
#: What Inductor calls what it compiles.
_HASH = r"c[a-z2-7]{51}"

#: torch.fx's short names of dtypes, ``f32``, ``f8e4m3fn``; not every release has a table of them.
_SHORT_DTYPE = r"(?P<kind>bf|[fiuc])(?P<bits>\d+)(?P<format>\w*)"
_KINDS = {"bf": "bfloat", "f": "float", "i": "int", "u": "uint", "c": "complex"}


def dtype_of(short: str) -> torch.dtype:
    """The dtype behind torch.fx's short name. Raises ``LookupError`` for one that this torch does not have."""
    match = re.fullmatch(_SHORT_DTYPE, short)
    name = "bool" if short == "b8" else short
    if match is not None:
        name = "_".join(filter(None, (_KINDS[match["kind"]] + match["bits"], match["format"])))
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise LookupError(short)
    return dtype


def overload(name: str) -> Any | None:
    """The op ``aten.add.Tensor`` of a graph's text; ``None`` for one that this process has not loaded."""
    space, _, rest = name.partition(".")
    if space == "higher_order":
        return seams.find(torch.ops, "higher_order", rest)
    packet, _, which = rest.partition(".")
    try:
        packets = getattr(getattr(torch.ops, space), packet)
        return getattr(packets, which or "default")
    except (AttributeError, RuntimeError):
        return None


def is_pointwise(name: str) -> bool:
    """Return whether torch tags the op of a graph's text as computing each element by itself, and drawing nothing."""
    tags = getattr(overload(name), "tags", ())
    return torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags


def is_generated(name: str, path: str) -> bool:
    """Return whether the extension module ``name``, loaded from ``path``, is a kernel that Inductor wrote and compiled.

    Its name is a hash, and its file lies in a folder named after it: ``5h/c5h3b....main.so`` (2.9.1, 2.13.0).
    """
    key = name.partition(".")[0]
    file = os.path.basename(path)
    is_hash = re.fullmatch(_HASH, key) is not None and file.startswith(f"{key}.")
    return is_hash and path.endswith(os.path.join(key[1:3], file))


def compiled_graph_class() -> Any | None:
    """The class of what Inductor returns for a graph, if it was loaded; it is called at every execution."""
    return loaded(*OUTPUT_CODE)


def is_compiling(frame: FrameType | None) -> bool:
    """Return whether code of Inductor's runs at ``frame``, directly or through the standard library."""
    while frame is not None and os.path.dirname(frame.f_code.co_filename) in _THREADING:
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith("torch._inductor.")


def load(*modules: str) -> None:
    """Import modules that torch is about to import."""
    for name in modules:
        with suppress(ImportError):
            importlib.import_module(name)


def compile_id() -> str:
    """torch's number of the running compilation, ``0/1``, or ``!0/3/0`` in compiled autograd; empty without one."""
    current = loaded("torch._guards", "CompileContext", "current_compile_id")
    number = current() if current is not None else None
    return "" if number is None else str(number)


def compiled_function(frame: FrameType | None) -> CodeType | None:
    """The code that dynamo compiles above ``frame``."""
    for _ in range(100):
        if frame is None:
            break
        code = frame.f_locals.get("code") if frame.f_code.co_name == "_compile" else None
        if isinstance(code, CodeType) and frame.f_code.co_filename.endswith("convert_frame.py"):
            return code
        frame = frame.f_back
    return None


def loaded_code(key: str) -> dict[str, Any]:
    """The names of a region's generated code, as it was loaded last; empty if it was not."""
    cache = loaded("torch._inductor.codecache", "PyCodeCache")
    modules = getattr(cache, "modules", None)
    if modules is None:  # before torch 2.6
        modules = getattr(cache, "cache", {}).values()
    namespaces = [vars(module) for module in modules if getattr(module, "key", None) == key]
    return namespaces[-1] if key and namespaces else {}


def graphs_within(module: Any) -> Iterator[tuple[str, Any]]:
    """The graph of a module and those of the modules in it, each with what leads its calls' names: ``true_graph_0.``"""
    for path, inner in module.named_modules():
        graph = getattr(inner, "graph", None)
        if graph is not None:
            yield f"{path}." if path else "", graph


def takes_gradients(graph: Any) -> bool:
    """Return whether gradients are inputs of ``graph``, as AOTAutograd names them for a backward (2.4.1, 2.13.0)."""
    return any(node.op == "placeholder" and str(node.name).startswith("tangents_") for node in graph.graph.nodes)


def graph_as_text(graph: Any) -> str:
    """A graph as torch prints it for its own trace."""
    try:
        return str(graph.print_readable(print_output=False, include_stride=True, include_device=True))
    except TypeError:  # before about torch 2.5
        return str(graph.print_readable(print_output=False))


def backend_of(callback: Any) -> str:
    """The name of the backend behind what dynamo calls for a frame; ``unnamed`` without one."""
    names = ("_torchdynamo_orig_backend", "_torchdynamo_orig_callable", "_torchdynamo_orig_callable_")
    for _ in range(10):
        wrapped = (getattr(callback, name, None) for name in names)
        callback = next((inner for inner in wrapped if inner is not None), callback)
    return str(getattr(callback, "compiler_name", None) or getattr(callback, "__name__", None) or "unnamed")


_is_compilation_off = False


def switch_compilation_off() -> None:
    """Run compiled functions as they were written from now on (``tracer run --eager``); Dynamo must be loaded.

    The functions keep their wrappers, and so their parameters' names, and no variable is set that children inherit.
    """
    global _is_compilation_off
    _is_compilation_off = True
    if hasattr(torch.compiler, "set_stance"):  # torch 2.6 and newer
        torch.compiler.set_stance("force_eager")
    else:
        sys.modules["torch._dynamo.config"].disable = True  # type: ignore[attr-defined]


@contextmanager
def compilation_off() -> Iterator[None]:
    """``switch_compilation_off`` for the block (torch 2.6 and newer)."""
    global _is_compilation_off
    before, _is_compilation_off = _is_compilation_off, True
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        _is_compilation_off = before


def is_compilation_off() -> bool:
    """Return whether code is eager because of ``switch_compilation_off``. The script may have undone it."""
    stance = getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None)
    is_disabled = getattr(sys.modules.get("torch._dynamo.config"), "disable", False)
    return _is_compilation_off and (getattr(stance, "stance", "") == "force_eager" or is_disabled is True)
