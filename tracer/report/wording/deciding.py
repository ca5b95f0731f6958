"""The conditions that decided a finding's verdicts: the case of its rule that its recorded facts meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tracer.names import About, Backend, Phase, Verdict
from tracer.report.files.columns import backend_of
from tracer.tables.explaining import in_words
from tracer.tables.loading import load_tables
from tracer.tables.ruling.binding import BoundTable
from tracer.tables.ruling.conditions import BoundRule, wanted_values
from tracer.tables.ruling.derived import DERIVATIONS, derive
from tracer.tables.settings.rows import load_rows
from tracer.tables.versions import judged_as

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tracer.findings import Finding, Judgement
    from tracer.tables.model import Case, Rule
    from tracer.tables.settings.rows import Row
    from tracer.trace.model import FactValue

_Ruled = TypeVar("_Ruled", bound="Rule | Row")
_LABELS = ("As the settings stand", "In deterministic mode")


class Deciding:
    """Finds the cases again by which a judgement came to its verdicts; answers are kept by what they rest on."""

    def __init__(self, judgement: Judgement) -> None:
        self._judgement = judgement
        self._rules: dict[Backend, dict[str, tuple[BoundRule, BoundRule]]] = {}
        self._kept: dict[tuple[object, ...], str] = {}

    def words(self, finding: Finding) -> str:
        """A line for each of the two verdicts; empty where no case of a table in hand comes to the same verdict.

        Of the process it is the first line alone: in deterministic mode other values stand, which no finding keeps.
        """
        if finding.about is not About.CALL:
            return self._of_process(finding)
        both = self._bound(backend_of(finding, self._judgement), finding.rule)
        if both is None:
            return ""
        asked = dict.fromkeys((*both[0].facts, *both[1].facts))
        facts = _facts(finding, asked)
        key = (finding.rule, finding.backend, finding.verdict, finding.deterministic_mode, *facts.items())
        if key not in self._kept:
            verdicts = (finding.verdict, finding.deterministic_mode)
            lines = [
                f"{label}: {told}"
                for label, rule, verdict in zip(_LABELS, both, verdicts, strict=True)
                if (told := _told(rule, facts, verdict))
            ]
            self._kept[key] = "\n".join(lines)
        return self._kept[key]

    def _of_process(self, finding: Finding) -> str:
        if finding.about is About.MEMORY:  # judged as if nothing had been filled, for nothing was when it was given
            return ""
        table, target = load_rows(), self._judgement.target
        row = _rule(finding.rule, table.row)
        if row is None:
            return ""
        version = judged_as(table.reviewed, target.torch, extrapolated=finding.extrapolated)
        told = _told(BoundRule(row, version, target.conditions), finding.facts, finding.verdict)
        return f"{_LABELS[0]}: {told}" if told else ""

    def _bound(self, backend: Backend, rule_id: str) -> tuple[BoundRule, BoundRule] | None:
        rules = self._rules.get(backend)
        if rules is None:
            rules = self._rules[backend] = {}
        if rule_id not in rules:
            table = load_tables().get(backend)
            rule = _rule(rule_id, (*table.rule, *table.libraries)) if table is not None else None
            if table is None or rule is None:
                return None
            target = self._judgement.target
            version = BoundTable(table, target.torch, target.conditions).version
            rules[rule_id] = (
                BoundRule(rule, version, target.conditions),
                BoundRule(rule, version, {**target.conditions, "deterministic_mode": "on"}),
            )
        return rules[rule_id]


def _rule(rule_id: str, rules: Iterable[_Ruled]) -> _Ruled | None:
    return next((rule for rule in rules if rule.id == rule_id), None)


def _facts(finding: Finding, asked: Mapping[str, None]) -> dict[str, FactValue]:
    """The facts that the rule asks for, as far as they were recorded or follow from the autograd node."""
    node = finding.node if finding.phase is Phase.BACKWARD else None
    facts = {key: finding.facts[key] for key in asked if key in finding.facts}
    for key in asked:
        if key in DERIVATIONS and (value := derive(key, node, finding.facts)) is not None:
            facts[key] = value
    return facts


def _told(rule: BoundRule, facts: Mapping[str, FactValue], verdict: Verdict) -> str:
    """The case that holds, in words, if it comes to ``verdict``: what a seed changed, or a translation, it does not."""
    outcome = rule.decide(facts)
    if outcome.case is None or outcome.verdict is not verdict:
        return ""
    return _in_words(outcome.case)


def _in_words(case: Case) -> str:
    parts = [in_words(key, wanted_values(case, key)) for key in case.when]
    if case.torch:
        parts.append(f"torch {case.torch}")
    return "; ".join(parts) or "always"
