"""The remedy that this user can follow: a library's line is not theirs to edit, their own can be rewritten."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tracer.findings import Finding
from tracer.judging.calls.rewriting import rewritten
from tracer.names import Cause, Prerequisite, Rewriting, Verdict
from tracer.tables.settings.switches import Switches

_AT_RISK = (Verdict.RAISES, Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL)


def library_of(finding: Finding) -> str:
    """The package whose line it is, where a frame of the user's own led there; empty for a line of the user's."""
    package, slash, _ = finding.location.partition("/")
    return package if finding.called_from and slash and package.isidentifier() else ""


def in_ones_own_hands(
    finding: Finding, rewriting: Rewriting | None, switches: Switches, lines: Mapping[str, str]
) -> Finding:
    """``finding`` with a remedy that its reader can follow; ``lines`` hold the text of the user's own, by place."""
    library = library_of(finding)
    if library:
        return _of_library(finding, library, switches)
    if rewriting is None or finding.called_from:
        return finding
    line = rewritten(lines.get(finding.location, ""), rewriting)
    if not line:
        return finding
    if Prerequisite.DETERMINISTIC_MODE in finding.needs:
        also = " with deterministic mode on"
    else:
        also = ", or switch deterministic mode on" if finding.deterministic_mode is Verdict.DETERMINISTIC else ""
    return msgspec.structs.replace(finding, rewritten=line, remedy=f"Write `{line}`{also}.")


def _of_library(finding: Finding, library: str, switches: Switches) -> Finding:
    as_is, in_mode = finding.planned or (finding.verdict, finding.deterministic_mode)
    is_left = as_is in _AT_RISK or in_mode in _AT_RISK
    if not is_left or finding.cause is Cause.RNG:
        return msgspec.structs.replace(finding, library=library)
    switch = switches.find(library, finding.rule)
    if switch is not None:
        return msgspec.structs.replace(finding, library=library, remedy=switch.what, switch=switch.ref, needs=())
    if switches.is_in_hand(finding.rule):
        return msgspec.structs.replace(finding, library=library)
    other = f"take another layer or option of {library} in your own code, or accept the finding"
    if finding.deterministic_mode is Verdict.RAISES:
        remedy = (
            f"The line belongs to {library}: `torch.use_deterministic_algorithms(True, warn_only=True)` lets it run:"
            f" it varies as without the mode; to have it repeat, {other}."
        )
    else:
        remedy = f"The line belongs to {library}, and no switch is known that makes it repeat: {other}."
    return msgspec.structs.replace(finding, library=library, remedy=remedy, needs=())
