"""``seams``, continued: torch's private names behind what its compiler made, each feature-tested.

Checked on torch 2.13.0; where a name is missing, a region's inside is not seen, and the trace says so.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import sys
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

import torch
from torch.utils import _python_dispatch

from tracer.recording.torch_private import seams

#: Where compiled regions live, and the function that compiles one graph.
OUTPUT_CODE = "torch._inductor.output_code"
COMPILER = ("torch._inductor.compile_fx", "_compile_fx_inner")
#: Turns a graph into code that runs; where several ways are timed, calls are made that are not the program's.
GENERATOR = (COMPILER[0], "fx_codegen_and_compile")
#: Times the configurations of one of Triton's kernels, when it first runs.
TUNER = ("torch._inductor.runtime.triton_heuristics", "CachingAutotuner")
#: Called for each kernel with the nodes fused into it. Triton code has them in comments too, except for foreach ops.
CPP_KERNELS = ("torch._inductor.codegen.cpp", "CppScheduling", "define_kernel")
TRITON_KERNELS = ("torch._inductor.codegen.triton", "TritonScheduling", "define_kernel")
#: Asked to choose among ways to compute one call: its name, the candidates.
CHOOSING = ("torch._inductor.select_algorithm", "AlgorithmSelectorCache")
#: The logger that is handed graphs as texts, also those of code that comes from a cache.
TRACE_LOG = logging.getLogger("torch.__trace")
#: What ``torch.compile`` hands each graph to where another backend was asked for.
other_backend: Any = seams.find(torch, "_TorchCompileWrapper")

#: What a trace calls torch's own compiler as a backend.
INDUCTOR = "inductor"
#: Backends that compile nothing: what they run is dispatched op by op.
DISPATCHING = frozenset({"eager", "aot_eager", "aot_eager_decomp_partition", "aot_eager_default_partitioner"})
#: Can regions be seen at all? Where a dispatch mode makes compiled code run eagerly there are none.
SEES_REGIONS = seams.KEEPS_COMPILED_CODE and seams.inductor_wrapper is not None

#: Before 2.10, a guard on a tensor fails wherever a dispatch mode was not active when it was made and is now, or the
#: reverse. (Ran on 2.4.1, 2.9.1 and 2.10.0; releases between the first two compile nothing under a mode.)
GUARDS_SEE_MODES: bool = torch.__version__ < (2, 10)  # type: ignore[operator]
#: From 2.5 to 2.8 whatever is compiled runs eagerly while a mode of a user's is active.
FALLS_BACK = not seams.KEEPS_COMPILED_CODE and "include_infra_modes" in getattr(
    getattr(_python_dispatch.is_in_torch_dispatch_mode, "__code__", None), "co_varnames", ()
)

#: How compiled autograd spells a node in place of a line of the program.
_NODE_CALL = re.compile(r"in set_node_origin\n\s*(?P<name>\S+) \(NodeCall \d+\)")
#: What Inductor calls what it compiles.
_HASH = re.compile(r"c[a-z2-7]{51}")

#: Short names of dtypes that torch.fx has no table for in every release.
_DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "b8": "bool",
    "c32": "complex32",
    "c64": "complex64",
    "c128": "complex128",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0fnu": "float8_e8m0fnu",
}


def dtype_of(short: str) -> torch.dtype:
    """The dtype that torch.fx abbreviates so. Raises ``LookupError`` for one that this torch does not have."""
    dtype = getattr(torch, _DTYPES.get(short, short), None)
    if not isinstance(dtype, torch.dtype):
        raise LookupError(short)
    return dtype


def overload(name: str) -> Any | None:
    """The op that a graph's text calls ``aten.add.Tensor``; ``None`` for one that this process has not loaded."""
    space, _, rest = name.partition(".")
    if space == "higher_order":
        return seams.find(torch.ops, "higher_order", rest)
    packet, _, which = rest.partition(".")
    try:
        packets = getattr(getattr(torch.ops, space), packet)
        return getattr(packets, which or "default")
    except (AttributeError, RuntimeError):
        return None


def is_generated(name: str, path: str) -> bool:
    """Is the extension module ``name``, loaded from ``path``, a kernel that Inductor wrote and compiled?

    It goes by a hash, under which its file lies in a folder of its own: ``5h/c5h3b....main.so`` (2.9.1, 2.13.0).
    """
    key = name.partition(".")[0]
    file = os.path.basename(path)
    return (
        _HASH.fullmatch(key) is not None and file.startswith(f"{key}.") and path.endswith(os.path.join(key[1:3], file))
    )


def compiled_graph_class() -> Any | None:
    """The class of what Inductor returns for a graph, where it was loaded; it is called at every execution."""
    return getattr(sys.modules.get(OUTPUT_CODE), "CompiledFxGraph", None)


def frame_compiler() -> Any | None:
    """What dynamo calls to read a function of the program, where it was loaded."""
    return getattr(sys.modules.get("torch._dynamo.convert_frame"), "CatchErrorsWrapper", None)


def guard_maker() -> Any | None:
    """What makes the guards of a function that dynamo has read, where that has to be watched and was loaded."""
    return getattr(sys.modules.get("torch._dynamo.guards"), "CheckFunctionManager", None) if GUARDS_SEE_MODES else None


def graph_tracer() -> Any | None:
    """The class whose method puts calls into a graph that is traced, where AOTAutograd was loaded."""
    loaded = "torch._functorch.aot_autograd" in sys.modules
    return getattr(sys.modules.get("torch.fx.proxy"), "TracerBase", None) if loaded else None


def traces_for_compiler(tracer: Any) -> bool:
    """Does this one trace ops, as AOTAutograd has it, rather than a program?"""
    cls = getattr(sys.modules.get("torch.fx.experimental.proxy_tensor"), "PythonKeyTracer", None)
    return cls is not None and isinstance(tracer, cls)


def is_generated_program(code: CodeType) -> bool:
    """Is it the function that runs a graph as a program?"""
    return code.co_name == "forward" and code.co_filename.startswith("<eval_with_key>")


def node_of_compiled_autograd(stack: str) -> str:
    """The autograd node that compiled autograd gives as a call's stack; empty for another stack."""
    match = _NODE_CALL.search(stack)
    return match["name"] if match is not None else ""


def cuda_graph_class() -> Any | None:
    """The class of captured CUDA graphs; this torch may have none."""
    return getattr(sys.modules.get("torch.cuda.graphs"), "CUDAGraph", None)


def load_dynamo() -> None:
    """Load what is about to be loaded: ``torch.compile`` was called."""
    with suppress(ImportError):
        importlib.import_module("torch._dynamo")


def load_compiler() -> None:
    """Load what is about to be loaded: the parts of Inductor that a compilation goes through."""
    for name in (OUTPUT_CODE, COMPILER[0], CPP_KERNELS[0], TRITON_KERNELS[0], CHOOSING[0]):
        with suppress(ImportError):
            importlib.import_module(name)


def compile_id() -> str:
    """torch's number of the running compilation, ``0/1``, ``!0/3/0`` for one of compiled autograd; empty without."""
    context = seams.find(sys.modules.get("torch._guards"), "CompileContext")
    current = getattr(context, "current_compile_id", None)
    number = current() if current is not None else None
    return "" if number is None else str(number)


def compiled_function(frame: FrameType | None) -> tuple[CodeType | None, bool | None]:
    """The code that dynamo compiles above ``frame``, and whether it is to be compiled whole."""
    for _ in range(100):
        if frame is None:
            break
        local = frame.f_locals if frame.f_code.co_name == "_compile" else {}
        code = local.get("code")
        if isinstance(code, CodeType) and frame.f_code.co_filename.endswith("convert_frame.py"):
            whole = local.get("one_graph")
            return code, whole if isinstance(whole, bool) else None
        frame = frame.f_back
    return None, None


def chooses_without_timing() -> bool:
    """Does Inductor take the first of several ways to compute a call, as it does under deterministic mode?"""
    return bool(getattr(sys.modules.get("torch._inductor.config"), "deterministic", False))


def node_being_lowered() -> str:
    """Name of the graph's call that Inductor works on; empty where it is not known."""
    current: Any = seams.find(sys.modules.get("torch._inductor.virtualized"), "V")
    try:
        return str(getattr(current.graph.current_node, "name", ""))
    except AttributeError:
        return ""


def loaded_code(key: str) -> dict[str, Any]:
    """The names of a region's generated code, as it was loaded last; empty where it was not."""
    cache = getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)
    modules = getattr(cache, "modules", None)
    if modules is None:  # before torch 2.6
        modules = getattr(cache, "cache", {}).values()
    namespaces = [vars(module) for module in modules if getattr(module, "key", None) == key]
    return namespaces[-1] if key and namespaces else {}


def graph_as_text(graph: Any) -> str:
    """A graph as torch prints it for its own trace."""
    try:
        return str(graph.print_readable(print_output=False, include_stride=True, include_device=True))
    except TypeError:  # before about torch 2.5
        return str(graph.print_readable(print_output=False))


def backend_of(callback: Any) -> str:
    """The name of the backend behind what dynamo calls for a frame; ``unnamed`` where it has none."""
    for _ in range(10):
        inner = next(
            (
                found
                for name in ("_torchdynamo_orig_backend", "_torchdynamo_orig_callable", "_torchdynamo_orig_callable_")
                if (found := getattr(callback, name, None)) is not None
            ),
            None,
        )
        if inner is None:
            break
        callback = inner
    name = getattr(callback, "compiler_name", None) or getattr(callback, "__name__", None)
    return str(name) if name else "unnamed"
