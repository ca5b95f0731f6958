"""The tables side by side: which of them judges a call, as which op, and which calls need no table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from tracer.names import (
    Backend,
    DeterministicMode,
    HostCode,
    Phase,
    UnknownReason,
)
from tracer.tables.conditions import DERIVATIONS
from tracer.tables.model import Table
from tracer.tables.ruling.bound_table import BoundTable, RuleOutcome, safe_ruling, unknown_ruling
from tracer.tables.ruling.compiled import CompiledCalls
from tracer.tables.ruling.on_meta import RulingsOnMeta
from tracer.tables.ruling.run_evidence import CLEARED, RulingsOnDraws, refuted_by_trials, settled_by_data
from tracer.tables.ruling.translating import Retold, Translator
from tracer.tables.translation import NO_TRANSLATIONS, RECORDED_ON, Note, Translations
from tracer.tables.vocabulary import BACKWARD_OF, FORWARD_FACTS, Value
from tracer.trace.computed import META, NO_DEVICE, has_computed_step
from tracer.trace.records import GENERATOR, ORIGIN, CallGroup, FactValue

#: What the products of attention's math route are.
_PRODUCT = "aten.bmm.default"
#: Of one call; of all of them it is the recording's setting, and the target has a setting of its own.
_WITHOUT_CUDNN = "conv.without_cudnn"
#: Facts that a ruling can rest on whatever the op is.
_OF_EVERY_CALL = (ORIGIN, GENERATOR, "subclass", "subclass_inner", "body_recorded", _WITHOUT_CUDNN)
_BACKWARD = Phase.BACKWARD
#: What fused kernels take.
_FUSED = ("float32", "float16", "bfloat16")


class _Route(NamedTuple):
    """How calls are told apart that agree in op, device, phase and where they run."""

    asks: tuple[str, ...] | None
    """Facts that a ruling can rest on; ``None`` where it hangs on what other calls at the place say."""
    has_node: bool
    """Can it rest on the autograd node as well?"""
    kept: dict[tuple[FactValue | None, ...], RuleOutcome]


class TargetTables:
    """The tables bound to the target, and which of them a call comes before."""

    def __init__(
        self,
        tables: Mapping[Backend, Table],
        backend: Backend,
        version: str,
        settings: Mapping[str, Value],
        *,
        is_rocm: bool = False,
        strict: bool = False,
        translations: Translations = NO_TRANSLATIONS,
        compiled: CompiledCalls | None = None,
        recorded: Mapping[str, Value] | None = None,
    ) -> None:
        """``is_rocm``: the recording's ``cuda`` devices were AMD's. ``strict``: see ``BoundTable``.

        ``translations`` holds for calls recorded on a CPU and judged for another device, ``compiled`` for those that
        ran in a region; without it these are judged as eager ones. ``recorded`` are the settings under which calls were
        tried; ``settings`` where nothing is said.
        """
        self._compiled = compiled
        self._recorded = settings if recorded is None else recorded
        self._as_recorded: TargetTables | None = None
        self._of_this_run: dict[tuple[object, ...], tuple[RuleOutcome, RuleOutcome]] = {}
        self._tables = tables
        self._backend = backend
        self._version = version
        self._settings = settings
        self._is_rocm = is_rocm
        self._strict = strict
        self._no_device = unknown_ruling(Backend.RECORDED, "no-device", UnknownReason.FACT_NOT_RECORDED, "device")
        self._bound: dict[Backend, BoundTable | RuleOutcome] = {}
        self._safe: dict[Backend, RuleOutcome] = {}
        self._draws = RulingsOnDraws()
        self._on_meta = RulingsOnMeta()
        self._unseen: dict[tuple[Backend, str], RuleOutcome] = {}
        self._translations = translations
        self._is_abroad = backend not in (Backend.RECORDED, Backend(RECORDED_ON))
        self._translator: Translator | None = None
        self._retold: dict[str, Retold | None] = {}
        self._forward = NO_FORWARD_CALLS
        self._routes: dict[tuple[str, FactValue | None, bool, bool], _Route] = {}
        """Op, device, whether in the backward pass and whether on the target -> how such calls are told apart."""
        self._rests_on: dict[tuple[str, FactValue | None, bool, bool], tuple[tuple[str, ...], bool, bool]] = {}
        """The same, as far as it is one for every trace."""
        self.devices: set[str] = set()
        """Devices that calls were recorded on."""

    def rule_on(self, group: CallGroup) -> RuleOutcome:
        """The ruling for one group of calls, by the tables and by what the run itself showed of them."""
        ruling = self._by_tables(group)
        if group.tried is not None and group.tried.has_varied:
            return self._tried(group, ruling)
        if group.data:
            return self._kept_for(settled_by_data(group, ruling), ruling, *sorted(group.data))
        return ruling

    def _tried(self, group: CallGroup, ruling: RuleOutcome) -> RuleOutcome:
        is_recorded = self._settings == self._recorded
        as_recorded = ruling if is_recorded else self._under_recorded()._by_tables(group)
        if group.tried is not None and group.tried.together and as_recorded.verdict in CLEARED:
            return ruling  # its region varied, and that is told of the region
        in_mode = self._recorded.get("deterministic_mode") == DeterministicMode.ON.value
        found = refuted_by_trials(ruling, as_recorded, in_mode=in_mode, is_recorded=is_recorded)
        return self._kept_for(found, ruling, as_recorded.verdict)

    def _kept_for(self, found: RuleOutcome, ruling: RuleOutcome, *by: object) -> RuleOutcome:
        """``found``, which was made of ``ruling`` by these facts, as one object: rulings are told by identity."""
        if found is ruling:
            return ruling
        return self._of_this_run.setdefault((id(ruling), *by), (ruling, found))[1]

    def _under_recorded(self) -> TargetTables:
        if self._as_recorded is None:
            self._as_recorded = TargetTables(
                self._tables,
                self._backend,
                self._version,
                self._recorded,
                is_rocm=self._is_rocm,
                strict=self._strict,
                translations=self._translations,
                compiled=None if self._compiled is None else self._compiled.under(self._recorded),
            )
        return self._as_recorded

    def _by_tables(self, group: CallGroup) -> RuleOutcome:
        """What the tables say. Calls that agree in all that it can rest on are judged once."""
        host = group.host
        get = group.facts.get
        device = get("device")
        if host is HostCode.IMPORT or group.region is not None or group.kernels or device == META:
            return self._judged(group)
        at = (group.op, device, group.phase is _BACKWARD, host is None)
        route = self._routes.get(at)
        if route is None:
            ruling = self._judged(group)
            self._note_route(at, group)
            return ruling
        sharing = self._forward.sharing
        if route.asks is None or (sharing and (group.module, group.location) in sharing):
            return self._judged(group)
        key = (group.node if route.has_node else "", *map(get, route.asks))
        found = route.kept.get(key)
        if found is None:
            found = route.kept[key] = self._judged(group)
        return found

    def _note_route(self, at: tuple[str, FactValue | None, bool, bool], group: CallGroup) -> None:
        """Note what the ruling on calls such as ``group`` rests on; nothing, where it came before no table."""
        op, _, is_backward, _ = at
        known = self._rests_on.get(at) or self._read_of(at)
        if known is None:
            return
        self._rests_on[at] = known
        read, has_place, has_node = known
        has_place |= is_backward and _forward_of(op) in self._forward.told_packets
        self._routes[at] = _Route(None if has_place else read, has_node, {})

    def _read_of(self, at: tuple[str, FactValue | None, bool, bool]) -> tuple[tuple[str, ...], bool, bool] | None:
        """The facts that it reads, whether its place matters whatever a forward says, and whether its node does."""
        op, device, is_backward, is_there = at
        backend = self._backend if is_there else Backend.CPU
        bound = self._bound.get(self._backend_of(str(device)) if self._backend is Backend.RECORDED else backend)
        if not isinstance(bound, BoundTable):
            return None
        asks = [bound.asks(op)]
        has_place = False
        if device == RECORDED_ON and self._is_abroad and is_there:
            if op not in self._retold:
                return None
            retold = self._retold[op]
            if retold is not None:
                asks.append(retold.asks)
                has_place = bool(retold.forward)
            has_place |= op == _PRODUCT
        derived = dict.fromkeys(key for lookup in asks for key in lookup.derived)
        facts = (key for lookup in asks for key in lookup.facts)
        read = (name for key in derived for name in DERIVATIONS[key].reads)
        every = tuple(dict.fromkeys((*_OF_EVERY_CALL, *facts, *read)))
        return every, has_place, is_backward and bool(derived)

    def _judged(self, group: CallGroup) -> RuleOutcome:
        return self._draws.instead_of(self._rule_on(group), group.facts)

    def _rule_on(self, group: CallGroup) -> RuleOutcome:
        facts = group.facts
        device = facts.get("device")
        if device is not None:
            self.devices.add(str(device))
        backend = self._backend
        if backend is Backend.RECORDED:
            if device is None:
                return self._no_device
            backend = self._backend_of(str(device))
        elif group.host is not None:
            backend = Backend.CPU
        if group.host is HostCode.IMPORT or (device == META and self._backend is Backend.RECORDED):
            return self._no_kernel(backend)
        if device == META:
            there = replace(group, facts={**group.facts, "device": device_of(backend)})
            if ORIGIN in group.facts or GENERATOR in group.facts:  # its result lies on another device
                return self._eager(backend, there)
            return self._on_meta.rule_on(group, backend, lambda: self._eager(backend, there))
        if self._compiled is not None and (group.region is not None or group.kernels):
            node = group.node if group.phase is Phase.BACKWARD else None

            def eager(op: str, facts: Mapping[str, FactValue]) -> RuleOutcome:
                return self._eager(backend, replace(group, op=op, facts=dict(facts)))

            return self._compiled.rule_on(group, backend, eager, node)
        return self._eager(backend, group)

    def _eager(self, backend: Backend, group: CallGroup) -> RuleOutcome:
        """The ruling for a call that ran as it was recorded, or as what it becomes on the target."""
        facts = group.facts
        device = facts.get("device")
        if _WITHOUT_CUDNN in facts and self._recorded.get("cudnn_enabled") is False:
            facts = {key: value for key, value in facts.items() if key != _WITHOUT_CUDNN}
        if "subclass" in facts:
            return self._delegated(backend, group, facts.get("subclass_inner"))
        if group.op.startswith("higher_order."):
            return self._delegated(backend, group, facts.get("body_recorded"))
        bound = self._bound.get(backend)
        if bound is None:
            bound = self._bound[backend] = self._bind(backend, str(device))
        if isinstance(bound, RuleOutcome):
            return bound
        node = group.node if group.phase is Phase.BACKWARD else None
        if node is not None and self._forward.told:
            place = (_forward_of(group.op), group.module, group.location)
            facts = {**facts, **self._forward.told.get(place, {})}
        if device == RECORDED_ON and self._is_abroad and group.host is None:
            if self._forward.sharing and (group.module, group.location) in self._forward.sharing:
                facts = {**facts, "sdp.shares_heads": True}
            if group.op == _PRODUCT and self._may_fuse(group):
                facts = {**facts, "attention.may_fuse": True}
            retold = self._retold[group.op] if group.op in self._retold else self._retell(group.op, bound)
            if retold is not None:
                if retold.forward:
                    place = (retold.forward, group.module, group.location)
                    facts = {**facts, **self._forward.facts.get(place, {})}
                return retold.rule_on(facts, node)
        return bound.rule_on(group.op, facts, node)

    def look_ahead(self, forward: ForwardCalls) -> None:
        """Heed what forward calls say that translations of their backward ask for; before any ruling."""
        self._forward = forward
        self._on_meta.has_computed_step = forward.has_computed_step
        self._routes.clear()

    def _may_fuse(self, product: CallGroup) -> bool:
        """Whether a product stands where attention's math route ran that the target may have a fused kernel for."""
        softmax = self._forward.facts.get((SOFTMAX, product.module, product.location), {})
        if (product.module, product.location) in self._forward.sharing and softmax.get("dtype") == "float32":
            return False
        return softmax.get("sdp.fused") is True and softmax.get("ndim") == 4 and softmax.get("dtype") in _FUSED

    def _retell(self, op: str, bound: BoundTable) -> Retold | None:
        """How calls of ``op`` are judged that run as another op on the target; ``None`` for one that stays itself."""
        if self._translator is None:
            self._translator = Translator(self._translations, self._backend, bound.version, self._settings)
        row = None if bound.refusal is not None else self._translator.row_of(op)
        retold = None if row is None else Retold(op, row, bound, device_of(self._backend))
        self._retold[op] = retold
        return retold

    @property
    def was_translated(self) -> bool:
        """Whether some call came before the table as another op than was recorded."""
        return any(retold is not None for retold in self._retold.values())

    def notes(self) -> Iterator[Note]:
        """What cannot be told from single ops and that some op that was met makes likely."""
        if self._translator is not None:
            yield from self._translator.notes.values()

    def used(self) -> Iterator[BoundTable]:
        """The tables that some call came before."""
        return (bound for bound in self._bound.values() if isinstance(bound, BoundTable))

    def missing(self) -> Iterator[str]:
        """Backends that some call needed a table for and that have none."""
        return (bound.detail for bound in self._bound.values() if isinstance(bound, RuleOutcome))

    def _backend_of(self, device: str) -> Backend:
        """The backend of a recorded device. ROCm calls its devices ``cuda``; a call without any runs on the host."""
        if device == "cuda" and self._is_rocm:
            return Backend.ROCM
        if device in NO_DEVICE:
            return Backend.CPU
        return Backend(device) if device in Backend._value2member_map_ else Backend.RECORDED

    def _bind(self, backend: Backend, device: str) -> BoundTable | RuleOutcome:
        table = self._tables.get(backend)
        if table is None:
            name = device if backend is Backend.RECORDED else str(backend)
            return unknown_ruling(backend, "no-table", UnknownReason.NO_TABLE, name)
        return BoundTable(table, self._version, self._settings, strict=self._strict)

    def _no_kernel(self, backend: Backend) -> RuleOutcome:
        """Safe, since nothing is computed: on ``meta`` as its own device, or because inner calls do the work."""
        return self._safe.setdefault(backend, safe_ruling(backend))

    def _delegated(self, backend: Backend, group: CallGroup, inner_recorded: FactValue | None) -> RuleOutcome:
        """An op that runs no kernel of its own: its inner calls are judged where they stand, if they were seen."""
        if inner_recorded is True:
            return self._no_kernel(backend)
        key = (backend, group.op)
        if key not in self._unseen:
            why = "The op hands its work to code that was not recorded: what ran inside it is not known."
            self._unseen[key] = unknown_ruling(backend, "opaque", UnknownReason.OPAQUE, group.op, why)
        return self._unseen[key]


def _forward_of(op: str) -> str:
    """The packet of the forward op that ``op`` may be the backward of."""
    return op.rpartition(".")[0].removesuffix(BACKWARD_OF)


def device_of(backend: Backend) -> str:
    """The device type that torch gives a backend's tensors: a ROCm build calls it ``cuda``."""
    return str((Backend.CUDA if backend is Backend.ROCM else backend).value)


#: The softmax that nothing else calls.
SOFTMAX = "aten._safe_softmax"
#: Queries are scaled first, then keys are copied, for a moment with a dimension more than they have.
_SCALES, _REPEATS, _DIMENSIONS = "aten.mul.Scalar", "aten.clone.default", 4
#: Packet, module, location.
Place = tuple[str, str, str]
#: The fact of a forward call that speaks against its backward.
_SPEAKS_AGAINST = "call.direct"
_TOLD = frozenset(FORWARD_FACTS.values())
_BACKWARD = Phase.BACKWARD


class ForwardCalls:
    """The forward calls of one trace, for one backend; no setting changes what they say."""

    def __init__(self, calls: Iterable[CallGroup], translations: Translations, backend: Backend) -> None:
        by_op: dict[str, list[CallGroup]] = {}
        calls = tuple(calls)
        self.has_computed_step = has_computed_step(calls)
        for group in calls:
            by_op.setdefault(group.op, []).append(group)
        packets: dict[str, list[CallGroup]] = {}
        for op, groups in by_op.items():
            packets.setdefault(op.rpartition(".")[0], []).extend(groups)
        self.told = dict(_told(packets))
        """What calls at a place say of their backward, whatever it runs as; see ``vocabulary.FORWARD_FACTS``."""
        self.told_packets = frozenset(packet for packet, _, _ in self.told)
        is_abroad = backend not in (Backend.RECORDED, Backend(RECORDED_ON))
        asked = {row.forward for row in translations.translation if is_abroad and row.forward and backend in row.to}
        self.facts = dict(_agreed({packet: packets[packet] for packet in asked & packets.keys()}))
        """Facts of the calls at a place, for translations that ask for those of a forward call."""
        shares = SOFTMAX in asked and SOFTMAX in packets
        self.sharing = _places_that_share_heads(calls) if shares else frozenset[tuple[str, str]]()
        """Places where attention's math route repeats keys for the heads of queries that share them."""


def _told(packets: Mapping[str, list[CallGroup]]) -> Iterable[tuple[Place, dict[str, FactValue]]]:
    """What forward calls say of their backward. Where calls at one place disagree, the worse holds of all."""
    for packet, groups in packets.items():
        # A gradient of a gradient runs a forward op too: nobody called that one.
        forward = [group for group in groups if group.phase is not _BACKWARD]
        if all(_TOLD.isdisjoint(group.facts) for group in forward):
            continue
        places: dict[Place, list[CallGroup]] = {}
        for group in forward:
            places.setdefault((packet, group.module, group.location), []).append(group)
        for place, there in places.items():
            said: dict[str, FactValue] = {}
            for key in FORWARD_FACTS.values():
                agree = any if key == _SPEAKS_AGAINST else all
                if agree(key in group.facts for group in there):
                    said[key] = True
            yield place, said


def _agreed(packets: Mapping[str, list[CallGroup]]) -> Iterable[tuple[Place, dict[str, FactValue]]]:
    """The facts on which the calls at a place agree: where they do not, the backward may be of either."""
    places: dict[Place, dict[str, FactValue]] = {}
    for packet, groups in packets.items():
        for group in groups:
            said = places.setdefault((packet, group.module, group.location), dict(group.facts))
            for key in [key for key, value in said.items() if group.facts.get(key) != value]:
                del said[key]
    return places.items()


def _places_that_share_heads(calls: Iterable[CallGroup]) -> frozenset[tuple[str, str]]:
    """Modules and locations where attention repeats keys by itself: a user's own repeating comes before it scales.

    The op that the user called (``enable_gqa=True``) is not dispatched, so its arguments are in no trace; what the math
    route on the CPU is made of tells of it by the copies that torch makes of the keys.
    """
    scaled, repeated, softened = set(), set(), set()
    for group in calls:
        place = (group.module, group.location)
        if group.phase is _BACKWARD:
            continue
        if group.op == _SCALES and group.facts.get("ndim") == _DIMENSIONS:
            scaled.add(place)
        elif group.op == _REPEATS and group.facts.get("ndim") == _DIMENSIONS + 1 and place in scaled:
            repeated.add(place)
        elif group.op.startswith(SOFTMAX):
            softened.add(place)
    return frozenset(repeated & softened)


#: Where nobody looked.
NO_FORWARD_CALLS = ForwardCalls((), NO_TRANSLATIONS, Backend.RECORDED)
