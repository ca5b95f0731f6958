"""Which case of a rule matches a call whose facts may be incomplete, and facts derived from others.

Cases are disjoint and leave no gap (the lint proves it), so exactly one matches. With facts missing, several may: if
they agree, their verdict stands; if not, it is ``unknown``. So a further fact never flips a decided verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

from tracer.facts.derived import SELECTING_NODES
from tracer.facts.fact import Value
from tracer.names import Cause, DeterministicMode, UnknownReason, Verdict
from tracer.tables.rules import Case, Cased, Conditioned
from tracer.tables.settings.declared import FORWARD, MODE
from tracer.tables.versions import speaks_of
from tracer.tables.vocabulary import DOMAINS, FORWARD_FACTS, SETTINGS, UNNOTED, expand, in_domain

AnyRule = TypeVar("AnyRule", bound=Cased)

#: The conditions of a matching case: each key with the values for which the case holds.
Met = tuple[tuple[str, tuple[Value, ...]], ...]
_WHOLE: Mapping[str, frozenset[Value]] = {key: frozenset(domain) for key, domain in DOMAINS.items()}


class Outcome(NamedTuple):
    """A rule's outcome for a call."""

    verdict: Verdict
    case: Case | None
    """The case that decides, or the first of several that agree; ``None`` if none decides."""
    reason: UnknownReason | None = None
    missing: tuple[str, ...] = ()
    """The facts and settings that would have decided."""


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


def conditions_of(case: Case | None) -> Met | None:
    """The conditions of ``case``, its versions last; ``None`` for no case."""
    if case is None:
        return None
    wanted = {key: wanted_values(case, key) for key in case.when}
    asked = [(key, tuple(value for value in DOMAINS[key] if value in values)) for key, values in wanted.items()]
    return (*asked, *([("torch", (case.torch,))] if case.torch else ()))


class BoundRule:
    """A rule for one version of torch and one set of settings. Caches answers by the facts that they depend on."""

    def __init__(self, rule: Cased, version: str, settings: Mapping[str, Value]) -> None:
        """``version`` is a release (``2.9.0``); a setting missing from ``settings`` is unknown."""
        self.rule = rule
        settings = with_forward(settings)
        live = [case for case in rule.case if speaks_of(case.torch, version) and may_hold(case, settings)]
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
        self._outcomes: dict[tuple[Value | None, ...], Outcome] = {}

    def decide(self, facts: Mapping[str, Value]) -> Outcome:
        """The outcome for a call with ``facts``. A value outside the vocabulary counts as not recorded."""
        get = facts.get
        values = tuple([get(key) for key in self.facts])
        outcome = self._outcomes.get(values)
        if outcome is None:
            outcome = self._outcomes[values] = self._decide(values)
        return outcome

    def candidates(self, facts: Mapping[str, Value]) -> tuple[tuple[Case, ...], tuple[str, ...]]:
        """The cases that may match, and the missing facts and settings that would choose among them."""
        get = facts.get
        valid_facts, possible = self._possible(tuple([get(key) for key in self.facts]))
        return tuple(test.case for test in possible), self._missing(valid_facts, possible) if len(possible) > 1 else ()

    def _possible(self, values: tuple[Value | None, ...]) -> tuple[list[Value | None], list[_Test]]:
        valid_facts = [
            value if value is not None and in_domain(key, value) else UNNOTED.get(key)
            for key, value in zip(self.facts, values, strict=True)
        ]
        return valid_facts, [
            test
            for test in self._tests
            if all(valid_facts[place] is None or valid_facts[place] in wanted for place, wanted in test.asks)
        ]

    def _missing(self, valid_facts: list[Value | None], possible: list[_Test]) -> tuple[str, ...]:
        missing = {self.facts[place] for test in possible for place, _ in test.asks if valid_facts[place] is None}
        missing.update(key for test in possible for key in test.open_settings)
        return tuple(sorted(missing))

    def _decide(self, values: tuple[Value | None, ...]) -> Outcome:
        valid_facts, possible = self._possible(values)
        if not possible:
            return Outcome(Verdict.UNKNOWN, None, UnknownReason.NO_EVIDENCE)
        case = possible[0].case
        if len({test.case.verdict for test in possible}) == 1:
            reason = UnknownReason.NO_EVIDENCE if case.verdict is Verdict.UNKNOWN else None
            return Outcome(case.verdict, case, reason)
        return Outcome(Verdict.UNKNOWN, None, UnknownReason.FACT_NOT_RECORDED, self._missing(valid_facts, possible))


class Answer(NamedTuple):
    """A rule's answer for a call, under the target's settings and in deterministic mode."""

    rule: Cased
    as_is: Outcome
    in_mode: Outcome

    @property
    def both(self) -> tuple[Verdict, Verdict]:
        """The verdict under the target's settings, and in deterministic mode."""
        return self.as_is.verdict, self.in_mode.verdict

    @property
    def reason(self) -> UnknownReason | None:
        """The reason for an ``unknown`` verdict; ``None`` for any other."""
        return self.as_is.reason or self.in_mode.reason

    @property
    def missing(self) -> str:
        """The facts and settings that would have decided."""
        return ", ".join(dict.fromkeys((*self.as_is.missing, *self.in_mode.missing)))

    @property
    def decided(self) -> tuple[Met | None, Met | None]:
        """The conditions of the cases that decided; ``None`` if none did."""
        return conditions_of(self.as_is.case), conditions_of(self.in_mode.case)

    @property
    def cases(self) -> tuple[Case, ...]:
        """Those that speak, each before its rule: as things stand first, then deterministic mode's bad news."""
        spoken = (self.as_is.case, self.in_mode.case if self.in_mode.verdict is not Verdict.DETERMINISTIC else None)
        return tuple(case for case in spoken if case is not None)

    @property
    def cause(self) -> Cause:
        """The mechanism."""
        return next((case.cause for case in self.cases if case.cause), self.rule.cause)

    @property
    def why(self) -> str:
        """The mechanism in words."""
        return next((case.why for case in self.cases if case.why), self.rule.why)

    @property
    def remedy(self) -> str:
        """The replacement to use."""
        return next((case.remedy for case in self.cases if case.remedy), self.rule.remedy)


class BothWays(Generic[AnyRule]):
    """A rule for one version of torch and one set of settings, with and without deterministic mode."""

    def __init__(self, rule: AnyRule, version: str, settings: Mapping[str, Value]) -> None:
        self.rule = rule
        self.as_is = BoundRule(rule, version, settings)
        self.in_mode = BoundRule(rule, version, in_deterministic_mode(settings))
        self.facts = tuple(dict.fromkeys((*self.as_is.facts, *self.in_mode.facts)))
        """Facts that can matter, in a fixed order."""

    def decide(self, facts: Mapping[str, Value], in_mode: Mapping[str, Value] | None = None) -> Answer:
        """The answer for a call with ``facts``; ``in_mode``: its facts in deterministic mode, if they differ."""
        return Answer(self.rule, self.as_is.decide(facts), self.in_mode.decide(facts if in_mode is None else in_mode))


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


class Derivation(NamedTuple):
    """Computes a fact from a call's facts and its autograd node. The node is ``None`` outside the backward pass, and
    empty if it is unknown; a fact that needs it is then unknown too."""

    reads: tuple[str, ...]
    """The only recorded facts that it reads, besides the autograd node."""
    derive: Callable[[str | None, Mapping[str, Value]], bool | None]


def _of_node(is_one: Callable[[str], bool]) -> Derivation:
    def from_node(node: str | None, facts: Mapping[str, Value]) -> bool | None:
        return None if node == "" else node is not None and is_one(node.rstrip("0123456789"))

    return Derivation((), from_node)


def _where(name: str) -> Derivation:
    """A fact that is present if it holds, and absent otherwise."""
    return Derivation((name,), lambda node, facts: facts.get(name) is True)


_DIRECT = FORWARD_FACTS["forward.direct"]
#: How each key of ``vocabulary.DERIVED_FACTS`` is derived.
DERIVATIONS: Mapping[str, Derivation] = {
    "backward.selects": _of_node(lambda name: name in SELECTING_NODES),
    # A softmax that only attention's math path calls: fully masked rows come out as zeros.
    "backward.attention_softmax": _of_node(lambda name: name == "SafeSoftmaxBackward"),
    # It exempts calls, so unknown counts as false.
    "shape.is_scalar": Derivation(("ndim",), lambda node, facts: facts.get("ndim") == 0),
    **{key: _where(forward_fact) for key, forward_fact in FORWARD_FACTS.items()},
    # A backward op called outside the backward pass has no forward: it was called directly.
    "forward.direct": Derivation((_DIRECT,), lambda node, facts: node is None or facts.get(_DIRECT) is True),
    "phase.backward": Derivation((), lambda node, facts: node is not None),
    "attention.may_fuse": _where("attention.may_fuse"),
    "attention.has_mask": _where("attention.has_mask"),
    "library.widens_counts": _where("library.widens_counts"),
    "module.recurrent": _where("module.recurrent"),
    "module.fuses_gates": _where("module.fuses_gates"),
}


def with_derived(facts: Mapping[str, Value], node: str | None, keys: Iterable[str]) -> Mapping[str, Value]:
    """``facts`` of a call, with those of ``keys`` that are derived from them."""
    derived = {key: DERIVATIONS[key].derive(node, facts) for key in keys if key in DERIVATIONS}
    derived_facts = {key: value for key, value in derived.items() if value is not None}
    return {**facts, **derived_facts} if derived_facts else facts
