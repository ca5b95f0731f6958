"""What is digested of the calls of an overload: decided once, from its schema and its ``Access``."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from tracer.ops.rows import packet_of, row_of
from tracer.recording.storage import accesses
from tracer.recording.storage.accesses import Access
from tracer.recording.torch_private import seams, storages
from tracer.trace.values import Mark, spelt_places

_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_bytes_of: Any = storages.storage_bytes

Place = tuple[Any, ...]
"""An argument's name, where its first element lies in the storage (-1: not asked), and its sizes."""
_Arguments = tuple[tuple[int, str], ...]


def parts_of(touched: _Arguments, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> Iterator[Place]:
    """The tensors among ``touched`` that are parts of others."""
    for position, name in touched:
        value: Any = args[position] if 0 <= position < len(args) else kwargs.get(name) if kwargs else None
        kind = type(value)
        if kind is _Tensor or kind is _Parameter:
            if value._is_view():
                yield from _part(name, value)
        elif kind is list or kind is tuple:
            for item in value:
                if type(item) is _Tensor and item._is_view():
                    yield from _part(name, item)


def _part(name: str, value: Any) -> Iterator[Place]:
    try:
        offset = value.storage_offset()
        if offset or value.nbytes != _bytes_of(value):
            yield (name, offset, *value.shape)
    except (NotImplementedError, RuntimeError):  # a layout without a storage, or without one shape
        return


def sizes_of(sized: _Arguments, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> Iterator[Place]:
    """The sizes of tensors of which nothing else matters, as of ``rand_like``'s."""
    for position, name in sized:
        value = args[position] if 0 <= position < len(args) else kwargs.get(name) if kwargs else None
        if isinstance(value, _Tensor) and not seams.dispatches_itself(type(value)) and not value.is_nested:
            yield (name, -1, *value.shape)


_COLLECTIVES = frozenset({"c10d", "_c10d_functional", "c10d_functional", "_c10d_functional_autograd"})
#: What an op hands to its own backward and to nobody else, by its name in schemas: parts of it stay unwritten.
_SCRATCH = frozenset(
    ("workspace", "reserve", "reserveSpace", "reserve_space", "philox_seed", "philox_offset", "rng_state", "unused")
    + ("debug_attn_mask", "log_alpha")
)
#: Arguments that some ops write though their schema does not say so: statistics that training keeps.
_STATISTICS = frozenset({"running_mean", "running_var"})
_PLAIN = frozenset({int, float, bool, complex, str, type(None)})
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_MOST_TEXTS = 4096
#: Only part of the argument is read or written, as data say.
PARTIAL = frozenset({accesses.SCATTERS, accesses.ACCUMULATES, accesses.GATHERS, accesses.SELECTS})


class Plan:
    """What is digested of each call of an overload."""

    __slots__ = (
        "_spell",
        "_texts",
        "access",
        "argument_names",
        "gives_unwritten",
        "is_collective",
        "is_wait",
        "marks",
        "moves",
        "reads",
        "reads_self",
        "scratch",
        "sized",
        "touched",
        "written",
    )

    def __init__(self, func: Any, access: Access, spell: Callable[[str], int]) -> None:
        """``spell`` gives the digest of a text of numbers."""
        schema = func._schema
        namespace, _, rest = str(func).partition(".")
        op = row_of(rest.partition(".")[0])
        self._spell = spell
        self._texts: dict[bytes, int] = {}
        self.access = access
        self.argument_names = tuple(argument.name for argument in schema.arguments)
        self.is_collective = namespace in _COLLECTIVES
        self.is_wait = self.is_collective and op.name == "wait_tensor"
        self.gives_unwritten = access.allocates or access.grows
        """Its result is memory that nobody wrote."""
        self.moves = access.moves or access.copies
        """Does it hand on what it reads, unwritten memory included?"""
        self.reads = tuple(
            entry
            for entry in access.arguments
            if entry[2] != accesses.WRITES
            and entry[1] not in _SCRATCH
            and not self.is_wait
            and not (self.is_collective and entry[1].startswith("output"))  # where the answer goes; no schema says so
        )
        """Position, name and role of what is read."""
        self.reads_self = access.reads_self if access.ignores_self_at is not None else None
        self.written = tuple(
            (-1 if argument.kwarg_only else position, argument.name, _role_of(access, position, argument))
            for position, argument in enumerate(schema.arguments)
            if (argument.alias_info is not None and argument.alias_info.is_write and "Tensor" in str(argument.type))
            or (op.writes_statistics and argument.name in _STATISTICS)
        )
        """Position, name and role of what is written."""
        named = {entry[1] for entry in access.arguments}
        tensors = [
            (-1 if argument.kwarg_only else position, argument.name)
            for position, argument in enumerate(schema.arguments)
            if "Tensor" in str(argument.type)
        ]
        self.touched = tuple(entry for entry in tensors if entry[1] in named and entry[1] not in _SCRATCH)
        """Position and name of tensors whose elements are read or written."""
        self.sized = tuple(entry for entry in tensors if entry[1] not in named)
        """The same of those that are asked for their sizes alone."""
        self.scratch = frozenset(
            place for place, one in enumerate(schema.returns) if one.name in _SCRATCH or place == op.scratch
        )
        """Places of results that are not digested."""
        self.marks = (
            (Mark.COLLECTIVE if self.is_collective else 0)
            | (Mark.UNWRITTEN if self.gives_unwritten else 0)
            | (Mark.TO_HOST if op.to_host else 0)
        )

    def numbers(self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> int:
        """The digest of the numbers among a call's arguments, and of the parts of tensors that they are; 0 without."""
        numbers: list[Any] = []
        is_numbered, is_placed = False, bool(self.sized or kwargs)
        for value in args:
            kind = type(value)
            if kind is _Tensor or kind is _Parameter:
                is_placed = is_placed or value._is_view()
                numbers.append(None)
                continue
            plain = value if kind in _PLAIN else _listed(value)
            is_numbered = is_numbered or plain is not None
            is_placed = is_placed or kind is list or kind is tuple
            numbers.append(plain)
        places = [*parts_of(self.touched, args, kwargs), *sizes_of(self.sized, args, kwargs)] if is_placed else []
        if not places and not is_numbered and not kwargs:
            return 0
        if places:
            numbers.append(places)
        if kwargs:
            for name, value in kwargs.items():
                plain = value if type(value) in _PLAIN else _listed(value)
                if plain is not None:
                    numbers += (name, plain)
        try:
            key = marshal.dumps(numbers, 2)
        except ValueError:  # a number of another library
            return self._spell(self._text(args, kwargs, places))
        digest = self._texts.get(key)
        if digest is None:
            digest = self._spell(self._text(args, kwargs, places))
            if len(self._texts) < _MOST_TEXTS:
                self._texts[key] = digest
        return digest

    def _text(self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, places: list[tuple[Any, ...]]) -> str:
        """The numbers in words: ``alpha=1, 0.5``, by the names that the schema gives."""
        named = [*zip(self.argument_names, args, strict=False), *(kwargs or {}).items()]
        texts = []
        for name, value in named:
            plain = value if type(value) in _PLAIN else _listed(value)
            if plain is not None:
                texts.append(f"{name}={plain!r}")
        return ", ".join(texts) + spelt_places(places)


class RegionPlan(Plan):
    """The same of a compiled region, which reads and writes what it was handed."""

    def __init__(self) -> None:
        self.is_collective = self.is_wait = self.moves = self.gives_unwritten = False
        self.scratch = frozenset()
        self.marks = Mark.COMPILED


def _listed(value: Any) -> Any:
    """A list of numbers as it is, without what is none; ``None`` for anything but numbers."""
    kind = type(value)
    if kind is list or kind is tuple:
        if not value:
            return None
        first = type(value[0])
        if first in _PLAIN and first is not type(None):
            return list(value)
        return None
    if isinstance(value, (int, float, complex)):  # NumPy's float is one, a symbolic number is none
        return repr(value)
    return None


def plan_of(func: Any, access: Access, spell: Callable[[str], int]) -> Plan | None:
    """The plan for an overload; ``None`` where its calls are no events: views, questions about sizes."""
    schema = getattr(func, "_schema", None)
    if schema is None or isinstance(func, seams.HigherOrderOperator):
        return None
    if row_of(packet_of(str(func))).is_view or torch.Tag.inplace_view in func.tags:
        return None
    if any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns):
        return None
    gives = any("Tensor" in str(one.type) for one in schema.returns)
    writes = any(one.alias_info is not None and one.alias_info.is_write for one in schema.arguments)
    if not gives and not writes and not access.arguments:
        return None
    return Plan(func, access, spell)


def _role_of(access: Access, position: int, argument: Any) -> int:
    at = -1 if argument.kwarg_only else position
    for where, name, role in access.arguments:
        if where == at and name == argument.name:
            return role
    return accesses.UPDATES
