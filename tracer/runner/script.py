"""Finds what ``python SCRIPT`` or ``python -m MODULE`` would run, and sets up as Python does.

The rules are those of Python's own start-up (``Modules/main.c``, ``runpy``), checked against it in the tests:
``sys.argv``, ``sys.path[0]`` and every name that ``__main__`` has before its first line.
"""

from __future__ import annotations

import builtins
import itertools
import linecache
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from importlib.util import find_spec
from pathlib import Path
from pkgutil import get_importer
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from tracer.errors import UsageError

if TYPE_CHECKING:
    from tracer.trace import Trace


#: What loaders raise for what is no Python code.
_NOT_CODE = (SyntaxError, ImportError, EOFError, ValueError, RecursionError, MemoryError)


class Script(msgspec.Struct, frozen=True):
    code: CodeType
    main: ModuleType
    """The module that becomes ``__main__``, with the names that Python gives it and no others."""


def prepare(target: str, args: Sequence[str], *, as_module: bool) -> Script:
    """Set ``sys.argv``, ``sys.path[0]`` and ``__main__`` for ``target`` and return the program.

    ``target`` is a file, a folder or zip file with a ``__main__.py``, or, ``as_module``, a module's name.
    Raises ``UsageError`` where Python would find nothing to run. Finding a module imports its parent
    packages; what they raise is the user's and comes through.
    """
    if as_module:
        return _prepare_module(target, args)
    sys.argv[:] = [target, *args]
    if not os.path.exists(target):
        raise UsageError(f"there is no script {target}", hint="name a Python file, or a module after -m")
    path = os.path.join(os.getcwd(), target)
    if get_importer(path) is not None:  # a folder or a zip file, which comes first on the path, whatever the flags
        path = os.path.abspath(path) if target == "." else path
        spec = PathFinder.find_spec("__main__", [path])
        if spec is None:
            raise UsageError(f"{target} has no __main__.py", hint="name a Python file inside")
        _set_first_path(path, always=True)
        return _from_spec(target, spec)
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    loader: SourceFileLoader | SourcelessFileLoader
    try:
        if path.endswith(".pyc"):
            loader = SourcelessFileLoader("__main__", path)
            code = loader.get_code("__main__")
        else:
            loader = SourceFileLoader("__main__", path)
            code = loader.source_to_code(loader.get_data(path), path)
    except OSError as problem:
        raise UsageError(f"cannot read {target}: {problem.strerror}", hint="check its permissions") from problem
    except _NOT_CODE as problem:
        raise _not_python(target, problem) from problem
    return _script(target, code, loader, path, None)


def _prepare_module(name: str, args: Sequence[str]) -> Script:
    if name.endswith(".py") and os.path.isfile(name):
        raise UsageError(f"-m takes a module, and {name} is a file", hint="leave out -m")
    sys.argv[:] = ["-m", *args]
    _set_first_path(os.getcwd())
    spec = _find_module(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _find_module(f"{name}.__main__")
        if spec is None:
            raise UsageError(f"package {name} has no __main__ module", hint=f"name a module inside {name}")
    if spec is None:
        raise UsageError(f"there is no module {name}", hint="check the name and the working directory")
    script = _from_spec(name, spec)
    sys.argv[0] = str(spec.origin)
    return script


def _find_module(name: str) -> ModuleSpec | None:
    """The module's spec; errors of a parent package that are not about the name itself propagate."""
    try:
        return find_spec(name)
    except ImportError as problem:
        missing = problem.name
        if missing and missing != name and not name.startswith(missing + "."):
            raise
        return None
    except (ValueError, TypeError, AttributeError):
        return None


def _from_spec(target: str, spec: ModuleSpec) -> Script:
    get_code = getattr(spec.loader, "get_code", None)
    try:
        code = get_code(spec.name) if get_code else None
    except _NOT_CODE as problem:
        raise _not_python(target, problem) from problem
    script = _script(target, code, spec.loader, spec.origin, spec.cached)
    script.main.__spec__ = spec
    script.main.__package__ = spec.parent
    return script


def _script(target: str, code: CodeType | None, loader: Any, file: str | None, cached: str | None) -> Script:
    """``code`` with a fresh ``__main__`` module, which has the names that Python gives it."""
    if code is None:
        raise UsageError(f"{target} holds no Python code", hint="name a file or a module that is written in Python")
    main = ModuleType("__main__")
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    vars(main)["__builtins__"] = builtins
    main.__loader__ = loader
    if file is not None:
        main.__file__ = file
    if sys.version_info < (3, 15):
        vars(main)["__cached__"] = cached
    sys.modules["__main__"] = main
    return Script(code, main)


def _set_first_path(entry: str, *, always: bool = False) -> None:
    """Put ``entry`` in place of this program's folder, unless Python adds none (``-P``, ``-I``)."""
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        if always:
            sys.path.insert(0, entry)
    elif sys.path:
        sys.path[0] = entry


def _not_python(target: str, problem: BaseException) -> UsageError:
    where = f"line {problem.lineno}: {problem.msg}" if isinstance(problem, SyntaxError) else str(problem)
    return UsageError(f"{target} is not Python: {where}", hint="name a Python file")


# --- which optimizer steps of it are recorded: ``A:B``, as in a Python slice


_SPELLING = r"(\d+)|(\d*):(\d*)"
_HINT = "write A:B, A:, :B or N, counted from 0, as in --steps 0:1 for the first step"


class WindowComplete(SystemExit):
    """Ends the script after the last requested step; the exit code is 0.

    A ``SystemExit``, so that the script's ``finally`` blocks run and its ``except Exception`` does not.
    """


class StepRange(msgspec.Struct, frozen=True):
    """Optimizer steps from ``start`` up to but excluding ``stop``; everything by default."""

    start: int = 0
    stop: int | None = None
    """``None``: until the script ends."""

    @classmethod
    def parse(cls, text: str) -> StepRange:
        """Read ``A:B``, ``A:``, ``:B`` or a single ``N``. Raises ``UsageError`` for anything else."""
        match = re.fullmatch(_SPELLING, text.strip(), re.ASCII)
        if match is None:
            raise UsageError(f"--steps {text!r} names no steps", hint=_HINT)
        single, first, last = match.groups()
        if single is not None:
            return cls(int(single), int(single) + 1)
        steps = cls(int(first or 0), int(last) if last else None)
        if steps.stop is not None and steps.stop <= steps.start:
            raise UsageError(f"--steps {text!r} is empty: B must be larger than A", hint=_HINT)
        return steps

    def __str__(self) -> str:
        return f"{self.start}:{'' if self.stop is None else self.stop}"

    def missed(self, finished: int) -> str:
        """Return why a run of ``finished`` optimizer steps did not fill the window; empty if it did."""
        last = self.start if self.stop is None else self.stop
        if finished >= last:
            return ""
        return f"the script ended after {finished} optimizer step{'s' * (finished != 1)}, before {self} was over"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    target: str
    args: tuple[str, ...] = ()
    as_module: bool = False
    steps: StepRange = StepRange()
    exit_after_steps: bool = False
    ends_before: int | None = None
    """The optimizer step that is not made any more: the script ends as it begins."""


# --- the text of lines that findings can name, read after a recording: kept only on request, as traces are attached to
# --- public tickets; of files outside the working directory, installed packages among them, never


#: Lines kept, and characters of one.
MOST_LINES = 5_000
LONGEST = 200
#: Lines before and after one that is shown with its neighbours.
AROUND = 2
INSTALLED = {"site-packages", "dist-packages"}


def source_lines(trace: Trace, folder: str) -> dict[str, str]:
    """The source lines of ``trace`` in files below ``folder``, by ``path:line``; at most ``MOST_LINES``."""
    texts = texts_of(_places(trace), folder)
    return dict(itertools.islice(texts.items(), MOST_LINES))


def source_at_hand(trace: Trace, folder: str, recorded: float) -> dict[str, str]:
    """``source_lines`` of Python files that did not change after the time ``recorded``; the trace's own come first."""
    lines = dict.fromkeys(filter(None, _places(trace)))
    files = {file: Path(folder, file) for file in {place.rpartition(":")[0] for place in lines} if file.endswith(".py")}
    same = {file for file, path in files.items() if path.is_file() and path.stat().st_mtime <= recorded}
    texts = texts_of((place for place in lines if place.rpartition(":")[0] in same), folder)
    return {**dict(itertools.islice(texts.items(), MOST_LINES)), **trace.source_lines}


def with_neighbours(places: Iterable[str], folder: str) -> dict[str, str]:
    """By location: its line, marked, with the lines before and after it; files outside ``folder`` are not read."""
    root = Path(folder).resolve()
    shown: dict[str, str] = {}
    for place in texts_of(places, folder):
        file, middle = _named(root, place)
        shown[place] = "\n".join(
            f"{'>' if line == middle else ' '} {line:>5}  {text.rstrip()[:LONGEST]}"
            for line in range(max(1, middle - AROUND), middle + AROUND + 1)
            if (text := linecache.getline(file, line))
        )
    return shown


def texts_of(places: Iterable[str], folder: str) -> dict[str, str]:
    """By location: the text of its line; files outside ``folder`` are not read."""
    root = Path(folder).resolve()
    texts = {place: linecache.getline(*_named(root, place)).strip()[:LONGEST] for place in dict.fromkeys(places)}
    return {place: text for place, text in texts.items() if text}


def _places(trace: Trace) -> Iterator[str]:
    """Every ``path:line`` that a finding can have, the user's own frame before a library's."""
    for groups in (
        trace.calls,
        trace.events,
        trace.unwritten_reads,
        trace.overlaps,
        trace.loaders,
        trace.blind_spots,
    ):
        for group in groups:
            yield getattr(group, "called_from", "")
            yield group.location
    yield from (generator.seeded_at for generator in trace.generators)


def _named(root: Path, place: str) -> tuple[str, int]:
    """The file below ``root`` and the line that ``place`` names; none if that is not the user's own, or not there."""
    path, _, number = place.rpartition(":")
    with suppress(OSError, ValueError):
        file = (root / path).resolve()
        below = file.relative_to(root)
        if number.isdigit() and not INSTALLED.intersection(below.parts) and file.is_file():
            return str(file), int(number)
    return "", 0
