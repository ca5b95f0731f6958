"""Stacks that torch keeps as text with the calls of a graph, and the lines of a graph that runs as a program."""

from __future__ import annotations

import linecache
import re
import sys
import warnings
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple, cast

import msgspec

_FRAME = r'^\s*File "(?P<path>.+)", line (?P<line>\d+), in (?P<function>.+)$'
#: In a call's ``meta``: its step as ``recording.compiled.traced`` found it.
MADE_FOR = "determinism_tracer_made_for"
#: A line of the program that torch.fx makes of a graph: ``add: "f32[2]" = x + 1;  x = None``.
_ASSIGNMENT = r"\s*(?P<name>\w+)(?:\s*:[^=]+)? = "
_STEP = r"\._modules\['(?P<key>[^']+)'\]|\.(?P<name>\w+)|\[(?P<index>\d+|'[^']+')\]"
#: Parts of a path that ``named_modules()`` does not have.
_NOT_SPELLED = ("_modules", "__dict__", "_orig_mod")
#: The module that compiled autograd creates for a whole backward pass.
_OF_COMPILED_AUTOGRAD = "CompiledAutograd"


class Frame(msgspec.Struct, frozen=True):
    path: str
    line: int
    function: str
    code: str


class Module(msgspec.Struct, frozen=True):
    root: str
    """Class of the module that the path begins at; empty if it is the one whose method was compiled."""
    path: str
    """Path from there; empty for that module itself."""


def read_module(stack: Any) -> Module | None:
    """The innermost of torch's ``nn_module_stack``."""
    entries = [entry for entry in (stack or {}).values() if isinstance(entry, tuple) and len(entry) == 2]
    if not entries:
        return None
    head, *steps = _dotted(str(entries[-1][0]))
    outermost, cls = entries[0]
    if str(getattr(cls, "__name__", cls)).startswith(_OF_COMPILED_AUTOGRAD):
        return None
    is_below_self = _dotted(str(outermost)) != (head,) or head == "L['self']"
    return Module("" if is_below_self else getattr(cls, "__name__", str(cls).rpartition(".")[2]), ".".join(steps))


def _dotted(name: str) -> tuple[str, ...]:
    """``L['self']._modules['layers'][0]`` as ``("L['self']", "layers", "0")``."""
    head = re.match(r"^[LG]\['[^']+'\]|^\w+", name)
    if head is None:
        return (name,)
    steps = [
        match["key"] or match["name"] or match["index"].strip("'") for match in re.finditer(_STEP, name[head.end() :])
    ]
    return (head[0], *(step for step in steps if step not in _NOT_SPELLED))


def read_stack(text: str | None) -> tuple[Frame, ...]:
    """The frames of a stack as torch keeps it with a call: ``File "x.py", line 3, in f``, then the line."""
    lines = (text or "").splitlines()
    frames = []
    for line, code in zip(lines, (*lines[1:], ""), strict=False):
        match = re.match(_FRAME, line)
        if match is not None:
            code = "" if re.match(_FRAME, code) else code.strip()
            frames.append(Frame(match["path"], int(match["line"]), match["function"], code))
    return tuple(frames)


class Step(NamedTuple):
    """One call of dynamo's graph."""

    frames: tuple[Frame, ...]
    module: Module | None
    is_backward: bool = False
    """Whether it computes a gradient, in a graph other than a backward."""
    forward_unknown: bool = False
    """Whether this is the line that asked for the gradient, because the line of its forward is not known."""
    node: str = ""
    """Name of its autograd node, if only that is known."""
    is_in_backward: bool = False
    """Whether the program's own code makes it in the backward pass."""


NO_STEP = Step((), None)
#: A call that compiled autograd made, with no stack.
OF_GRADIENT_CALL = Step((), None, is_backward=True, forward_unknown=True)


def step_of(node: Any) -> Step:
    """The step of a call of dynamo's or AOTAutograd's graph."""
    meta = node.meta
    if MADE_FOR in meta:
        return cast("Step", meta[MADE_FOR])
    modules = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack")
    sources = filter(None, (meta.get("source_fn_stack"), meta.get("fwd_source_fn_stack")))
    targets = (node.target, *(stack[-1][1] for stack in sources))
    # The function that dynamo inserts where the program asks for gradients.
    asks = any(getattr(target, "__name__", "") == "_autograd_grad" for target in targets)
    return Step(read_stack(meta.get("stack_trace")), read_module(modules), asks, asks)


def stacks_by_line(frame: FrameType) -> dict[int, Step]:
    """Of ``frame``, which runs a graph as a program: the step of the call at each line.

    A line without a stack has those of the line before it; empty if no call has one.
    """
    graph = getattr(frame.f_locals.get("self"), "graph", None)
    stacks = {str(node.name): step for node in getattr(graph, "nodes", ()) if (step := step_of(node)).frames}
    by_line: dict[int, Step] = {}
    last: Step | None = None
    for number, line in enumerate(linecache.getlines(frame.f_code.co_filename), start=1) if stacks else ():
        match = re.match(_ASSIGNMENT, line)
        last = (match is not None and stacks.get(match["name"])) or last
        if last is not None:
            by_line[number] = last
    return by_line


#: Longer files are not read again.
_MOST_LINES = 50_000


class FunctionNames:
    """Qualified names of functions, ``Net.forward``, for stacks kept as text, which say ``forward``.

    Eager calls have the qualified name from their code object. To give compiled ones the same names, nested functions
    and lambdas too, the file's text is compiled again, and never run.
    """

    def __init__(self) -> None:
        self._files: dict[str, dict[tuple[str, int], str]] = {}

    def name_at(self, path: str, line: int, function: str) -> str:
        """The qualified name of the ``function`` that has ``line``; ``function`` if the file does not tell."""
        if path not in self._files:
            self._files[path] = _read(path)
        return self._files[path].get((function, line), function)


def _read(path: str) -> dict[tuple[str, int], str]:
    if sys.version_info < (3, 11):
        return {}  # code objects have no qualified name, and eager calls have the plain one too
    lines = linecache.getlines(path)
    if len(lines) > _MOST_LINES:
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = compile("".join(lines), path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return {
        (code.co_name, line): code.co_qualname
        for code in with_nested(whole)
        for _, _, line in code.co_lines()
        if line is not None
    }


def with_nested(code: CodeType) -> Iterator[CodeType]:
    """``code``, and that of the functions and classes defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from with_nested(constant)
