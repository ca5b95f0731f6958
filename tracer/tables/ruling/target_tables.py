"""The tables side by side: which of them a call comes before, and what needs none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec.structs import replace

from tracer.names import (
    REPEATABLE,
    Backend,
    Cause,
    DeterministicMode,
    GeneratorKind,
    HostCode,
    Phase,
    SeedOrigin,
    UnknownReason,
    Verdict,
)
from tracer.tables.model import Table
from tracer.tables.ruling.attention import SOFTMAX, places_that_share_heads
from tracer.tables.ruling.binding import BoundTable, RuleOutcome, safe_ruling, unknown_ruling
from tracer.tables.ruling.compiled import CompiledCalls
from tracer.tables.ruling.cross_device import Retold
from tracer.tables.ruling.of_this_run import refuted_by_trials, settled_by_data
from tracer.tables.ruling.translating import Translator
from tracer.tables.translation import NO_TRANSLATIONS, RECORDED_ON, Note, Translations
from tracer.tables.vocabulary import BACKWARD_OF, FORWARD_FACTS, Value
from tracer.trace.draws import ORIGIN, kind_drawn_from
from tracer.trace.model import CallGroup, FactValue

#: The fact of a forward call that speaks against its backward.
_SPEAKS_AGAINST = "call.direct"
#: What the products of attention's math route are.
_PRODUCT = "aten.bmm.default"
#: Of one call; of all of them it is the recording's setting, and the target has a setting of its own.
_WITHOUT_CUDNN = "conv.without_cudnn"
#: What fused kernels take.
_FUSED = ("float32", "float16", "bfloat16")


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
        self._of_draws: dict[tuple[int, Callable[[RuleOutcome], RuleOutcome]], tuple[RuleOutcome, RuleOutcome]] = {}
        """Identity of a ruling, and what makes another of it -> the ruling, and the one in its stead."""
        self._unseen: dict[tuple[Backend, str], RuleOutcome] = {}
        self._translations = translations
        self._is_abroad = backend not in (Backend.RECORDED, Backend(RECORDED_ON))
        self._translator: Translator | None = None
        self._retold: dict[str, Retold | None] = {}
        self._at_forward: dict[tuple[str, str, str], dict[str, FactValue]] = {}
        self._told_forward: dict[tuple[str, str, str], dict[str, FactValue]] = {}
        """What forward calls at a place say of their backward: see ``vocabulary.FORWARD_FACTS``."""
        self._sharing: frozenset[tuple[str, str]] = frozenset()
        """Places where attention's math route repeats keys for the heads of queries that share them."""
        self.devices: set[str] = set()
        """Devices that calls were recorded on."""

    def rule_on(self, group: CallGroup) -> RuleOutcome:
        """The ruling for one group of calls, by the tables and by what the run itself showed of them."""
        ruling = self._by_tables(group)
        if group.tried is not None and group.tried.varied:
            return self._tried(group, ruling)
        if group.data:
            return self._kept_for(settled_by_data(group, ruling), ruling, *sorted(group.data))
        return ruling

    def _tried(self, group: CallGroup, ruling: RuleOutcome) -> RuleOutcome:
        is_recorded = self._settings == self._recorded
        as_recorded = ruling if is_recorded else self._under_recorded()._by_tables(group)
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
            )
        return self._as_recorded

    def _by_tables(self, group: CallGroup) -> RuleOutcome:
        """What the tables say; what draws from a generator that nobody seeded repeats in no other run."""
        ruling = self._rule_on(group)
        origin = group.facts.get(ORIGIN)
        if origin is None or Verdict.SEEDED not in (ruling.verdict, ruling.verdict_in_deterministic_mode):
            return ruling
        if origin == SeedOrigin.MACHINE:
            was_passed = kind_drawn_from(group.facts) is GeneratorKind.PASSED
            return self._of_draw(ruling, _passed_unseeded if was_passed else _default_unseeded)
        if origin in _REPEATABLE and ruling.verdict is ruling.verdict_in_deterministic_mode:
            return self._of_draw(ruling, _kept)
        return ruling

    def _of_draw(self, ruling: RuleOutcome, make: Callable[[RuleOutcome], RuleOutcome]) -> RuleOutcome:
        key = (id(ruling), make)
        found = self._of_draws.get(key)
        if found is None:
            found = self._of_draws[key] = (ruling, make(ruling))
        return found[1]

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
        if device == "meta" or group.host is HostCode.IMPORT:
            return self._no_kernel(backend)
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
        if node is not None and self._told_forward:
            packet = group.op.rpartition(".")[0].removesuffix(BACKWARD_OF)
            facts = {**facts, **self._told_forward.get((packet, group.module, group.location), {})}
        if device == RECORDED_ON and self._is_abroad and group.host is None:
            if self._sharing and (group.module, group.location) in self._sharing:
                facts = {**facts, "sdp.shares_heads": True}
            if group.op == _PRODUCT and self._may_fuse(group):
                facts = {**facts, "attention.may_fuse": True}
            retold = self._retold[group.op] if group.op in self._retold else self._retell(group.op, bound)
            if retold is not None:
                if retold.forward:
                    place = (retold.forward, group.module, group.location)
                    facts = {**facts, **self._at_forward.get(place, {})}
                return retold.rule_on(facts, node)
        return bound.rule_on(group.op, facts, node)

    def look_ahead(self, calls: Iterable[CallGroup], seen: TargetTables | None = None) -> None:
        """Note what forward calls say that translations of their backward ask for; before any ruling.

        ``seen``: the same target under other settings, which looked at the same calls; no setting changes what it saw.
        """
        if seen is not None:
            self._told_forward, self._at_forward, self._sharing = seen._told_forward, seen._at_forward, seen._sharing
            return
        calls = tuple(calls)
        self._look_at_forward(calls)
        asked = {row.forward for row in self._translations.translation if row.forward and self._backend in row.to}
        for group in calls if asked and self._is_abroad else ():
            packet = group.op.rpartition(".")[0]
            if packet not in asked:
                continue
            place = (packet, group.module, group.location)
            said = self._at_forward.setdefault(place, dict(group.facts))
            for key in [key for key, value in said.items() if group.facts.get(key) != value]:
                del said[key]  # calls at one place that disagree: the backward may be of either
        self._sharing = places_that_share_heads(calls) if SOFTMAX in asked and self._is_abroad else frozenset()

    def _look_at_forward(self, calls: tuple[CallGroup, ...]) -> None:
        """Note what forward calls say of their backward. Where calls at one place disagree, the worse holds of all."""
        told = frozenset(FORWARD_FACTS.values())
        # A gradient of a gradient runs a forward op too: nobody called that one.
        calls = tuple(group for group in calls if group.phase is not Phase.BACKWARD)
        packets = {group.op.rpartition(".")[0] for group in calls if not told.isdisjoint(group.facts)}
        places: dict[tuple[str, str, str], list[CallGroup]] = {}
        for group in calls if packets else ():
            packet = group.op.rpartition(".")[0]
            if packet in packets:
                places.setdefault((packet, group.module, group.location), []).append(group)
        for place, there in places.items():
            said = self._told_forward[place] = {}
            for key in FORWARD_FACTS.values():
                agree = any if key == _SPEAKS_AGAINST else all
                if agree(key in group.facts for group in there):
                    said[key] = True

    def _may_fuse(self, product: CallGroup) -> bool:
        """Whether a product stands where attention's math route ran that the target may have a fused kernel for."""
        softmax = self._at_forward.get((SOFTMAX, product.module, product.location), {})
        if (product.module, product.location) in self._sharing and softmax.get("dtype") == "float32":
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
        if device in ("none", "meta"):
            return Backend.CPU
        return Backend(device) if device in Backend._value2member_map_ else Backend.RECORDED

    def _bind(self, backend: Backend, device: str) -> BoundTable | RuleOutcome:
        table = self._tables.get(backend)
        if table is None:
            name = device if backend is Backend.RECORDED else str(backend)
            return unknown_ruling(backend, "no-table", UnknownReason.NO_TABLE, name)
        return BoundTable(table, self._version, self._settings, strict=self._strict)

    def _no_kernel(self, backend: Backend) -> RuleOutcome:
        """Safe, since nothing is computed: shapes on ``meta``, or work that inner calls do."""
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


#: As facts spell them.
_REPEATABLE = frozenset(origin.value for origin in REPEATABLE)


def _kept(ruling: RuleOutcome) -> RuleOutcome:
    """``ruling`` for draws from a generator whose state repeats already."""
    return ruling._replace(
        remedy="The generator starts from the same state in every run: keep it so, and save and restore generator"
        " states when training is resumed.",
        needs=(),
    )


def _passed_unseeded(ruling: RuleOutcome) -> RuleOutcome:
    return _unseeded(ruling, "The generator that the call was given", "Call `manual_seed(0)` on it where it is made")


def _default_unseeded(ruling: RuleOutcome) -> RuleOutcome:
    return _unseeded(ruling, "Torch's default generator", "Call `torch.manual_seed(0)` before the first draw")


def _unseeded(ruling: RuleOutcome, whose: str, remedy: str) -> RuleOutcome:
    """``ruling`` for calls whose generator was left to the machine: what was seeded differs from run to run."""
    why = f"{whose} was left to the machine, which seeds it anew in every process: each run draws other numbers."
    return ruling._replace(
        verdict=_differs(ruling.verdict),
        verdict_in_deterministic_mode=_differs(ruling.verdict_in_deterministic_mode),
        cause=Cause.RNG,
        why=f"{why} {ruling.why}".rstrip(),
        remedy=f"{remedy}, and call `seed()` on no generator.",
        needs=(),
        decided=(None, None),
    )


def _differs(verdict: Verdict) -> Verdict:
    return Verdict.NONDETERMINISTIC if verdict is Verdict.SEEDED else verdict


def device_of(backend: Backend) -> str:
    """The device type that torch gives a backend's tensors: a ROCm build calls it ``cuda``."""
    return str((Backend.CUDA if backend is Backend.ROCM else backend).value)
