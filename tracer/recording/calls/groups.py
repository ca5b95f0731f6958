"""Groups of calls: counters, and what is decided once per overload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tracer.facts import ASK
from tracer.facts.every_fact import FACTS
from tracer.names import BlindSpotKind, Phase
from tracer.ops import Formula, rows
from tracer.recording import calls as facts
from tracer.recording.events import ORDER
from tracer.recording.origin import spell
from tracer.recording.origin.modules import ModuleSettings, Origin
from tracer.recording.storage import Access
from tracer.recording.storage.known_numbers import Indices
from tracer.recording.torch_private import seams
from tracer.trace.records import BlindSpot

ON_HOST = ("host", True)
"""The ``extra`` of calls on fake tensors that would all lie on the host."""


class CallCounter(msgspec.Struct, eq=False):
    """One group while it is counted."""

    origin: Origin
    raw: Any
    """``(dtype, device, layout, ndim)`` as torch has them, or ``None``."""
    asked: Any
    """Values of the overload's readers, in their order."""
    node: str = ""
    extra: Any = None
    """One more fact, as ``(name, value)``, or ``ON_HOST``."""
    inner_seen: bool = False
    is_fake: bool = False
    """Whether its calls are on fake tensors."""
    settings: ModuleSettings = ()
    """The settings that had changed while recording, and their values for these calls."""
    given: dict[str, Any] | None = None
    """The arguments of its first call, as the trace has them."""
    count: int = 0
    order: int = msgspec.field(default_factory=ORDER.__next__)


class OverloadInfo:
    """Per-overload data, computed once."""

    def __init__(self, func: Any, asked: Mapping[str, frozenset[str]], indices: Indices | None = None) -> None:
        """``indices``: the tensors that are known to hold distinct numbers."""
        schema = getattr(func, "_schema", None)
        self.counters: dict[Any, CallCounter] = {}
        """Those of the settings as they are now."""
        self.pages: dict[ModuleSettings, dict[Any, CallCounter]] = {}
        """Those of other settings, once one has changed while recording."""
        self.func = func
        self.name = f"higher_order.{func.name()}" if isinstance(func, seams.HigherOrderOperator) else str(func)
        self.call = seams.direct_call(func)
        self.position = facts.primary_position(func)
        self.mutates = bool(getattr(schema, "is_mutable", False))
        self.makes_tensors = schema is not None and self.position is None
        keys = asked.get(self.name, frozenset()) | asked.get(self.name.rpartition(".")[0], frozenset())
        self.readers = facts.asked_readers(func, keys, indices)
        answers = tuple(FACTS[key].on_plain if key in FACTS else ASK for key in self.readers)
        self.plain = None if not answers or ASK in answers else answers
        """The readers' answers for calls whose arguments ``are_plain``, if those need no reading; else ``None``."""
        self.is_composite = schema is not None and seams.has_composite_kernel(func)
        self.decomposes = self.is_composite and hasattr(func, "_op_dk")
        self.has_kernel_of_a_layout = self.is_composite and seams.has_kernel_of_a_layout(func)
        """Whether nested and sparse tensors have a kernel that does not decompose."""
        first = str(schema.arguments[0].type) if schema is not None and schema.arguments else ""
        self.is_listed = first == "List[Tensor]"
        """Whether the first argument is a list of tensors (``_foreach_*``, ``cat``)."""
        self.access = Access(func)
        self.observers: tuple[Any, ...] = ()
        """The observers that want its calls, an ``observers.Wanted`` each."""
        self.lacks_autograd = schema is not None and seams.lacks_autograd(func)
        """Whether its gradients would be lost because a dispatch mode is active."""
        self.overridden = seams.overriding_kernels(func)
        """Who registered other kernels of torch's op, by type of device."""
        self.rare = (
            self.position != 0
            or self.lacks_autograd
            or self.is_composite
            or isinstance(func, seams.HigherOrderOperator)
            or first not in ("Tensor", "List[Tensor]")
            or self.access.grows
        )
        """Whether calls take the longer path: the first argument is no tensor, or the overload is not ordinary."""

    def turn(self, before: ModuleSettings, now: ModuleSettings) -> None:
        """Count calls from here on under the settings ``now``."""
        self.pages[before] = self.counters
        self.counters = self.pages.pop(now, {})

    def every_counter(self) -> Iterator[CallCounter]:
        for counters in (*self.pages.values(), self.counters):
            yield from tuple(counters.values())

    def primary(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The tensor that the call works on, or ``None``."""
        at = args[self.position : self.position + 1] if self.position is not None else ()
        return facts.first_tensor((*at, *args, *kwargs.values()))

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> tuple[Any, ...]:
        """The asked facts of one call; what cannot be read is ``MISSING``."""
        values = []
        keywords = kwargs or {}
        for reader in self.readers.values():
            try:
                values.append(reader(args, keywords))
            except Exception:  # an argument of an unforeseen type: the fact is missing, the call goes on
                values.append(facts.MISSING)
        return tuple(values)


#: By the name of the autograd node without its number. Found by running formulas plain and under an empty mode on 2.13,
#: those of ``prod``, ``cumprod``, ``masked_fill``, ``max`` and ``median`` on each minor release from 2.4 to 2.15.
#: ``cumprod``'s is that of torch up to 2.11; 2.12 and newer take one that gives the same bits.
FORMULAS: Mapping[str, tuple[str, Formula]] = {
    row.formula.node: (row.name, row.formula) for row in rows() if row.formula
}


def unlike_plain_runs(info: OverloadInfo, counter: CallCounter) -> Iterator[BlindSpot]:
    """Blind spots of a group that runs another kernel than torch's, or whose backward is another when recorded."""
    if counter.raw is None:
        return
    _, device, _, dimensions = counter.raw
    place: dict[str, Any] = {"location": spell(counter.origin.site), "count": counter.count}
    if how := info.overridden.get(device.type, ""):
        kind = BlindSpotKind.OVERRIDDEN
        yield BlindSpot(kind=kind, detail=kind.of(f"{info.name}, overridden {how}"), **place)
    op, formula = FORMULAS.get(counter.node.rstrip("0123456789"), ("", None))
    if formula is None or formula.mark != info.name or counter.origin.phase is not Phase.BACKWARD:
        return
    if dimensions and (device.type != "cuda" or formula.on_cuda):
        detail = (
            f"aten.{op}: recording this call changes it: under any dispatch mode its backward takes another"
            f" formula, whose result can differ {formula.differs}"
        )
        yield BlindSpot(kind=BlindSpotKind.CHANGED_BY_RECORDING, detail=detail, **place)


#: Ops whose eager kernel calls its bodies as plain functions (checked on torch 2.13).
_CALLS_BODIES = frozenset({"cond", "while_loop", "flex_attention", "flex_attention_backward", "map_impl", "scan"})


def with_bodies_seen(mode: Any, counter: CallCounter, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the higher-order op; its bodies run under ``mode`` where that changes nothing."""
    if func.name() not in _CALLS_BODIES:
        return func(*args, **kwargs)

    def wrapped(value: Any) -> Any:
        if not callable(value) or isinstance(value, type):
            return value

        def run(*inputs: Any, **named: Any) -> Any:
            counter.inner_seen = True
            with mode:
                return value(*inputs, **named)

        return run

    return func(*map(wrapped, args), **{name: wrapped(value) for name, value in kwargs.items()})
