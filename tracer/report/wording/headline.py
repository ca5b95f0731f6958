"""The whole report in one short sentence; it never calls a step deterministic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.names import SEVERITY, Cause, Verdict
from tracer.plan import Step, step_of
from tracer.report.wording.naming import is_call

if TYPE_CHECKING:
    from tracer.report.view import ReportView

#: Causes by which a conditional call hangs on its data; by others it hangs on the machine or its settings.
_DATA = (Cause.ATOMIC_ACCUMULATION, Cause.TIE_ORDER, Cause.WRITE_RACE, None)


def headline(report: ReportView) -> tuple[Verdict, str]:
    """The whole report in one short sentence, and the verdict whose colour it bears.

    What holds for the process weighs as much as what holds for a call.
    """
    found = met(report)
    if not found:
        return Verdict.UNKNOWN, "Nothing was recorded"
    verdict = min(found, key=SEVERITY.index)
    if verdict is Verdict.SEEDED and draws_repeat(report):
        return verdict, "No risk found; random draws are seeded"
    said = {
        Verdict.RAISES: "The step would stop with an error",
        Verdict.NONDETERMINISTIC: "Two runs of this step can differ",
        Verdict.CONDITIONAL: f"Two runs can differ {condition(report)}",
        Verdict.UNKNOWN: "No risk found in what is known",
        Verdict.SEEDED: "No risk found once seeded",
        Verdict.DETERMINISTIC: "No risk found",
    }
    return verdict, said[verdict]


def met(report: ReportView) -> set[Verdict]:
    """The verdicts that hold as the settings stand, of calls and of the process; empty where nothing was recorded."""
    of_process = {one.verdict for one in report.findings if not is_call(one)}
    return of_process | {verdict for verdict, count in report.tally.as_is.items() if count}


def draws_repeat(report: ReportView) -> bool:
    """Is nothing left to seed: does every generator that was drawn from start alike in every run?"""
    drawing = (one for one in report.findings if one.verdict is Verdict.SEEDED)
    return all(step_of(one, report.target) is Step.NOTHING for one in drawing)


def condition(report: ReportView) -> str:
    """What conditional findings hang on, in three words."""
    conditional = (one for one in report.findings if one.verdict is Verdict.CONDITIONAL)
    return "for some data" if all(one.cause in _DATA for one in conditional) else "under some conditions"
