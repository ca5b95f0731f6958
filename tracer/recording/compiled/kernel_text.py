"""Reads the code that Inductor generated (torch 2.13): its kernels, the ops in them, their atomic additions."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from tracer.names import CALLED_KERNELS, KernelLanguage
from tracer.ops import bare_name, row_of
from tracer.recording.compiled.graph_text import Node

#: Atomic additions and swaps in C++ and in Triton. Atomic maxima, minima and bit operations do not depend on order.
_ATOMIC_CPP = re.compile(r"\batomic_add(?:_vec)?\b\s*(?:<[^;(]*>)?\s*\(\s*&?\s*(?P<pointer>\w+)?")
_ATOMIC_TRANSPOSE = re.compile(r"\btranspose_mxn<[^>]*\btrue\b[^>]*>\s*\(")
_ATOMIC_TRITON = re.compile(r"\b(?:tl|language|libdevice)\.atomic_(?:add|xchg|cas)\s*\(\s*(?P<pointer>\w+)?")
_PARALLEL = re.compile(r"#pragma\s+omp\s+(?:parallel|for)|\bat::parallel_for\b")
_POINTER_OF_INTEGERS = re.compile(
    r"\b(?:u?int\d*_t|int|long|bool|unsigned\s+char)\s*\*\s*(?:__restrict__\s*)?(?P<name>\w+)"
)
_SIGNATURE = re.compile(r"'(?P<name>\w+)'\s*:\s*'\*(?P<type>[a-z]\w*)'")
_ORIGINAL = re.compile(r"Original ATen: \[(?P<ops>[^\]]*)\]")
_FRAGMENT = re.compile(r"#\s+%(?P<name>\w+)\b.*=\s*call_function\[")
#: Block sizes, and a template's launch options.
_FILLED_IN = re.compile(
    r"\b(?P<name>(?:GROUP|BLOCK|SPLIT)_\w+|num_(?:warps|stages))(?:\s*:\s*tl\.constexpr)?\s*=\s*(?P<value>\d+)\b"
)
_ASYNC = {
    "cpp_pybinding": KernelLanguage.CPP,
    "cpp": KernelLanguage.CPP,
    "triton": KernelLanguage.TRITON,
    "multi_kernel": KernelLanguage.TRITON,
}
_EXTERN = re.compile(
    r"\b(?P<name>extern_kernels\.\w+|(?:aten|torch\.ops\.\w+|inductor_ops|_quantized|mkldnn\w*)\.\w+(?:\.\w+)*)\("
)
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(")
#: The entry function, and its partitions, which are captured as CUDA graphs.
_BODY = re.compile(r"^[ ]*def (?:call|partition_\d+)\((.*?)(?=^(?:def|class|[ ]*def partition)\b|\Z)", re.M | re.S)
#: Allocations and views that bypass the dispatcher, checks, streams, and the code's own kernels.
_PLAIN_CALL = re.compile(
    r"^(?:self|empty_strided_\w+|reinterpret_tensor|assert_size_stride|assert_alignment|args\.clear|get_raw_stream|"
    r"max|min|RuntimeError|Runner|torch\.cuda\._DeviceGuard|torch\.cuda\.set_device|(?:cpp|triton)_\w+(?:\.run)?|partition_\d+|"
    r"c_void_p|c_int|c_long|del|with|return|if)$"
)
#: Lines between a kernel's call and the comment that belongs to it.
_FILLER = ("stream", "del ", "with ")
#: Bookkeeping that looks like a call of an op.
_NOT_KERNELS = ("inductor_ops._alloc_from_pool", "torch.ops.inductor._alloc_from_pool")


class KernelText(NamedTuple):
    """One kernel of the code."""

    name: str
    language: KernelLanguage
    source: str
    """Empty for functions outside the code."""
    original_ops: tuple[str, ...]
    """The ops in its comment: ``aten.index_add``."""
    nodes: tuple[str, ...]
    """The names in the graph of the calls fused into it, if a comment has them."""
    calls: int

    @property
    def atomic(self) -> bool | None:
        """Whether it adds floating-point numbers atomically; ``None`` without a source."""
        return adds_atomically(self.source, self.language) if self.source else None

    @property
    def template(self) -> str:
        """The parameters of a Triton template: ``BLOCK_M=64, num_warps=4``; empty for another kernel."""
        if self.language is not KernelLanguage.TEMPLATE:
            return ""
        filled = {match["name"]: match["value"] for match in _FILLED_IN.finditer(self.source)}
        return ", ".join(f"{name}={value}" for name, value in sorted(filled.items()))

    @property
    def is_parallel(self) -> bool | None:
        """Whether several threads run it; ``None`` without a source."""
        if not self.source:
            return None
        return self.language is not KernelLanguage.CPP or _PARALLEL.search(self.source) is not None


def read_kernels(code: str) -> tuple[KernelText, ...]:
    """The kernels of ``code`` in the order of their first call. Raises ``ValueError`` for unsupported code."""
    try:
        module = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise ValueError(f"generated code cannot be parsed: {problem}") from problem
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    entry = next((function for function in functions if function.name == "call"), None)
    if entry is None:
        raise ValueError("generated code has no function `call`")
    lines = code.splitlines()
    sources = dict(_sources(module, lines))
    kernels: dict[str, KernelText] = {}
    for body in functions:
        # Besides the entry: partitions, which are captured as CUDA graphs, and subgraphs: ``def true_graph_0(args)``.
        if body is not entry and [each.arg for each in body.args.args] not in (["args"], ["self", "args"]):
            continue
        for at, line in enumerate(lines[body.lineno - 1 : body.end_lineno], body.lineno - 1):
            for name in () if line.lstrip().startswith("#") else _called(line, sources):
                if name in kernels:
                    kernels[name] = kernels[name]._replace(calls=kernels[name].calls + 1)
                    continue
                is_extern = name.startswith("extern_kernels.")
                unknown = (KernelLanguage.EXTERN if is_extern else KernelLanguage.FALLBACK, "", "")
                language, source, comment = sources.get(name, unknown)
                comment = comment if source and _originals(comment) else _comment_above(lines, at)
                nodes = tuple(match["name"] for match in _FRAGMENT.finditer(comment))
                kernels[name] = KernelText(name, language, source, _originals(comment), nodes, 1)
    return tuple(kernels.values())


def may_call_kernels(code: str) -> bool:
    """Return whether ``code`` may call more than its own kernels, views, checks, and what reads numbers of tensors."""
    bodies = [body[1] for body in _BODY.finditer(code)]
    lines = [line for body in bodies for line in body.splitlines() if not line.lstrip().startswith("#")]
    called = {match[1] for match in _CALL.finditer("\n".join(lines))}
    return not bodies or any(name != "item" and not _PLAIN_CALL.match(name) for name in called)


def adds_atomically(source: str, language: KernelLanguage) -> bool:
    """Return whether ``source`` adds floating-point numbers atomically."""
    if language is KernelLanguage.CPP:
        integers = {match["name"] for match in _POINTER_OF_INTEGERS.finditer(source)}
        patterns: tuple[re.Pattern[str], ...] = (_ATOMIC_CPP, _ATOMIC_TRANSPOSE)
    else:
        types = [(match["name"], match["type"]) for match in _SIGNATURE.finditer(source)]
        floats = {name for name, dtype in types if dtype.startswith(("fp", "bf"))}
        integers = {name for name, dtype in types if dtype.startswith(("i", "u", "b1"))} - floats
        patterns = (_ATOMIC_TRITON,)
    # Of several additions in one line the first one counts.
    matches = (pattern.search(line) for line in source.splitlines() for pattern in patterns)
    return any(match is not None and match.groupdict().get("pointer") not in integers for match in matches)


def _sources(module: ast.Module, lines: list[str]) -> Iterator[tuple[str, tuple[KernelLanguage, str, str]]]:
    """Language, source and comment of each kernel in the code, by name."""
    for statement in module.body:
        value = getattr(statement, "value", None)
        if not isinstance(statement, ast.Assign) or not isinstance(value, ast.Call):
            continue
        target, function = statement.targets[0], value.func
        language = _ASYNC.get(function.attr) if isinstance(function, ast.Attribute) else None
        constants = [argument.value for argument in value.args if isinstance(argument, ast.Constant)]
        source = max((constant for constant in constants if isinstance(constant, str)), key=len, default=None)
        if not isinstance(target, ast.Name) or language is None or source is None:
            continue
        if language is KernelLanguage.TRITON:
            if "template" in source and "triton_heuristics.template" in source:
                language = KernelLanguage.TEMPLATE
            elif "triton_heuristics.user_autotune" in source:
                language = KernelLanguage.USER_TRITON
        elif "at::native" not in source and re.search(r"\bmicro_gemm|cpp_micro_gemm|kernel_micro_gemm", source):
            language = KernelLanguage.TEMPLATE
        yield target.id, (language, source, _comment_above(lines, statement.lineno - 1))


def _called(line: str, sources: dict[str, tuple[KernelLanguage, str, str]]) -> Iterator[str]:
    yield from (match[1] for match in re.finditer(r"\b(\w+)(?:\.run)?\(", line) if match[1] in sources)
    outside = (match["name"] for match in _EXTERN.finditer(line))
    yield from (name.removeprefix("torch.ops.") for name in outside if name not in _NOT_KERNELS)


def _comment_above(lines: list[str], index: int) -> str:
    """The comment block above ``lines[index]``, skipping lines about the stream."""
    end = index
    while end > 0 and index - end < 3 and (not lines[end - 1].strip() or lines[end - 1].strip().startswith(_FILLER)):
        end -= 1
    start = end
    while start > 0 and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return "\n".join(lines[start:end])


def _originals(comment: str) -> tuple[str, ...]:
    match = _ORIGINAL.search(comment)
    return tuple(op.strip() for op in match["ops"].split(",") if op.strip()) if match is not None else ()


#: Triton's foreach kernels, whose names contain no op.
_OF_LISTS = "triton_for_"


class KernelMatching(NamedTuple):
    """Kernels of calls, and calls of kernels."""

    texts: tuple[KernelText, ...]
    kernels: dict[str, tuple[str, ...]]
    """By the call's name in the graph, in the order of the code."""
    ops: dict[str, tuple[str, ...]]
    """The ops fused into each kernel."""


def match_kernels(
    nodes: Sequence[Node], kernels: Iterable[KernelText], nodes_by_kernel: Mapping[str, Set[str]]
) -> KernelMatching:
    """The kernels that each call was fused into; ``nodes_by_kernel``: the calls that the compiler listed for a kernel.

    It does for C++ compiled in this process; for Triton a comment does. Else the names of kernels contain those of ops.
    """
    texts = tuple(kernels)
    names = {node.name for node in nodes}
    went: dict[str, set[str]] = defaultdict(set)
    named: set[str] = set()
    for kernel in texts:
        for name in names.intersection((*nodes_by_kernel.get(kernel.name, ()), *kernel.nodes)):
            named.add(kernel.name)
            went[name].add(kernel.name)
    unnamed = [kernel for kernel in texts if kernel.name not in named]
    for kernel in unnamed:
        for node in nodes:
            if (kernel.language in CALLED_KERNELS or node.name not in went) and _may_be(node, kernel):
                went[node.name].add(kernel.name)
    # An atomic kernel contains a call that accumulates by index, whatever its name says.
    adding = [node.name for node in nodes if row_of(bare_name(node.op)).made_of]
    for kernel in unnamed:
        if kernel.atomic and not any(kernel.name in went.get(name, ()) for name in adding):
            for name in adding:
                went[name].add(kernel.name)
    order = {kernel.name: number for number, kernel in enumerate(texts)}
    ops: dict[str, dict[str, None]] = defaultdict(dict)
    for node in nodes:
        for kernel_name in went.get(node.name, ()):
            ops[kernel_name][node.op] = None
    return KernelMatching(
        texts,
        {name: tuple(sorted(its_kernels, key=order.__getitem__)) for name, its_kernels in went.items()},
        {name: tuple(its_ops) for name, its_ops in ops.items()},
    )


def _may_be(node: Node, kernel: KernelText) -> bool:
    base = bare_name(node.op)
    if kernel.language in CALLED_KERNELS:
        called = kernel.name.removesuffix(".default").split(".")
        name = called[1] if len(called) > 1 else called[0]
        return base == name or base in row_of(name).called_for
    if node.op.startswith("higher_order.triton_kernel_wrapper"):
        return kernel.language is KernelLanguage.USER_TRITON
    if kernel.name.startswith(_OF_LISTS):
        return base.startswith("_foreach_") and (not kernel.original_ops or f"aten.{base}" in kernel.original_ops)
    words = f"_{kernel.name}_"
    return any(f"_{base_name}_" in words for base_name in (base, *row_of(base).made_of))
