"""Finds what ``python SCRIPT`` or ``python -m MODULE`` would run, and sets up as Python does.

The rules are those of Python's own start-up (``Modules/main.c``, ``runpy``), checked against it in the tests:
``sys.argv``, ``sys.path[0]`` and every name that ``__main__`` has before its first line.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from importlib.util import find_spec
from pkgutil import get_importer
from types import CodeType, ModuleType
from typing import Any

import msgspec

from tracer.errors import UsageError

#: What loaders raise for what is no Python code.
_NOT_CODE = (SyntaxError, ImportError, EOFError, ValueError, RecursionError, MemoryError)


class Script(msgspec.Struct, frozen=True):
    code: CodeType
    main: ModuleType
    """The module that becomes ``__main__``, with the names that Python gives it and no others."""


def prepare(target: str, args: Sequence[str], *, as_module: bool) -> Script:
    """Set ``sys.argv`` and ``sys.path[0]`` for ``target`` and return the program.

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
    if get_importer(path) is not None:
        return _prepare_folder(target, os.path.abspath(path) if target == "." else path)
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    return _prepare_file(target, path)


def _prepare_file(target: str, path: str) -> Script:
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


def _prepare_folder(target: str, path: str) -> Script:
    """A folder or a zip file with a ``__main__.py``; it comes first on the path, whatever the flags."""
    spec = PathFinder.find_spec("__main__", [path])
    if spec is None:
        raise UsageError(f"{target} has no __main__.py", hint="name a Python file inside")
    _set_first_path(path, always=True)
    return _from_spec(target, spec)


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
