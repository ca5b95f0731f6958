"""What an overload does to the memory of its arguments: from its schema and its row in the table of ops.

A schema says which arguments are written, not whether they are read before, nor whether only a tensor's sizes matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch

from tracer.facts import Args, Kwargs
from tracer.names import TORCH_NAMESPACES
from tracer.ops import Op, Touch, row_of
from tracer.recording.torch_private import seams

#: Read: every element, or so many that unwritten ones show.
READS = 1
#: Wholly written, and not read.
WRITES = 2
#: Read, then wholly written.
UPDATES = 3
#: Written at places that only data know; nothing else of it is read.
SCATTERS = 4
#: Read and written at places that only data know.
ACCUMULATES = 5
#: Read at places that only data know.
GATHERS = 6
#: Elements of it are taken or left, as another tensor says.
SELECTS = 7


def positions_of(schema: Any) -> list[tuple[int, Any]]:
    """The arguments of a schema, each with its position; -1 for a keyword."""
    return [(-1 if argument.kwarg_only else position, argument) for position, argument in enumerate(schema.arguments)]


def argument_at(position: int, name: str, args: Args, kwargs: Kwargs) -> Any:
    return args[position] if 0 <= position < len(args) else kwargs.get(name)


def bound(func: Any, args: Args, kwargs: Kwargs) -> dict[str, Any]:
    """All arguments of a call by name, in the order of its schema, those that were not passed too."""
    return {
        argument.name: args[place] if place < len(args) else kwargs.get(argument.name, argument.default_value)
        for place, argument in enumerate(func._schema.arguments)
    }


def has_out(schema: Any) -> bool:
    return any(argument.kwarg_only and argument.alias_info is not None for argument in schema.arguments)


def is_written(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


class Access:
    """The arguments of one overload, each with what happens to its memory."""

    def __init__(self, func: Any) -> None:
        schema = getattr(func, "_schema", None)
        namespace, _, rest = str(func).partition(".")
        op = row_of(rest.partition(".")[0])
        self.is_foreign = schema is None or namespace not in TORCH_NAMESPACES
        touches = None if self.is_foreign else op.touches
        self.allocates = touches is Touch.ALLOCATES and not has_out(schema)
        self.grows = touches is Touch.GROWS
        self.moves = touches is Touch.MOVES and not has_out(schema)
        self.is_idempotent = op.idempotent
        self.copies = op.copies
        plain = row_of(op.name.removesuffix("_"))
        self.is_product = plain.product
        self.is_masked = False
        self.non_blocking: int | None = None
        """The position of ``non_blocking`` (-1 for a keyword) of an op that copies between devices."""
        self.unread_where: tuple[int, int, str] | None = None
        """The position of an argument that some calls do not read, and position (-1 for a keyword) and name of the
        argument that says so: a product's ``self`` if ``beta`` is 0, momentum in the first step."""
        self.arguments: list[tuple[int, str, int]] = []
        """Position, name and role of each argument that may hold tensors and whose memory is touched."""
        self.written: tuple[tuple[int, str], ...] = ()
        """Position (-1 for a keyword) and name of each argument that is written, whether its schema says so or not."""
        self.is_simple = self.writes_at_known_places = self.writes_by_index = False
        if schema is None:
            return
        arguments = positions_of(schema)
        self.written = tuple((at, one.name) for at, one in arguments if is_written(one) or one.name in op.undeclared)
        names = [argument.name for _, argument in arguments]
        self.is_masked = touches is Touch.SCATTERS and names[1:] == ["mask", "value"]
        for position, argument in arguments:
            if argument.name == "non_blocking" and not has_out(schema):
                self.non_blocking = position
            elif argument.name == "beta" and plain.beta:
                self.unread_where = 0, position, "beta"
            elif argument.name == "is_first_step":
                momentum = (at for at, other in arguments if other.name == "momentum_buffer_list")
                self.unread_where = next(momentum), position, argument.name
            role = self._role(op, func, argument, position)
            if role and "Tensor" in str(argument.type):
                self.arguments.append((position, argument.name, role))
        written = [entry for entry in self.arguments if entry[2] in (WRITES, UPDATES)]
        if not self.is_foreign:
            self.writes_at_known_places = bool(written) or self.is_masked
            has_index = any(role in (SCATTERS, ACCUMULATES) for _, _, role in self.arguments)
            self.writes_by_index = has_index and not self.is_masked
        self.is_simple = (
            self.writes_at_known_places
            and not self.is_masked
            and not self.is_product
            and [entry[0] for entry in written] == [0]
            and str(schema.arguments[0].type) == "Tensor"
            and all(entry[0] >= 0 for entry in self.arguments)
        )
        """Whether it is no product, writes its first argument, a tensor, alone, and has no tensors as keywords."""

    def _role(self, op: Op, func: Any, argument: Any, position: int) -> int:
        writes = is_written(argument)
        touches = op.touches
        if touches is Touch.WAITS:
            return 0
        if self.is_foreign:
            is_out = argument.kwarg_only and argument.name.startswith("out")  # torch's convention: it is not read
            return (WRITES if is_out else UPDATES) if writes else READS
        if touches in (Touch.METADATA, Touch.ALLOCATES) or self.grows or torch.Tag.inplace_view in func.tags:
            return 0
        if touches is Touch.SCATTERS and (writes or argument.name == "noise"):
            return SCATTERS
        if touches is Touch.ACCUMULATES and writes:
            return ACCUMULATES
        if writes:
            # Ops that only write, and every ``out=``: it is made as large as the result, and wholly written.
            return WRITES if argument.kwarg_only or touches is Touch.OVERWRITES else UPDATES
        if argument.alias_info is not None:
            return 0  # a view
        if position == 0 and Touch.SHAPE_OF_SELF in (touches, row_of(f"{op.name}.{func._overloadname}").touches):
            return 0
        if position == 0 and torch.Tag.view_copy in func.tags:
            return SELECTS
        if touches is Touch.SELECTS and (position == 0 or op.name == "where"):
            return SELECTS
        if touches is Touch.GATHERS and position == 0:
            return GATHERS
        return READS

    def unread_at(self, args: Args, kwargs: Kwargs) -> int | None:
        """The position of the argument that this very call does not read; ``None``: it reads them all."""
        if self.unread_where is None:
            return None
        unread, position, name = self.unread_where
        says = argument_at(position, name, args, kwargs)
        is_unread = says is True if name != "beta" else isinstance(says, (int, float)) and says == 0
        return unread if is_unread else None

    def written_tensors(self, args: Args, kwargs: Kwargs) -> Iterator[torch.Tensor]:
        for position, name in self.written:
            value = argument_at(position, name, args, kwargs)
            for item in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(item, torch.Tensor):
                    yield item

    def tensors(self, args: Args, kwargs: Kwargs) -> list[tuple[torch.Tensor, int]]:
        """Every tensor of a call whose memory it touches, with its role."""
        tensors: list[tuple[torch.Tensor, int]] = []
        unread = self.unread_at(args, kwargs)
        for position, name, role in self.arguments:
            value = argument_at(position, name, args, kwargs)
            if position == unread:
                if role == READS:
                    continue
                role = WRITES
            if isinstance(value, torch.Tensor):
                tensors.append((value, role))
            elif isinstance(value, (list, tuple)):
                # Collectives take lists of lists.
                nested = chain.from_iterable(item if isinstance(item, (list, tuple)) else (item,) for item in value)
                tensors.extend((item, role) for item in nested if isinstance(item, torch.Tensor))
        return [entry for entry in tensors if not seams.answers_for_itself(type(entry[0]))]
