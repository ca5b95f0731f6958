"""Where the result of a call goes, as the program's text has it: into a pause, a name, a log, or on to anything else.

A number that is drawn for the pause before a retry, or for a run's name, makes no two trainings differ. Only what the
text shows to end there, in the function that draws it, counts so; all else may reach a tensor.
"""

from __future__ import annotations

import ast
import functools
from types import CodeType, FrameType

from tracer.recording.program_text.source_tree import call_of, called_name, function_of, tree_of

#: Expressions and assignments that are followed, at most.
_DEPTH = 16
_KEPT = 1024
#: What is called with it and takes no number from it: pauses, output, logs, names of files.
_SINKS = frozenset(
    {
        *("sleep", "print", "debug", "info", "warning", "error", "critical", "exception"),
        *("makedirs", "mkdir", "touch", "save", "savez", "dump", "write_text", "SummaryWriter"),
    }
)
#: What gives it on, as a number or as text.
_PASSES_ON = frozenset({"str", "repr", "format", "int", "float", "round", "abs", "min", "max", "hex", "Path", "join"})
#: Methods whose result is followed: draws of a generator, parts of a text.
_METHODS = frozenset(
    {
        *("random", "uniform", "randint", "randrange", "choice", "expovariate", "gauss", "normalvariate", "triangular"),
        *("integers", "normal", "exponential", "hex", "format", "upper", "lower", "strip", "replace", "zfill"),
    }
)

_known: dict[tuple[CodeType, int], bool] = {}


def ends_aside(frame: FrameType | None) -> bool:
    """Return whether the result of the call that ``frame`` is making ends in a pause, a name or a log."""
    if frame is None:
        return False
    key = frame.f_code, frame.f_lasti
    if key not in _known:
        if len(_known) >= _KEPT:
            _known.clear()
        call = call_of(frame)
        try:
            _known[key] = call is not None and _Following(frame).is_aside(call, 0)
        except (RecursionError, ValueError, AttributeError, TypeError):  # code that was generated at run time
            _known[key] = False
    return _known[key]


@functools.lru_cache(maxsize=16)
def _parents(filename: str) -> dict[ast.AST, ast.AST]:
    tree = tree_of(filename)
    nodes = ast.walk(tree) if tree is not None else ()
    return {child: node for node in nodes for child in ast.iter_child_nodes(node)}


class _Following:
    """Follows values through one function, or through a whole file where a module's own code draws."""

    def __init__(self, frame: FrameType) -> None:
        code = frame.f_code
        self._parents = _parents(code.co_filename)
        self._tree = tree_of(code.co_filename) or ast.Module([], [])
        function = function_of(code)
        self._scope: ast.AST = function or self._tree
        self._is_seen_elsewhere = function is None and frame.f_globals.get("__name__") != "__main__"
        """Whether another module may read the names that are assigned here."""

    def is_aside(self, node: ast.AST, depth: int) -> bool:
        """Return whether the value of ``node`` ends aside: in a pause, a name or a log."""
        parent = self._parents.get(node)
        if depth > _DEPTH or parent is None:
            return False
        if isinstance(parent, (ast.FormattedValue, ast.JoinedStr, ast.BinOp, ast.UnaryOp, ast.Starred)):
            return self.is_aside(parent, depth + 1)
        if isinstance(parent, ast.keyword):
            return self._is_taken_aside(self._parents[parent], depth)
        if isinstance(parent, ast.Call):
            return self._is_taken_aside(parent, depth)
        if isinstance(parent, ast.Subscript) and parent.value is node:
            return self.is_aside(parent, depth + 1)
        if isinstance(parent, ast.Attribute) and parent.attr in _METHODS:
            call = self._parents.get(parent)
            is_called = isinstance(call, ast.Call) and call.func is parent
            return self.is_aside(call if is_called and call is not None else parent, depth + 1)
        if isinstance(parent, ast.Assign):
            return all(self._is_kept_aside(target, depth) for target in parent.targets)
        return False

    def _is_taken_aside(self, call: ast.AST, depth: int) -> bool:
        """Return whether ``call`` is an argument of a call that ends it aside, or passes it on to one that does."""
        if not isinstance(call, ast.Call):
            return False
        name = called_name(call)
        return name in _SINKS or (name in _PASSES_ON and self.is_aside(call, depth + 1))

    def _is_kept_aside(self, target: ast.expr, depth: int) -> bool:
        """Return whether every use of the name, or private attribute, that it is assigned to ends aside."""
        uses: list[ast.Name | ast.Attribute] = []
        if isinstance(target, ast.Name):
            outside = (node for node in ast.walk(self._scope) if isinstance(node, (ast.Global, ast.Nonlocal)))
            if self._is_seen_elsewhere or any(target.id in node.names for node in outside):
                return False
            uses += (node for node in ast.walk(self._scope) if isinstance(node, ast.Name) and node.id == target.id)
        elif isinstance(target, ast.Attribute) and target.attr.startswith("_"):
            nodes = ast.walk(self._tree)
            uses += (node for node in nodes if isinstance(node, ast.Attribute) and node.attr == target.attr)
        loads = [use for use in uses if isinstance(use.ctx, ast.Load)]
        return bool(loads) and all(self.is_aside(use, depth + 1) for use in loads)
