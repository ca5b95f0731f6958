"""Judges a compiled call by its compiler's table, the backend's own table, and the generated code.

The compiler's rule says what an op becomes: a generated kernel, or an eager kernel that the backend's
table judges. For the device, version and mode that it was generated for, the code is stronger than any table: it
excludes the cases that it contradicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from tracer.facts import Value
from tracer.findings import Condition, Deciding
from tracer.names import (
    CALLED_KERNELS,
    SAFE,
    Backend,
    Cause,
    DeterministicMode,
    KernelLanguage,
    Shown,
    UnknownReason,
    Verdict,
)
from tracer.ops import bare_name, row_of
from tracer.tables.conditions import BothWays, pieces, wanted_values, with_derived
from tracer.tables.loading import required_facts
from tracer.tables.rules import (
    DOMAINS,
    OP,
    RECORDED_FACTS,
    AnsweredRule,
    Case,
    LibraryRule,
    Reviewed,
    RuleTable,
    Ruling,
    WantedValue,
    check_ids,
    evidence_of,
    in_domain,
    load,
    load_rows,
)
from tracer.tables.settings import MODE
from tracer.tables.versions import judged_as, placed, release_or_text, reviewed_releases, speaks_of
from tracer.trace.file import Trace
from tracer.trace.records import CallGroup, Kernel, Region

#: The recorded op itself, in ``CompiledCase.calls``.
ITSELF = "itself"


class CompiledCase(Case, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Conditions, and what the call becomes: a generated kernel with a verdict, or an eager kernel."""

    verdict: Verdict = Verdict.UNKNOWN
    """Verdict on the generated kernel; ``unknown`` if the case ``calls`` an op, which that op's table judges."""
    calls: str = ""
    """The op whose eager kernel runs: its name, or ``itself``."""
    facts: dict[str, Value] = {}  # noqa: RUF012 (msgspec copies it)
    """Facts of that call, instead of the recorded ones."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.calls and self.calls != ITSELF and not OP.fullmatch(self.calls):
            raise ValueError(f"calls {self.calls!r}, which is neither an op nor `{ITSELF}`")
        for key, value in self.facts.items():
            if key not in RECORDED_FACTS or not in_domain(key, value):
                raise ValueError(f"{key} = {value!r} is not a fact of a call")


class CompiledRule(LibraryRule, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ops that the compiler treats alike, on the backends that the rule names."""

    case: tuple[CompiledCase, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.backends) != 1:
            raise ValueError("a rule must name exactly one backend, for which kernels are made")


class CompilerTable(Reviewed, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """One compiler's rules. An op without one is inlined without atomic additions, or called as it is."""

    compiler: str
    """The backend of ``torch.compile``, as traces name it: ``inductor``."""
    backends: tuple[Backend, ...]
    """Backends whose generated code was reviewed; others are unknown."""
    rule: tuple[CompiledRule, ...]

    def find(self, op: str, backend: Backend) -> CompiledRule | None:
        """The rule for an overload on ``backend``: one that names the overload, else one that names its packet."""
        index = self._index.get(backend, {})
        return index.get(op) or index.get(op.rpartition(".")[0])

    def speaking_of(self, backend: Backend) -> tuple[CompiledRule, ...]:
        """The rules that hold on ``backend``."""
        return tuple(rule for rule in self.rule if backend in rule.backends)

    @cached_property
    def _index(self) -> dict[Backend, dict[str, CompiledRule]]:
        return {b: {op: rule for rule in self.speaking_of(b) for op in rule.ops} for b in self.backends}

    def __post_init__(self) -> None:
        super().__post_init__()
        for rule in self.rule:
            check_ids([rule], f"{self.compiler}-{rule.backends[0]}")
            if rule.backends[0] not in self.backends:
                raise ValueError(f"{rule.id}: the table does not cover {rule.backends[0]}")


INDUCTOR = Path(__file__).parent / "inductor.toml"


@cache
def load_compilers() -> Mapping[str, CompilerTable]:
    """Every compiler's table, by name, read and checked once."""
    return MappingProxyType({"inductor": load(INDUCTOR, CompilerTable)})


@cache
def compiled_facts() -> Mapping[str, frozenset[str]]:
    """Op to the facts that compiled calls need: for all tables, and for the op that is called instead."""
    asked = required_facts()
    wanted = {op: set(keys) for op, keys in asked.items()}
    for group in load_rows().group:
        for op in group.ops:
            wanted.setdefault(op, set()).update(group.when.keys() & RECORDED_FACTS.keys())
    for table in load_compilers().values():
        for rule in table.rule:
            keys = {key for case in rule.case for key in case.when if key in RECORDED_FACTS}
            for case in rule.case:
                if case.calls not in ("", ITSELF):
                    called = asked.get(case.calls, frozenset()) | asked.get(case.calls.rpartition(".")[0], frozenset())
                    keys |= called - case.facts.keys()
            for op in rule.ops if keys else ():
                wanted.setdefault(op, set()).update(keys)
    return MappingProxyType({op: frozenset(keys) for op, keys in wanted.items()})


def with_compiled(tables: Mapping[Backend, RuleTable]) -> dict[Backend, RuleTable]:
    """``tables`` with the compilers' rules for each backend, which then need no other table."""
    compilers = load_compilers().values()
    return {
        backend: replace(
            table, compiled=tuple(answered(r, table, c) for c in compilers for r in c.speaking_of(backend))
        )
        for backend, table in tables.items()
    }


def answered(rule: CompiledRule, table: RuleTable, compiler: CompilerTable) -> AnsweredRule:
    """``rule`` of ``compiler`` with the answers of ``table`` for the ops that it calls."""
    fields = {name: getattr(rule, name) for name in AnsweredRule.__struct_fields__ if hasattr(rule, name)}
    every = [answer for case in rule.case for answer in _answers(case, rule, table, compiler.reviewed)]
    reached = {id(case) for release in reviewed_releases(compiler.reviewed) for case, _ in pieces(every, release)}
    cases = tuple(case for case in every if id(case) in reached or case is every[-1])
    return AnsweredRule(**{**fields, "case": cases, "compiler": compiler.compiler, "reviewed": compiler.reviewed})


def _answers(case: CompiledCase, rule: CompiledRule, table: RuleTable, reviewed: str) -> Iterator[Case]:
    if not case.calls:
        yield Case(**{name: getattr(case, name) for name in Case.__struct_fields__})
        return
    name = rule.ops[0] if case.calls == ITSELF else case.calls
    called = table.find(name) or table.find(f"{name}.default")
    says = case.why or f"The eager `{name.removesuffix('.default')}` is called."
    if called is None:
        safe = Verdict.DETERMINISTIC if table.deny_list else Verdict.UNKNOWN
        yield Case(verdict=safe, when=case.when, torch=case.torch, why=says, route=name)
        return
    for answer in called.case:
        when = _both(case, answer)
        versions = ",".join(filter(None, (case.torch, answer.torch)))
        if when is not None and any(speaks_of(versions, release) for release in reviewed_releases(reviewed)):
            yield Case(verdict=answer.verdict, when=when, torch=versions, why=says, route=name)


def _both(case: CompiledCase, other: Case) -> dict[str, WantedValue] | None:
    """Conditions under which a call matches ``case`` and then, as the op it calls, ``other``; ``None`` if none."""
    met: dict[str, WantedValue] = {}
    for key in dict.fromkeys((*case.when, *other.when)):
        theirs = wanted_values(other, key)
        if key in case.facts:
            if case.facts[key] not in theirs:
                return None
            theirs = frozenset(DOMAINS[key])
        values = wanted_values(case, key) & theirs
        if not values:
            return None
        if len(values) < len(DOMAINS[key]):
            met[key] = [value for value in DOMAINS[key] if value in values]
    return met


_REMEDY = "Record it on the target itself, or with `tracer run --eager`: eager calls are judged for any backend."


class Compilation(NamedTuple):
    """The compiled code in a trace, and the tables for it."""

    tables: Mapping[str, CompilerTable]
    """By compiler, as regions name it."""
    regions: Mapping[str, Region]
    launched: Mapping[str, Kernel]
    """Kernels that the program launched itself."""
    torch: str
    """The release that compiled it."""
    is_rocm: bool
    """Whether its ``cuda`` devices were AMD GPUs."""

    def kernels_of(self, group: CallGroup) -> tuple[Region | None, list[Kernel]]:
        """The compiled region of a call, and its kernels; outside one, those that it launched."""
        region = self.regions.get(group.region or "")
        by_name = self.launched if region is None else {kernel.name: kernel for kernel in region.kernels}
        return region, [by_name[name] for name in group.kernels if name in by_name]


def compilation_of(trace: Trace, compilers: Mapping[str, CompilerTable]) -> Compilation:
    """The regions and launched kernels of ``trace``, and the tables of their compilers."""
    return Compilation(
        tables=compilers,
        regions={region.id: region for region in trace.regions},
        launched={kernel.name: kernel for kernel in trace.launched},
        torch=release_or_text(trace.environment.torch),
        is_rocm=trace.environment.hip is not None,
    )


@dataclass(eq=False)
class CompiledCalls:
    """Judges the compiled calls of one trace for one target."""

    compilation: Compilation
    version: str
    settings: Mapping[str, Value]
    _: KW_ONLY
    changed: frozenset[str] = frozenset()
    """Settings that may differ from the recording's; under them other code may be generated."""
    strict: bool = False
    _rules: dict[int, BothWays[CompiledRule]] = field(default_factory=dict, init=False)

    def under(self, settings: Mapping[str, Value]) -> CompiledCalls:
        """The same calls under the settings of the recording."""
        return CompiledCalls(self.compilation, self.version, settings, strict=self.strict)

    def outcome(self, group: CallGroup, backend: Backend, eager: Eager, node: str | None) -> Ruling:
        """The ruling on a call that ran in a region or launched a kernel; ``eager`` judges its eager kernels."""
        region, kernels = self.compilation.kernels_of(group)
        if group.region is not None and region is None and not group.kernels:
            return eager(group.op, group.facts)
        if region is None or (kernels and all(kernel.is_the_programs for kernel in kernels)):
            kernels = [kernel.launched_on(backend.device) for kernel in kernels]
            return CompiledCall(group.op, None, None, kernels, eager, group.facts).outcome(backend, True, True)
        table = self.compilation.tables.get(region.backend)
        refusal = self._refusal(region, table, backend)
        rule = None if table is None or refusal is not None else table.find(group.op, backend)
        base = (lambda op, facts: refusal) if refusal is not None else eager
        call = CompiledCall(group.op, rule, table, kernels, base, group.facts, eager)
        is_newer = table is not None and placed(table.reviewed, self.version) == "newer"
        if rule is not None and table is not None:
            if id(rule) not in self._rules:
                version = judged_as(table.reviewed, self.version, extrapolated=is_newer)
                self._rules[id(rule)] = BothWays(rule, version, self.settings)
            bound = self._rules[id(rule)]
            call = call._replace(bound=bound, known_facts=with_derived(group.facts, node, bound.facts))
        ruling = call.outcome(backend, *self._compiled_alike(kernels, backend, region))
        was_on = region.deterministic_mode in (DeterministicMode.WARN, DeterministicMode.ON)
        is_off = MODE not in self.changed and self.settings.get(MODE) == DeterministicMode.OFF.value
        # The mode was on for this region alone: Dynamo runs code compiled under the mode only there.
        if was_on and is_off and ruling.deterministic_mode is not Verdict.RAISES:
            decided = ruling.decided.deterministic_mode
            both = Deciding(as_is=decided, deterministic_mode=decided)
            ruling = replace(ruling, verdict=ruling.deterministic_mode, decided=both)
        return replace(ruling, extrapolated=ruling.extrapolated or is_newer)

    def _refusal(self, region: Region, table: CompilerTable | None, backend: Backend) -> Ruling | None:
        """The ruling if no table covers the compiler, the device or the version; ``None`` if one does."""
        if table is None or backend not in table.backends:
            by = f"`{region.backend}`" if region.backend else "an unnamed compiler"
            why = f"It was compiled by {by}, for which there is no table."
            if table is not None:
                why = f"{table.compiler.capitalize()}'s code for {backend} was not reviewed."
            return Ruling.unknown(backend, "compiled", UnknownReason.NO_TABLE, region.backend, why, _REMEDY)
        place = placed(table.reviewed, self.version)
        if place != "reviewed" and (place != "newer" or self.strict):
            detail = f"torch {self.version}, reviewed for {table.reviewed}"
            return Ruling.unknown(backend, "compiled", UnknownReason.TABLE_NOT_REVIEWED, detail)
        return None

    def _compiled_alike(self, kernels: list[Kernel], backend: Backend, region: Region) -> tuple[bool, bool]:
        """Return whether the recorded code runs on the target, also in the mode. Device and version must agree."""
        compiled, device = self.compilation, backend.device
        is_seen = (
            bool(kernels)
            and self.version == compiled.torch
            and compiled.is_rocm == (backend is Backend.ROCM)
            and all(kernel.device in ("", device) for kernel in kernels)
            and device in map(str.strip, region.device.split(","))
            and self.changed.isdisjoint((*region.options, "num_threads"))
            and region.deterministic_mode is not None
        )
        was_on = is_seen and region.deterministic_mode is not DeterministicMode.OFF
        is_on = self.settings.get(MODE) in (DeterministicMode.WARN.value, DeterministicMode.ON.value)
        return is_seen and was_on is is_on, was_on


#: The backend's own ruling on an op with facts.
Eager = Callable[[str, Mapping[str, Value]], Ruling]

_ATOMICS = (
    "A kernel that this op was fused into adds floating-point numbers atomically, in an order that varies; which of its"
    " ops does so is not known."
)
_OF_THREADS = " Each thread may have slots of its own: `tracer repeat` shows whether runs differ."
_MODE_FIRST = "Turn deterministic mode on before anything is compiled, and record again."
_OWN = (
    "The program's own kernel adds floating-point numbers atomically: the order of the additions varies, and no setting"
    " of torch changes that."
)
_OWN_REMEDY = "Let one program of the kernel do all additions into an element, or write partial results and sum them."
_TIMED = "The kernel was chosen by timing several. Another one may win in the next run, and round differently."
_NOT_TIMED = "Turn deterministic mode on before anything is compiled, or turn autotuning off."


class _Way(NamedTuple):
    """A call's form in one state of deterministic mode."""

    verdict: Verdict
    case: Case | None = None
    called: str = ""
    """The op whose eager kernel runs, if known."""
    ruling: Ruling | None = None
    """The backend's ruling on it."""
    shown: Shown | None = None
    missing: tuple[str, ...] = ()

    @property
    def unknown(self) -> tuple[UnknownReason | None, str]:
        """The reason for an unknown verdict and its subject; none for any other."""
        if self.verdict is not Verdict.UNKNOWN:
            return None, ""
        if self.missing:
            return UnknownReason.FACT_NOT_RECORDED, ", ".join(self.missing)
        return (
            (UnknownReason.NO_EVIDENCE, "") if self.ruling is None else (self.ruling.reason, self.ruling.reason_detail)
        )


class CompiledCall(NamedTuple):
    """A compiled call with all that is known of it."""

    op: str
    rule: CompiledRule | None
    table: CompilerTable | None
    kernels: list[Kernel]
    base: Eager
    """The ruling on an op without a rule."""
    facts: Mapping[str, Value]
    eager: Eager | None = None
    """The ruling on an op that is called."""
    bound: BothWays[CompiledRule] | None = None
    known_facts: Mapping[str, Value] = {}

    def outcome(self, backend: Backend, seen_as_is: bool, seen_in_mode: bool) -> Ruling:
        """The ruling; the recorded code decides if it is what runs."""
        as_is = self._way(0, seen_as_is)
        in_mode = self._way(1, seen_in_mode)
        spoken = as_is if as_is.verdict is not Verdict.DETERMINISTIC else in_mode
        ruling = spoken.ruling if spoken.ruling is not None else self._own_ruling(backend, spoken)
        if spoken.shown is Shown.TIMED:
            ruling = replace(ruling, cause=Cause.AUTOTUNE, why=_TIMED, remedy=_NOT_TIMED)
        reason, detail = (as_is if as_is.verdict is Verdict.UNKNOWN else in_mode).unknown
        called = spoken.called.removesuffix(".default")
        return replace(
            ruling,
            verdict=as_is.verdict,
            deterministic_mode=in_mode.verdict,
            reason=reason,
            reason_detail=detail,
            runs_as=ruling.runs_as or (called if called != self.op.removesuffix(".default") else ""),
            route=in_mode.called if in_mode.called != self.op else "",
            shown=as_is.shown,
            decided=Deciding(as_is=self._decided(as_is, 0), deterministic_mode=self._decided(in_mode, 1)),
        )

    def _decided(self, way: _Way, number: int) -> tuple[tuple[Condition, ...], ...]:
        """The conditions that decided, under the target's settings (0) or in deterministic mode (1)."""
        if way.ruling is not None:
            return way.ruling.decided.deterministic_mode if number else way.ruling.decided.as_is
        rule = None if self.bound is None else (self.bound.in_mode if number else self.bound.as_is)
        return () if rule is None or way.case is None else (rule.met(way.case, self.known_facts),)

    def _own_ruling(self, backend: Backend, way: _Way) -> Ruling:
        """The ruling on a generated kernel, in the rule's words if there is a rule."""
        if self.rule is not None:
            cases = [way.case] if way.case is not None else []
            safe: dict[str, Any] = dict.fromkeys(("verdict", "deterministic_mode"), Verdict.DETERMINISTIC)
            ruling = Ruling.by(self.rule, cases, evidence=evidence_of(self.rule), backend=backend, **safe)
            of_threads = way.shown is Shown.ADDS_ATOMICALLY and way.verdict is Verdict.CONDITIONAL
            return replace(ruling, why=ruling.why + _OF_THREADS) if of_threads else ruling
        compiler = self.table.compiler if self.table is not None else "generated"
        cause, claim, why, remedy = Cause.ATOMIC_ACCUMULATION, "adds-atomically", _ATOMICS, _MODE_FIRST
        if self.kernels and all(kernel.is_the_programs for kernel in self.kernels):
            compiler, why, remedy = "launched", _OWN, _OWN_REMEDY
        elif way.shown is Shown.TIMED:
            cause, claim, why, remedy = Cause.AUTOTUNE, "chosen-by-timing", _TIMED, _NOT_TIMED
        name = f"{compiler}-{backend}-{claim}"
        return Ruling.safe(backend, rule=name, cause=cause, why=why, remedy=remedy)

    def _way(self, way: int, is_compiled_alike: bool) -> _Way:
        cases: tuple[Case, ...] = ()
        missing: tuple[str, ...] = ()
        if self.bound is not None:
            cases, missing = (self.bound.in_mode if way else self.bound.as_is).candidates(self.known_facts)
        shown = self._shown() if is_compiled_alike else None
        if shown is Shown.CALLED:  # the op itself, if the kernel is its out variant
            kernel = next(kernel for kernel in self.kernels if kernel.language in CALLED_KERNELS)
            is_op = kernel.language is KernelLanguage.FALLBACK and kernel.name.count(".") == 2
            name = kernel.name if is_op else self.op
            facts = dict(self.facts)
            for case in cases:
                if isinstance(case, CompiledCase) and case.calls in (name, name.rpartition(".")[0]):
                    facts |= case.facts
            ruling = (self.eager or self.base)(name, facts)
            return self._timed(_Way(ruling.both[way], called=name, ruling=ruling, shown=shown))
        if shown is Shown.ADDS_ATOMICALLY:
            own = [case for case in cases if not _calls(case)]
            if own and all(case.verdict is Verdict.DETERMINISTIC for case in own):
                return _Way(Verdict.DETERMINISTIC, own[0])
            accused = next((case for case in own if case.verdict is Verdict.NONDETERMINISTIC), None)
            adding = (kernel.verdict_of_additions for kernel in self.kernels if kernel.adds_in_any_order)
            verdict = Verdict.NONDETERMINISTIC if Verdict.NONDETERMINISTIC in adding else Verdict.CONDITIONAL
            return _Way(verdict, accused, shown=shown)
        if shown is Shown.NO_ATOMICS:
            return self._timed(self._without_atomics(cases, way, missing))
        if self.bound is None:
            ruling = self.base(self.op, self.facts)
            return _Way(ruling.both[way], ruling=ruling)
        return _agreed([self._of_case(case, way) for case in cases], missing)

    def _without_atomics(self, cases: tuple[Case, ...], way: int, missing: tuple[str, ...]) -> _Way:
        """The way of an op in a generated kernel without atomics and without writes shared by threads."""
        not_atomic = _Way(Verdict.DETERMINISTIC, shown=Shown.NO_ATOMICS)
        if self.bound is None:
            ruling = self.base(self.op, self.facts)
            verdict = ruling.both[way]
            return _Way(verdict, ruling=ruling) if verdict in SAFE else not_atomic
        own = [case for case in cases if not _calls(case)]
        in_order = all(kernel.is_parallel is False for kernel in self.kernels)
        ways = []
        for case in own or cases:
            cause = case.cause or (self.rule.cause if self.rule is not None else None)
            is_by_atomics = case.verdict is Verdict.NONDETERMINISTIC and cause is Cause.ATOMIC_ACCUMULATION
            is_by_writes = cause is Cause.WRITE_RACE and in_order
            is_cleared = _calls(case) or is_by_atomics or is_by_writes
            ways.append(not_atomic if is_cleared else self._of_case(case, way))
        return _agreed(ways, missing)

    def _of_case(self, case: Case, way: int) -> _Way:
        if not (isinstance(case, CompiledCase) and case.calls):
            return _Way(case.verdict, case)
        name = self.op if case.calls == ITSELF else case.calls
        ruling = (self.eager or self.base)(name, {**self.facts, **case.facts})
        return _Way(ruling.both[way], case, name, ruling)

    def _timed(self, way: _Way) -> _Way:
        """A kernel chosen by timing may be another one in the next run. Of fused ops, only sums round otherwise."""
        is_rounded = self.op.startswith("triton.") or row_of(bare_name(self.op)).reduces
        chosen = [kernel for kernel in self.kernels if kernel.rounds_by_choice]
        if way.verdict is not Verdict.DETERMINISTIC or not chosen:
            return way
        if is_rounded or any(not any(row_of(bare_name(op)).reduces for op in kernel.ops) for kernel in chosen):
            return way._replace(verdict=Verdict.CONDITIONAL, ruling=None, shown=Shown.TIMED)
        return way

    def _shown(self) -> Shown | None:
        """Return what the kernels show of this op; ``None`` if they show nothing."""
        adding = [kernel for kernel in self.kernels if kernel.adds_in_any_order]
        is_called = any(kernel.language in CALLED_KERNELS for kernel in self.kernels)
        others_add = any(self._accumulates(op) for kernel in adding for op in kernel.ops if op != self.op)
        if adding and not (is_called and others_add):
            if self._accumulates(self.op) or not others_add:
                return Shown.ADDS_ATOMICALLY
            return Shown.NO_ATOMICS  # another op of the same kernel needs them
        if is_called:
            return Shown.CALLED
        if self.kernels and all(kernel.adds_in_any_order is False for kernel in self.kernels):
            return Shown.NO_ATOMICS
        return None

    def _accumulates(self, op: str) -> bool:
        """Return whether the compiler turns ``op`` into atomic additions on some device."""
        if self.table is None:
            return False
        rules = (self.table.find(op, backend) for backend in self.table.backends)
        return any(rule is not None and rule.cause is Cause.ATOMIC_ACCUMULATION for rule in rules)


def _calls(case: Case) -> str:
    return case.calls if isinstance(case, CompiledCase) else ""


def _agreed(ways: list[_Way], missing: tuple[str, ...]) -> _Way:
    """The first of ``ways`` if all have the same verdict; else unknown, because of the ``missing`` facts."""
    if len({way.verdict for way in ways}) == 1:
        return ways[0]
    return _Way(Verdict.UNKNOWN, missing=missing if ways else ())
