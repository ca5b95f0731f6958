"""The program's line behind each call that AOTAutograd traces, for gradients computed inside compiled code.

AOTAutograd links the calls of a backward graph to their forward, but not those of `torch.func.grad`, `vjp` and
`jacrev`. Autograd's numbers link them as they link eager calls: nodes made between two calls belong to the later call,
and a call that is traced while a node is evaluated belongs to that node's call. A branch of ``torch.cond`` is traced
several times, the first time by these numbers; later calls name the earlier ones. Compiled autograd runs a graph as a
program, whose line names the node.

The result lies in the call's ``meta``, which graph passes preserve and cache keys ignore. Code from a cache is not
traced, so it has none of this.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Mapping
from types import FrameType
from typing import Any

from tracer.recording.origin.sites import (
    MADE_FOR,
    Frame,
    Step,
    is_torchs_own,
    is_tracers_own,
    outwards,
    stacks_by_line,
    step_of,
)
from tracer.recording.torch_private import compile_seams, seams

_MOST_NODES = 1000
#: Runs the graph that is traced, call by call.
_INTERPRETER = os.path.join("torch", "fx", "interpreter.py")


class TracedCalls:
    """The calls of one program while AOTAutograd traces it. ``steps``: those of dynamo's graph, by name."""

    def __init__(self, steps: Mapping[str, Step]) -> None:
        self._steps = steps
        self._by_number: dict[int, Step] = {}
        self._earlier: dict[tuple[int, str], Step] = {}
        """Steps of calls in graphs that are traced again, by the graph and the call's name."""
        self._last = seams.next_sequence_number()

    def traced(self, node: Any, frame: FrameType) -> None:
        """``frame`` added a call to the graph."""
        current, plain = seams.current_node(), step_of(node)
        step: Step | None
        made_for: Step | None = None
        if current is None:
            step, made_for = self._of_call(plain, frame)
        else:
            has_source = bool(node.meta.get("source_fn_stack"))
            step = self._by_number.get(current._sequence_nr())
            # Dynamo keeps a hook as a graph, which runs as a program, and a function's backward as calls with sources.
            own = () if plain.is_backward else plain.frames if has_source else _frames_of_program(frame)
            if own:
                module = step.module if step is not None else None
                made_for = step = Step(own, module, is_backward=True, is_in_backward=True)
            elif step is not None and (step.is_backward or has_source):
                made_for = step = step._replace(is_backward=True)
            else:
                for earlier in compile_seams.traced_from(node.meta):
                    made_for = self._earlier.get(earlier, made_for)
        if made_for is not None:
            node.meta[MADE_FOR] = self._earlier[id(node.graph), node.name] = made_for
        number = seams.next_sequence_number()
        if step is not None:
            self._by_number.update(dict.fromkeys(range(max(self._last, number - _MOST_NODES), number), step))
        self._last = number

    def _of_call(self, step: Step, frame: FrameType) -> tuple[Step, Step | None]:
        """The step of a call that no node makes, and the same if it is not the one that torch keeps."""
        asks, step = step.is_backward, step._replace(is_backward=False, forward_unknown=False)
        if not step.frames:
            return step, self._of_compiled_autograd(frame)
        if body := _frames_of_body(frame):
            step = step._replace(frames=(*step.frames, *body))
        # The gradient's initial value is asked for: no node computes it, so this is its line.
        return step, step if asks or body else None

    def _of_compiled_autograd(self, frame: FrameType) -> Step | None:
        """The step of a call made by the program of compiled autograd; ``None`` for other calls."""
        program = _program(frame)
        line = linecache.getline(program.f_code.co_filename, program.f_lineno) if program is not None else ""
        step = self._steps.get(line.partition("=")[0].partition(":")[0].strip())
        if step is None:
            return None
        origins = (origin.code for origin in step.frames if origin.function == compile_seams.NODE_ORIGIN)
        node = next(origins, "").partition(compile_seams.NODE_CALL)[0]
        return Step(step.frames, None, True, bool(node) and "AccumulateGrad" not in line, node)


def _program(frame: FrameType) -> FrameType | None:
    """The innermost frame that runs a graph as a program."""
    return next((one for one in outwards(frame) if compile_seams.is_generated_program(one.f_code)), None)


def _frames_of_program(frame: FrameType) -> tuple[Frame, ...]:
    """The frames kept with the line of the graph that runs as a program at ``frame``; none of other code."""
    program = _program(frame)
    kept = stacks_by_line(program).get(program.f_lineno) if program is not None else None
    return kept.frames if kept is not None else ()


def _frames_of_body(frame: FrameType) -> tuple[Frame, ...]:
    """The frames of the Python of an op that is traced through; none for other calls."""
    frames: list[Frame] = []
    for walked in outwards(frame):
        path, line = walked.f_code.co_filename, walked.f_lineno
        if path.endswith(_INTERPRETER):
            return tuple(reversed(frames))
        if not (is_torchs_own(path) or is_tracers_own(path) or path.startswith("<")):
            frames.append(Frame(path, line, walked.f_code.co_name, linecache.getline(path, line).strip()))
    return ()
