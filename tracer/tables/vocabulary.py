"""The keys that a rule's condition may use, facts and settings, each with all its values.

Facts (``tracer.facts``) are recorded with a call or derived from it; settings of the target are known when a trace is
judged. A missing fact makes the verdict ``unknown`` unless another key decides.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracer.facts.every_fact import DTYPE_CLASSES, FACTS, of_kind
from tracer.facts.fact import Derivation, Kind, Value
from tracer.tables.settings.declared import conditions

_Domains = Mapping[str, tuple[Value, ...]]


def _domains(*kinds: Kind) -> _Domains:
    return {key: fact.domain for key, fact in of_kind(*kinds).items()}


#: A fact of a backward call to the fact that its forward call has: ``aten.sample_backward`` takes it from
#: ``aten.sample`` at the same place.
FORWARD_FACTS: Mapping[str, str] = {key: fact.of_forward for key, fact in FACTS.items() if fact.of_forward}
#: How the judge derives facts, by key.
DERIVATIONS: Mapping[str, Derivation] = {key: fact.derivation for key, fact in FACTS.items() if fact.derivation}
BACKWARD_OF = "_backward"
"""Suffix that a backward op's name adds to its forward's."""
#: Settings of the target, each declared with its domain in ``tables.settings.declared``.
SETTINGS: _Domains = {condition.key: condition.domain for condition in conditions()}

#: Facts of the process, for rows of the table of settings, which may use settings too.
PROCESS_FACTS: _Domains = _domains(Kind.PROCESS)
#: Every key that a condition may use, with its domain.
DOMAINS: _Domains = {**{key: fact.domain for key, fact in FACTS.items()}, **SETTINGS}
_MEMBERS = {key: {(type(value), value) for value in domain} for key, domain in DOMAINS.items()}
#: Facts that are recorded on request.
RECORDED_FACTS: _Domains = _domains(Kind.ASKED, Kind.NOTED, Kind.MARKED)
#: Defaults of facts that are recorded only if they hold.
UNNOTED: Mapping[str, Value] = dict.fromkeys(of_kind(Kind.NOTED, Kind.MARKED), False)


def in_domain(key: str, value: Value) -> bool:
    """Return whether ``key`` can have ``value``. Types count: ``1`` is not ``true``."""
    return (type(value), value) in _MEMBERS[key]


def allowed(key: str, value: Value) -> bool:
    """Return whether a condition on ``key`` may name ``value``: one that it can have, or a dtype class."""
    return in_domain(key, value) or (key == "dtype" and value in DTYPE_CLASSES)


def expand(key: str, value: Value) -> tuple[Value, ...]:
    """The domain values that ``value`` stands for: itself, or a dtype class's members."""
    if key == "dtype" and isinstance(value, str) and value in DTYPE_CLASSES:
        return DTYPE_CLASSES[value]
    return (value,)


def in_words(key: str, values: frozenset[Value]) -> str:
    """One condition in words: ``dtype: floating or complex``, ``device: not cuda``."""
    domain = frozenset(DOMAINS[key])
    if not any(isinstance(value, bool) for value in values) and 2 * len(values) > len(domain) + 1:
        return f"{key}: not {' or '.join(_values_in_words(key, domain - values))}"
    return f"{key}: {' or '.join(_values_in_words(key, values))}"


def _values_in_words(key: str, values: frozenset[Value]) -> list[str]:
    words: list[str] = []
    left = set(values)
    if key == "dtype":
        for name, members in DTYPE_CLASSES.items():
            if left.issuperset(members):
                words.append(name)
                left.difference_update(members)
    return words + [
        str(value).lower() if isinstance(value, bool) else str(value) for value in DOMAINS[key] if value in left
    ]
