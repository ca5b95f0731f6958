"""What each verdict is called, signed and means, in every report alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tracer.findings import Judgement
from tracer.names import SEVERITY, Backend, EvidenceKind, Settings, UnknownReason, Verdict


class VerdictWords(NamedTuple):
    """How a verdict is shown; never by colour alone."""

    sign: str
    """One character that every font has."""
    label: str
    meaning: str
    """One sentence for the legend."""
    style: str
    """The terminal's colour."""


VERDICTS: Mapping[Verdict, VerdictWords] = {
    Verdict.RAISES: VerdictWords("!", "raises", "torch refuses the call with a RuntimeError.", "red"),
    Verdict.NONDETERMINISTIC: VerdictWords(
        "≠", "nondeterministic", "Two runs can give different bits for the same input.", "dark_orange3"
    ),
    Verdict.CONDITIONAL: VerdictWords(
        "≈",
        "conditional",
        "Runs differ only where a condition is met: ties or duplicate indices in the data, for one.",
        "yellow",
    ),
    Verdict.UNKNOWN: VerdictWords("?", "unknown", "No answer is known; the reason is given.", "magenta"),
    Verdict.SEEDED: VerdictWords("#", "seeded", "Random by design; the same seed gives the same bits.", "cyan"),
    Verdict.DETERMINISTIC: VerdictWords("=", "deterministic", "No mechanism is known by which runs differ.", "green"),
}

UNKNOWN_REASONS: Mapping[UnknownReason, str] = {
    UnknownReason.NO_TABLE: "No table exists for the backend.",
    UnknownReason.TABLE_NOT_REVIEWED: "The target's torch is older than what the table was reviewed for.",
    UnknownReason.FACT_NOT_RECORDED: "A rule asks for a fact that the trace does not hold.",
    UnknownReason.UNLISTED: "The table lists what is known to be safe, and this op is not on it.",
    UnknownReason.OPAQUE: "The op comes from outside torch, and no rule names it.",
    UnknownReason.NO_EVIDENCE: "A rule exists and says itself that nothing is known.",
}

EVIDENCE_STRENGTH: Mapping[EvidenceKind, str] = {
    EvidenceKind.DOCUMENTED: "documented",
    EvidenceKind.SOURCE: "read in the source",
    EvidenceKind.MEASURED: "measured on a device",
}

#: What every report speaks of, and what it does not.
GUARANTEE = "Run-to-run only: the same machine, versions and settings. Nothing here speaks of two different machines."


def number(count: int) -> str:
    """``count`` with thousands set apart."""
    return f"{count:,}"


def plural(count: int, one: str, many: str = "") -> str:
    """``count`` and its noun: ``1 call``, ``1,200 calls``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def by_severity(counts: Mapping[Verdict, int]) -> list[tuple[Verdict, int]]:
    """The verdicts that were counted at all, worst first."""
    return [(verdict, counts[verdict]) for verdict in SEVERITY if counts.get(verdict)]


def target_words(judgement: Judgement) -> tuple[str, str]:
    """What was judged for, and under which settings; a recorded device is named where a table was asked."""
    target = judgement.target
    asked = ", ".join(sorted(judgement.tables))
    backend = f"{target.backend} ({asked})" if target.backend is Backend.RECORDED and asked else target.backend.value
    return backend, "as recorded" if target.settings is Settings.RECORDED else target.settings.value
