"""Replaces functions of torch and other libraries for a while, and puts them back. Imports no torch.

A replacement compares, hashes, binds, pickles and prints as its function does, so that dictionaries, ``inspect``,
``pickle`` and torch's compiler take it for the function. It calls the function with the arguments that it was given,
returns or raises what that does, and tells the watches before or after. A function has one replacement, wherever it is
held and however many watch it. Watches come and go in any order; the last one puts the function back, unless somebody
else has replaced it since. In a forked child the replacement steps aside.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Generic, TypeVar

import msgspec

from tracer.recording.origin import WRAPPER

Holder = tuple[Any, str]
"""A module, a class or another object, and the attribute of it that holds a function."""


class WatchedCall(msgspec.Struct, eq=False):
    """One call of a replaced function, as one watch sees it."""

    frame: FrameType
    """The frame that made it."""
    args: tuple[Any, ...]
    """Its arguments; a method's own object comes first where a class holds it."""
    kwargs: dict[str, Any]
    before: Any = None
    """The state that the watch read before the call and needs after it."""
    result: Any = None
    """The call's result; ``None`` before it returns."""

    @property
    def first(self) -> Any:
        """The first argument; ``None`` without one."""
        return self.args[0] if self.args else None


class Watch(msgspec.Struct, frozen=True):
    """Actions around a call. Exceptions of ``before`` and ``after`` are dropped, and the call goes on."""

    before: Callable[[WatchedCall], None] | None = None
    after: Callable[[WatchedCall], None] | None = None
    """Not called if ``before`` or the function raised."""
    around: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any] | None = None
    """Makes the call itself, and answers for it."""
    asked: Callable[[Any], None] | None = None
    """Called when a method is looked up on an object or the class (``None``). The program gets the method itself."""


class Replacement:
    """Stands for one function."""

    def __init__(self, original: Any, bound: MethodType | None = None) -> None:
        # Names that no function has: every other attribute is the function's.
        self._tracer_original = original
        self._tracer_bound = bound
        """The bound method whose function this replaces, if it replaces one."""
        self._tracer_watches: tuple[Watch, ...] = ()
        self._tracer_holders: list[tuple[Any, str, Any]] = []
        self.__doc__ = original.__doc__
        self.__module__ = getattr(original, "__module__", None)  # type: ignore[assignment]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        watches, call_through, frame = self._tracer_watches, self._tracer_original, sys._getframe(1)
        if type(call_through) is BuiltinFunctionType:
            call_through = _called_by(frame, call_through)
        if not watches:
            return call_through(*args, **kwargs)
        watching: list[tuple[Callable[[WatchedCall], None], WatchedCall]] = []
        for watch in watches:
            if watch.around is not None:
                call_through = _around(watch.around, call_through)
                continue
            call = WatchedCall(frame, args if self._tracer_bound is None else args[1:], kwargs)
            if watch.before is not None:
                try:
                    watch.before(call)
                except Exception:  # no business of the program's
                    continue
            if watch.after is not None:
                watching.append((watch.after, call))
        result = call_through(*args, **kwargs)
        for after, call in watching:
            call.result = result
            with suppress(Exception):
                after(call)
        return result

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        original = self._tracer_original
        if type(original) is ClassMethodDescriptorType:
            return MethodType(self, type(instance) if owner is None else owner)
        if not hasattr(type(original), "__get__") or isinstance(original, MethodType):
            return self  # functions of C modules do not bind, and bound methods are bound already
        asked = [watch.asked for watch in self._tracer_watches if watch.asked is not None]
        for tell in asked:
            with suppress(Exception):
                tell(instance)
        if asked and len(asked) == len(self._tracer_watches):
            return original.__get__(instance, owner)
        return self if instance is None else MethodType(self, instance)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """``isinstance``, and by it ``inspect.signature``, find the function's type."""
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


class _Attribute(Replacement):
    """Stands for an attribute of a class that is written in C; a call is that it is set."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self._tracer_original.__self__.__get__(instance, owner)

    __set__ = Replacement.__call__


def _inlined(function: Any, bound: MethodType | None) -> Replacement:
    """The replacement of a Python function with defaults or a closure in a module. Dynamo's guards read those from a
    function alone; it traces what a wrapper has in this attribute (torch 2.4 to 2.13). It reads that statically, from
    the class, as it loads, and from the wrapper itself as it traces: so each has a class of its own."""
    replacement: Replacement = type("_Inlined", (Replacement,), {_INLINED: function})(function, bound)
    setattr(replacement, _INLINED, function)
    return replacement


_INLINED = "_torchdynamo_inline"

#: In the name of a file, this makes ``warnings`` and ``logging`` pass over its frames as they look for who called
#: (CPython 3.10 to 3.14): a warning names the line that called a function, and not the replacement in between.
PASSED_OVER = " (importlib._bootstrap)"
_code = Replacement.__call__.__code__
Replacement.__call__.__code__ = _code.replace(co_filename=f"{_code.co_filename}{PASSED_OVER}")
_CALL = (lambda function, /, *args, **kwargs: function(*args, **kwargs)).__code__.replace(co_name=WRAPPER)


def _called_by(frame: FrameType, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, called as from the line at which ``frame`` is: warnings of C code name the frame that calls it."""
    called = partial(FunctionType(_call_at(frame.f_code.co_filename, frame.f_lineno), frame.f_globals), function)
    names = ("__module__", "__name__", "__qualname__")
    called.__dict__.update({name: getattr(function, name) for name in names})
    return called


@lru_cache(1024)
def _call_at(filename: str, line: int) -> CodeType:
    return _CALL.replace(co_filename=filename, co_firstlineno=line)


def is_in_between(code: CodeType) -> bool:
    """Return whether a frame of this code stands for the program's, which calls a replaced function."""
    return code.co_name == WRAPPER and code.co_posonlyargcount > 0


def _around(around: Callable[..., Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: around(inner, args, kwargs)


_MISSING: Any = object()
#: Replacements by ``id`` of their function. They live as long as the process: whoever took one from its module is seen
#: by the next watch too.
_REPLACEMENTS: dict[int, Replacement] = {}
#: Called in a forked child, once the replacements have stepped aside.
_IN_CHILDREN: list[Callable[[], None]] = []


def original_of(function: Any) -> Any:
    """The function that a replacement stands for; anything else as it is."""
    replacement = _replacement_in(function)
    return function if replacement is None else replacement._tracer_bound or replacement._tracer_original


def stand_ins() -> list[tuple[Any, Any]]:
    """Each function that was ever replaced, with its replacement."""
    return [(placed._tracer_bound or placed._tracer_original, placed) for placed in _REPLACEMENTS.values()]


def _replacement_in(attribute: Any) -> Replacement | None:
    """The replacement that ``attribute`` is, or wraps as a static or a bound method."""
    if issubclass(type(attribute), staticmethod):
        attribute = attribute.__func__
    function: Any = attribute.__func__ if type(attribute) is MethodType else attribute
    is_ours = issubclass(type(function), Replacement) and (function is attribute or function._tracer_bound is not None)
    return function if is_ours else None


def _made_for(owner: Any, raw: Any) -> tuple[Replacement, Any] | None:
    """The replacement of the function in ``raw``, and the attribute to hold it; ``None`` if ``raw`` is no function."""
    if type(raw) is GetSetDescriptorType:
        attribute = _REPLACEMENTS.get(id(raw))
        attribute = attribute or _REPLACEMENTS.setdefault(id(raw), _Attribute(raw.__set__))
        return attribute, attribute
    function = raw.__func__ if isinstance(raw, staticmethod) else raw
    if function is None or not callable(function):
        return None
    # Methods written in C have functions of another type.
    bound = function if type(function) is MethodType and type(function.__func__) is FunctionType else None
    replacement = _REPLACEMENTS.get(id(function))
    if replacement is None:
        called = function if bound is None else bound.__func__
        is_inlined = isinstance(owner, ModuleType) and type(called) is FunctionType
        is_inlined = is_inlined and bool(called.__defaults__ or called.__kwdefaults__ or called.__closure__)
        replacement = _REPLACEMENTS[id(function)] = (_inlined if is_inlined else Replacement)(called, bound)
    if bound is not None:  # recognized by its very type
        return replacement, MethodType(replacement, bound.__self__)
    return replacement, staticmethod(replacement) if isinstance(raw, staticmethod) else replacement


def held_by(owner: Any, name: str) -> Any:
    """The function that ``owner`` holds under ``name``, replaced or not; ``None`` without one."""
    raw = _raw(owner, name)
    replacement = _replacement_in(raw)
    if replacement is not None:
        return original_of(replacement)
    return raw.__func__ if isinstance(raw, staticmethod) else raw


def place(holders: Iterable[Holder], watch: Watch) -> Callable[[], None] | None:
    """Make ``watch`` observe calls of the functions that ``holders`` hold; return a function that ends it.

    ``None`` if nothing was replaced: there is no such function, or this interpreter lays out classes differently.
    """
    _watch_forks()
    placed = [replacement for owner, name in holders if (replacement := _placed_in(owner, name)) is not None]
    replacements = list({id(replacement): replacement for replacement in placed}.values())
    for replacement in replacements:
        replacement._tracer_watches = (*replacement._tracer_watches, watch)

    def lift() -> None:
        for replacement in replacements:
            replacement._tracer_watches = tuple(other for other in replacement._tracer_watches if other is not watch)
            if replacement._tracer_watches:
                continue
            again = []  # somebody replaced it again, and may put it back later: the next watch to end removes it
            for owner, name, former in replacement._tracer_holders:
                if _replacement_in(_raw(owner, name)) is replacement:
                    _set(owner, name, former)
                else:
                    again.append((owner, name, former))
            replacement._tracer_holders = again

    return lift if replacements else None


def answered_by(around: Callable[[Callable[..., Any], Any, Any], Any], *holders: Holder) -> Callable[[], None]:
    """Have ``around`` make the calls of the functions that ``holders`` hold; return a function that ends it."""
    return place(holders, Watch(around=around)) or (lambda: None)


def _placed_in(owner: Any, name: str) -> Replacement | None:
    """The replacement of the function that ``owner`` holds under ``name``, put in its place if it is not yet."""
    raw = _raw(owner, name)
    in_place = _replacement_in(raw)
    pair = _made_for(owner, raw) if in_place is None else None
    if pair is None:
        return in_place
    replacement, attribute = pair
    former = raw if name in getattr(owner, "__dict__", ()) else _MISSING
    with suppress(AttributeError, TypeError, ValueError):
        _set(owner, name, attribute)
        if _raw(owner, name) is attribute:
            others = [held for held in replacement._tracer_holders if held[0] is not owner or held[1] != name]
            replacement._tracer_holders = [*others, (owner, name, former)]
            return replacement
        _set(owner, name, former)
    return None


def _raw(owner: Any, name: str) -> Any:
    """Return what ``owner`` holds under ``name``, without running its code; the plain cases first, which are many."""
    kind, shared = type(owner), vars(type(owner))
    dictionaries: Iterable[Any] = ()
    if kind is ModuleType:
        dictionaries = (vars(owner),)
    elif issubclass(kind, type):
        dictionaries = map(vars, owner.__mro__)
    elif kind.__base__ is object and name not in shared and type(shared.get("__dict__")) is GetSetDescriptorType:
        dictionaries = (object.__getattribute__(owner, "__dict__"),)
    for names in dictionaries:
        if name in names:
            return names[name]
    return inspect.getattr_static(owner, name, None)


def _set(owner: Any, name: str, value: Any) -> None:
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
    """``_set`` for a class written in C: changes its dictionary and drops its method cache (CPython 3.10 to 3.13)."""
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
    """Call ``forget`` in every forked child, where listeners of the parent do not listen."""
    _IN_CHILDREN.append(forget)
    _watch_forks()


_watches_forks = False


def _watch_forks() -> None:
    global _watches_forks
    if not _watches_forks and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_step_aside)
    _watches_forks = True


def _step_aside() -> None:
    """In a forked child: replacements stay, and tell nobody."""
    for replacement in _REPLACEMENTS.values():
        replacement._tracer_watches = ()
    for forget in _IN_CHILDREN:
        forget()


Listener = TypeVar("Listener")


class WatchedFunction(msgspec.Struct, frozen=True):
    """A function to watch, and what listeners do at its calls."""

    holders: Sequence[Holder]
    before: Callable[[Any, WatchedCall], None] | None = None
    after: Callable[[Any, WatchedCall], None] | None = None
    look: Callable[[WatchedCall], None] | None = None
    """Called once before each call, to read what ``after`` needs. If it raises, listeners miss that call."""
    asked: Callable[[Any, Any], None] | None = None
    """Called when the method is looked up on an object, instead of at its calls."""
    around: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any] | None = None
    """Makes the call itself."""


class Watchers(Generic[Listener]):
    """Listeners to calls of functions, which are replaced while there is one; ``find`` returns those loaded by now."""

    def __init__(self, find: Callable[[], Iterable[WatchedFunction]]) -> None:
        self._find = find
        self.listeners: tuple[Listener, ...] = ()
        self._lifts: dict[tuple[int, str], Callable[[], None]] = {}
        in_children(self._step_aside)

    @property
    def placed(self) -> int:
        return len(self._lifts)

    def add(self, listener: Listener) -> None:
        self.listeners = (*self.listeners, listener)
        self.look_again()

    def discard(self, listener: Listener) -> None:
        listeners = list(self.listeners)
        with suppress(ValueError):
            listeners.remove(listener)
        self.listeners = tuple(listeners)
        while self._lifts and not listeners:
            self._lifts.popitem()[1]()

    def look_again(self) -> None:
        """Watch what was loaded since, if anybody listens."""
        for target in self._find() if self.listeners else ():
            holders = {(id(owner), name): (owner, name) for owner, name in target.holders if owner is not None}
            new = holders.keys() - self._lifts.keys()
            lift = place([holders[key] for key in holders if key in new], self._watch(target)) if new else None
            if lift is not None:
                self._lifts.update(dict.fromkeys(new, lift))

    def _step_aside(self) -> None:
        """In a forked child: drop the listeners."""
        self.listeners = ()
        self._lifts.clear()

    def _watch(self, target: WatchedFunction) -> Watch:
        def before(call: WatchedCall) -> None:
            if target.look is not None:
                target.look(call)
            if target.before is not None:
                self._tell(target.before, call)

        if target.around is not None:
            return Watch(around=target.around)
        if target.asked is not None:
            return Watch(asked=partial(self._tell, target.asked))
        return Watch(before, None if target.after is None else partial(self._tell, target.after))

    def _tell(self, tell: Callable[[Any, Any], None], of: Any) -> None:
        for listener in self.listeners:
            with suppress(Exception):  # no business of the program's
                tell(listener, of)
