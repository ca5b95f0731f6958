"""Facts and arguments of a graph's calls: its values as meta tensors, known by the tables that follow eager calls.

A graph is functional: no value is written to again, except by an op with an unknown body, after which nothing is known
of its inputs. Facts that need data or dynamic sizes are missing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from tracer import ops
from tracer.facts import MISSING
from tracer.ops import Touch, Writes, bare_name, row_of
from tracer.recording import calls as facts
from tracer.recording.calls import DRAW, named_arguments, torch_word
from tracer.recording.calls.groups import OverloadInfo
from tracer.recording.compiled.graph_text import AnnotatedTensor, Graph, Node, TorchConstant, Unread, flat
from tracer.recording.randomness.generators import SEEDS
from tracer.recording.storage import Access
from tracer.recording.storage.known_numbers import Distinct, Indices, index_role, value_role
from tracer.recording.storage.registry import WRITES, NumbersTable, Role
from tracer.recording.torch_private import compile_seams, seams
from tracer.trace.records import Argument, FactValue, TensorForm

#: Stands for a dynamic size: more addends than can be added in any order with the same sum.
SEVERAL = 3
_KNOWN_INSIDE = ("aten.", "prims.")
_INDEXES = ("aten.index.Tensor", "aten._unsafe_index.Tensor")
_VIEWS = ops.VIEWS - {"clone"}
#: Ops that graphs alone have, and those of eager code that do the same.
_AS_EAGER = {
    "prims.convert_element_type.default": "aten._to_copy.default",
    "prims.rev.default": "aten.flip.default",
    "prims.iota.default": "aten.arange.start_step",
    "aten._unsafe_index.Tensor": "aten.index.Tensor",
}
_ReadAt = tuple[int | None, tuple[int | None, ...]]


class GraphIndices(Indices):
    """What is known of the tensors that stand for a graph's values."""

    keeps_meta = True

    def __init__(self) -> None:
        super().__init__()
        self.values.keeps_meta = True
        self.read_at: dict[int, _ReadAt] = {}
        """By ``id`` of what was computed from a read at indices, and from nothing else: dimension and indices."""

    def covers(self, tensor: torch.Tensor, dim: int, extent: int) -> bool:
        """Sizes may stand for dynamic ones."""
        return False

    def was_read_at(self, tensor: torch.Tensor, dim: int | None, indices: Sequence[Any]) -> bool:
        """Return whether ``tensor`` stands for a value computed from what was read at ``indices``, and nothing else."""
        at = None if dim is None else dim % max(1, tensor.dim())
        return self.read_at.get(id(tensor)) == (at, _ids(indices))

    def forget(self) -> None:
        self._registry.forget()
        self.read_at.clear()


#: ``device(type='cuda', index=0)``
_DEVICE = re.compile(r"""device\((?:type ?= ?)?['"]([a-z]+)(?::(\d+))?['"](?:, (?:index ?= ?)?(\d+))?\)""")
_CONSTANTS = {"inf": float("inf"), "nan": float("nan")}


def constant(text: str) -> Any:
    """A constant of torch in a graph's text; ``...`` for an unknown one."""
    device = _DEVICE.fullmatch(text)
    if device is not None:
        return torch.device(":".join(filter(None, device.groups())))
    if text.startswith("torch."):
        return getattr(torch, text.removeprefix("torch."), ...)
    return _CONSTANTS.get(text, ...)


class UnknownArgument:
    """An argument that is not in the text: readers that use it fail."""

    def __bool__(self) -> bool:
        raise TypeError("not known")

    def __eq__(self, other: object) -> bool:
        raise TypeError("not known")

    __hash__ = None  # type: ignore[assignment]


def meta_tensor(value: AnnotatedTensor, dynamic: int = SEVERAL) -> torch.Tensor:
    """A value as a meta tensor; ``dynamic`` stands for a dynamic size. Raises ``LookupError`` for an unknown dtype."""
    sizes = tuple(dynamic if size is None else size for size in value.shape)
    dtype = compile_seams.dtype_of(value.dtype)
    strides = [stride for stride in value.stride or () if stride is not None]
    if len(strides) != len(sizes):
        return torch.empty(sizes, dtype=dtype, device="meta")
    return torch.empty_strided(sizes, strides, dtype=dtype, device="meta")


class GraphValues:
    """The values of one graph while its calls are read in order; ``handed_over``: what is known of its inputs."""

    def __init__(self, graph: Graph, indices: GraphIndices, handed_over: Mapping[str, Distinct]) -> None:
        self._graph = graph
        self._indices = indices
        self._tensors: dict[str, torch.Tensor] = {}
        self._parts: dict[str, dict[int, str]] = defaultdict(dict)
        for name, place in graph.places.items():
            self._parts[graph.parts[name]][place] = name
        for name in graph.inputs:
            if name in handed_over and (tensor := self._named(name)) is not None:
                indices.know(tensor, handed_over[name])

    def eager(self, value: Any) -> Any:
        """An argument as eager calls have it."""
        if isinstance(value, AnnotatedTensor):
            if value.name not in self._tensors:
                self._tensors[value.name] = meta_tensor(value)
            return self._tensors[value.name]
        if isinstance(value, list):
            return [*map(self.eager, value)]
        if isinstance(value, TorchConstant):
            value = constant(value.text)
        return UnknownArgument() if value is ... or isinstance(value, Unread) else value

    def _named(self, name: str) -> Any:
        value = self._graph.values.get(name)
        return None if value is None else self.eager(value)

    def distinct(self) -> dict[str, Distinct]:
        known = {name: self._indices.of(tensor) for name, tensor in self._tensors.items()}
        return {name: numbers for name, numbers in known.items() if numbers is not None}

    def follow(self, node: Node) -> None:
        if not node.op.startswith(_KNOWN_INSIDE):
            for name, tensor in self._tensors.items():
                if not {name, self._graph.parts.get(name)}.isdisjoint(node.reads):
                    for table in (self._indices, self._indices.values):
                        table.give_up(seams.storage_id(tensor))
            return
        with suppress(Exception), torch.no_grad(), seams.without_modes():  # unsupported arguments
            args = tuple(map(self.eager, node.args))
            kwargs = {name: self.eager(value) for name, value in node.kwargs.items()}
            if node.result is None:
                parts = self._parts[node.name]
                places = range(max(parts, default=0) + 1)
                result: Any = [self._named(parts[place]) if place in parts else None for place in places]
            else:
                result = self.eager(node.result)
            if node.result is not None and bare_name(node.op) in _VIEWS:
                view = compile_seams.overload(node.op)(*args, **kwargs)  # type: ignore[misc]
                if (view.shape, view.stride(), view.dtype) == (result.shape, result.stride(), result.dtype):
                    self._tensors[node.result.name] = result = view
            if (read := self._read_at(node, args, kwargs, result)) is not None:
                self._indices.read_at[id(result)] = read
            self._note(node, args, kwargs, result)

    def _note(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if node.op == "prims.iota.default":
            length, start, step = args[0], kwargs["start"], kwargs["step"]
            length = SEVERAL if type(length) is not int and step > 0 else length
            args, kwargs = (start, start + step * length, step), {}
        access, *roles = _roles_of(node.op)
        is_unfixed = any(map(is_dynamic, (*flat((*node.args, *node.kwargs.values())), node.result)))
        tables: tuple[NumbersTable[Any], ...] = self._indices, self._indices.values
        for table, role in zip(tables, roles, strict=True):
            if role is None:
                continue
            if role.kind == WRITES:
                table.forget_written(access, args, kwargs)
            elif not (is_unfixed and (role.name in ops.SUMMING or role.name == "sum")):  # which count addends
                table.note(role, access, args, kwargs, result)

    def _read_at(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> _ReadAt | None:
        if node.op == "aten.gather.default":
            return args[1] % max(1, args[0].dim()), _ids(args[2:3])
        if node.op in _INDEXES:
            return None, _ids(args[1])
        if not compile_seams.is_pointwise(node.op) and node.op != "prims.convert_element_type.default":
            return None
        wide = [each for each in flat((*args, *kwargs.values())) if isinstance(each, torch.Tensor) and each.dim()]
        sources = {self._indices.read_at.get(id(each)) for each in wide}
        is_whole = all(each.shape == result.shape for each in wide)
        return sources.pop() if len(sources) == 1 and is_whole else None


@cache
def _roles_of(op: str) -> tuple[Access, Role | None, Role | None]:
    """What an op does to its arguments, and the roles that it plays for the tables of eager calls."""
    func = compile_seams.overload(_AS_EAGER.get(op, op))
    return Access(func), index_role(func), value_role(func)


def _ids(tensors: Iterable[Any]) -> tuple[int | None, ...]:
    return tuple(None if tensor is None else id(tensor) for tensor in tensors)


def is_dynamic(value: Any) -> bool:
    """Return whether an argument hangs on sizes that are not fixed."""
    return isinstance(value, Unread) or (
        isinstance(value, AnnotatedTensor) and None in (*value.shape, *(value.stride or ()))
    )


#: Stands for a dynamic size in products, which Inductor does not pad: fx_passes/pad_mm.py, get_padded_length, 2.13.0.
_ALIGNED, _PADDED = 16, "shape.is_aligned"
#: Facts that do not depend on sizes, except that a dynamic size counts as several.
_WITHOUT_SIZES = ("arg.", "given.", "index.")


class GraphFacts:
    """Reads the facts of graphs' calls; ``asked`` returns those that the rules need, by op."""

    def __init__(self, asked: Callable[[], Mapping[str, frozenset[str]]]) -> None:
        self._asked = asked
        self._infos: dict[str, OverloadInfo | None] = {}
        self._indices = GraphIndices()

    def of_graph(
        self, graph: Graph, handed_over: Mapping[str, Distinct] = MappingProxyType({})
    ) -> tuple[list[dict[str, FactValue]], dict[str, Distinct]]:
        """The facts of each call, and the values with distinct numbers by name; ``handed_over``: those of inputs."""
        values = GraphValues(graph, self._indices, handed_over)
        read = []
        try:
            for node in graph.nodes:
                try:
                    read.append(self._of(node, values))
                except Exception:  # a dtype or a device of another release
                    read.append({})
                values.follow(node)
            return read, values.distinct()
        finally:
            self._indices.forget()

    def _of(self, node: Node, graph_values: GraphValues) -> dict[str, FactValue]:
        """The facts of one call; for an op that this process has not loaded, those of its first tensor."""
        if node.op not in self._infos:
            func = compile_seams.overload(node.op)
            self._infos[node.op] = None if func is None else OverloadInfo(func, self._asked(), self._indices)
        info = self._infos[node.op]
        arguments = (*node.args, *node.kwargs.values())
        tensor = _first_value(arguments) or node.result
        values = _common_facts(tensor)
        if info is None:
            return values
        try:
            args = tuple(map(graph_values.eager, node.args))
            kwargs = {key: graph_values.eager(value) for key, value in node.kwargs.items()}
            # The tensor that the op works on, by its schema: not always the first one.
            position = info.position
            primary = _first_value(node.args[position : position + 1]) if position is not None else None
            if primary is not None:
                values = _common_facts(primary)
        except Exception:  # a dtype of another release
            return values
        is_unfixed = any(map(is_dynamic, flat(arguments)))
        for key, reader in info.readers.items():
            if key == DRAW:
                values |= self._draws(reader, args, kwargs, tensor)
            elif not is_unfixed or key == _PADDED or key.startswith(_WITHOUT_SIZES):
                with suppress(Exception):  # it needs data, or something that is not in the text
                    own = args
                    if is_unfixed and key == _PADDED:
                        own = tuple(
                            meta_tensor(each, _ALIGNED) if isinstance(each, AnnotatedTensor) else each
                            for each in node.args
                        )
                    value = reader(own, kwargs)
                    if value is not MISSING and not isinstance(value, UnknownArgument):
                        values[key] = value
        return values

    def _draws(self, reader: Any, args: Any, kwargs: Any, tensor: AnnotatedTensor | None) -> dict[str, FactValue]:
        """Facts of the generator that a call draws from: compiled code seeds its own from the device's default one."""
        try:
            with torch.device("cpu"):
                read = reader(args, {**kwargs, "device": torch.device("cpu")})
        except Exception:
            return {}
        if read is MISSING:
            return {}
        asked = kwargs.get("device")
        device = asked if isinstance(asked, torch.device) else torch.device(tensor.device if tensor else "cpu")
        return facts.draw_facts(SEEDS.default(device))


def _first_value(arguments: Iterable[Any]) -> AnnotatedTensor | None:
    return next((value for value in flat(arguments) if isinstance(value, AnnotatedTensor)), None)


def _common_facts(value: AnnotatedTensor | None) -> dict[str, FactValue]:
    if value is None:
        return facts.common_facts(None)
    dtype = compile_seams.dtype_of(value.dtype)
    device = torch.device(value.device) if value.device else seams.default_device()
    return facts.common_facts((dtype, device, torch.strided, len(value.shape)))


def arguments_of(node: Node, device: str) -> dict[str, Argument]:
    """``CallGroup.given`` of one call on ``device``; empty for an op that this process has not loaded."""
    func = compile_seams.overload(node.op)
    if func is None:
        return {}
    named = {name: _argument(value, device) for name, value in node.kwargs.items()}
    return named_arguments(func, [_argument(value, device) for value in node.args], named, device)


def _argument(value: Any, device: str) -> Any:
    if isinstance(value, list):
        return [_argument(item, device) for item in value]
    if isinstance(value, TorchConstant):
        word = constant(value.text)  # without a device's index: a replayed call runs on the available device
        return torch.device(word.type) if isinstance(word, torch.device) else word
    if not isinstance(value, AnnotatedTensor):
        return value
    try:
        tensor = meta_tensor(value)
    except LookupError:
        return ...
    own = "".join(letter for letter in value.device if letter.isalpha())
    stride = None if tensor.is_contiguous() else value.stride
    return TensorForm(torch_word(tensor.dtype), value.shape, stride, device="" if own == device else own)


# --- calls that compute with unwritten memory: followed through views, and no further than a write of a slice ---

# A write at indices may cover any of it, but no more numbers than it writes. Generated code computes with a constant in
# place of memory that no call wrote at indices (NaN; ``torch/_inductor/ir.py``, ``nop_loader_fn``, 2.13.0).

_SEES = ops.VIEWS | {"new_empty_strided"}
#: What ops do that read nothing of their first argument, or only a part, which may have been written.
_IGNORES = frozenset({Touch.SHAPE_OF_SELF, Touch.SELECTS})
_COMPUTES = frozenset({"sum", "mean", "amax", "amin", "cumsum", "_softmax", "dot", "mv"})
_PRODUCTS = frozenset({"mm", "bmm"})
_NAN = re.compile(r"quiet_NaN\(\)|float\(['\"]nan['\"]\)|\bnan\b")
_MASKS = ("b8", "u8")
HANDED_OVER = -1
"""The allocation of an input."""


class _Memory(NamedTuple):
    """A value in memory that somebody allocated."""

    allocation: int
    """The index of the call that allocated it."""
    scattered: int = 0
    """Numbers that calls wrote into it at indices, at most: from the first on code reads it as it is."""


class Read(NamedTuple):
    """A call that computes with unwritten memory."""

    number: int
    """The index of the call."""
    allocation: int
    """That of the call that allocated the memory."""
    may_be_constant: bool
    """Whether generated code may compute with a constant in its place."""


def computes_with_constants(text: str) -> bool:
    """Whether generated code, or a graph, holds the constant that stands for unwritten memory of floats."""
    return _NAN.search(text) is not None


def unwritten_reads(graph: Graph, handed_over: str = "") -> Iterator[Read]:
    """The calls of the graph that compute with unwritten memory, the input ``handed_over`` among it."""
    memory = {handed_over: _Memory(HANDED_OVER)} if handed_over else {}
    for number, node in enumerate(graph.nodes):
        packet = node.op.split(".")[1]
        if node.op.startswith("aten.") and packet not in _SEES and row_of(packet).touches is Touch.ALLOCATES:
            if node.result is not None and all(node.result.shape):
                memory[node.name] = _Memory(number)
            continue
        arguments = flat((*node.args, *node.kwargs.values())) if memory else ()
        read = next((memory[v.name] for v in arguments if isinstance(v, AnnotatedTensor) and v.name in memory), None)
        if read is None:
            continue
        if row_of(packet).writes is Writes.SEVERAL:  # others decompose to it, or write into a copy
            base = memory.get(getattr(node.args[0], "name", ""))
            adds = dict(zip(("self", "indices", "values", "accumulate"), node.args, strict=False)) | node.kwargs
            if base is not None and adds.get("accumulate"):
                yield Read(number, base.allocation, may_be_constant=False)
            elif base is not None and (left := _after_write(node, base)) is not None:
                memory[node.name] = left
        elif packet in _SEES:
            memory[node.name] = read
        elif packet in _PRODUCTS:
            yield Read(number, read.allocation, may_be_constant=False)
        elif row_of(packet).beta:  # a product and a tensor, which counts for nothing where ``beta`` is 0
            first, *factors = (isinstance(v, AnnotatedTensor) and v.name in memory for v in node.args[:3])
            if any(factors) or (first and node.kwargs.get("beta", 1) != 0):
                yield Read(number, read.allocation, may_be_constant=False)
        elif (
            _IGNORES.isdisjoint((row_of(packet).touches, row_of(node.op.removeprefix("aten.")).touches))
            and not packet.endswith("_like")
            and (compile_seams.is_pointwise(node.op) or packet in _COMPUTES)
        ):
            yield Read(number, read.allocation, may_be_constant=not read.scattered)


def _after_write(node: Node, base: _Memory) -> _Memory | None:
    """``base`` after a write at indices; ``None`` where that may have covered all that was unwritten."""
    try:
        sizes = _sizes(node.args[0])
        given = {dim: index for dim, index in enumerate(node.args[1]) if index is not None}
        reached = torch.broadcast_shapes(*map(_sizes, given.values()))
    except (IndexError, TypeError, ValueError):  # dynamic sizes, or arguments that are not in the text
        return None
    if any(index.dtype in _MASKS for index in given.values()):
        return None
    others = prod(size for dim, size in enumerate(sizes) if dim not in given)
    written = base.scattered + prod(reached) * others
    return base._replace(scattered=written) if written < prod(sizes) else None


def _sizes(value: Any) -> tuple[int, ...]:
    """The sizes of a value. Raises ``ValueError`` for dynamic ones."""
    if not isinstance(value, AnnotatedTensor) or None in value.shape:
        raise ValueError("unknown sizes")
    return tuple(size for size in value.shape if size is not None)
