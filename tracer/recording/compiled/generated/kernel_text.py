"""The code that Inductor wrote for a region: its kernels, what they were made of, and which of them add atomically.

The code is Python that holds each kernel's source as a text. A name or a comment says what a kernel was made of, its
source whether it adds atomically. Checked on the code that torch 2.13 writes for the CPU; what it reads of Triton was
held against samples made by hand alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from tracer.names import KernelLanguage
from tracer.recording.compiled.generated.disjoint_threads import keeps_threads_apart

#: What adds, or swaps in, whichever comes first, in C++ and in Triton. The maximum of several numbers, their minimum
#: and bits set are the same in every order.
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
#: Sizes of blocks, and what a template is launched with.
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
#: The function that is called, and the parts of it that CUDA graphs are captured of.
_BODY = re.compile(r"^[ ]*def (?:call|partition_\d+)\((.*?)(?=^(?:def|class|[ ]*def partition)\b|\Z)", re.M | re.S)
#: Functions that allocate and view without the dispatcher, checks, streams, and kernels of the code's own.
_PLAIN_CALL = re.compile(
    r"^(?:self|empty_strided_\w+|reinterpret_tensor|assert_size_stride|assert_alignment|args\.clear|get_raw_stream|"
    r"max|min|RuntimeError|Runner|torch\.cuda\._DeviceGuard|torch\.cuda\.set_device|(?:cpp|triton)_\w+(?:\.run)?|partition_\d+|"
    r"c_void_p|c_int|c_long|del|with|return|if)$"
)
#: Bookkeeping of the generated code that is spelled as a call of an op.
_NOT_KERNELS = ("inductor_ops._alloc_from_pool", "torch.ops.inductor._alloc_from_pool")


class KernelText(NamedTuple):
    """One kernel of the code."""

    name: str
    language: KernelLanguage
    source: str
    """Empty for what the code calls and does not hold."""
    original_ops: tuple[str, ...]
    """What its comment says that it was made of: ``aten.index_add``."""
    nodes: tuple[str, ...]
    """The graph's own names of the calls that went into it, where a comment tells them."""
    calls: int

    @property
    def atomic(self) -> bool | None:
        """Does it add atomically to numbers that are rounded? ``None`` without a source."""
        return None if not self.source else bool(atomic_lines(self.source, self.language))

    @property
    def template(self) -> str:
        """How a template of Triton's is filled in: ``BLOCK_M=64, num_warps=4``; empty for another kernel."""
        if self.language is not KernelLanguage.TEMPLATE:
            return ""
        filled = {match["name"]: match["value"] for match in _FILLED_IN.finditer(self.source)}
        return ", ".join(f"{name}={value}" for name, value in sorted(filled.items()))

    @property
    def is_parallel(self) -> bool | None:
        """Do several threads run it? ``None``: without a source, or where that is not said in it."""
        if not self.source:
            return None
        return bool(_PARALLEL.search(self.source)) if self.language is KernelLanguage.CPP else True

    @property
    def keeps_apart(self) -> bool:
        """Is it proven that its threads never meet where it adds atomically or writes at an index?"""
        return self.language is KernelLanguage.CPP and keeps_threads_apart(self.source)


def read_kernels(code: str) -> tuple[KernelText, ...]:
    """The kernels of ``code`` in the order of their first call. Raises ``ValueError`` for code of another form."""
    try:
        module = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise ValueError(f"generated code cannot be parsed: {problem}") from problem
    call = next((node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and node.name == "call"), None)
    if call is None:
        raise ValueError("generated code has no function `call`")
    lines = code.splitlines()
    sources = dict(_sources(module, lines))
    bodies = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and (node is call or node.name.startswith("partition_"))
    ]
    kernels: dict[str, KernelText] = {}
    for body in bodies:
        for number in range(body.lineno, (body.end_lineno or body.lineno) + 1):
            line = lines[number - 1]
            if line.lstrip().startswith("#"):
                continue
            for name in _called(line, sources):
                kernel = kernels.get(name)
                if kernel is not None:
                    kernels[name] = kernel._replace(calls=kernel.calls + 1)
                    continue
                language, source, comment = sources.get(name, (_language_of(name), "", ""))
                nodes_by_kernel = comment if source and _originals(comment) else _comment_above(lines, number - 1)
                kernels[name] = KernelText(
                    name, language, source, _originals(nodes_by_kernel), _nodes(nodes_by_kernel), 1
                )
    return tuple(kernels.values())


def dispatches(code: str) -> bool:
    """May running ``code`` dispatch an op? Not where all that it calls are kernels of its own, and bookkeeping."""
    called = _further_calls(code)
    return called is None or bool(called)


def may_call_kernels(code: str) -> bool:
    """May running ``code`` do more than views, checks, and numbers that it reads from tensors?"""
    called = _further_calls(code)
    return called is None or not called <= {"item"}


def _further_calls(code: str) -> set[str] | None:
    """What ``code`` calls beyond kernels of its own and bookkeeping; ``None`` for code of another form."""
    bodies = [body[1] for body in _BODY.finditer(code)]
    called = {match[1] for body in bodies for match in _CALL.finditer("\n".join(_without_comments(body)))}
    return {name for name in called if not _PLAIN_CALL.match(name)} if bodies else None


def _without_comments(body: str) -> Iterator[str]:
    return (line for line in body.splitlines() if not line.lstrip().startswith("#"))


def atomic_lines(source: str, language: KernelLanguage) -> tuple[str, ...]:
    """The lines of ``source`` that add atomically in floating point."""
    if language is KernelLanguage.CPP:
        integers = {match["name"] for match in _POINTER_OF_INTEGERS.finditer(source)}
        patterns: tuple[re.Pattern[str], ...] = (_ATOMIC_CPP, _ATOMIC_TRANSPOSE)
    else:
        integers = {
            match["name"] for match in _SIGNATURE.finditer(source) if match["type"].startswith(("i", "u", "b1"))
        } - {match["name"] for match in _SIGNATURE.finditer(source) if match["type"].startswith(("fp", "bf"))}
        patterns = (_ATOMIC_TRITON,)
    lines = []
    for line in source.splitlines():
        for pattern in patterns:
            match = pattern.search(line)
            if match is not None and match.groupdict().get("pointer") not in integers:
                lines.append(line.strip())
                break
    return tuple(lines)


def _sources(module: ast.Module, lines: list[str]) -> Iterator[tuple[str, tuple[KernelLanguage, str, str]]]:
    """Name -> language, source and comment of each kernel that the code holds."""
    for statement in module.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        value = statement.value
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            continue
        name = statement.targets[0].id
        language = _ASYNC.get(value.func.attr)
        texts = [
            argument.value
            for argument in value.args
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        ]
        if language is None or not texts:
            continue
        source = max(texts, key=len)
        comment = _comment_above(lines, statement.lineno - 1)
        if language is KernelLanguage.TRITON:
            if "template" in source and "triton_heuristics.template" in source:
                language = KernelLanguage.TEMPLATE
            elif "triton_heuristics.user_autotune" in source:
                language = KernelLanguage.USER_TRITON
        elif "at::native" not in source and re.search(r"\bmicro_gemm|cpp_micro_gemm|kernel_micro_gemm", source):
            language = KernelLanguage.TEMPLATE
        yield name, (language, source, comment)


def _called(line: str, sources: dict[str, tuple[KernelLanguage, str, str]]) -> Iterator[str]:
    for match in re.finditer(r"\b(\w+)(?:\.run)?\(", line):
        if match[1] in sources:
            yield match[1]
    for match in _EXTERN.finditer(line):
        name = match["name"].removeprefix("torch.ops.")
        if match["name"] not in _NOT_KERNELS:
            yield name


def _language_of(name: str) -> KernelLanguage:
    return KernelLanguage.EXTERN if name.startswith("extern_kernels.") else KernelLanguage.FALLBACK


def _comment_above(lines: list[str], index: int) -> str:
    """The block of comments that ends above ``lines[index]``; lines that name the stream may stand between."""
    end = index
    while end > 0 and not lines[end - 1].lstrip().startswith("#") and index - end < 3 and _is_filler(lines[end - 1]):
        end -= 1
    start = end
    while start > 0 and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return "\n".join(lines[start:end])


def _is_filler(line: str) -> bool:
    stripped = line.strip()
    return not stripped or stripped.startswith(("stream", "del ", "with "))


def _originals(comment: str) -> tuple[str, ...]:
    match = _ORIGINAL.search(comment)
    return tuple(op.strip() for op in match["ops"].split(",") if op.strip()) if match is not None else ()


def _nodes(comment: str) -> tuple[str, ...]:
    return tuple(match["name"] for match in _FRAGMENT.finditer(comment))
