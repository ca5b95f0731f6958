"""Where a call came from: the innermost frame outside torch, and the user's own frame.

Whose code a frame runs is decided once per file. The key of a site, ``(file, first line of the function, last
instruction)``, is quick to read; a line number costs a walk over the function's line table: once per key.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import msgspec

#: ``torch/nn/modules/module.py``: passed over too, and the place where one module calls another.
MODULE_CALL = -1
#: Frames of these files are passed over: torch itself, Triton, this package, the standard library.
SKIPPED = 0
#: Installed packages: they count for ``location`` and not for ``called_from``.
LIBRARY = 1
#: Everything else.
USER = 2


def _folder_of(package: str) -> str:
    """The folder of ``package``, without importing it: variables are watched before the script imports torch."""
    spec = find_spec(package)
    return os.path.join(os.path.dirname(os.path.abspath(spec.origin)), "") if spec and spec.origin else os.devnull


_TORCH = _folder_of("torch")
_TRITON = _folder_of("triton")
_TRACER = _folder_of("tracer")
#: A bundled example is a user's code that happens to ship with the package.
_BUNDLED = os.path.join(_TRACER, "bundled", "")
_MODULE_FILE = os.path.join(_TORCH, "nn", "modules", "module.py")
#: The standard library's folder as modules name it, and without links.
_STDLIB = tuple(os.path.join(os.path.dirname(path), "") for path in (os.__file__, os.path.realpath(os.__file__)))
_SITE_MARKERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
#: Installed packages that stand in for the standard library on older versions of Python, or wrap functions like it.
_LIKE_STDLIB = ("typing_extensions", "contextlib2", "decorator", "deprecated", "wrapt")
#: Code without a file of its own.
_GENERATED = (
    *("<torch_package", "<string>", "<frozen", "<__array_function__", "<attrs ", "<timeit-src>"),
    *("<lambdifygenerated", "<decorator-gen", "<makefun-gen"),
)
#: What torch.compile calls its files, wherever its cache is: a hash.
_GENERATED_NAME = r"c[a-z2-7]{51}\.py$"
#: What torch.fx calls the files of graphs that run as programs.
_GRAPH = "<eval_with_key>"
_WALK_LIMIT = 400
#: A tensor subclass wraps every call in this: passed over, or all calls of a program would have its one line.
WRAPPER = "__torch_function__"


_FRAME = r'^\s*File "(?P<path>.+)", line (?P<line>\d+), in (?P<function>.+)$'
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
    matches = [re.match(_FRAME, line) for line in lines] + [None]
    return tuple(
        Frame(at["path"], int(at["line"]), at["function"], code.strip() if after is None else "")
        for at, after, code in zip(matches, matches[1:], (*lines[1:], ""), strict=False)
        if at is not None
    )


class GraphCall(NamedTuple):
    """One call of dynamo's graph."""

    frames: tuple[Frame, ...]
    module: Module | None
    is_backward: bool = False
    """Whether it computes a gradient, in a graph other than a backward."""
    forward_unknown: bool = False
    """Whether this is the line that asked for the gradient, because the line of its forward is not known."""


NO_STEP = GraphCall((), None)
#: A call that compiled autograd made, with no stack.
OF_GRADIENT_CALL = GraphCall((), None, is_backward=True, forward_unknown=True)


def step_of(node: Any) -> GraphCall:
    meta = node.meta
    modules = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack")
    sources = filter(None, (meta.get("source_fn_stack"), meta.get("fwd_source_fn_stack")))
    targets = (node.target, *(stack[-1][1] for stack in sources))
    # The function that dynamo inserts where the program asks for gradients.
    asks = any(getattr(target, "__name__", "") == "_autograd_grad" for target in targets)
    return GraphCall(read_stack(meta.get("stack_trace")), read_module(modules), asks, asks)


def stacks_by_line(frame: FrameType) -> dict[int, GraphCall]:
    """Of ``frame``, which runs a graph as a program: the step at each line, or before it; empty without stacks."""
    graph = getattr(frame.f_locals.get("self"), "graph", None)
    stacks = {str(node.name): step for node in getattr(graph, "nodes", ()) if (step := step_of(node)).frames}
    by_line: dict[int, GraphCall] = {}
    last: GraphCall | None = None
    for number, line in enumerate(linecache.getlines(frame.f_code.co_filename), start=1) if stacks else ():
        match = re.match(_ASSIGNMENT, line)
        last = (match is not None and stacks.get(match["name"])) or last
        if last is not None:
            by_line[number] = last
    return by_line


def with_nested(code: CodeType) -> Iterator[CodeType]:
    """``code``, and that of the functions and classes defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from with_nested(constant)


class Site(msgspec.Struct, frozen=True):
    path: str
    line: int
    function: str
    kind: int
    working_directory: str = ""
    """That of the recording: a trace spells ``path`` relative to it."""
    inside: Module | None = None
    """The module of the line, where it stands behind one of a graph that runs as a program."""


NOWHERE = Site("", 0, "", SKIPPED)


def is_torchs_own(filename: str) -> bool:
    return filename.startswith(_TORCH)


def is_tracers_own(filename: str) -> bool:
    """Return whether ``filename`` is one of this package's, and no bundled example."""
    return filename.startswith(_TRACER) and not filename.startswith(_BUNDLED)


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """``frame`` and those that called it, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def programs_frame() -> FrameType | None:
    frames = outwards(sys._getframe(1))
    return next((frame for frame in frames if not is_tracers_own(frame.f_code.co_filename)), None)


class Sites:
    """Classifies files and interns sites. ``library`` names further packages that are not the user's."""

    def __init__(self, library: Iterable[str] = ()) -> None:
        self.kinds: dict[str, int] = {}
        self._lines: dict[tuple[str, int, int], Site] = {}
        self.on_line: Callable[[], None] = lambda: None
        """Called when a line of the program makes its first call."""
        self.on_compiled: Callable[[], None] = lambda: None
        """Called once for each file that torch.compile wrote."""
        self._graphs: dict[str, dict[int, Site]] = {}
        """By the file of a graph that runs as a program: the program's lines behind its own."""
        self._library = frozenset(library)
        self.working_directory = os.getcwd()

    def kind_of(self, filename: str) -> int:
        kind = self.kinds.get(filename)
        if kind is None:
            if len(self.kinds) > 20_000:  # code generated without end
                self.kinds.clear()
            kind = self.kinds[filename] = self._classify(filename)
        return kind

    def _classify(self, filename: str) -> int:
        if filename.startswith(_TORCH):  # by far the most of those that a program imports
            return MODULE_CALL if filename == _MODULE_FILE else SKIPPED
        is_cached = filename.startswith(_GRAPH) or "torchinductor_" in filename or "/inductor_cache/" in filename
        if is_cached or re.match(_GENERATED_NAME, os.path.basename(filename)) is not None:
            self.on_compiled()
            return self._kind_of_graph(filename) if filename.startswith(_GRAPH) else SKIPPED
        path = os.path.abspath(filename)
        if filename.startswith(_GENERATED) or path.startswith((_TORCH, _TRITON)) or is_tracers_own(path):
            return MODULE_CALL if path == _MODULE_FILE else SKIPPED
        if path.startswith(_BUNDLED):
            return USER
        if installed := below_packages(path):
            top = installed.split(os.sep)[0].removesuffix(".py")
            return SKIPPED if top in ("torch", "functorch", "torchgen", *_LIKE_STDLIB) else LIBRARY
        if path.startswith(_STDLIB) or os.path.realpath(path).startswith(_STDLIB):
            return SKIPPED
        is_librarys = self._library and not self._library.isdisjoint(Path(path).with_suffix("").parts)
        return LIBRARY if is_librarys else USER

    def _kind_of_graph(self, filename: str) -> int:
        """``USER`` for a graph that runs as a program and knows the lines that it was made of."""
        frame = next((frame for frame in outwards(sys._getframe()) if frame.f_code.co_filename == filename), None)
        sites = {}
        for line, step in stacks_by_line(frame).items() if frame is not None else ():
            outside = [site for entry in step.frames if (site := self.of_stack(entry)).kind > 0]
            if outside:
                sites[line] = msgspec.structs.replace(outside[-1], inside=step.module)
        if sites:
            self._graphs[filename] = sites
        return USER if sites else SKIPPED

    def is_graph(self, filename: str) -> bool:
        """Return whether ``filename`` is a graph that runs as a program, whose lines are known."""
        return filename in self._graphs

    def of_stack(self, frame: Frame) -> Site:
        path = os.path.join(self.working_directory, frame.path)
        return Site(path, frame.line, frame.function, self.kind_of(frame.path), self.working_directory)

    def outside_torch(self, frame: FrameType | None) -> FrameType | None:
        """The innermost frame outside torch, from ``frame`` outwards."""
        kind_of = self.kind_of
        while frame is not None and (kind_of((code := frame.f_code).co_filename) <= 0 or code.co_name == WRAPPER):
            frame = frame.f_back
        return frame

    def is_outside(self, code: CodeType) -> bool:
        return self.kind_of(code.co_filename) > 0 and code.co_name != WRAPPER

    def innermost(self, frame: FrameType | None) -> Site:
        outside = self.outside_torch(frame)
        return NOWHERE if outside is None else self.at(outside)

    def is_import(self, frame: FrameType | None) -> bool:
        """Return whether a library's code runs because the library is being imported."""
        files = (walked.f_code.co_filename for walked in outwards(frame))
        kind = next((kind for file in files if (kind := self.kind_of(file)) > 0), SKIPPED)
        return kind == LIBRARY and any(file.startswith("<frozen importlib") for file in islice(files, _WALK_LIMIT))

    def location(self, frame: FrameType | None) -> str:
        """The innermost frame outside torch as a trace spells it; empty without one."""
        return spell(self.innermost(frame))

    def users_own(self, frame: FrameType | None) -> Site:
        """The innermost frame of the user's own code, from ``frame`` outwards."""
        for walked in islice(outwards(frame), _WALK_LIMIT):
            code = walked.f_code
            is_users = self.kind_of(code.co_filename) == USER and code.co_name != WRAPPER
            if is_users and code.co_filename not in self._graphs:
                return self.at(walked)
        return NOWHERE

    def at(self, frame: FrameType) -> Site:
        return self.resolve(frame.f_code, frame.f_lasti)

    def resolve(self, code: CodeType, instruction: int) -> Site:
        """The site of an instruction; worked out once per ``(file, function, instruction)``."""
        key = (code.co_filename, code.co_firstlineno, instruction)
        site = self._lines.get(key)
        if site is None:
            if len(self._lines) > 200_000:
                self._lines.clear()
            line = _line_of(code, instruction)
            if (lines := self._graphs.get(code.co_filename)) is not None:
                site = lines.get(line) or next(iter(lines.values()))
            else:
                self.on_line()
                path = os.path.join(self.working_directory, code.co_filename)
                name = getattr(code, "co_qualname", code.co_name)
                site = Site(path, line, name, self.kind_of(code.co_filename), self.working_directory)
            self._lines[key] = site
        return site


def _line_of(code: CodeType, instruction: int) -> int:
    line = code.co_firstlineno
    for start, _, number in code.co_lines():
        if start > instruction:
            break
        line = line if number is None else number
    return line


def below_packages(path: str) -> str:
    """The part of ``path`` below its package's folder: ``site-packages``, ``dist-packages``, or an entry of
    ``sys.path`` that an installer wrote it to, with a record (``pip install --target``); empty where it is of no
    package."""
    for marker in _SITE_MARKERS:
        if marker in path:
            return path.rpartition(marker)[2]
    for entry in () if path.startswith(_STDLIB) else sys.path:
        folder = os.path.join(os.path.abspath(entry), "")
        if path.startswith(folder) and path[len(folder) :].split(os.sep)[0] in _installed_in(folder):
            return path[len(folder) :]
    return ""


@cache
def _installed_in(folder: str) -> frozenset[str]:
    """The names in ``folder`` that the records of installed packages list, each up to its first slash."""
    names: set[str] = set()
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".dist-info"):
                with suppress(OSError), open(os.path.join(entry.path, "RECORD"), encoding="utf-8") as lines:
                    names.update(line.partition(",")[0].partition("/")[0] for line in lines)
    return frozenset(names)


def spell(site: Site) -> str:
    """``path:line``, relative to the working directory, else to the folder of its package, else the file's name: an
    absolute path names a user or a host; a trace must not."""
    if not site.path:
        return ""
    path = below_packages(site.path)
    if not path:
        try:
            path = os.path.relpath(site.path, site.working_directory)
        except ValueError:  # another drive
            path = os.path.basename(site.path)
        if path.startswith(os.pardir):  # below the longest entry of `sys.path` that holds it
            roots = (os.path.join(os.path.abspath(root), "") for root in sys.path if root)
            longest = max((len(root) for root in roots if site.path.startswith(root)), default=0)
            path = site.path[longest:] if longest else os.path.basename(path)
    return f"{path.replace(os.sep, '/')}:{site.line}"


def placed(site: Site, own: Site) -> dict[str, Any]:
    """The fields of a trace's ``Place``; ``own``: the user's own frame that led to ``site``, if not that one."""
    return {"location": spell(site), "function": site.function, "called_from": spell(own) if own != site else ""}
