"""For which line of the program AOTAutograd traces a call, where a gradient is asked for within what is compiled.

The calls of a backward graph are linked to their forward by AOTAutograd itself. Those of `torch.func.grad`, `vjp` and
`jacrev` are not: all of them stand at the line that asks for the gradient. As for eager calls, autograd's numbers tell
more: nodes that were made between two calls belong to the later one, and a call that is traced while a node is
evaluated belongs to that node's. Compiled autograd runs a graph that torch wrote as a program: the line of that program
which makes the call names the node of it, and that one's stack is the forward's where the forward was compiled, too.

What is found is noted with the call in the graph's own notes, which passes over graphs carry along and no key of a
cache is made of. Where the code comes from a cache nothing is traced, and nothing of this is known.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from tracer.recording.compiled.program_lines import Module, Step, read_module, read_stack
from tracer.recording.torch_private import compile_seams, seams

NOTE = "determinism_tracer_made_for"
#: What dynamo calls a request for gradients within a graph.
ASKS_FOR_GRADIENT = frozenset({"_autograd_grad"})
_STACK, _MODULES = "stack_trace", "nn_module_stack"
_MOST_NODES = 1000


class Detail(NamedTuple):
    """What a call's notes in a graph tell of where it belongs, in strings."""

    stack: str | None
    modules: dict[str, tuple[str, str]]
    is_backward: bool = False
    """Does it compute a gradient, in a graph that is not a backward's?"""
    is_of_gradient_call: bool = False
    """Is the stack that of the line which asked for the gradient?"""
    node: str = ""
    """Name of the autograd node that is evaluated, where a node's name is all that is known."""

    @property
    def step(self) -> Step:
        """The same, read."""
        module: Module | None = read_module(self.modules)
        return Step(read_stack(self.stack), module, self.is_backward, self.is_of_gradient_call, self.node)


def detail_of(meta: dict[str, Any]) -> Detail:
    """What the notes of a call tell."""
    detail = meta.get(NOTE)
    if isinstance(detail, Detail):
        return detail
    asks = _asks(meta.get("source_fn_stack")) or _asks(meta.get("fwd_source_fn_stack"))
    return Detail(meta.get(_STACK), module_names(meta.get(_MODULES) or meta.get(f"fwd_{_MODULES}")), asks, asks)


def module_names(stack: Any) -> dict[str, tuple[str, str]]:
    """A module stack without the classes, which would be kept alive."""
    names = {}
    for key, entry in (stack or {}).items():
        if isinstance(entry, tuple) and len(entry) == 2:
            name, cls = entry
            names[str(key)] = (str(name), getattr(cls, "__name__", str(cls)))
    return names


def asks_for_gradient(target: Any) -> bool:
    """Is it the function that dynamo puts into a graph where the program asks for gradients?"""
    return getattr(target, "__name__", "") in ASKS_FOR_GRADIENT


def _asks(stack: Any) -> bool:
    return bool(stack) and asks_for_gradient(stack[-1][1])


class TracedCalls:
    """The calls of one program while AOTAutograd traces it. ``named``: its stacks by the names of its own calls."""

    def __init__(self, named: Callable[[str], str | None] = lambda name: None) -> None:
        self._named = named
        self._by_number: dict[int, Detail] = {}
        self._last = seams.next_sequence_number()

    def traced(self, node: Any, frame: FrameType | None) -> None:
        """A call was put into the graph; ``frame`` did so."""
        meta = node.meta
        current = seams.current_node()
        if current is not None:
            detail = self._by_number.get(current._sequence_nr())
            if detail is not None and (detail.is_backward or meta.get("source_fn_stack")):
                meta[NOTE] = detail = detail._replace(is_backward=True)
        else:
            if _STACK not in meta and (of_backward := self._of_compiled_autograd(frame)) is not None:
                meta[NOTE] = of_backward
            detail = Detail(meta.get(_STACK), module_names(meta.get(_MODULES)))
            if _asks(meta.get("source_fn_stack")):
                meta[NOTE] = detail  # what the gradient begins with: no node's, so that line is its own
        number = seams.next_sequence_number()
        if detail is not None:
            for one in range(max(self._last, number - _MOST_NODES), number):
                self._by_number[one] = detail
        self._last = number

    def _of_compiled_autograd(self, frame: FrameType | None) -> Detail | None:
        """By the line of the program that compiled autograd wrote, which runs as it stands."""
        while frame is not None and not compile_seams.is_generated_program(frame.f_code):
            frame = frame.f_back
        if frame is None:
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        stack = self._named(line.partition("=")[0].partition(":")[0].strip())
        if stack is None:
            return None
        node = compile_seams.node_of_compiled_autograd(stack)
        accumulates = "AccumulateGrad" in line
        return Detail(stack, {}, True, bool(node) and not accumulates, node)
