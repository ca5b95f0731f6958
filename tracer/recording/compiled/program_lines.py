"""The lines of the program behind a compiled graph: fresh ones, with module paths, from the graph that dynamo made.

Dynamo reads the program anew in every process; what AOTAutograd made of it may come from a cache, and then bears the
lines of the day on which it was compiled. The two are matched by the text of the lines.
"""

from __future__ import annotations

import linecache
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

from tracer.recording.compiled.graphs.graph_text import Node, Place

_FRAME = re.compile(r'^\s*File "(?P<path>.+)", line (?P<line>\d+), in (?P<function>.+)$')
_STEP = re.compile(r"\._modules\['(?P<key>[^']+)'\]|\.(?P<name>\w+)|\[(?P<index>\d+|'[^']+')\]")
#: Steps of a path that ``named_modules()`` does not have, and the module that a compiled module wraps.
_NOT_SPELLED = ("_modules", "__dict__", "_orig_mod")
#: The module that compiled autograd makes of a whole backward pass.
_OF_COMPILED_AUTOGRAD = "CompiledAutograd"


class Frame(NamedTuple):
    """One line of a stack."""

    path: str
    line: int
    function: str
    code: str


class Module(NamedTuple):
    """The module that a call was made in."""

    root: str
    """Class of the module that the path begins at; empty where it is the one whose method was compiled."""
    path: str
    """Path from there; empty for that module itself."""


class Step(NamedTuple):
    """One call of the graph that dynamo made."""

    frames: tuple[Frame, ...]
    """Outermost first."""
    module: Module | None
    is_backward: bool = False
    """Does it compute a gradient, in a graph that is not a backward's?"""
    is_of_gradient_call: bool = False
    """Is this where the gradient was asked for, as the line of its forward is not known?"""
    node: str = ""
    """Name of the autograd node that it is a part of, if known."""


#: A call that compiled autograd made, with no stack.
OF_GRADIENT_CALL = Step((), None, is_backward=True, is_of_gradient_call=True)


def read_stack(text: str | None) -> tuple[Frame, ...]:
    """The frames of a stack as torch keeps it with a call: ``File "x.py", line 3, in f``, then the line."""
    frames: list[Frame] = []
    lines = (text or "").splitlines()
    for number, line in enumerate(lines):
        match = _FRAME.match(line)
        if match is not None:
            code = lines[number + 1].strip() if number + 1 < len(lines) else ""
            if _FRAME.match(code):
                code = ""
            frames.append(Frame(match["path"], int(match["line"]), match["function"], code))
    return tuple(frames)


def read_module(stack: Any) -> Module | None:
    """The innermost of torch's ``nn_module_stack``."""
    entries = [entry for entry in (stack or {}).values() if isinstance(entry, tuple) and len(entry) == 2]
    if not entries:
        return None
    head, *steps = _dotted(str(entries[-1][0]))
    if str(getattr(entries[0][1], "__name__", entries[0][1])).startswith(_OF_COMPILED_AUTOGRAD):
        return None
    first, *above = _dotted(str(entries[0][0]))
    cls = entries[0][1]
    if head != first or above or head == "L['self']":
        return Module("", ".".join(steps))
    return Module(getattr(cls, "__name__", str(cls).rpartition(".")[2]), ".".join(steps))


def _dotted(name: str) -> tuple[str, ...]:
    """``L['self']._modules['layers'][0]`` as ``("L['self']", "layers", "0")``."""
    head = re.match(r"^[LG]\['[^']+'\]|^\w+", name)
    if head is None:
        return (name,)
    steps = [match["key"] or match["name"] or match["index"].strip("'") for match in _STEP.finditer(name, head.end())]
    return (head[0], *(step for step in steps if step not in _NOT_SPELLED))


class ProgramLines:
    """Steps of one program, and where the calls of a graph that was made of it belong."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._by_line: dict[tuple[str, str, str], list[int]] = {}
        for number, step in enumerate(steps):
            if step.frames:
                frame = step.frames[-1]
                self._by_line.setdefault((frame.path, frame.function, frame.code), []).append(number)

    def match(self, places: Iterable[Place | None], *, backwards: bool) -> list[Step | None]:
        """For each of ``places``, in the graph's order, the step that it was made of; ``None`` where none is alike.

        Where a line is met in several modules, or stands twice in a function, the order decides: calls follow each
        other as the program has them, in a backward graph the other way round.
        """
        met = list(places)
        ranks = _ranks(place for place in met if place is not None)
        steps: list[Step | None] = []
        at = len(self._steps) if backwards else -1
        for place in met:
            number = None if place is None else self._nearest(place, ranks[place], at, backwards)
            if number is None:
                steps.append(None)
                continue
            at = min(at, number) if backwards else max(at, number)
            steps.append(self._in_common(number))
        return steps

    def _in_common(self, number: int) -> Step:
        """The step; if its line makes calls in several modules, the module that contains them all."""
        step = self._steps[number]
        modules = []
        for neighbours in (range(number, len(self._steps)), range(number - 1, -1, -1)):
            for other in neighbours:
                if self._steps[other].frames != step.frames:
                    break
                modules.append(self._steps[other].module)
        if len(set(modules)) == 1:
            return step
        outermost = [module for module in modules if module is not None]
        if len(outermost) < len(modules) or len({module.root for module in outermost}) > 1:
            return step._replace(module=None)
        parts = []
        for names in zip(*(module.path.split(".") for module in outermost), strict=False):
            if len(set(names)) > 1:
                break
            parts.append(names[0])
        return step._replace(module=Module(outermost[0].root, ".".join(parts)))

    def _nearest(self, place: Place, rank: tuple[int, int], at: int, backwards: bool) -> int | None:
        candidates = self._by_line.get((place.path, place.function, place.code), ())
        lines = sorted({self._steps[number].frames[-1].line for number in candidates})
        if len(lines) > 1:
            # The same text at several lines of one function: the first of then is the first of now.
            exact = place.line in lines and rank[1] != len(lines)
            line = place.line if exact else lines[min(rank[0], len(lines) - 1)]
            candidates = [number for number in candidates if self._steps[number].frames[-1].line == line]
        if not candidates:
            return None
        if backwards:
            return next((number for number in reversed(candidates) if number <= at), candidates[0])
        return next((number for number in candidates if number >= at), candidates[-1])


def with_neighbours(
    nodes: Sequence[Node], steps: Sequence[Step | None], forward: Mapping[str, tuple[str, Step | None]]
) -> list[Step | None]:
    """``steps``, with one for calls that torch's own rewriting of a graph put in, which bear no line.

    A backward op belongs to the forward op whose results it takes (``forward``: its ops and steps by name); any other
    to the call that it was put in for, or else to the one whose result it takes.
    """
    filled = list(steps)
    by_name = {node.name: number for number, node in enumerate(nodes)}
    for number, node in enumerate(nodes):
        base = node.op.partition(".")[2].partition(".")[0]
        if filled[number] is None and base.endswith("_backward"):
            met = (forward[name] for name in node.reads if name in forward)
            whose = base.removesuffix("_backward")
            filled[number] = next((step for op, step in met if op.split(".")[1:2] == [whose] and step), None)
    for number in range(len(nodes) - 1, -1, -1):
        for name in nodes[number].reads:
            read = by_name.get(name)
            if read is not None and filled[read] is None and filled[number] is not None:
                filled[read] = filled[number]
    for number, node in enumerate(nodes):
        if filled[number] is None:
            read_steps = (filled[by_name[name]] for name in node.reads if name in by_name)
            filled[number] = next((step for step in read_steps if step is not None), None)
    return filled


def _ranks(places: Iterable[Place]) -> dict[Place, tuple[int, int]]:
    """Of each place: which it is of the lines of one function that have its text, and how many there are."""
    lines: dict[tuple[str, str, str], set[int]] = {}
    distinct: set[Place] = set(places)
    for place in distinct:
        lines.setdefault((place.path, place.function, place.code), set()).add(place.line)
    ranks = {}
    for place in distinct:
        ordered = sorted(lines[(place.path, place.function, place.code)])
        ranks[place] = (ordered.index(place.line), len(ordered))
    return ranks


#: Files that are longer are not read again.
_MOST_LINES = 50_000


class FunctionNames:
    """What functions are called in full, ``Net.forward``, where a stack that was kept as text says ``forward``.

    An eager call bears the qualified name that its code object has. The text of a file is compiled once more, and never
    run, to have the same names, those of nested functions and lambdas too.
    """

    def __init__(self) -> None:
        self._files: dict[str, dict[tuple[str, int], str]] = {}

    def name_at(self, path: str, line: int, function: str) -> str:
        """The qualified name of the ``function`` that has ``line``; ``function`` where the file does not tell."""
        names = self._files.get(path)
        if names is None:
            names = self._files[path] = _read(path)
        return names.get((function, line), function)


def _read(path: str) -> dict[tuple[str, int], str]:
    if sys.version_info < (3, 11):
        return {}  # there, code objects do not know it, and eager calls bear the plain name, too
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
        for code in _codes(whole)
        for _, _, line in code.co_lines()
        if line is not None
    }


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
