"""What trials and data of the run are told as: a table that was refuted with the text to send, what data settle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tracer
from tracer.findings import Finding, Judgement
from tracer.names import OF_A_RUN, EvidenceKind
from tracer.plan import name_of, place_of
from tracer.report.wording.words import plural

_OF_THIS_RUN = (EvidenceKind.TRIED, EvidenceKind.OBSERVED)

REFUTED = "The table is wrong for this device"
REFUTED_LEAD = (
    "These calls were made again in this run, from the same inputs and generator states, and gave other results,"
    " though the table holds them for deterministic. Please report it; the text below says all that is needed, and no"
    " value of any tensor."
)
SETTLED = "Settled by the data of this run"
SETTLED_LEAD = (
    "The tables hold these calls for a risk; their data were looked at, and leave no two ways. Deterministic for these"
    " data: with others they may not be."
)


class Settled(NamedTuple):
    """One row of what data settle."""

    finding: Finding
    op: str
    place: str
    why: str
    """What the data show."""


def refuted(judgement: Judgement) -> tuple[Finding, ...]:
    """Findings of which trials showed that the table is wrong."""
    return tuple(finding for finding in judgement.findings if finding.refuted is not None)


def settled(judgement: Judgement) -> tuple[Settled, ...]:
    """What data settle, with what they show."""
    return tuple(
        Settled(finding, name_of(finding.op), place_of(finding), of_this_run(finding)) for finding in judgement.observed
    )


def of_this_run(finding: Finding) -> str:
    """What trials and data showed of a finding's calls; empty where nobody tried or looked."""
    return "; ".join(row.ref for row in finding.evidence if row.kind in _OF_THIS_RUN)


def rests_on_a_rule(finding: Finding) -> bool:
    """Does a rule speak of it, which has a page of its own?"""
    return any(row.kind not in OF_A_RUN for row in finding.evidence)


def to_report(judgement: Judgement, findings: Sequence[Finding]) -> str:
    """The text to paste into an issue: where it ran, which calls, what the table says, what was seen."""
    environment = judgement.environment
    on = ", ".join(dict.fromkeys(device.name for device in environment.devices)) or environment.platform
    versions = [f"torch {environment.torch}"]
    versions += [f"CUDA {environment.cuda}"] if environment.cuda else []
    versions += [f"cuDNN {environment.cudnn}"] if environment.cudnn else []
    versions += [plural(environment.num_threads, "thread")] if environment.num_threads else []
    lines = [
        f"determinism-tracer {tracer.__version__}: trials refute a table",
        f"{on}; {', '.join(versions)}; deterministic mode {environment.deterministic_mode}",
    ]
    for finding in findings:
        facts = ", ".join(f"{name}={value}" for name, value in sorted(finding.facts.items()))
        lines += [
            "",
            f"{name_of(finding.op)} ({finding.phase}): {finding.backend} table says {finding.refuted}"
            f" (rule {finding.rule})",
            f"  tried: {of_this_run(finding)}",
            f"  facts: {facts}",
        ]
    return "\n".join(lines)
