"""What is digested of a call: planned once per overload, from its schema and ``Access``; collected as it is made."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import torch

from tracer.facts import Args, Kwargs
from tracer.ops import bare_name, row_of
from tracer.recording.storage import (
    ACCUMULATES,
    GATHERS,
    READS,
    SCATTERS,
    SELECTS,
    UPDATES,
    WRITES,
    Access,
    argument_at,
    is_written,
    positions_of,
)
from tracer.recording.torch_private import seams
from tracer.recording.values.digest_table import Awaited, DigestTable, Stored
from tracer.trace.values import Mark
from tracer.trace.values.columns import spelt_places

_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_NOT_WRITTEN = int(Mark.OUTPUT_NOT_DIGESTED)

DigestPlace = tuple[Any, ...]
"""An argument's name, where its first element lies in the storage (-1: not asked), and its sizes."""

COLLECTIVES = frozenset({"c10d", "_c10d_functional", "c10d_functional", "_c10d_functional_autograd"})
"""Namespaces of ops that talk to other processes."""
#: What an op hands to its own backward and to nobody else, by its name in schemas: parts of it stay unwritten.
_SCRATCH = frozenset(
    ("workspace", "reserve", "reserveSpace", "reserve_space", "philox_seed", "philox_offset", "rng_state", "unused")
    + ("debug_attn_mask", "log_alpha")
)
_PLAIN = frozenset({int, float, bool, complex, str, type(None)})
_MOST_TEXTS = 4096
#: Only part of the argument is read or written, as data say.
PARTIAL = frozenset({SCATTERS, ACCUMULATES, GATHERS, SELECTS})
#: Of a collective: it is sent to other processes.
SENDS = 8


class Plan:
    def __init__(self, func: Any, access: Access, spell: Callable[[str], int]) -> None:
        """``spell`` gives the digest of a text of numbers."""
        schema = func._schema
        arguments = positions_of(schema)
        namespace, _, rest = str(func).partition(".")
        op = row_of(rest.partition(".")[0])
        self._spell = spell
        self._texts: dict[bytes, int] = {}
        self.access = access
        self.argument_names = tuple(argument.name for argument in schema.arguments)
        self.is_collective = namespace in COLLECTIVES
        self.is_wait = self.is_collective and op.name == "wait_tensor"
        self.gives_unwritten = access.allocates or access.grows
        self.moves = access.moves or access.copies
        """Whether it hands on what it reads, unwritten memory included."""
        reduces = "reduce" in op.name  # each process sends what it holds, wherever the answer goes
        self.reads = tuple(
            (*entry[:2], SENDS)
            if self.is_collective and (reduces or (entry[1].startswith("input") and entry[2] == READS))
            else entry
            for entry in access.arguments
            if entry[2] != WRITES
            and entry[1] not in _SCRATCH
            and not self.is_wait
            and not (self.is_collective and entry[1].startswith("output"))  # where the answer goes; no schema says so
        )
        self.targets = tuple((at, name) for at, name, role in access.arguments if role == WRITES)
        """Position and name of what is written and not read: of it the dtype alone tells."""
        self.unread_at = access.unread_at if access.unread_where is not None else None
        roles = {name: role for _, name, role in access.arguments}
        self.written = tuple(
            (position, argument.name, roles.get(argument.name, UPDATES))
            for position, argument in arguments
            if (is_written(argument) and "Tensor" in str(argument.type)) or argument.name in op.undeclared
        )
        tensors = [(position, argument.name) for position, argument in arguments if "Tensor" in str(argument.type)]
        self.touched = tuple(entry for entry in tensors if entry[1] in roles and entry[1] not in _SCRATCH)
        self.sized = tuple(entry for entry in tensors if entry[1] not in roles)
        self.scratch = frozenset(
            place for place, result in enumerate(schema.returns) if result.name in _SCRATCH or place == op.scratch
        )
        self.mark_bits = (
            Mark.COLLECTIVE * self.is_collective | Mark.UNWRITTEN * self.gives_unwritten | Mark.TO_HOST * op.to_host
        )

    def numbers(self, args: Args, kwargs: Kwargs) -> int:
        """The digest of a call's numbers and dtypes, and of the parts of tensors that it takes; 0 without."""
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
        places = [*self._places(args, kwargs)] if is_placed else []
        if self.targets:
            kwargs = {**kwargs, **{name: _dtypes(argument_at(at, name, args, kwargs)) for at, name in self.targets}}
        if not places and not is_numbered and not kwargs:
            return 0
        if places:
            numbers.append(places)
        for name, value in kwargs.items():
            plain = value if type(value) in _PLAIN else _listed(value)
            if plain is not None:
                numbers += (name, plain)
        try:
            key = marshal.dumps(numbers, 2)
        except ValueError:  # a number of another library
            return self._spell(self._text(args, kwargs, places))
        if (digest := self._texts.get(key)) is None:
            digest = self._spell(self._text(args, kwargs, places))
            if len(self._texts) < _MOST_TEXTS:
                self._texts[key] = digest
        return digest

    def _places(self, args: Args, kwargs: Kwargs) -> Iterator[DigestPlace]:
        """The parts of tensors that it touches; the sizes of those of which nothing else matters (``rand_like``)."""
        for position, name in self.touched:
            value: Any = argument_at(position, name, args, kwargs)
            for item in value if type(value) in (list, tuple) else (value,):
                if type(item) in (_Tensor, _Parameter) and item._is_view():
                    try:
                        offset = item.storage_offset()
                        if offset or item.nbytes != seams.storage_bytes(item):
                            yield (name, offset, *item.shape)
                    except (NotImplementedError, RuntimeError):  # a layout without a storage, or without one shape
                        continue
        for position, name in self.sized:
            value = argument_at(position, name, args, kwargs)
            if isinstance(value, _Tensor) and not seams.dispatches_itself(type(value)) and not value.is_nested:
                yield (name, -1, *value.shape)

    def _text(self, args: Args, kwargs: Kwargs, places: list[DigestPlace]) -> str:
        """The numbers in words, by the names that the schema gives: ``alpha=1, beta=0.5``."""
        words = []
        for name, value in (*zip(self.argument_names, args, strict=False), *kwargs.items()):
            plain = value if type(value) in _PLAIN else _listed(value)
            if type(value) is torch.dtype:
                words.append(f"{name}={value}")
            elif plain is not None:
                words.append(f"{name}={plain!r}")
        return ", ".join(words) + spelt_places(places)


class RegionPlan(Plan):
    """The plan of digests for a compiled region or a launched kernel, which reads and writes its inputs."""

    def __init__(self, mark_bits: int = Mark.COMPILED) -> None:
        self.is_collective = self.is_wait = self.moves = self.gives_unwritten = False
        self.scratch = frozenset()
        self.mark_bits = mark_bits


def _dtypes(value: Any) -> Any:
    """The dtype of a tensor, or those among several; ``None`` for anything else."""
    if not isinstance(value, (list, tuple)):
        return value.dtype if isinstance(value, _Tensor) else None
    return sorted({str(item.dtype) for item in value if isinstance(item, _Tensor)})


def _listed(value: Any) -> Any:
    """A list of numbers as it is, another library's number and a dtype as text; ``None`` for anything else."""
    kind = type(value)
    if kind is torch.dtype:
        return str(value)
    if kind is list or kind is tuple:
        return list(value) if value and value[0] is not None and type(value[0]) in _PLAIN else None
    if isinstance(value, (int, float, complex)):  # NumPy's float is one, a symbolic number is none
        return repr(value)
    return None


def plan_of(func: Any, access: Access, spell: Callable[[str], int]) -> Plan | None:
    """The plan for an overload; ``None`` where its calls are no events: views, questions about sizes."""
    schema = getattr(func, "_schema", None)
    if schema is None or isinstance(func, seams.HigherOrderOperator):
        return None
    if row_of(bare_name(str(func))).is_view or torch.Tag.inplace_view in func.tags:
        return None
    if any(result.alias_info is not None and not is_written(result) for result in schema.returns):
        return None
    gives = any("Tensor" in str(result.type) for result in schema.returns)
    return Plan(func, access, spell) if gives or access.written or access.arguments else None


class CallDigests(msgspec.Struct, eq=False):
    """The digests of one call: what it reads, from before it on, and what it wrote."""

    plan: Plan
    unwritten_reads: int = 0
    inputs: list[Any] = []
    origins: dict[int, None] = {}
    numbers: int = 0
    mark_bits: int = 0
    hands_on_unwritten: bool = False
    fresh: list[tuple[Any, Any]] = []
    """Unwritten memory that a foreign op was handed, with its digest before the call: it may be written, whatever the
    schema says, and is an input only if it was not."""
    turn: int = 0
    """The memory layout of inputs that were digested in memory order, 1 to 255; 0 without any."""
    serial: int = 0
    is_late: bool = False
    """Whether it is a copy to the host that is still under way."""
    outputs: list[Any] = []
    keeps: int | None = None
    """The origin of the memory of which it wrote a part, if any."""
    written: list[Stored] = []
    collected: set[int] = set()
    """Outputs so far, by ``id``: they live as long as the call."""
    awaited: list[Awaited] = []
    """What a collective writes which may not be over."""

    def read(self, digest: Any, origin: int, turn: int = 0) -> None:
        """One more input; ``turn``: how it lies, where it was digested in memory order."""
        self.inputs.append(digest)
        self.origins[origin] = None
        if turn:
            self.turn = (self.turn * 3 + turn) % 255 + 1

    def add_all(self, memory: DigestTable, values: Iterable[Any], otherwise: Callable[[Any], None]) -> None:
        """Several outputs, most of which were read too; ``otherwise`` adds the others, ``None`` among them."""
        origins, collected = self.origins, self.collected
        is_plain = not self.is_late and not self.plan.is_collective and not self.hands_on_unwritten
        for value in values:
            kind = type(value)
            if is_plain and (kind is _Tensor or kind is _Parameter) and id(value) not in collected:
                stored = memory.live.get(seams.storage_id(value))
                if stored is not None and not stored.is_fresh and stored.origin in origins:
                    collected.add(id(value))
                    self.written.append(stored)
                    self.wrote(memory.wrote(value, stored, self.serial))
                    continue
            otherwise(value)

    def wrote(self, digest: Any) -> None:
        """One more output; ``None``: it could not be digested."""
        if digest is None:
            self.mark_bits |= _NOT_WRITTEN
        else:
            self.outputs.append(digest)


def is_late_copy(args: Args, kwargs: Kwargs, result: Any) -> bool:
    """Return whether the call is a copy from a device to the host that is asked not to wait."""
    if not (kwargs.get("non_blocking") or (len(args) > 2 and args[2] is True)):
        return False
    sources = [value for value in args[:2] if isinstance(value, torch.Tensor)]
    return isinstance(result, torch.Tensor) and result.is_cpu and not all(source.is_cpu for source in sources)
