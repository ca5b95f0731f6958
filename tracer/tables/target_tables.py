"""Which backend's table judges a call, as which op, and which calls need no table."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from tracer.facts import Value
from tracer.names import SAFE, Backend, DeterministicMode, HostCode, Phase, UnknownReason
from tracer.ops import Touch, bare_name, row_of
from tracer.tables.bound_table import (
    BoundTable,
    BoundTranslation,
    Translator,
    device_backend,
    drawn,
    has_computed_step,
    has_trained,
    on_meta,
    on_the_device_alone,
    refuted_by_trials,
    safe_ruling,
    settled_by_data,
    unknown_ruling,
)
from tracer.tables.compiled import CompiledCalls
from tracer.tables.rules import BACKWARD_OF, DERIVATIONS, FORWARD_FACTS, RuleTable, Ruling
from tracer.tables.settings import MODE
from tracer.tables.translation import NO_TRANSLATIONS, RECORDED_ON, Translations
from tracer.trace.records import GENERATOR, META, NO_DEVICE, ORIGIN, CallGroup, FactValue, TensorForm, is_set_up

#: The matrix products of attention's math path.
_PRODUCT = "aten.bmm.default"
#: If only some calls have this fact. If all do, it is the recording's setting, and the target has its own.
_WITHOUT_CUDNN = "conv.without_cudnn"
#: Facts that a ruling on any op may depend on.
_OF_EVERY_CALL = (ORIGIN, GENERATOR, "subclass", "subclass_inner", "body_recorded", _WITHOUT_CUDNN)
_BACKWARD = Phase.BACKWARD
_UNSEEN = "The op calls code that was not recorded: what ran inside it is not known."
_NO_DEVICE = "The trace does not say on which device the call ran."
#: Prefix of facts about the head size.
_HEAD = "sdp.head_"

#: The softmax that only attention calls.
SOFTMAX = "aten._safe_softmax"
#: The ops of attention's math path that a fused kernel replaces.
_FUSABLE = (_PRODUCT, f"{SOFTMAX}.default", "aten._softmax_backward_data.default")
#: On a CPU half precision is converted to float32 first. Then queries are scaled, and keys are copied, with an extra
#: dimension in between; then scores are masked.
_WIDENS, _HALF = "aten._to_copy.default", ("float16", "bfloat16")
_SCALES, _REPEATS, _DIMENSIONS = "aten.mul.Scalar", "aten.clone.default", 4
_MASKS, _MAKES_CAUSAL = ("aten.add.", "aten.add_."), "aten.tril.default"
#: Ops that count only floats on a CPU, and the dtypes that code converts for them.
_COUNTS, _WHOLE = "aten.histc", ("int64", "int32", "int16", "int8", "uint8")
#: Packet, module, location.
OpPlace = tuple[str, str, str]
#: The fact of a forward call that makes its backward a risk.
_SPEAKS_AGAINST = "call.direct"
_TOLD = frozenset(FORWARD_FACTS.values())


class ForwardCalls:
    """The forward calls of one trace, for one backend. Independent of settings."""

    def __init__(self, calls: Iterable[CallGroup], translations: Translations, backend: Backend) -> None:
        calls = tuple(calls)
        self.has_computed_step, self.has_trained = has_computed_step(calls), has_trained(calls)
        packets: defaultdict[str, list[CallGroup]] = defaultdict(list)
        for group in calls:
            packets[group.op.rpartition(".")[0]].append(group)
        self.backward_facts = dict(_backward_facts(packets))
        """Facts that calls at a place give their backward calls; see ``rules.FORWARD_FACTS``."""
        self.told_packets = frozenset(packet for packet, _, _ in self.backward_facts)
        is_for_device = backend not in (Backend.RECORDED, Backend(RECORDED_ON))
        asked = {row.forward for row in translations.translation if is_for_device and row.forward and backend in row.to}
        self.facts = dict(_agreed({packet: packets[packet] for packet in asked & packets.keys()}))
        """Facts of the calls at a place, for translations with conditions on the forward call."""
        self.math_routes = _math_routes(calls) if SOFTMAX in asked and SOFTMAX in packets else {}
        """Facts about attention from the calls of its math path, by place."""
        has_counts = is_for_device and _COUNTS in packets
        self.widening = _places_that_widen_counts(calls) if has_counts else frozenset[OpPlace]()
        """Lines of libraries that convert integers and count them: module, location, called from."""

    def may_fuse(self, place: tuple[str, str]) -> bool:
        """Return whether attention's math path ran there, for which the target may have a fused kernel."""
        route, softmax = self.math_routes.get(place), self.facts.get((SOFTMAX, *place), {})
        if route is None or softmax.get("sdp.fused") is not True or softmax.get("ndim") != _DIMENSIONS:
            return False
        if route.is_broadcast:
            return False
        dtype = route.dtype or softmax.get("dtype")
        return dtype in _HALF or (dtype == "float32" and not route.shares_heads)

    def heads(self, place: tuple[str, str]) -> Mapping[str, FactValue]:
        """Facts about the head size from the softmax of attention's math path at this place."""
        softmax = self.facts.get((SOFTMAX, *place), {})
        return {key: value for key, value in softmax.items() if key.startswith(_HEAD)}


def _backward_facts(packets: Mapping[str, list[CallGroup]]) -> Iterable[tuple[OpPlace, dict[str, FactValue]]]:
    """Facts that forward calls give their backward calls. If calls at one place disagree, the worse value counts."""
    for packet, groups in packets.items():
        # The gradient of a gradient runs a forward op too, which the program did not call.
        forward = [group for group in groups if group.phase is not _BACKWARD]
        if all(_TOLD.isdisjoint(group.facts) for group in forward):
            continue
        places: defaultdict[OpPlace, list[CallGroup]] = defaultdict(list)
        for group in forward:
            places[packet, group.module, group.location].append(group)
        for place, there in places.items():
            holds = {key: [key in group.facts for group in there] for key in FORWARD_FACTS.values()}
            yield place, {key: True for key, each in holds.items() if (any if key == _SPEAKS_AGAINST else all)(each)}


def _agreed(packets: Mapping[str, list[CallGroup]]) -> Iterable[tuple[OpPlace, dict[str, FactValue]]]:
    """The facts that all calls at a place share: the backward call may belong to any of them."""
    places: dict[OpPlace, dict[str, FactValue]] = {}
    for packet, groups in packets.items():
        for group in groups:
            agreed = places.setdefault((packet, group.module, group.location), dict(group.facts))
            for key in [key for key, value in agreed.items() if group.facts.get(key) != value]:
                del agreed[key]
    return places.items()


class MathRoute(NamedTuple):
    """Facts about attention that its math path shows only as a whole."""

    shares_heads: bool
    """Whether keys are repeated for the heads of queries that share them (``enable_gqa=True``). A user's own ``repeat``
    comes before queries are scaled."""
    dtype: FactValue | None
    """The half-precision dtype, if the CPU computes in float32 for it."""
    has_mask: bool
    """Whether the user's mask is added to the scores, not one that attention itself builds (``is_causal=True``)."""
    is_broadcast: bool
    """Whether keys or values are broadcast to the batch or heads of queries, without ``enable_gqa``. No fused kernel
    does that."""

    @property
    def facts(self) -> dict[str, FactValue]:
        """As the facts that conditions use."""
        holding = {"attention.has_mask": self.has_mask, "sdp.shares_heads": self.shares_heads}
        facts: dict[str, FactValue] = {key: True for key, holds in holding.items() if holds}
        if self.is_broadcast:
            facts["sdp.fused"] = False
        return facts if self.dtype is None else {**facts, "dtype": self.dtype}


def _math_routes(calls: Iterable[CallGroup]) -> dict[tuple[str, str], MathRoute]:
    """By module and location. Order: queries converted to float32, then scaled; keys repeated; scores masked."""
    copied: dict[tuple[str, str], FactValue] = {}
    scaled, widened, repeated, broadcast, masked, causal, softened = (set[tuple[str, str]]() for _ in range(7))
    for group in calls:
        place, ndim, dtype = (group.module, group.location), group.facts.get("ndim"), group.facts.get("dtype")
        if group.phase is _BACKWARD:
            continue
        if group.op == _SCALES and ndim == _DIMENSIONS:
            scaled.add(place)
            if place in copied and dtype == "float32":
                widened.add(place)
        elif group.op == _WIDENS and ndim == _DIMENSIONS and dtype in _HALF and place not in scaled:
            copied[place] = dtype
        elif group.op == _REPEATS and ndim == _DIMENSIONS + 1 and place in scaled:
            repeated.add(place)
        elif group.op == _REPEATS and place in scaled and _is_broadcast(group.given.get("self")):
            broadcast.add(place)
        elif group.op.startswith(_MASKS) and ndim == _DIMENSIONS and place in scaled - softened:
            masked.add(place)
        elif group.op == _MAKES_CAUSAL:
            causal.add(place)
        elif group.op.startswith(SOFTMAX):
            softened.add(place)
    return {
        place: MathRoute(
            place in repeated,
            copied[place] if place in widened else None,
            place in masked and place not in causal,
            place in broadcast,
        )
        for place in softened
    }


def _is_broadcast(keys: object) -> bool:
    """Return whether the keys of attention are one tensor, expanded along the batch or the heads."""
    if not isinstance(keys, TensorForm) or len(keys.shape) != _DIMENSIONS or keys.stride is None:
        return False
    return any(size != 1 and step == 0 for size, step in zip(keys.shape[:2], keys.stride[:2], strict=True))


def _places_that_widen_counts(calls: Iterable[CallGroup]) -> frozenset[OpPlace]:
    """Places in libraries that convert integers to floats and then compute a histogram."""
    widened: set[OpPlace] = set()
    counted: list[CallGroup] = []
    for group in calls:
        if not group.called_from or group.facts.get("device") != RECORDED_ON:
            continue
        if group.op == _WIDENS and group.facts.get("dtype") in _WHOLE:
            widened.add((group.module, group.function, group.called_from))
        elif group.op.startswith(_COUNTS):
            counted.append(group)
    return frozenset(
        (group.module, group.location, group.called_from)
        for group in counted
        if (group.module, group.function, group.called_from) in widened
    )


@dataclass(eq=False)
class TargetTables:
    """The tables bound to one target."""

    tables: Mapping[Backend, RuleTable]
    backend: Backend
    version: str
    settings: Mapping[str, Value]
    _: KW_ONLY
    is_rocm: bool = False
    """Whether the recording's ``cuda`` devices were AMD GPUs."""
    strict: bool = False
    """See ``BoundTable``."""
    translations: Translations = NO_TRANSLATIONS
    """For calls recorded on a CPU and judged for another device."""
    compiled: CompiledCalls | None = None
    """For calls of a region; ``None``: judged as eager."""
    recorded: Mapping[str, Value] | None = None
    """The settings of the trials, if other than ``settings``."""

    def __post_init__(self) -> None:
        self._recorded = self.settings if self.recorded is None else self.recorded
        self._forward = ForwardCalls((), NO_TRANSLATIONS, Backend.RECORDED)
        self._is_for_device = self.backend not in (Backend.RECORDED, Backend(RECORDED_ON))
        self._bound: dict[Backend, BoundTable | Ruling] = {}
        self._translator: Translator | None = None
        self._translated: dict[str, BoundTranslation | None] = {}
        self._asks: dict[tuple[str, FactValue | None, bool, HostCode | None], tuple[tuple[str, ...], bool]] = {}
        """The facts that rulings depend on, and whether they do on the autograd node: by op, device, whether in the
        backward pass, and why it runs on the host."""
        self._rulings: dict[tuple[object, ...], Ruling] = {}
        """By everything that they may depend on."""
        self.devices: set[str] = set()
        """Devices that calls were recorded on."""

    def look_ahead(self, forward: ForwardCalls) -> None:
        """Read the forward calls of a trace. Call this before asking for a ruling on any of its calls."""
        self._forward = forward
        self._asks.clear()
        self._rulings.clear()

    def rule_on(self, group: CallGroup) -> Ruling:
        """The ruling for one group of calls, by the tables, what the run itself showed, and where it may run."""
        ruling = self._by_run(group)
        at_risk = not ruling.is_safe and self._is_for_device and group.host is None
        if at_risk and is_set_up(group.phase, group.module, group.place, group.facts.get("device")):
            there = self._by_run(replace(group, host=HostCode.NAMED))
            if set(there.both) <= set(SAFE):
                return on_the_device_alone(ruling)
        return ruling

    def _by_run(self, group: CallGroup) -> Ruling:
        """The tables' ruling, unless trials or data of the run show otherwise."""
        ruling = self._by_tables(group)
        if group.tried is None or not group.tried.varied:
            return settled_by_data(group, ruling) if group.data else ruling
        is_recorded = self.settings == self._recorded
        as_recorded = ruling if is_recorded else self._under_recorded._by_tables(group)
        in_mode = self._recorded.get(MODE) == DeterministicMode.ON.value
        return refuted_by_trials(ruling, as_recorded, in_mode=in_mode, is_recorded=is_recorded)

    def _by_tables(self, group: CallGroup) -> Ruling:
        """The tables' ruling, computed once for calls that agree in everything that it may depend on."""
        ruling = self._rulings.get(self._key(group))
        if ruling is None:
            ruling = self._judged(group)
            self._note_asks(group)
            self._rulings[self._key(group)] = ruling
        return ruling

    def _key(self, group: CallGroup) -> tuple[object, ...]:
        """Everything that the ruling on ``group`` may depend on: its place too, unless that is known not to matter."""
        facts, place = group.facts, (group.module, group.location)
        at = (group.op, facts.get("device"), group.phase is _BACKWARD, group.host)
        asks = self._asks.get(at)
        if asks is None or not _is_plain(group) or place in self._forward.math_routes:
            where = (*place, group.called_from, group.phase, group.node, group.region, group.kernels)
            return (*at, *where, frozenset(facts.items()))
        return (*at, group.node if asks[1] else "", *map(facts.get, asks[0]))

    def _judged(self, group: CallGroup) -> Ruling:
        """Return the ruling on a call: its backend, whether it runs a kernel there, and as which op."""
        device = group.facts.get("device")
        if device is not None:
            self.devices.add(str(device))
        if self.backend is Backend.RECORDED:
            if device is None:
                return unknown_ruling(self.backend, "no-device", UnknownReason.FACT_NOT_RECORDED, "device", _NO_DEVICE)
            backend = self._backend_of(str(device))
        else:
            backend = self.backend if group.host is None else Backend.CPU
        if group.host is HostCode.IMPORT or (device == META and self.backend is Backend.RECORDED):
            ruling = safe_ruling(backend)  # it computes nothing
        elif device == META:
            there = replace(group, facts={**group.facts, "device": backend.device})
            computed, trained = self._forward.has_computed_step, self._forward.has_trained
            ruling = on_meta(
                group, backend, lambda: self._eager(backend, there), has_computed_step=computed, has_trained=trained
            )
        elif self.compiled is not None and (group.region is not None or group.kernels):

            def eager(op: str, facts: Mapping[str, FactValue]) -> Ruling:
                return self._eager(backend, replace(group, op=op, facts=dict(facts)))

            ruling = self.compiled.outcome(group, backend, eager, group.node if group.phase is _BACKWARD else None)
        else:
            ruling = self._eager(backend, group)
        return _named_elsewhere(group, drawn(ruling, group.facts))

    def _eager(self, backend: Backend, group: CallGroup) -> Ruling:
        """The ruling on a call as recorded, or as the op that it becomes on the target."""
        op, facts = group.op, group.facts
        if "subclass" in facts or op.startswith("higher_order."):  # its inner calls are judged on their own
            is_seen = facts.get("subclass_inner" if "subclass" in facts else "body_recorded") is True
            if is_seen or row_of(bare_name(op)).touches is Touch.METADATA:
                return safe_ruling(backend)
            return unknown_ruling(backend, "opaque", UnknownReason.OPAQUE, op, _UNSEEN)
        if _WITHOUT_CUDNN in facts and self._recorded.get("cudnn_enabled") is False:
            facts = {key: value for key, value in facts.items() if key != _WITHOUT_CUDNN}
        if backend not in self._bound:
            self._bound[backend] = self._bind(backend, str(facts.get("device")))
        bound = self._bound[backend]
        if isinstance(bound, Ruling):
            return bound
        place, node = (group.module, group.location), group.node if group.phase is _BACKWARD else None
        if node is not None and self._forward.backward_facts:
            facts = {**facts, **self._forward.backward_facts.get((_forward_of(op), *place), {})}
        translation = None
        if facts.get("device") == RECORDED_ON and self._is_for_device and group.host is None:
            if op not in self._translated:
                if self._translator is None:
                    self._translator = Translator(self.translations, self.backend, bound.version, self.settings)
                self._translated[op] = None if bound.refusal is not None else self._translator.row_of(op)
            translation = self._translated[op]
            if translation is not None and translation.row.forward:
                facts = {**facts, **self._forward.facts.get((translation.row.forward, *place), {})}
            if self._forward.widening and (*place, group.called_from) in self._forward.widening:
                facts = {**facts, "library.widens_counts": True}
            if op in _FUSABLE and place in self._forward.math_routes:
                facts = {**facts, **self._forward.math_routes[place].facts}
            if op == _PRODUCT and self._forward.may_fuse(place):
                facts = {**facts, "attention.may_fuse": True, **self._forward.heads(place)}
        if translation is None:
            return bound.outcome(op, facts, node)
        return translation.outcome(bound, self.backend.device, facts, node)

    def _note_asks(self, group: CallGroup) -> None:
        """Store what rulings on such calls depend on; nothing if no table was consulted, or if on their place too."""
        op, device, is_backward, host = group.op, group.facts.get("device"), group.phase is _BACKWARD, group.host
        if not _is_plain(group) or host is HostCode.IMPORT:
            return
        backend = self.backend if host is None else Backend.CPU
        if self.backend is Backend.RECORDED:
            backend = self._backend_of(str(device))
        bound = self._bound.get(backend)
        if not isinstance(bound, BoundTable) or (is_backward and _forward_of(op) in self._forward.told_packets):
            return
        asks = bound.asks(op)
        if device == RECORDED_ON and self._is_for_device and host is None:
            translation = self._translated.get(op)
            if op not in self._translated or op == _PRODUCT or op.startswith(_COUNTS):
                return
            if translation is not None:
                if translation.row.forward:
                    return
                asks += translation.asks(bound)
        derived = [DERIVATIONS[key] for key in asks if key in DERIVATIONS]
        recorded = (key for key in asks if key not in DERIVATIONS)
        every = dict.fromkeys((*_OF_EVERY_CALL, *recorded, *(name for fact in derived for name in fact.reads)))
        self._asks[op, device, is_backward, host] = tuple(every), is_backward and bool(derived)

    @cached_property
    def _under_recorded(self) -> TargetTables:
        compiled = None if self.compiled is None else self.compiled.under(self._recorded)
        tables = dataclasses.replace(self, settings=self._recorded, compiled=compiled)
        tables.look_ahead(self._forward)
        return tables

    def translated(self) -> str:
        """How calls of another device were judged, and notes on differences that single ops do not show."""
        is_any = any(row is not None for row in self._translated.values())
        notes = self._translator.notes.values() if self._translator is not None else ()
        return f"{'' if is_any else ', ops as recorded'}.{''.join(f' {note.says}' for note in notes)}"

    def used(self) -> Iterator[BoundTable]:
        """The tables that were consulted."""
        return (bound for bound in self._bound.values() if isinstance(bound, BoundTable))

    def missing(self) -> Iterator[str]:
        """Backends that some call needed a table for, but that have none."""
        return (bound.reason_detail for bound in self._bound.values() if isinstance(bound, Ruling))

    def _backend_of(self, device: str) -> Backend:
        """The backend of a recorded device. ROCm names its devices ``cuda``; a call without one runs on the host."""
        return Backend.CPU if device in NO_DEVICE else device_backend(device, is_rocm=self.is_rocm)

    def _bind(self, backend: Backend, device: str) -> BoundTable | Ruling:
        table = self.tables.get(backend)
        if table is not None:
            return BoundTable(table, self.version, self.settings, strict=self.strict)
        name = device if backend is Backend.RECORDED else str(backend)
        return unknown_ruling(backend, "no-table", UnknownReason.NO_TABLE, name)


def _is_plain(group: CallGroup) -> bool:
    """Return whether the tables alone rule on it, not its compiled code, nor that nothing was computed."""
    return group.region is None and not group.kernels and group.facts.get("device") != META


def _named_elsewhere(group: CallGroup, ruling: Ruling) -> Ruling:
    """``ruling`` with a name for the op that holds on its backend, where a CPU recorded an op that it alone has."""
    if ruling.runs_as or ruling.backend is Backend.CPU or group.facts.get("device") != RECORDED_ON:
        return ruling
    name = row_of(bare_name(group.op)).on_cpu_for
    if not name:
        return ruling
    detail = name if ruling.reason_detail == group.op else ruling.reason_detail
    return replace(ruling, runs_as=name, reason_detail=detail)


def _forward_of(op: str) -> str:
    """The packet of the forward op whose backward ``op`` may be."""
    return op.rpartition(".")[0].removesuffix(BACKWARD_OF)
