"""Keeps what a line gave in one run, and gives it to another after the same line: an experiment that proves a line.

Values are plain data in the job's own folder: objects by their attributes, and pickled where their state is C's.
What is given is put into what the program has there: a tensor's memory, a generator, an object's own dictionary, or the
frame's variable. What cannot be given wholly, a file or a thread, says so.
"""

from __future__ import annotations

import ctypes
import gc
import marshal
import os
import pickle
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, BinaryIO

from tracer.recording.lines.variable_digests import (
    CODE,
    Executed,
    attributes_of,
    digest_text,
    hides,
    is_installed,
    is_module,
    qualified,
    respelt,
    slots_of,
)
from tracer.recording.options import LineOptions
from tracer.trace.lines import ENVIRONMENT, GENERATOR, GLOBAL, RESULT, RETURNED, LineMark, is_named

#: Executions of a line that are kept, bytes of all together, and how deep objects are.
_MOST, _BYTES, _DEPTH = 20_000, 1 << 30, 8
_PLAIN = frozenset({bool, int, float, complex, type(None), str, bytes})
_CONTAINERS: dict[Any, str] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset", bytearray: "bytes"}
#: Of which entries are given by their keys.
_MAPPINGS = (dict, type(os.environ))
_PARAMETER = "torch.nn.parameter.Parameter"
_ARRAYS = frozenset({"numpy.ndarray", "torch.Tensor", _PARAMETER})
#: Stands for what another run has by itself: code, and references to what lives elsewhere.
_LEFT = ("left", None)
#: Code of which a line is a round of a loop.
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
#: Leads the digest of an object that is not given, as it holds what is.
_ALIAS = "alias"
#: Leads the form of an object that is looked for among those that there are.
_ALIKE = "alike"
_OBJECTS = ("object", "module", "pickled")
#: Leads the form of an object that is one of several of its class, and of a set of such in the order in which it is
#: gone through.
_ONE, _ORDER = "one", "order"
#: Stands for the line that came next, and leads what a condition reads.
_NEXT, _READ = "%next", "%read "
#: Suffixes of the files that say what could not be kept or given, and which calls held lines made themselves.
_PROBLEMS, _CALLS = ".problems", ".calls"
#: The suffix of a file that stands where a line was given other values than it had by itself.
_OTHERS = ".others"
#: That of one that stands where what a line returned was kept.
_RESULTS = ".results"


def _dumped(value: Any) -> bytes:
    """``value`` as bytes that are the same for equal values."""
    return marshal.dumps(value, 2)


class Unkeepable(Exception):
    """A value of which no copy can be kept; the message names its type."""


class HeldLines:
    """The values of some lines, kept in or given from files of one folder."""

    def __init__(self, asked: LineOptions) -> None:
        self.gives, self._folder = asked.gives, Path(asked.folder)
        self._branches, self._chosen = frozenset(asked.branches), frozenset(asked.chosen)
        self._draws = {at: generator for generator, _, at in (each.partition(" ") for each in asked.draws)}
        self._files: dict[str, BinaryIO] = {}
        self._skipped: dict[str, bytes] = {}
        """Executions that gave nothing, before the first that did."""
        self._given: dict[str, list[tuple[tuple[str, str], dict[str, Any]]]] = {}
        """What is left to be given, and who executed it."""
        self._counts: dict[str, int] = {}
        self._read: dict[int, dict[str, Any]] = {}
        """By the identity of a frame: what its line reads; what is to be given after it."""
        self._own: dict[int, dict[str, Any]] = {}
        """By the identity of a frame: sets of its own, in place of which it was given an order."""
        self.over: set[str] = set()
        """Lines that are executed more often than values are kept."""
        self._left = _BYTES
        self.names: dict[str, str] = {}
        """Temporary names of this run, and what they are in every run."""

    def before(self, line: Executed) -> None:
        """A held line begins. If it draws, what it draws follows from the state before it."""
        if line.at in self._draws and self.gives:
            self._give(line)
        elif line.at in self._draws:
            self._keep(line, [GENERATOR + self._draws[line.at]])
        elif line.at in self._branches or line.at in self._chosen:
            self._reads(line)

    def _reads(self, line: Executed) -> None:
        """What a line reads is kept, or given, before it: what it decides by, if it calls nothing; orders of sets."""
        found = self._read[id(line.frame)] = {}
        if self.gives:
            found.update(self._taken(line))
            for path in [path for path in found if path.startswith(_READ)]:
                form, path = found.pop(path), path.removeprefix(_READ)
                with suppress(Exception):  # a failure of the recorder must not reach the program
                    if self._has_other(line.frame, path, form, None):
                        self._write(f"{digest_text(line.at)}{_OTHERS}", path)
                        if form[0] == _ORDER:
                            self._own.setdefault(id(line.frame), {})[path] = _value_at(line.frame, path)
                        _put(line.frame, path, form, is_bound=False)
            return
        paths = (path for read in line.text.reads for path in (read, read.rpartition(".")[0]))  # or a method of it
        for path in (prefix + path for path in paths for prefix in ("", GLOBAL)):
            with suppress(Exception):
                value = _value_at(line.frame, path)
                if line.at in self._chosen and type(value) is set:
                    found[_READ + path] = _chosen_form(value)
                    self._write(f"{digest_text(line.at)}{_RESULTS}", path)  # which follows from the order
                elif line.at in self._branches and LineMark.IDLE in line.text.calls and type(value) in _PLAIN:
                    found[_READ + path] = kept_form(value)

    def after(self, line: Executed, changed: Sequence[str], calls: tuple[int, int]) -> bool:
        """A held line was executed, and ``changed`` names; return whether values were given.

        ``calls``: the index of the first call that it made, and of the next one.
        """
        if line.at in self._draws:
            return False
        for path, own in self._own.pop(id(line.frame), {}).items():
            with suppress(Exception):
                if type(value := _value_at(line.frame, path)) is _InOrder:
                    own.intersection_update(value)
                    own.update(value)
                    _set(line.frame, path, own)
        count = self._counts[line.key] = self._counts.get(line.key, 0) + 1
        if count > _MOST:
            self._note(line.at, "it is executed more often than values are kept")
            self.over.add(line.at)
            return False
        if not self.gives:
            self._keep(line, changed)
            return False
        self._write(f"{digest_text(line.at)}{_CALLS}", f"{calls[0]} {calls[1]}")
        return self._give(line)

    def _keep(self, line: Executed, changed: Sequence[str]) -> None:
        frame, at, text, returned, key = line.frame, line.at, line.text, line.returned, line.key
        kept: dict[str, Any] = {_NEXT: frame.f_lineno} if at in self._branches else {}
        kept |= self._read.pop(id(frame), {})
        named = [path for path in changed if is_named(path, text)]
        if LineMark.ITERATES in text.calls:  # which of several objects a loop takes, and not what that holds
            for name in text.stores:
                with suppress(Exception):
                    form = kept_form(value := _value_at(frame, name))
                    if form[0] in _OBJECTS or qualified(type(value)) == _PARAMETER:
                        kept[name] = _ALIKE, form
        for path in dict.fromkeys((*named, *changed)):
            name, _, attribute = path.partition(".")
            if name in kept and (kept[name][0] != "module" or attribute == "requires_grad"):  # no module has all of it
                continue
            if path == RETURNED:
                kind = type(returned)
                is_made = qualified(kind) in text.calls and kind not in (*_PLAIN, tuple, frozenset)
                if not is_made and not _has_arrays(returned):  # others may have it too
                    continue
                self._write(f"{digest_text(at)}{_RESULTS}", path)
            try:
                if path.startswith(GENERATOR):
                    kept[path] = kept_form(_global(path.removeprefix(GENERATOR)))
                else:
                    value = returned if path == RETURNED else _value_at(frame, path)
                    if attribute and name.removeprefix(GLOBAL) in text.stores:
                        owner = _value_at(frame, name)  # a new file or connection is given wholly or not at all
                        value = owner if any("fileno" in vars(cls) for cls in type(owner).__mro__) else value
                    if named and path not in named and not _is_data(value):  # it holds what the line names
                        kept[path] = _ALIAS, self._alias_of(kept_form(value))
                        continue
                    kept[path] = kept_form(value)
            except Unkeepable as problem:
                with suppress(Exception):
                    if at in self._chosen and path != RETURNED:
                        kept[path] = _chosen_form(_value_at(frame, path))
                        continue
                with suppress(Exception):  # a new object of a package may be one that it copies as a whole
                    owner = _value_at(frame, name)
                    if name.removeprefix(GLOBAL) in text.stores and is_installed(type(owner)):
                        kept[name] = kept_form(owner)
                        continue
                words = "is" if qualified(type(value)) == str(problem) else "holds"
                words += f" a {problem}, of which no copy can be kept"
                self._note(at, words, path.replace(RETURNED, RESULT))
            except Exception:  # a failure of the recorder must not reach the program
                self._note(at, "is such that no copy can be kept", path)
        data = _dumped((line.executor, _renamed(kept, self.names)))
        self._left -= len(data)
        if self._left < 0:
            self._note(at, "its values are too large to be kept")
            return
        if key not in self._files:
            data = self._skipped.pop(key, b"") + data
            if not kept:  # a line that gives nothing has no file
                self._skipped[key] = data
                return
            self._files[key] = open(self._folder / key, "ab", buffering=0)  # noqa: SIM115  (until the run ends)
        self._files[key].write(data)

    def _taken(self, line: Executed) -> dict[str, Any]:
        """What the next execution by the same thread gave, of the same task; or of that task, or by that thread."""
        if line.key not in self._given:
            kept = self._given[line.key] = []
            with suppress(OSError, EOFError, ValueError), open(self._folder / line.key, "rb") as stream:
                while True:
                    kept.append(marshal.load(stream))
        left, (thread, task) = self._given[line.key], line.executor
        for of in ((thread, task), (None, task or None), (thread, None)):
            for place, (by, forms) in enumerate(left):
                if all(mine in (None, theirs) for mine, theirs in zip(of, by, strict=True)) and of != (None, None):
                    del left[place]
                    return forms
        if thread and left:
            self._note(line.at, "is executed by other threads")
        return {}

    def _give(self, line: Executed) -> bool:
        frame, at, text, returned = line.frame, line.at, line.text, line.returned
        taken = self._read.pop(id(frame)) if id(frame) in self._read else self._taken(line)
        forms = _renamed(taken, {place: name for name, place in self.names.items()})
        for path, form in forms.items():
            try:
                if not self._has_other(frame, path, form, returned):  # a dict that is iterated must stay as it is
                    continue
                if path in text.stores and frame.f_code.co_name in _COMPREHENSIONS:  # its round is over
                    self._note(at, "is taken before it can be given", path)
                    continue
                if path != _NEXT and form[:1] == (_ALIAS,):
                    self._note(at, "holds more that differs", path)
                    continue
                self._write(f"{digest_text(at)}{_OTHERS}", path)
                if path == _NEXT:
                    if at.endswith(f":{form}"):  # it goes on inside the line
                        raise Unkeepable(path)
                    frame.f_lineno = form  # type: ignore[misc]  # a trace function may set it
                elif path.startswith(GENERATOR):
                    given(form, _global(path.removeprefix(GENERATOR)))
                elif path == RETURNED:
                    given(form, returned)
                    if _dumped(kept_form(returned)) != _dumped(form):  # no other object can be returned
                        raise Unkeepable(RESULT)
                else:
                    _put(frame, path, form, is_bound=path.removeprefix(GLOBAL) in text.stores)
            except Exception:  # a failure of the recorder must not reach the program
                self._note(at, "cannot be given", {_NEXT: "the branch", RETURNED: RESULT}.get(path, path))
        return bool(forms)

    def _alias_of(self, form: Any) -> str:
        return digest_text(_dumped(_orderless(_renamed(form, self.names))))

    def _has_other(self, frame: FrameType, path: str, form: Any, returned: Any) -> bool:
        """Return whether the line gave another value by itself."""
        try:
            if path == _NEXT:
                return bool(frame.f_lineno != form)
            if path.startswith(GENERATOR):
                own = kept_form(_global(path.removeprefix(GENERATOR)))
            elif form[0] in (_ONE, _ORDER):
                own = _chosen_form(_value_at(frame, path))
            else:
                own = kept_form(returned if path == RETURNED else _value_at(frame, path))
        except Exception:
            return True
        if form[:1] == (_ALIAS,):
            return bool(self._alias_of(own) != form[1])
        return _dumped(own) != _dumped(form[1] if form[:1] == (_ALIKE,) else form)

    def _note(self, at: str, problem: str, path: str = "") -> None:
        self._write(f"{digest_text(at)}{_PROBLEMS}", f"{path.removeprefix(GLOBAL)} {problem}")

    def _write(self, name: str, line: str) -> None:
        with suppress(OSError), open(self._folder / name, "a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")


def problem_of(folder: Path, at: str, names: Iterable[str] = ()) -> str:
    """Why what the line ``at`` gave could not be held, of ``names`` where these are given; empty if it could."""
    if RESULT in names and not (folder / f"{digest_text(at)}{_RESULTS}").exists():
        return f"{RESULT} cannot be given"
    wanted = tuple(f"{name} " for name in ("", *names))
    with suppress(OSError), open(folder / f"{digest_text(at)}{_PROBLEMS}", encoding="utf-8") as stream:
        problems = (line.strip() for line in stream if not names or line.startswith(wanted))
        return next(problems, "")
    return "" if any(folder.glob(f"{digest_text(at)}*")) else "nothing of it could be kept"


def gave_others(folder: Path, at: str) -> bool:
    """Return whether the line ``at`` was given values that it had not by itself, so that agreeing shows something."""
    return (folder / f"{digest_text(at)}{_OTHERS}").exists()


def calls_inside(folder: Path, at: str) -> list[range]:
    """The calls that each execution of the line ``at`` made before it was given values, in the run that was last."""
    try:
        text = (folder / f"{digest_text(at)}{_CALLS}").read_text(encoding="utf-8")
    except OSError:
        return []
    return [range(*map(int, line.split())) for line in text.splitlines()]


# --- values as plain data ---


def kept_form(value: Any, above: tuple[int, ...] = ()) -> tuple[Any, ...]:
    """``value`` as plain data; what leads back to one of those ``above`` it is left. Raises ``Unkeepable``."""
    kind: type = type(value)
    if kind in _PLAIN:
        return "plain", value
    if id(value) in above:
        return _LEFT
    if len(above) > _DEPTH:
        raise Unkeepable(qualified(kind))
    inner = (*above, id(value))
    if kind in _CONTAINERS:
        return _CONTAINERS[kind], [kept_form(entry, inner) for entry in [*value]]
    if issubclass(kind, dict):
        pairs = list(dict.items(value))
        return "dict", [(kept_form(key, inner), kept_form(entry, inner)) for key, entry in pairs]
    name = qualified(kind)
    if kind is FunctionType and (value.__defaults__ or value.__kwdefaults__):
        return "function", [kept_form(entry, inner) for entry in (value.__defaults__, value.__kwdefaults__)]
    if issubclass(kind, (*CODE, weakref.ref)):
        if above:
            return _LEFT
        raise Unkeepable(name)
    if name == "random.Random":
        return "random", value.getstate()
    if name in _STATES:
        return "state", kept_form(_STATES[name][0](value), inner)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and (kind is numpy.ndarray or issubclass(kind, numpy.generic)) and not value.dtype.hasobject:
        return "array", value.dtype.str, list(value.shape), value.tobytes(), kind is not numpy.ndarray
    if torch is not None and hasattr(torch, "nn"):
        if kind in (torch.Tensor, torch.nn.Parameter):
            return _of_tensor(value)
        if is_module(kind):
            return "module", [_of_tensor(tensor) for tensor in _tensors_of(value)]
    inside = attributes_of(value)
    if inside is not None and not hides(kind):
        try:
            forms = {attribute: kept_form(entry, inner) for attribute, entry in list(inside.items())}
            return "object", forms, kind.__module__, kind.__qualname__
        except Unkeepable as part:  # a package may know how to pickle an object of its own with all its parts
            if not is_installed(kind) or str(part).partition(".")[0] != name.partition(".")[0]:
                raise
    try:
        return "pickled", pickle.dumps(value)
    except Exception:
        raise Unkeepable(name) from None


def _chosen_form(value: Any) -> tuple[Any, ...]:
    """What tells an object of which no copy can be kept from others of its class, or each in a set. Raises
    ``Unkeepable``."""
    kind = type(value)
    if kind in (set, _InOrder):
        return _ORDER, [_chosen_form(entry) for entry in [*value]]
    if kind in _PLAIN or kind is tuple:
        return kept_form(value)
    marks = {name: entry for name, entry in (attributes_of(value) or {}).items() if type(entry) in _PLAIN}
    if isinstance(value, sys.modules["asyncio"].Task if "asyncio" in sys.modules else ()):
        marks["name"] = value.get_name()
    if not marks:
        raise Unkeepable(qualified(kind))
    return _ONE, marks, kind.__module__, kind.__qualname__


def _chosen(form: tuple[Any, ...], among: Iterable[Any]) -> Any:
    """The one object that ``form`` tells from others. Raises ``Unkeepable`` if there are several, or none."""
    if form[0] != _ONE:
        return given(form, None)
    name = f"{form[2]}.{form[3]}"
    found = [each for each in among if qualified(type(each)) == name and _chosen_form(each) == form]
    if len(found) != 1:
        raise Unkeepable(name)
    return found[0]


class _InOrder(set[Any]):
    """A set that is gone through in an order that it is given."""

    def __init__(self, entries: Iterable[Any]) -> None:
        super().__init__(entries := [*entries])
        self._order = dict.fromkeys(map(id, entries))

    def __iter__(self) -> Iterator[Any]:
        places = {of: place for place, of in enumerate(self._order)}
        return iter(sorted(super().__iter__(), key=lambda each: places.get(id(each), len(places))))

    def pop(self) -> Any:
        entry = next(iter(self))
        self.remove(entry)
        return entry


def _by_form(values: Iterable[Any]) -> dict[bytes, Any]:
    """Objects by what they hold, as far as that can be kept."""
    found: dict[bytes, Any] = {}
    for value in values or ():
        with suppress(Exception):
            form = kept_form(value)
            if form[0] in (*_OBJECTS, "tensor"):
                found.setdefault(_dumped(form), value)
    return found


def _orderless(form: Any) -> Any:
    """A form in which sets are sorted: one that is given anew may have another order."""
    if type(form) is tuple and form[:1] in (("set",), ("frozenset",)):
        return form[0], sorted(_dumped(_orderless(entry)) for entry in form[1])
    if type(form) is dict:
        return {name: _orderless(entry) for name, entry in form.items()}
    return [_orderless(entry) for entry in form] if type(form) in (tuple, list) else form


def _renamed(form: Any, names: Mapping[str, str]) -> Any:
    """A form with names in its texts as others."""
    if type(form) is dict:
        return {key: _renamed(entry, names) for key, entry in form.items()}
    if names and type(form) in (tuple, list):
        return type(form)(_renamed(entry, names) for entry in form)
    return respelt(form, names) if type(form) is str else form


def _is_data(value: Any) -> bool:
    """Return whether a value is a number, a text, an array, a tensor or a container of these."""
    kind = type(value)
    entries = [*(dict.values(value) if kind is dict else value)] if kind in (*_CONTAINERS, dict) else [value]
    return all(type(entry) in _PLAIN or qualified(type(entry)) in _ARRAYS for entry in entries)


def _has_arrays(value: Any) -> bool:
    """Return whether a value is an array or a tensor, or a tuple of such, which can be given as they are."""
    entries = [*value] if type(value) is tuple else [value]
    return any(qualified(type(entry)) in _ARRAYS for entry in entries)


def _of_tensor(tensor: Any) -> tuple[Any, ...]:
    from tracer.recording.values import unseen

    torch = sys.modules["torch"]
    with unseen():
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        data = ctypes.string_at(flat.data_ptr(), flat.numel()) if flat.numel() else b""
    return "tensor", str(tensor.dtype).removeprefix("torch."), list(tensor.shape), data, bool(tensor.requires_grad)


def _tensors_of(module: Any) -> list[Any]:
    """Parameters and buffers of a module and those inside it, without a call of a method of it."""
    inside = attributes_of(module) or {}
    tensors = [
        tensor for holder in ("_parameters", "_buffers") for tensor in dict.values(inside[holder]) if tensor is not None
    ]
    for child in dict.values(inside["_modules"]):
        tensors += [] if child is None else _tensors_of(child)
    return tensors


def given(form: tuple[Any, ...], existing: Any, *, is_bound: bool = False) -> Any:
    """The value of ``form``: ``existing`` with it, where that can hold it, or a new one.

    ``is_bound``: the name was bound anew, and what it is bound to may be a list that others go on to use as it is.
    """
    kind, data = form[0], form[1]
    if kind == "plain":
        return data
    if kind == _ONE:
        return _chosen(form, gc.get_objects())
    if kind == _ORDER:
        return _InOrder(_chosen(entry, existing) for entry in data)
    if kind in _CONTAINERS.values():
        made = next(container for container, name in _CONTAINERS.items() if name == kind)
        is_alike = type(existing) in (list, tuple) and len(existing) == len(data)
        entries = zip(data, existing if is_alike else [None] * len(data), strict=True)
        there_are = _by_form(existing if any(entry[0] in (*_OBJECTS, "tensor") for entry in data) else ())
        taken = {id(there_are[key]) for key in map(_dumped, data) if key in there_are}  # they hold it already
        new = made(
            [
                there_are[key]
                if (key := _dumped(entry)) in there_are
                else given(entry, _another(there) if id(there) in taken else there, is_bound=is_bound)
                for entry, there in entries
            ]
        )
        if type(existing) is not made or made in (tuple, frozenset) or is_bound:
            return new
        existing.clear()
        (existing.update if made is set else existing.extend)(new)
        return existing
    if kind == "dict":
        made_of = {given(key, None): given(entry, None) for key, entry in data}
        if issubclass(type(existing), dict) and not (is_bound and type(existing) is dict):
            dict.clear(existing)
            dict.update(existing, made_of)
            return existing
        return made_of
    if kind == "random":
        existing.setstate(data)
        return existing
    if kind == "state":
        _STATES[qualified(type(existing))][1](existing, given(data, None))
        return existing
    if kind == "array":
        return _array(form, existing)
    if kind == "tensor":
        return _tensor(form, existing)
    if kind == "module":
        for tensor, of in zip(_tensors_of(existing), data, strict=True):
            if _tensor(of, tensor) is not tensor:  # of another shape
                raise Unkeepable(kind)
        return existing
    if kind == "pickled":
        return pickle.loads(data)
    if kind == "left":
        if existing is None:
            raise Unkeepable(kind)
        return existing
    if kind == "function":
        there = existing.__defaults__, existing.__kwdefaults__
        existing.__defaults__, existing.__kwdefaults__ = map(given, data, there)
        return existing
    if qualified(type(existing)) != f"{form[2]}.{form[3]}":
        cls: Any = sys.modules[form[2]]
        for name in form[3].split("."):
            cls = vars(cls)[name]
        existing = object.__new__(cls)
    inside = attributes_of(existing) or {}
    for attribute, entry in data.items():
        _set_attribute(existing, attribute, given(entry, inside.get(attribute), is_bound=is_bound))
    return existing


def _another(value: Any) -> Any:
    """A new object of the same class, which holds nothing; ``None`` where there is none without its own code."""
    try:
        return object.__new__(type(value))
    except TypeError:
        return None


def _set_attribute(value: Any, name: str, entry: Any) -> None:
    """Store an attribute without code of the program's."""
    kind: type = type(value)
    slot = slots_of(kind).get(name)
    if slot is not None:
        slot.__set__(value, entry)
    else:
        object.__getattribute__(value, "__dict__")[name] = entry


def _array(form: tuple[Any, ...], existing: Any) -> Any:
    numpy = sys.modules["numpy"]
    _, dtype, shape, data, is_scalar = form
    array = numpy.frombuffer(data, numpy.dtype(dtype)).reshape(shape)
    if is_scalar:
        return array[()]
    is_alike = type(existing) is numpy.ndarray and (existing.shape, existing.dtype) == (array.shape, array.dtype)
    if is_alike and existing.flags.writeable:
        existing[...] = array
        return existing
    return array.copy()


def _tensor(form: tuple[Any, ...], existing: Any) -> Any:
    from tracer.recording.values import unseen

    torch = sys.modules["torch"]
    _, dtype, shape, data, requires_grad = form
    with unseen():
        made = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
        made = made.view(getattr(torch, dtype)).reshape(shape)
        is_plain = type(existing) in (torch.Tensor, torch.nn.Parameter)
        if is_plain and (existing.shape, existing.dtype) == (made.shape, made.dtype):
            # A tensor of a graph must not seem to be changed; of any other it must be seen.
            (existing.data if existing.grad_fn is not None else existing).copy_(made)
            return existing
        return made.clone().requires_grad_(requires_grad)


def _torch_state(generator: Any) -> bytes:
    state = generator.get_state()
    return ctypes.string_at(state.data_ptr(), state.numel())


def _set_torch_state(generator: Any, state: bytes) -> None:
    from tracer.recording.values import unseen

    with unseen():
        generator.set_state(sys.modules["torch"].frombuffer(bytearray(state), dtype=sys.modules["torch"].uint8))


#: How the states of generators are read and set, by their types.
_STATES: dict[str, tuple[Any, Any]] = {
    "numpy.random._generator.Generator": (
        lambda generator: generator.bit_generator.state,
        lambda generator, state: setattr(generator.bit_generator, "state", state),
    ),
    "numpy.random.mtrand.RandomState": (
        lambda generator: generator.get_state(legacy=False),
        lambda generator, state: generator.set_state(state),
    ),
    "torch._C.Generator": (_torch_state, _set_torch_state),
}


def _global(name: str) -> Any:
    """A global generator by its name."""
    if name == "python":
        return vars(sys.modules["random"])["_inst"]
    if name == "numpy":
        return vars(import_module("numpy.random.mtrand"))["_rand"]  # which the line that draws may be the first to load
    torch = sys.modules["torch"]
    return torch.default_generator if name == "torch" else torch.cuda.default_generators[int(name.partition(":")[2])]


# --- variables ---


def _scope(frame: FrameType, path: str) -> tuple[Any, list[str]]:
    """The names that ``path`` begins in, and its parts."""
    if path.startswith(GLOBAL):
        return frame.f_globals, path.removeprefix(GLOBAL).split(".", 1)
    if path.startswith(f"{ENVIRONMENT}.") and ENVIRONMENT not in frame.f_locals:
        return {ENVIRONMENT: os.environ}, path.split(".", 1)
    return frame.f_locals, path.split(".", 1)


def _value_at(frame: FrameType, path: str) -> Any:
    names, (root, *attribute) = _scope(frame, path)
    value = names[root]
    if not attribute:
        return value
    inside = value if type(value) in _MAPPINGS else attributes_of(value) or {}
    return inside[attribute[0]]


def _put(frame: FrameType, path: str, form: tuple[Any, ...], *, is_bound: bool) -> None:
    names, (root, *attribute) = _scope(frame, path)
    if attribute:
        value = names[root]
        inside = value if type(value) in _MAPPINGS else attributes_of(value) or {}
        entry = given(form, inside.get(attribute[0]), is_bound=is_bound)
    elif form[0] == _ALIKE:
        kind = _PARAMETER if form[1][0] == "tensor" else ".".join(form[1][2:])  # empty for modules
        may_be = (lambda of: qualified(of) == kind) if kind else is_module
        entry = _by_form(each for each in gc.get_objects() if may_be(type(each)))[_dumped(form[1])]
    else:
        entry = given(form, names.get(root), is_bound=is_bound)
    _set(frame, path, entry)


def _set(frame: FrameType, path: str, entry: Any) -> None:
    """Store a value where ``path`` leads."""
    names, (root, *attribute) = _scope(frame, path)
    if attribute:
        if type(value := names[root]) in _MAPPINGS:
            value[attribute[0]] = entry
        else:
            _set_attribute(value, attribute[0], entry)
        return
    names[root] = entry
    if names is not frame.f_globals and sys.version_info < (3, 13):
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
