"""Replaces functions of torch and other libraries for a while, and puts them back. Imports no torch.

What is placed stands for the function in every respect but its identity: it compares, hashes, binds, pickles and shows
itself as the function does, so that dictionaries, ``inspect``, ``pickle`` and torch's compiler find in it what they
would find in the function. It makes the call that it was asked for, with what it was given, and what it returns or
raises is the function's; then, or before, it tells who watches. Of one function there is one such object, whoever
watches it and wherever it is held: watches come and go in any order, and the last one puts everything back, unless
somebody else has replaced it since. In a forked child it steps aside.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import FrameType, FunctionType, GetSetDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple

Holder = tuple[Any, str]
"""A module, a class or another object, and the attribute of it that holds a function."""


class Call:
    """One call of a replaced function, as one watch sees it."""

    __slots__ = ("args", "frame", "kwargs", "result", "seen")

    def __init__(self, frame: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.frame = frame
        """The frame that made it."""
        self.args = args
        """What it was given; where a class's method was replaced, its own object comes first."""
        self.kwargs = kwargs
        self.seen: Any = None
        """What the watch found before the call and wants to know after it."""
        self.result: Any = None
        """What it returned; ``None`` before."""

    @property
    def first(self) -> Any:
        """The first argument; ``None`` without one."""
        return self.args[0] if self.args else None


class Watch(NamedTuple):
    """What is done around a call. An exception of ``before`` or ``after`` is nobody's: the call goes on without."""

    before: Callable[[Call], None] | None = None
    after: Callable[[Call], None] | None = None
    """Not called where ``before`` stumbled, or where the function raised."""
    around: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any] | None = None
    """Makes the call itself, and answers for it."""
    asked: Callable[[Any], None] | None = None
    """Told when a method is asked of an object, or of the class (``None``), which is then handed out itself: nothing
    stands between the program and it."""
    in_children: bool = False
    """Does it go on in a forked child?"""


class Replacement:
    """Stands for one function."""

    def __init__(self, original: Any, bound: MethodType | None = None) -> None:
        # Names that no function bears: everything else is asked of the function.
        self._tracer_original = original
        self._tracer_bound = bound
        """Where a bound method is replaced: it, whose function this stands for."""
        self._tracer_watches: tuple[Watch, ...] = ()
        self._tracer_holders: list[tuple[Any, str, Any]] = []
        self.__doc__ = original.__doc__
        self.__module__ = getattr(original, "__module__", None)  # type: ignore[assignment]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        watches = self._tracer_watches
        if not watches:
            return self._tracer_original(*args, **kwargs)
        frame = sys._getframe(1)
        watching: list[tuple[Watch, Call]] = []
        call_through = self._tracer_original
        for watch in watches:
            if watch.around is not None:
                call_through = _Around(watch.around, call_through)
                continue
            call = Call(frame, args if self._tracer_bound is None else args[1:], kwargs)
            if watch.before is not None:
                try:
                    watch.before(call)
                except Exception:  # what a note stumbles over is no business of the program's
                    continue
            if watch.after is not None:
                watching.append((watch, call))
        result = call_through(*args, **kwargs)
        for watch, call in watching:
            call.result = result
            try:
                watch.after(call)  # type: ignore[misc]
            except Exception:
                continue
        return result

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        original = self._tracer_original
        if not hasattr(type(original), "__get__") or isinstance(original, MethodType):
            return self  # a function of a C module does not bind, and a bound method stays as it is
        asked = [watch.asked for watch in self._tracer_watches if watch.asked is not None]
        if asked and len(asked) == len(self._tracer_watches):
            for tell in asked:
                with suppress(Exception):
                    tell(instance)
            return original.__get__(instance, owner)
        return self if instance is None else MethodType(self, instance)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Whoever asks ``isinstance`` finds the function's kind, and by it the signature."""
        return type(self._tracer_original)

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return self._tracer_original.__dict__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracer_original, name)

    def __eq__(self, other: object) -> bool:
        return self is other or bool(self._tracer_original == original_of(other))

    def __hash__(self) -> int:
        return hash(self._tracer_original)

    def __repr__(self) -> str:
        return repr(self._tracer_original)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickled as the function is: by its name, or by the object that it is a method of."""
        original = self._tracer_original
        reduced = original.__qualname__ if isinstance(original, FunctionType) else original.__reduce_ex__(protocol)
        if not isinstance(reduced, str):
            return reduced
        name = f"{original.__module__}:{reduced}"
        return reduced if pkgutil.resolve_name(name) is self else (pkgutil.resolve_name, (name,))

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        copied = copy.deepcopy(self._tracer_original, memo)
        return self if copied is self._tracer_original else copied


class _Inlined(Replacement):
    """Stands in a module for a Python function with defaults or a closure, which dynamo's guards read from a true
    function alone: this attribute is where it looks for what to trace in place of a wrapper (torch 2.4 to 2.13)."""

    @property
    def _torchdynamo_inline(self) -> Any:
        return self._tracer_original


def _is_more_than_code(function: FunctionType) -> bool:
    return bool(function.__defaults__ or function.__kwdefaults__ or function.__closure__)


class _Around:
    """The next call inwards."""

    __slots__ = ("_around", "_inner")

    def __init__(self, around: Callable[..., Any], inner: Callable[..., Any]) -> None:
        self._around = around
        self._inner = inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._around(self._inner, args, kwargs)


_MISSING: Any = object()
#: By identity of the function: what stands for it, for as long as the process lives. Whoever took it from its module
#: while it was placed is seen by the next watch too.
_REPLACEMENTS: dict[int, Replacement] = {}
#: Called in a forked child, once what is placed there has stepped aside.
_IN_CHILDREN: list[Callable[[], None]] = []


def original_of(function: Any) -> Any:
    """The function that a replacement stands for; anything else as it is."""
    replacement = _replacement_in(function)
    return function if replacement is None else replacement._tracer_bound or replacement._tracer_original


def stand_ins() -> list[tuple[Any, Any]]:
    """Each function that was ever replaced here, and what stood for it."""
    return [(known._tracer_bound or known._tracer_original, known) for known in _REPLACEMENTS.values()]


def _replacement_in(attribute: Any) -> Replacement | None:
    """The replacement that ``held`` is, or that it wraps as a static or a bound method does."""
    if issubclass(type(attribute), staticmethod):
        attribute = attribute.__func__
    function: Any = attribute.__func__ if type(attribute) is MethodType else attribute
    is_ours = issubclass(type(function), Replacement) and (function is attribute or function._tracer_bound is not None)
    return function if is_ours else None


def _made_for(owner: Any, raw: Any) -> tuple[Replacement, Any] | None:
    """What stands for the function in ``raw``, and what is to be held in its place; ``None`` where that is none."""
    function = raw.__func__ if isinstance(raw, staticmethod) else raw
    if function is None or not callable(function):
        return None
    # A method written in C is found out by its function's type, which nothing else has.
    bound = function if type(function) is MethodType and type(function.__func__) is FunctionType else None
    known = _REPLACEMENTS.get(id(function))
    if known is None:
        called = function if bound is None else bound.__func__
        is_inlined = isinstance(owner, ModuleType) and type(called) is FunctionType and _is_more_than_code(called)
        known = _REPLACEMENTS[id(function)] = (_Inlined if is_inlined else Replacement)(called, bound)
    if bound is not None:  # such are told by their very type
        return known, MethodType(known, bound.__self__)
    return known, staticmethod(known) if isinstance(raw, staticmethod) else known


def held_by(owner: Any, name: str) -> Any:
    """The function that ``owner`` holds under ``name``, whoever stands for it; ``None`` without one."""
    raw = _raw(owner, name)
    replacement = _replacement_in(raw)
    if replacement is not None:
        return original_of(replacement)
    return raw.__func__ if isinstance(raw, staticmethod) else raw


def place(holders: Iterable[Holder], watch: Watch) -> Callable[[], None] | None:
    """Have ``watch`` observe calls of the functions that ``holders`` hold; returns a function that ends it.

    ``None`` where nothing could be replaced: nothing is there, or an interpreter keeps its classes otherwise.
    """
    _watch_forks()
    placed = [found for owner, name in holders if (found := _stand_in(owner, name)) is not None]
    if not placed:
        return None
    replacements = list({id(replacement): replacement for replacement in placed}.values())
    for replacement in replacements:
        replacement._tracer_watches = (*replacement._tracer_watches, watch)

    def lift() -> None:
        for replacement in replacements:
            replacement._tracer_watches = tuple(kept for kept in replacement._tracer_watches if kept is not watch)
            if not replacement._tracer_watches:
                _put_back(replacement)

    return lift


def _stand_in(owner: Any, name: str) -> Replacement | None:
    """What stands for the function that ``owner`` holds under ``name``, placed there."""
    raw = _raw(owner, name)
    found = _replacement_in(raw)
    if found is not None:
        return found
    made = _made_for(owner, raw)
    if made is None:
        return None
    known, placed = made
    former = raw if name in getattr(owner, "__dict__", ()) else _MISSING
    with suppress(AttributeError, TypeError, ValueError):
        _set(owner, name, placed)
        if _raw(owner, name) is placed:
            known._tracer_holders = [
                holder for holder in known._tracer_holders if holder[0] is not owner or holder[1] != name
            ]
            known._tracer_holders.append((owner, name, former))
            return known
        _set(owner, name, former)
    return None


def _put_back(replacement: Replacement) -> None:
    holders = []
    for owner, name, former in replacement._tracer_holders:
        if _replacement_in(_raw(owner, name)) is replacement:
            _set(owner, name, former)
        else:  # somebody replaced it again, and may put back what they found: then the next one ends it
            holders.append((owner, name, former))
    replacement._tracer_holders = holders


def _raw(owner: Any, name: str) -> Any:
    """What ``owner`` holds under ``name``, asked of nothing that could answer for it; a plain module's, a class's and a
    plain object's own dictionary first, because each recording asks some hundred times."""
    kind = type(owner)
    dictionaries: Iterable[Any] = ()
    if kind is ModuleType:
        dictionaries = (vars(owner),)
    elif issubclass(kind, type):
        dictionaries = map(vars, owner.__mro__)
    elif kind.__base__ is object and _is_plain(vars(kind), name):
        dictionaries = (object.__getattribute__(owner, "__dict__"),)
    for own in dictionaries:
        if name in own:
            return own[name]
    return inspect.getattr_static(owner, name, None)


def _is_plain(kind: Mapping[str, Any], name: str) -> bool:
    return name not in kind and type(kind.get("__dict__")) is GetSetDescriptorType


def _set(owner: Any, name: str, value: Any) -> None:
    """Set or remove an attribute."""
    try:
        if value is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, value)
    except TypeError:
        if not isinstance(owner, type):
            raise
        _set_in_class(owner, name, value)


def _set_in_class(cls: type, name: str, value: Any) -> None:
    """The same for a class written in C, which refuses it: its own dictionary is changed, and its method cache told so
    (CPython 3.10 to 3.13)."""
    (own,) = gc.get_referents(cls.__dict__)
    modified = ctypes.pythonapi.PyType_Modified
    if type(own) is not dict:
        raise TypeError("the class keeps no dictionary")
    if value is _MISSING:
        own.pop(name, None)
    else:
        own[name] = value
    modified(ctypes.py_object(cls))


def in_children(forget: Callable[[], None]) -> None:
    """Have ``forget`` called in every forked child: whoever listened in the parent does not listen there."""
    _IN_CHILDREN.append(forget)


_watches_forks = False


def _watch_forks() -> None:
    global _watches_forks
    if not _watches_forks and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_step_aside)
    _watches_forks = True


def _step_aside() -> None:
    """In a forked child: what is placed stays, and tells nobody but those who asked for it."""
    for replacement in _REPLACEMENTS.values():
        replacement._tracer_watches = tuple(watch for watch in replacement._tracer_watches if watch.in_children)
    for forget in _IN_CHILDREN:
        forget()
