"""Digests of the values that a program's names hold.

None of the program's code is called: types are compared exactly, attributes are read from an object's own dictionary
and slots, and nothing is printed or compared. A number is its own digest, so that it can be shown. The digest of a
value of which a part is not seen (state in C, entries beyond the first) ends with ``?``, that of one that holds
generators with ``~`` and the digest of the rest.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, reduce
from itertools import islice
from threading import local
from types import BuiltinFunctionType, FrameType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import xxhash

from tracer.recording.lines.generator_states import of_numpys, of_pythons
from tracer.trace.lines import HOLDS, NO_DIGEST, OWN, STATIC, LineText

#: How deep objects and containers are read, and how many entries of each.
_DEPTH, _ENTRIES = 3, 256
#: Entries of a dictionary that are followed by name, as attributes are.
_NAMED_ENTRIES = 64
#: Values that the digest of one name looks at.
_MOST_VALUES = 600
#: Arrays above this many bytes are read in pieces spread over them.
_WHOLE_ARRAY, _PIECES = 1 << 20, 64
#: Objects of an array that are read, spread over it, and what indices and arrays of pandas lie in.
_WHOLE_OBJECTS = 1 << 16
_PARTS = ("_ndarray", "_data", "_mask", "_range", "_codes", "_levels", "categories", "_left", "_right")
#: Bytes of a tensor on a device up to which it is copied; of a larger one the digest is taken there.
_COPIED = 1 << 14
#: Packages whose objects stand for threads, processes and connections of the system's, or for what these have ready.
_HANDLES = {"threading", "multiprocessing", "subprocess", "concurrent", "asyncio", "socket", "selectors", "queue"}
#: What such an object holds at a moment, while what is taken out of it is a value; and its number.
_READY = frozenset({"queue", "unfinished_tasks", "pid"})
#: By the type of a generator: where the global one of that type is.
_GLOBAL = {"random.Random": ("random", "_inst"), "numpy.random.mtrand.RandomState": ("numpy.random.mtrand", "_rand")}
#: Code, and not values.
CODE = (ModuleType, FunctionType, BuiltinFunctionType, MethodType, type)
_CONTAINERS = (dict, list, tuple, set, frozenset)
#: Types whose objects are told by what they print.
NUMBERS = frozenset({bool, int, float, complex, type(None)})
#: Types of the standard library whose text is their value.
_TEXTS = frozenset(
    {
        *("datetime.datetime", "datetime.date", "datetime.time", "datetime.timedelta", "decimal.Decimal"),
        *("pandas._libs.tslibs.timestamps.Timestamp", "pandas._libs.tslibs.timedeltas.Timedelta"),
        *("pandas.Timestamp", "pandas.Timedelta"),
        *("fractions.Fraction", "uuid.UUID", "builtins.range", "builtins.slice", "torch.device", "torch.dtype"),
        *("pathlib.PosixPath", "pathlib.WindowsPath", "pathlib.PurePosixPath", "pathlib.PureWindowsPath"),
        *("pathlib._local.PosixPath", "pathlib._local.WindowsPath", "torch.Size"),
    }
)
#: Types of what data is made of, beside numbers.
_DATA = frozenset({"builtins.str", "builtins.bytes", "numpy.ndarray", "torch.Tensor"})

_Told = TypeVar("_Told")


def _by_type(function: Callable[[type], _Told]) -> Callable[[type], _Told]:
    """Ask ``function`` once for each type."""
    return cast("Callable[[type], _Told]", cache(function))


def digest_text(data: str | bytes) -> str:
    """The digest of a text or of bytes, sixteen hexadecimal digits."""
    return xxhash.xxh3_64_hexdigest(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)


def respelt(text: str, names: Mapping[str, str]) -> str:
    """A text with names in it as others."""
    for name, other in [*names.items()]:
        text = text.replace(name, other)
    return text


class _Look:
    """One digest that is being taken."""

    def __init__(self) -> None:
        self.left = _MOST_VALUES
        self.is_whole = True
        self.generators: list[str] = []
        """Digests of those that are inside it."""
        self.trained = 0
        """How many parameters require a gradient."""

    def unseen(self) -> str:
        """The digest of what is not looked at."""
        self.is_whole = False
        return NO_DIGEST


class VariableDigests:
    """Digests values; those of tensors are kept as long as the tensor lives and no op writes to it."""

    def __init__(self) -> None:
        self.looked = 0
        """Entries and attributes that were looked at."""
        self._tensors: dict[int, tuple[weakref.ref[Any], tuple[int, int, int], str]] = {}
        self.names: dict[str, str] = {}
        """Temporary names, and what they are in every run: the line that made them, and how many it had made."""
        self.written_by: Callable[[Any], int] = lambda tensor: 0
        """Returns the last recorded call that wrote a tensor's memory: by way of ``data`` no version counts it."""
        self._device: Any = None
        """Digests what lies on a device, once something does."""
        self._usual: set[type] = set()
        """Types whose objects are read by their attributes."""
        self._address_of: Any = None

    def named(self, name: str, value: Any) -> Iterator[tuple[str, str]]:
        """Yield the digests of what ``name`` holds: of each attribute by itself where an object has any."""
        kind: type = type(value)
        if kind in NUMBERS:
            yield name, repr(value)
        elif kind is type(os.environ):  # the recording follows what the program sets there
            return
        elif issubclass(kind, CODE):
            defaults, own = _defaults(value), _name_of(value, kind)
            if defaults or own.partition(":")[0].rpartition(".")[2] not in (name, NO_DIGEST):  # or it is merely defined
                yield name, self.of(value)
            yield from ((f"{name}.{parameter}", self.of(entry, 1)) for parameter, entry in defaults.items())
        elif kind is dict and 0 < len(value) <= _NAMED_ENTRIES and all(map(self._is_name, list(value))):
            entries = _entries(value)
            yield name, self.of([key for key, _ in entries])  # their order is a value
            yield from ((f"{name}.{key}", self.of(entry)) for key, entry in entries)
        elif qualified(kind) not in _TEXTS and (inside := attributes_of(value)) is not None:
            look = _Look()
            special = self.of_special(value, look)
            if special or hides(kind):
                yield name, special or (self.of(value) if issubclass(kind, _CONTAINERS) else NO_DIGEST)
            if special and not is_module(kind):
                return
            if special:
                yield f"{name}.requires_grad", repr(look.trained)
                inside = {key: entry for key, entry in inside.items() if key not in _of_modules()}
            if qualified(kind) == "concurrent.futures._base.Future":  # when it is done differs
                done = inside.get("_state") == "FINISHED"
                yield f"{name}._result", self.of(inside.get("_result"), 1) if done else NO_DIGEST
            inside = _values_in(kind, inside)
            yield from ((f"{name}.{key}", self.of(entry, 1)) for key, entry in islice(inside.items(), _ENTRIES))
        else:
            yield name, self.of(value)

    def of_static(
        self, name: str, value: Any, attributes: Iterable[str], is_own: Callable[[str], bool]
    ) -> Iterator[tuple[str, str]]:
        """Yield the digests of ``attributes`` that a module of the program's, or a class of it, holds as values."""
        kind = type(value)
        if issubclass(kind, ModuleType):
            holders, inside = (vars(value),), {}
            if not is_own(str(holders[0].get("__name__"))):
                return
        elif issubclass(kind, (FunctionType, BuiltinFunctionType, MethodType)):
            return
        else:
            classes = type.__getattribute__(value if issubclass(kind, type) else kind, "__mro__")
            holders = tuple(vars(cls) for cls in classes if is_own(str(vars(cls).get("__module__"))))
            inside = attributes_of(value) or {}
        for attribute in attributes if holders else ():
            held = next((holder[attribute] for holder in holders if attribute in holder), None)
            kind = type(held)
            is_code = issubclass(kind, CODE) or any("__get__" in vars(cls) for cls in kind.__mro__)
            if attribute in inside or held is None or is_code:
                continue
            yield f"{name}.{attribute}", f"{STATIC}{self.of(held, 1)}"

    def of_special(self, value: Any, look: _Look) -> str:
        """The digest of an array, a generator, a tensor or a module; empty for anything else."""
        kind: type = type(value)
        if kind in self._usual:
            return ""
        try:
            found = _of_array(value, kind) or _of_table(value, kind) or _of_random(value, kind)
            if found := found or self._of_torch(value, kind, look):
                return found
            if "torch" in sys.modules:
                self._usual.add(kind)
            return ""
        except Exception:  # as in ``of``
            return NO_DIGEST

    def of(self, value: Any, depth: int = 0) -> str:
        """The digest of a value; ``?`` where none is taken of it."""
        look = _Look()
        try:
            found = self._of(value, depth, look)
        except Exception:  # half-made objects, arrays that change meanwhile: a failure must not reach the program
            return NO_DIGEST
        without = reduce(lambda text, state: text.replace(state, ""), look.generators, found)
        found = found if len(found) <= 40 else f"h{digest_text(found)}"  # longer ones are digested themselves
        found += f"{HOLDS}{digest_text(without)}" if look.generators else ""
        return found if look.is_whole or found == NO_DIGEST else f"{found}{NO_DIGEST}"

    def _of(self, value: Any, depth: int, look: _Look) -> str:
        kind = type(value)
        if kind in NUMBERS:
            return repr(value)
        if kind is str or kind is bytes or kind is bytearray:
            return self._of_text(bytes(value) if kind is bytearray else value, look)
        look.left -= 1
        if depth > _DEPTH or look.left < 0:
            return look.unseen()
        if issubclass(kind, CODE):  # by its name; what else it holds is not seen
            look.is_whole = False
            return f"{_name_of(value, kind)}{self._several([*_defaults(value).values()], depth, look)}"
        if issubclass(kind, (set, frozenset)):
            # As a set: the line that iterates it is the one whose values differ.
            members, left = _members(kind, value), look.left
            self.looked += len(members)
            digests = sorted(self._of(member, depth + 1, look) for member in members if len(members) <= 4 * _ENTRIES)
            if look.left < 0 <= left or not digests:  # which are looked at hangs on their order
                look.is_whole &= not members
                return f"{{}}{len(members)}"
            look.is_whole &= len(members) <= _ENTRIES
            return "{" + ",".join(digests[:_ENTRIES]) + f"}}{len(members)}"
        if issubclass(kind, (list, tuple)) and qualified(kind) not in _TEXTS:
            return self._several(_members(kind, value), depth, look)
        if issubclass(kind, dict):
            pairs = [part for pair in _entries(value) for part in pair]
            if is_installed(kind):  # what a package fills by going through a set
                pairs = sorted(self._of([key, entry], depth, look) for key, entry in _entries(value)[:_ENTRIES])
            return f"{{{self._several(pairs, depth, look)}}}"
        if qualified(kind) in _TEXTS:
            return self._of_text(str(value), look)
        if qualified(kind) == "collections.deque":
            return self._several(list(value), depth, look)
        special = self.of_special(value, look)
        look.is_whole &= not special.endswith(NO_DIGEST)
        if special.startswith(OWN) and look.left < _MOST_VALUES - 1:  # inside something
            look.generators.append(special)
        return special or self._of_object(value, kind, depth, look)

    def _is_name(self, key: Any) -> bool:
        return type(key) is str and respelt(key, self.names) == key

    def _of_text(self, text: str | bytes, look: _Look) -> str:
        if self.names and isinstance(text, str):
            look.is_whole &= (spelt := respelt(text, self.names)) == text
            text = spelt
        return f"s{digest_text(text)}"

    def _several(self, values: list[Any], depth: int, look: _Look) -> str:
        look.is_whole &= len(values) <= _ENTRIES
        self.looked += len(values[:_ENTRIES])
        return "[" + ",".join(self._of(entry, depth + 1, look) for entry in values[:_ENTRIES]) + f"]{len(values)}"

    def _of_object(self, value: Any, kind: type, depth: int, look: _Look) -> str:
        inside = attributes_of(value)
        look.is_whole &= not hides(kind)
        if inside is None:
            return look.unseen()
        entries = islice(_values_in(kind, inside).items(), _ENTRIES)
        self.looked += len(inside)
        parts = [f"{name}={self._of(entry, depth + 1, look)}" for name, entry in entries]
        return f"{kind.__qualname__}({','.join(parts)})"

    # --- torch's ---

    def _of_torch(self, value: Any, kind: type, look: _Look) -> str:
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "nn"):
            return ""
        self._address_of = self._address_of or torch._C.TensorBase.data_ptr  # not torch.Tensor's, which is watched
        if issubclass(kind, torch.Tensor):
            return self._of_tensor(value)
        if kind is torch.Generator and value is torch.default_generator:
            return "gglobal"
        if kind is torch.Generator:
            from tracer.recording.randomness.generators import state_of

            return f"g{digest_text(state_of(value))}"
        if issubclass(kind, torch.nn.Module):
            return f"m{digest_text('|'.join(self._of_module(value, 0, look)))}"
        return ""

    def _of_tensor(self, tensor: Any) -> str:
        known = self._tensors.get(id(tensor))
        try:
            state = tensor._version, self._address_of(tensor), self.written_by(tensor)
        except (RuntimeError, AttributeError):  # made under inference mode: its version is not counted
            state = -1, 0, 0
        if known is not None and known[0]() is tensor and known[1] == state and state[0] >= 0:
            return known[2]
        number = self._number_of(tensor)
        if number is None:
            return NO_DIGEST
        found = f"t{number:016x}"
        if len(self._tensors) > 50_000:
            self._tensors = {key: entry for key, entry in self._tensors.items() if entry[0]() is not None}
        self._tensors[id(tensor)] = (weakref.ref(tensor), state, found)
        return found

    def _number_of(self, tensor: Any) -> int | None:
        """The digest of a tensor; ``None``: none now."""
        from tracer.recording.values import digest, unseen

        torch = sys.modules["torch"]
        if tensor.is_cpu or tensor.device.type == "meta" or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            return digest(tensor)
        from tracer.recording.values.digest_table import DeviceDigests, is_capturing

        if is_capturing(tensor):
            return None
        with unseen():
            if tensor.nbytes > _COPIED:
                self._device = self._device or DeviceDigests()
                if (slot := self._device.digest(tensor.detach())) is not None:
                    self._device.fetch()
                    return cast("int", slot.value)
            return digest(tensor.detach().cpu())

    def _of_module(self, module: Any, depth: int, look: _Look) -> Iterator[str]:
        """Yield the digests of parameters, buffers and the program's own attributes, without a call of a method."""
        inside = attributes_of(module) or {}
        for holder in ("_parameters", "_buffers"):
            for tensor in list(dict.values(inside.get(holder) or {})):
                look.trained += tensor is not None and tensor.requires_grad
                yield NO_DIGEST if tensor is None else self._of_tensor(tensor)
        internal = _of_modules()
        for name, value in list(inside.items()):
            if name not in internal:
                yield f"{name}={self._of(value, 2, look)}"
        for child in list(dict.values(inside.get("_modules") or {})):
            if child is not None and depth < 64:
                yield from self._of_module(child, depth + 1, look)


def is_of_data(value: Any, depth: int = 0) -> bool:
    """Return whether a list, tuple, deque or dictionary holds numbers, texts, arrays or tensors, by its first one."""
    kind = type(value)
    if kind not in (list, tuple, dict, deque) or depth > _DEPTH:
        return False
    try:
        first = next(iter(dict.values(value) if kind is dict else value))
    except (StopIteration, RuntimeError):  # empty, or a thread changes it
        return False
    return type(first) in NUMBERS or qualified(type(first)) in _DATA or is_of_data(first, depth + 1)


def _of_array(value: Any, kind: type) -> str:
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "random"):
        return ""
    if issubclass(kind, numpy.generic):
        if kind.__module__ != "numpy":
            return NO_DIGEST
        if value.dtype.kind in "biufc":
            return repr(value.item()) if value.nbytes <= 16 else NO_DIGEST
    elif kind is not numpy.ndarray and kind is not getattr(numpy, "memmap", None):
        return ""
    if value.dtype.hasobject:
        return _of_objects(value)
    flat = numpy.asarray(value)
    left = ""
    if flat.nbytes > _WHOLE_ARRAY:
        left = NO_DIGEST
        flat = flat.reshape(-1)
        size = _WHOLE_ARRAY // (_PIECES * flat.itemsize) or 1
        starts = numpy.linspace(0, len(flat) - size, _PIECES).astype(int)
        flat = numpy.concatenate([flat[start : start + size] for start in starts])
    data = numpy.ascontiguousarray(flat).tobytes() + f"{value.shape}{value.dtype.str}".encode()
    return f"a{digest_text(data)}{left}"


def _of_objects(array: Any) -> str:
    """The digest of an array of numbers and texts, each an object; ``?`` where there are others."""
    flat = array.reshape(-1)
    step = max(1, flat.size // _WHOLE_OBJECTS)
    entries = flat[::step].tolist()
    if not all(type(entry) in NUMBERS or type(entry) is str or qualified(type(entry)) in _TEXTS for entry in entries):
        return NO_DIGEST
    return f"a{digest_text(repr((array.shape, entries)))}{NO_DIGEST if step > 1 else ''}"


def _of_table(value: Any, kind: type) -> str:
    """The digest of a table, column, index or array of pandas', by the arrays that it lies in; empty for others."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not hasattr(pandas, "api") or not issubclass(kind, _of_pandas()):
        return ""
    parts = [_of_part(part) for part in _parts_of(value)]
    left = NO_DIGEST if not parts or any(part.endswith(NO_DIGEST) for part in parts) else ""
    return f"a{digest_text('|'.join(parts))}{left}"


@cache
def _of_pandas() -> tuple[type, ...]:
    pandas = sys.modules["pandas"]
    return pandas.DataFrame, pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray


def _parts_of(table: Any) -> Iterator[Any]:
    """Yield the arrays and indices that hold what a table shows, and where each block of columns stands."""
    inside = attributes_of(table) or {}
    if (manager := inside.get("_mgr")) is not None:
        yield from manager.axes
        for block in manager.blocks:
            yield from (block.values, block.mgr_locs.as_array)
    else:
        yield from (part for name in _PARTS if (part := getattr(table, name, None)) is not None)
    yield repr(inside.get("_name"))


def _of_part(part: Any) -> str:
    kind = type(part)
    if kind is str or qualified(kind) in _TEXTS:
        return str(part)
    if isinstance(part, (list, tuple)):
        return "|".join(map(_of_part, part))
    return _of_array(part, kind) or _of_table(part, kind) or NO_DIGEST


def _of_random(value: Any, kind: type) -> str:
    """The state of a generator of Python or NumPy, or of a hash, a logger's name; empty for anything else, the same for
    global generators."""
    name = qualified(kind)
    if name.startswith(("_hashlib.HASH", "_blake2.blake2", "xxhash.xxh")):
        return f"s{value.hexdigest()}"
    if name in _GLOBAL and value is getattr(sys.modules.get(_GLOBAL[name][0]), _GLOBAL[name][1], None):
        return "gglobal"  # it is followed by itself, whatever holds it
    if (
        name.startswith("logging.") and name != "logging.LogRecord"
    ):  # what it knows of others hangs on who was imported first
        return f"s{digest_text(str(getattr(value, 'name', '')))}"
    if name == "random.Random":
        return f"g{of_pythons(value)}"
    if name == "numpy.random._generator.Generator":
        return f"g{digest_text(repr(value.bit_generator.state))}"
    if name == "numpy.random.mtrand.RandomState":
        return f"g{of_numpys(value)}"
    if name == "numpy.random.bit_generator.SeedSequence":
        return f"s{digest_text(repr((value.entropy, value.spawn_key, value.n_children_spawned)))}"
    return ""


def attributes_of(value: Any) -> dict[str, Any] | None:
    """An object's own dictionary, or a copy with its slots, read without its code; ``None`` where it has neither."""
    try:
        inside = (local if type(value) is local else object).__getattribute__(value, "__dict__")  # this thread's
    except Exception:
        inside = None
    kind: type = type(value)
    if slots := slots_of(kind):
        inside = dict(inside or {})
        for name, slot in slots.items():
            with suppress(AttributeError):
                inside[name] = slot.__get__(value)
    return inside if type(inside) is dict and {*map(type, inside)} <= {str} else None


@_by_type
def slots_of(kind: type) -> dict[str, MemberDescriptorType]:
    """The slots that a class written in Python declares, by name."""
    return {
        name: slot
        for base in type.__getattribute__(kind, "__mro__")
        if "__slots__" in vars(base)
        for name, slot in vars(base).items()
        if type(slot) is MemberDescriptorType
    }


@_by_type
def hides(kind: type) -> bool:
    """Return whether objects of a type hold more than their dictionary and slots: state of code written in C."""
    if is_handle(kind):
        return True
    pointer = object.__basicsize__ // 2
    seen = len(slots_of(kind)) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return bool(kind.__itemsize__) or kind.__basicsize__ > object.__basicsize__ + pointer * seen


def _entries(value: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """A dictionary's entries; of a group of an optimizer's, in one order and without its parameters: loading a state
    gives another order, and a model holds these."""
    entries = list(dict.items(value))
    names = {key for key, _ in entries if type(key) is str}
    if not {"params", "lr"} <= names or len(names) < len(entries):
        return entries
    return sorted((entry for entry in entries if entry[0] != "params"), key=lambda entry: entry[0])


def _defaults(value: Any) -> dict[str, Any]:
    """The values that a function written in Python keeps: for parameters that are not given, and as attributes."""
    if type(value) is not FunctionType:
        return {}
    code, values = value.__code__, value.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount][-len(values) :]
    return {**dict(zip(names, values, strict=False)), **(value.__kwdefaults__ or {}), **value.__dict__}


def _name_of(code: Any, kind: type) -> str:
    """What tells a class or a function from others: its name, and its line, as lambdas have none."""
    if issubclass(kind, type):
        return qualified(code)
    code = code.__func__ if kind is MethodType else code
    if type(code) is FunctionType:
        return f"{code.__module__}.{code.__qualname__}:{code.__code__.co_firstlineno}"
    return f"{code.__module__}.{code.__name__}" if type(code) is BuiltinFunctionType else NO_DIGEST


@_by_type
def is_handle(kind: type) -> bool:
    """Return whether objects of a type stand for threads, processes or connections of the system's."""
    return any(
        str(vars(base).get("__module__")).partition(".")[0] in _HANDLES
        for base in type.__getattribute__(kind, "__mro__")
    )


def _values_in(kind: type, inside: dict[str, Any]) -> dict[str, Any]:
    """An object's attributes that are values: of a thread, a process or a pool not the numbers that the system gave,
    and of a package's object not the hash that it keeps, which is nothing until somebody asks for it."""
    if is_handle(kind):
        return {name: value for name, value in list(inside.items()) if name[:1] != "_" and name not in _READY}
    if not is_installed(kind):
        return dict(inside)
    return {name: value for name, value in list(inside.items()) if type(value) is not int or "hash" not in name}


@_by_type
def is_installed(kind: type) -> bool:
    """Return whether a type is of a package that is installed."""
    module = sys.modules.get(str(type.__getattribute__(kind, "__module__")))
    return "-packages" in str(getattr(module, "__file__", ""))


def is_module(kind: type) -> bool:
    base = getattr(sys.modules.get("torch.nn"), "Module", None)
    return base is not None and issubclass(kind, base)


@cache
def _of_modules() -> frozenset[str]:
    """Attributes of every ``torch.nn.Module`` that hold no value of the program's by themselves."""
    return frozenset(vars(sys.modules["torch.nn"].Module())) - {"training"}


@_by_type
def qualified(kind: type) -> str:
    return f"{type.__getattribute__(kind, '__module__')}.{type.__getattribute__(kind, '__qualname__')}"


def _members(kind: type, value: Any) -> list[Any]:
    """The members of a container as its built-in type has them, whatever its class says."""
    base = next(base for base in (list, tuple, set, frozenset) if issubclass(kind, base))
    return [*base.__iter__(value)]


class Executed(NamedTuple):
    """An execution of a line that is held."""

    frame: FrameType
    at: str
    process: str
    executor: tuple[str, str]
    """The thread, and what its task was given."""
    text: LineText
    """What its statement does."""
    returned: Any

    @property
    def key(self) -> str:
        """The file of its values: a comprehension has a frame of its own."""
        return f"{digest_text(self.at)}{self.process}-{digest_text(self.frame.f_code.co_name)[:4]}"
