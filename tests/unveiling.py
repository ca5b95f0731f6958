"""Modules that are loaded and yet not there: a process that has torch in memory looks as if it had not imported it.

A server loads what scripts import, hides it, and forks. In the child an ``import`` brings a module back, and the
modules that its first import had loaded, one by one, through the finders and loaders that any import goes through: who
waits for an import of torch is told when the script's line runs.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Veil:
    """What was loaded, which of it each module's import brought along, and the way back."""

    def __init__(self) -> None:
        self._needs: dict[str, dict[str, None]] = {}
        """A module -> what it imported as it loaded, in that order; once it is hidden, of that what is hidden too."""
        self.hidden: dict[str, ModuleType] = {}
        self._put_there: dict[str, list[str]] = {}
        """What a module's code put into ``sys.modules`` itself: the parts of a C extension."""
        self._parts: frozenset[str] = frozenset()
        """All of those."""
        self._whole: dict[str, tuple[str, ...]] = {}
        """A library -> all that its import brings along, in that order, but what its package's import did: a child that
        walks the needs copies memory."""
        self._unset: set[str] = set()
        """Those that their package has no attribute of until they are imported."""

    def load(self, names: Iterable[str]) -> None:
        """Import ``names`` and note what each module imports as it loads."""
        noting = _Noting(self._needs)
        plain = builtins.__import__

        def noted(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> ModuleType:
            module = plain(name, globals, locals, fromlist, level)
            if noting.loading:
                package = (globals or {}).get("__package__") or (globals or {}).get("__name__", "")
                whole = importlib.util.resolve_name("." * level + name, package) if level else name
                inner = (f"{whole}.{one}" for one in fromlist or ())
                self._needs[noting.loading[-1]].update(dict.fromkeys((whole, *inner)))
            return module

        sys.meta_path.insert(0, noting)
        builtins.__import__ = noted
        try:
            for name in names:
                importlib.import_module(name)
        finally:
            builtins.__import__ = plain
            sys.meta_path.remove(noting)

    def draw(self, *libraries: str) -> None:
        """Hide ``libraries``, and each module whose import loads one of them."""
        found = {name for name in sys.modules if name.partition(".")[0] in libraries}
        grown = 0
        while grown != len(found):
            grown = len(found)
            found |= {name for name, needs in self._needs.items() if not found.isdisjoint(needs)}
        self.hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name in found}
        self._parts = frozenset(name for name in self.hidden if name not in self._needs)
        for name in [one for one in self.hidden if one in self._parts]:
            package = name.rpartition(".")[0]
            while package and package not in self._needs:
                package = package.rpartition(".")[0]
            self._put_there.setdefault(package, []).append(name)
        for name in self.hidden:
            self._needs[name] = {one: None for one in self._needs.get(name, ()) if one in self.hidden}
        for name in libraries:
            if name in self.hidden:
                known = dict.fromkeys(self._whole.get(name.rpartition(".")[0], ()))
                self._whole[name] = tuple(one for one in self._brought(name, dict(known)) if one not in known)
        comes_along = {
            name
            for library, brought in zip(self._whole, map(set, self._whole.values()), strict=True)
            for name in brought
            if name.startswith(f"{library}.") and name.rpartition(".")[0] in brought
        }
        for name in self.hidden.keys() - comes_along - self._parts:
            package, _, last = name.rpartition(".")
            parent = self.hidden.get(package) or sys.modules.get(package)
            if parent is not None and vars(parent).get(last) is self.hidden[name]:
                delattr(parent, last)  # as before it is imported; an import sets it
                self._unset.add(name)
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]

    def _brought(self, name: str, known: dict[str, None]) -> dict[str, None]:
        """``name`` and what its import brings along, behind what is ``known``."""
        package = name.rpartition(".")[0]
        if package in self.hidden and package not in known:
            self._brought(package, known)
        if name not in known:
            known[name] = None
            known.update(dict.fromkeys(self._put_there.get(name, ())))
            for needed in self._needs[name]:
                if needed not in known:
                    self._brought(needed, known)
        return known

    def forget(self, package: str) -> None:
        """Have ``package`` load anew, from its files."""
        for known in (self.hidden, sys.modules):
            for name in [one for one in known if one == package or one.startswith(f"{package}.")]:
                del known[name]

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As a finder: the hidden module of this name."""
        module = self.hidden.get(name)
        if module is None:
            return None
        true = module.__spec__
        spec = ModuleSpec(name, _Revealing(module, self._reveal), origin=true and true.origin)
        spec.submodule_search_locations = true and true.submodule_search_locations
        return spec

    def _reveal(self, name: str) -> None:
        """``name`` is back: so must be what its import had loaded."""
        self.hidden.pop(name, None)
        whole = self._whole.get(name, ())
        for needed in whole or (*self._put_there.get(name, ()), *self._needs.get(name, ())):
            if needed in self.hidden:
                self._import(needed, alone=bool(whole))

    def _import(self, name: str, *, alone: bool = False) -> None:
        """As an import does, in a tenth of its time: there are some fifteen hundred in ``import torch``.

        ``alone``: what it brings along is the caller's to import.
        """
        package, _, last = name.rpartition(".")
        if name in self._parts or last.startswith("test_"):  # pytest in a child would load such a file by itself
            sys.modules[name] = self.hidden.pop(name)
            return
        if package in self.hidden:
            self._import(package)
        module, parent = self.hidden.get(name), sys.modules.get(package)
        if module is None or name in sys.modules or (package and parent is None):
            return  # its package brought it, or the program forbids it
        path = getattr(parent, "__path__", None)
        for finder in sys.meta_path[: sys.meta_path.index(self)]:  # type: ignore[arg-type]
            spec = finder.find_spec(name, path)
            if spec is not None and spec.loader is not None:
                sys.modules[name] = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                break
        else:
            sys.modules[name] = module
            if alone:
                del self.hidden[name]
            else:
                self._reveal(name)
        if name in self._unset:
            setattr(parent, last, module)


class _Noting(MetaPathFinder):
    """Keeps a stack of the modules whose code runs."""

    def __init__(self, needs: dict[str, dict[str, None]]) -> None:
        self.loading: list[str] = []
        self._needs = needs
        self._asking: set[str] = set()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name in self._asking or name.partition(".")[0] in sys.stdlib_module_names:
            return None
        if self.loading:
            self._needs[self.loading[-1]][name] = None
        self._asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.remove(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._watch(spec.loader, name)
        return spec

    def _watch(self, loader: Any, name: str) -> None:
        plain = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loader.__dict__.pop("exec_module", None)
            self._needs.setdefault(name, {})
            self.loading.append(name)
            try:
                plain(module)
            finally:
                self.loading.pop()

        loader.__dict__["exec_module"] = exec_module


class _Revealing(Loader):
    """Hands a hidden module out as if its code had just run."""

    def __init__(self, module: ModuleType, reveal: Any) -> None:
        self._module = module
        self._spec = module.__spec__
        self._reveal = reveal

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__spec__"] = self._spec  # torch has modules that refuse to be set things
        self._reveal(module.__name__)
