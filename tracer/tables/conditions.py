"""Which case of a rule matches a call whose facts may be incomplete.

The first case that matches decides; the last one always matches. With facts missing, several may be the first: if they
agree, their verdict stands; if not, it is ``unknown``. So a further fact never flips a decided verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

from tracer.facts import Value
from tracer.findings import Condition, Deciding
from tracer.names import Backend, DeterministicMode, UnknownReason, Verdict
from tracer.tables.rules import (
    DERIVATIONS,
    DOMAINS,
    SETTINGS,
    UNNOTED,
    Case,
    Cased,
    Conditioned,
    Ruling,
    evidence_of,
    expand,
    in_domain,
)
from tracer.tables.settings import FORWARD, MODE
from tracer.tables.versions import speaks_of

AnyRule = TypeVar("AnyRule", bound=Cased)
AnyCase = TypeVar("AnyCase")
ConditionedType = TypeVar("ConditionedType", bound=Conditioned)
#: Keys, joined by AND, each with the values for which it holds.
Conditions = dict[str, frozenset[Value]]

_WHOLE: Mapping[str, frozenset[Value]] = {key: frozenset(domain) for key, domain in DOMAINS.items()}


class CaseOutcome(NamedTuple):
    """A rule's outcome for a call."""

    verdict: Verdict
    case: Case | None
    """The case that decides, or the first of several that agree; ``None`` if none decides."""
    reason: UnknownReason | None = None
    missing: tuple[str, ...] = ()
    """The facts and settings that would have decided."""
    met: tuple[Condition, ...] | None = None
    """The conditions under which ``case`` decides, as far as this call meets them; ``None`` if none decides."""


class _Test(NamedTuple):
    """A case after the settings were checked: the conditions on facts that are left."""

    case: Case
    asks: tuple[tuple[int, frozenset[Value]], ...]
    """Positions of the rule's facts, each with the values that match."""
    open_settings: tuple[str, ...]
    """Settings in the case's conditions that the target does not know."""


def wanted_values(case: Conditioned, key: str) -> frozenset[Value]:
    """The domain values of ``key`` for which ``case`` holds; all of them if it has no condition on ``key``."""
    if key not in case.when:
        return _WHOLE[key]
    wanted = case.when[key]
    asked = wanted if isinstance(wanted, list) else (wanted,)
    return frozenset(chain.from_iterable(expand(key, value) for value in asked) if key == "dtype" else asked)


def pieces(cases: Iterable[ConditionedType], release: str) -> Iterator[tuple[ConditionedType, Conditions]]:
    """The calls that come to each of ``cases`` in a ``release`` of torch; none for a case that cannot be reached."""
    live = (case for case in cases if speaks_of(case.torch, release))
    return disjoint((case, {key: wanted_values(case, key) for key in case.when}) for case in live)


def disjoint(cases: Iterable[tuple[AnyCase, Conditions]]) -> Iterator[tuple[AnyCase, Conditions]]:
    """``cases``, of which the first that matches decides, as sets of calls that do not overlap; one may be several."""
    taken: list[Conditions] = []
    for case, when in cases:
        yield from ((case, piece) for piece in uncovered(taken, when))
        taken.append(when)


def uncovered(taken: Iterable[Conditions], when: Conditions | None = None) -> list[Conditions]:
    """The calls of ``when``, or all, for which none of ``taken`` holds, as sets that do not overlap."""
    left = [when or {}]
    for earlier in taken:
        left = [part for piece in left for part in _outside(piece, earlier)]
    return left


def _outside(piece: Conditions, earlier: Conditions) -> Iterator[Conditions]:
    """The calls of ``piece`` for which ``earlier`` does not hold."""
    if any(values.isdisjoint(piece.get(key, _WHOLE[key])) for key, values in earlier.items()):
        yield piece
        return
    for key, values in earlier.items():
        whole = piece.get(key, _WHOLE[key])
        if rest := whole - values:
            yield {**piece, key: rest}
            piece = {**piece, key: whole & values}


class BoundRule:
    """A rule for one version of torch and one set of settings. Caches answers by the facts that they depend on."""

    def __init__(self, rule: Cased, version: str, settings: Mapping[str, Value]) -> None:
        """``version`` is a release (``2.9.0``); a setting missing from ``settings`` is unknown."""
        self.rule = rule
        settings = with_forward(settings)
        self._settings = settings
        self._cases = [case for case in rule.case if speaks_of(case.torch, version)]
        live: list[Case] = []
        for case in (case for case in self._cases if may_hold(case, settings)):
            live.append(case)
            if all(key in SETTINGS and key in settings for key in case.when):
                break  # it holds for every call
        asked = dict.fromkeys(key for case in live for key in case.when if key not in SETTINGS)
        self.facts: tuple[str, ...] = tuple(asked)
        """Facts that can matter, in a fixed order."""
        place = {key: i for i, key in enumerate(self.facts)}
        self._tests = tuple(
            _Test(
                case,
                tuple((place[key], wanted_values(case, key)) for key in case.when if key in place),
                tuple(key for key in case.when if key in SETTINGS and key not in settings),
            )
            for case in live
        )
        self._outcomes: dict[tuple[Value | None, ...], CaseOutcome] = {}

    def decide(self, facts: Mapping[str, Value]) -> CaseOutcome:
        """The outcome for a call with ``facts``. A value outside the vocabulary counts as not recorded."""
        get = facts.get
        values = tuple([get(key) for key in self.facts])
        if values not in self._outcomes:
            valid_facts, possible = self._possible(values)
            verdicts = {test.case.verdict for test in possible}
            if len(verdicts) == 1:
                case = possible[0].case
                reason = UnknownReason.NO_EVIDENCE if case.verdict is Verdict.UNKNOWN else None
                outcome = CaseOutcome(case.verdict, case, reason, met=self._met(case, valid_facts))
            else:
                reason = UnknownReason.FACT_NOT_RECORDED if verdicts else UnknownReason.NO_EVIDENCE
                missing = self._missing(valid_facts, possible)
                outcome = CaseOutcome(Verdict.UNKNOWN, None, reason, missing)
            self._outcomes[values] = outcome
        return self._outcomes[values]

    def candidates(self, facts: Mapping[str, Value]) -> tuple[tuple[Case, ...], tuple[str, ...]]:
        """The cases that may match, and the missing facts and settings that would choose among them."""
        valid_facts, possible = self._possible(tuple([facts.get(key) for key in self.facts]))
        return tuple(test.case for test in possible), self._missing(valid_facts, possible) if len(possible) > 1 else ()

    def _possible(self, values: tuple[Value | None, ...]) -> tuple[list[Value | None], list[_Test]]:
        valid_facts = [
            value if value is not None and in_domain(key, value) else UNNOTED.get(key)
            for key, value in zip(self.facts, values, strict=True)
        ]
        possible = []
        for test in self._tests:
            unmet = [valid_facts[place] for place, wanted in test.asks if valid_facts[place] not in wanted]
            if not any(value is not None for value in unmet):
                possible.append(test)
                if not unmet and not test.open_settings:
                    break
        return valid_facts, possible

    @cached_property
    def _wanted(self) -> list[Conditions]:
        return [{key: wanted_values(case, key) for key in case.when} for case in self._cases]

    def _missing(self, valid_facts: list[Value | None], possible: list[_Test]) -> tuple[str, ...]:
        missing = {self.facts[place] for test in possible for place, _ in test.asks if valid_facts[place] is None}
        missing.update(key for test in possible for key in test.open_settings)
        return tuple(sorted(missing))

    def met(self, case: Case, facts: Mapping[str, Value]) -> tuple[Condition, ...]:
        """The conditions under which ``case`` decides, as far as a call with ``facts`` meets them."""
        valid_facts, _ = self._possible(tuple([facts.get(key) for key in self.facts]))
        return self._met(case, valid_facts)

    def _met(self, case: Case, valid_facts: Sequence[Value | None]) -> tuple[Condition, ...]:
        """One value a key at first, then each key with all values that leave the call to ``case``."""
        known = {**self._settings, **dict(zip(self.facts, valid_facts, strict=True))}
        place = next(place for place, one in enumerate(self._cases) if one is case)
        own, before = self._wanted[place], self._wanted[:place]
        keys = sorted(dict.fromkeys(key for wanted in (own, *before) for key in wanted), key=SETTINGS.__contains__)
        box = {key: own.get(key, _WHOLE[key]) if known.get(key) is None else frozenset((known[key],)) for key in keys}
        for key in keys:
            if known.get(key) is not None:
                rivals = (one for one in before if all(box[k] & values for k, values in one.items() if k != key))
                box[key] |= own.get(key, _WHOLE[key]).difference(*(one.get(key, _WHOLE[key]) for one in rivals))
        asked = [key for key in keys if box[key] != _WHOLE[key]]
        met = tuple(Condition(key, tuple(v for v in DOMAINS[key] if v in box[key])) for key in asked)
        return (*met, Condition("torch", (case.torch,))) if case.torch else met


class BothWays(Generic[AnyRule]):
    """A rule for one version of torch and one set of settings, with and without deterministic mode."""

    def __init__(
        self,
        rule: AnyRule,
        version: str,
        settings: Mapping[str, Value],
        *,
        backend: Backend = Backend.RECORDED,
        extrapolated: bool = False,
    ) -> None:
        """``backend`` and ``extrapolated`` are handed on in its rulings."""
        self.rule = rule
        self.as_is = BoundRule(rule, version, settings)
        self.in_mode = BoundRule(rule, version, in_deterministic_mode(settings))
        self.facts = tuple(dict.fromkeys((*self.as_is.facts, *self.in_mode.facts)))
        """Facts that can matter, in a fixed order."""
        self._backend, self._extrapolated = backend, extrapolated
        self._evidence = evidence_of(rule)

    def decide(self, facts: Mapping[str, Value], in_mode: Mapping[str, Value] | None = None) -> Ruling:
        """The ruling on a call with ``facts``; ``in_mode``: its facts in deterministic mode, if they differ.

        A case's own words go before its rule's: as things stand first, then deterministic mode's bad news.
        """
        here, there = self.as_is.decide(facts), self.in_mode.decide(facts if in_mode is None else in_mode)
        spoken = (here.case, there.case if there.verdict is not Verdict.DETERMINISTIC else None)
        return Ruling.by(
            self.rule,
            [case for case in spoken if case is not None],
            verdict=here.verdict,
            deterministic_mode=there.verdict,
            route=there.case.route if there.case is not None else "",
            evidence=self._evidence,
            decided=Deciding(
                as_is=() if here.met is None else (here.met,),
                deterministic_mode=() if there.met is None else (there.met,),
            ),
            reason=here.reason or there.reason,
            reason_detail=", ".join(dict.fromkeys((*here.missing, *there.missing))),
            extrapolated=self._extrapolated,
            backend=self._backend,
        )


def with_forward(settings: Mapping[str, Value]) -> dict[str, Value]:
    """``settings`` with those that the forward of a backward call ran under: the same, if no others are known."""
    same = {FORWARD + key: value for key, value in settings.items() if FORWARD + key in SETTINGS}
    return {**same, **settings}


def in_deterministic_mode(settings: Mapping[str, Value]) -> dict[str, Value]:
    """``settings`` with the mode on, in the forward too."""
    return {**settings, MODE: DeterministicMode.ON.value, FORWARD + MODE: DeterministicMode.ON.value}


def may_hold(case: Conditioned, settings: Mapping[str, Value]) -> bool:
    """Return whether the case is compatible with the known settings."""
    return all(settings[key] in wanted_values(case, key) for key in case.when if key in SETTINGS and key in settings)


def with_derived(facts: Mapping[str, Value], node: str | None, keys: Iterable[str]) -> Mapping[str, Value]:
    """``facts`` of a call, with those of ``keys`` that are derived from them."""
    derived = {key: DERIVATIONS[key](node, facts) for key in keys if key in DERIVATIONS}
    derived_facts = {key: value for key, value in derived.items() if value is not None}
    return {**facts, **derived_facts} if derived_facts else facts
