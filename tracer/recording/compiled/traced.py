"""The program's line behind each call that AOTAutograd traces, for gradients computed inside compiled code.

AOTAutograd links the calls of a backward graph to their forward. It does not link those of `torch.func.grad`, `vjp`
and `jacrev`: they all stand at the line that asks for the gradient. Autograd's numbers link them as they link eager
calls: nodes made between two calls belong to the later call, and a call that is traced while a node is evaluated
belongs to that node's call. Compiled autograd runs a graph that torch wrote as a program: the program's line names the
node, whose stack is the forward's if the forward was compiled too.

The backward of a branch of ``torch.cond`` is traced several times, the first time by autograd's numbers; later calls
name the earlier ones.

The result is stored in the call's ``meta``, which graph passes preserve and cache keys ignore. Code from a cache is
not traced, so it has none of this.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from tracer.recording.origin.sites import is_torchs_own
from tracer.recording.origin.stacks import MADE_FOR, read_module, read_stack, stacks_by_line
from tracer.recording.torch_private import compile_seams, seams

if TYPE_CHECKING:
    from tracer.recording.compiled.program_lines import Step

_STACK, _MODULES = "stack_trace", "nn_module_stack"
_MOST_NODES = 1000
#: Runs the graph that is traced, call by call.
_INTERPRETER = os.path.join("torch", "fx", "interpreter.py")
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


class Detail(msgspec.Struct, frozen=True):
    """The stack and modules in a call's ``meta``, as strings."""

    stack: str | None
    modules: dict[str, tuple[str, str]]
    is_backward: bool = False
    """Whether it computes a gradient, in a graph other than a backward."""
    is_of_gradient_call: bool = False
    """Whether it is the stack of the line that asked for the gradient."""
    node: str = ""
    """Name of the autograd node being evaluated, if only the name is known."""
    is_in_backward: bool = False
    """Whether the program's own code makes it in the backward pass."""

    @property
    def step(self) -> Step:
        """The same, parsed."""
        from tracer.recording.compiled.program_lines import Step  # when a trace is built

        return Step(
            read_stack(self.stack),
            read_module(self.modules),
            self.is_backward,
            self.is_of_gradient_call,
            self.node,
            self.is_in_backward,
        )


def detail_of(meta: dict[str, Any]) -> Detail:
    """The detail of a call with this ``meta``."""
    detail = meta.get(MADE_FOR)
    if isinstance(detail, Detail):
        return detail
    asks = _asks(meta.get("source_fn_stack")) or _asks(meta.get("fwd_source_fn_stack"))
    return Detail(meta.get(_STACK), module_names(meta.get(_MODULES) or meta.get(f"fwd_{_MODULES}")), asks, asks)


def module_names(stack: Any) -> dict[str, tuple[str, str]]:
    """A module stack with names instead of classes, which it would keep alive."""
    entries = ((key, entry) for key, entry in (stack or {}).items() if isinstance(entry, tuple) and len(entry) == 2)
    return {str(key): (str(name), getattr(cls, "__name__", str(cls))) for key, (name, cls) in entries}


def asks_for_gradient(target: Any) -> bool:
    """Return whether ``target`` is the function that dynamo inserts where the program asks for gradients."""
    return getattr(target, "__name__", "") == "_autograd_grad"


def _asks(stack: Any) -> bool:
    return bool(stack) and asks_for_gradient(stack[-1][1])


class TracedCalls:
    """The calls of one program while AOTAutograd traces it. ``stack_of`` returns the stack of a call by its name."""

    def __init__(self, stack_of: Callable[[str], str | None]) -> None:
        self._stack_of = stack_of
        self._by_number: dict[int, Detail] = {}
        self._of_earlier: dict[tuple[int, str], Detail] = {}
        """Details of calls in graphs that are traced again, by the graph and the call's name."""
        self._last = seams.next_sequence_number()

    def traced(self, node: Any, frame: FrameType | None) -> None:
        """``frame`` added a call to the graph."""
        meta = node.meta
        current = seams.current_node()
        if current is not None:
            detail = self._by_number.get(current._sequence_nr())
            own = self._own_stack(meta, frame)
            if own is not None:
                modules = detail.modules if detail is not None else {}
                meta[MADE_FOR] = detail = Detail(own, modules, is_backward=True, is_in_backward=True)
            elif detail is not None and (detail.is_backward or meta.get("source_fn_stack")):
                meta[MADE_FOR] = detail = msgspec.structs.replace(detail, is_backward=True)
        else:
            if _STACK not in meta and (of_backward := self._of_compiled_autograd(frame)) is not None:
                meta[MADE_FOR] = of_backward
            detail = Detail(meta.get(_STACK), module_names(meta.get(_MODULES)))
            body = self._stack_of_body(meta, frame)
            if body:
                meta[MADE_FOR] = detail = msgspec.structs.replace(detail, stack=body)
            elif _asks(meta.get("source_fn_stack")):
                meta[MADE_FOR] = detail  # the gradient's initial value: no node computes it, so this is its line
        if MADE_FOR not in meta and current is not None:
            for earlier in compile_seams.traced_from(meta):
                if earlier in self._of_earlier:
                    meta[MADE_FOR] = self._of_earlier[earlier]
        if MADE_FOR in meta:
            self._of_earlier[id(node.graph), node.name] = meta[MADE_FOR]
        number = seams.next_sequence_number()
        if detail is not None:
            self._by_number.update(dict.fromkeys(range(max(self._last, number - _MOST_NODES), number), detail))
        self._last = number

    @staticmethod
    def _own_stack(meta: dict[str, Any], frame: FrameType | None) -> str | None:
        """The stack of a call made by a hook or by a custom function's backward; ``None`` for other calls.

        Dynamo keeps both as graphs, with stacks: each call of a function's backward has its own, a hook's graph runs
        as a program.
        """
        if meta.get("source_fn_stack"):
            return None if _asks(meta["source_fn_stack"]) else meta.get(_STACK)
        while frame is not None and not compile_seams.is_generated_program(frame.f_code):
            frame = frame.f_back
        kept = stacks_by_line(frame).get(frame.f_lineno) if frame is not None else None
        return None if kept is None else kept.stack

    @staticmethod
    def _stack_of_body(meta: dict[str, Any], frame: FrameType | None) -> str:
        """The stack of a call made by the Python of an op that is traced through; empty for other calls."""
        frames: list[str] = []
        while frame is not None and meta.get(_STACK):
            path, line = frame.f_code.co_filename, frame.f_lineno
            if path.endswith(_INTERPRETER):
                return "".join((meta[_STACK], "\n", *reversed(frames))) if frames else ""
            if not is_torchs_own(path) and not path.startswith(("<", _OWN)):
                text = linecache.getline(path, line).strip()
                frames.append(f'  File "{path}", line {line}, in {frame.f_code.co_name}\n    {text}\n')
            frame = frame.f_back
        return ""

    def _of_compiled_autograd(self, frame: FrameType | None) -> Detail | None:
        """The detail of a call made by the program of compiled autograd; ``None`` for other calls."""
        while frame is not None and not compile_seams.is_generated_program(frame.f_code):
            frame = frame.f_back
        if frame is None:
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        stack = self._stack_of(line.partition("=")[0].partition(":")[0].strip())
        if stack is None:
            return None
        node = compile_seams.node_of_compiled_autograd(stack)
        return Detail(stack, {}, True, bool(node) and "AccumulateGrad" not in line, node)
