"""Follows no lines while a library is imported: torch and what it loads call a million functions, each of them told."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class LibraryImports(MetaPathFinder):
    """Takes ``trace`` away from this thread while a module is imported that is none of the program's own.

    A module of the program's own that a library imports is traced again. ``follows`` says which files are its own.
    """

    def __init__(self, trace: Any, follows: Callable[[str], bool]) -> None:
        self._trace, self._follows = trace, follows
        self._aside: set[str] = set()
        """Modules that the other finders are asked for, and those of libraries that are being imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, or ``None`` where tracing does not change for the module."""
        is_traced = sys.gettrace() == self._trace
        if fullname in self._aside or not (is_traced or (self._aside and self._may_be_own(fullname, path))):
            return None
        self._aside.add(fullname)
        try:
            spec = find_spec(fullname)
        finally:
            self._aside.discard(fullname)
        loader, origin = getattr(spec, "loader", None), getattr(spec, "origin", None)
        if type(getattr(loader, "__dict__", None)) is dict and type(origin) is str:
            is_own = self._follows(origin)
            if is_own is not is_traced:
                self._switch(loader, fullname, self._trace if is_own else None)
        return spec

    def _may_be_own(self, fullname: str, path: Sequence[str] | None) -> bool:
        if path is None:
            return fullname not in sys.stdlib_module_names
        return any(self._follows(os.path.join(folder, "_.py")) for folder in list(path))

    def _switch(self, loader: Any, name: str, trace: Any) -> None:
        """Let the one import by ``loader`` run under ``trace``."""
        original = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loader.__dict__.pop("exec_module", None)
            before = sys.gettrace()
            if trace is None:
                self._aside.add(name)
            sys.settrace(trace)
            try:
                original(module)
            finally:
                self._aside.discard(name)
                if sys.gettrace() is trace:
                    sys.settrace(before)

        loader.__dict__["exec_module"] = exec_module
