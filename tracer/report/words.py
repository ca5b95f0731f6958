"""The words of every report alike: verdicts, kinds of findings, how a finding is called, counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tracer.findings import Finding, Judgement
from tracer.names import SEVERITY, About, Backend, Cause, Phase, Settings, Training, Verdict
from tracer.ops import spoken
from tracer.plan import name_of, op_of, place_of


class VerdictWords(NamedTuple):
    """The look of a verdict; never by colour alone."""

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


#: What a conditional finding hangs on, by its cause.
CONDITIONS = {
    Cause.WRITE_RACE: "if two writes meet at one index",
    Cause.ATOMIC_ACCUMULATION: "if additions meet at one index",
    Cause.TIE_ORDER: "if values tie",
    Cause.ALGORITHM_SELECTION: "if the library picks an algorithm that varies",
    Cause.WORKSPACE: "if streams share a workspace of cuBLAS",
    Cause.REDUCTION_ORDER: "if network switches do the sum",
    Cause.UNINITIALIZED_MEMORY: "if memory is read before it is written",
}

#: What every report speaks of, and what it does not.
GUARANTEE = "Run-to-run only: the same machine, versions and settings; nothing is said of two machines."


def plural(count: int, singular: str, many: str = "") -> str:
    """``count`` and its noun: ``1 call``, ``1,200 calls``."""
    return f"{count:,} {singular if count == 1 else many or singular + 's'}"


def steps_in_words(steps: int, by_hand: int, training: Training) -> str:
    """``2 optimizer steps``, ``2 steps by hand``; of what is no training, what it is."""
    if by_hand and not steps:
        return plural(by_hand, "step by hand", "steps by hand")
    return "inference" if training is Training.INFERENCE else plural(steps, "optimizer step")


def size(count: int) -> str:
    """``count`` bytes as people say it: ``512 bytes``, ``9.5 KiB``, ``45.2 MiB``."""
    if count < 2**10:
        return plural(count, "byte")
    return f"{count / 2**10:,.1f} KiB" if count < 2**20 else f"{count / 2**20:,.1f} MiB"


def joined(parts: Sequence[str]) -> str:
    """``parts`` as a sentence lists them: ``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def first_sentence(text: str) -> str:
    """The first sentence of a reason, which stands for the whole where there is little room."""
    return re.split(r"(?<=[.])\s+", text, maxsplit=1)[0]


def some(parts: Sequence[str], limit: int | None, join: str = ", ") -> str:
    """The first ``limit`` of ``parts``, and how many there are more: ``a, b and 3 more``."""
    more = len(parts[limit:]) if limit is not None else 0
    return join.join(parts[:limit]) + (f" and {more:,} more" if more else "")


def consecutive(numbers: Iterable[int]) -> list[list[int]]:
    """``numbers``, ascending, in runs without a gap."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def by_severity(counts: Mapping[Verdict, int]) -> list[tuple[Verdict, int]]:
    """The verdicts that were counted at all, worst first."""
    return [(verdict, counts[verdict]) for verdict in SEVERITY if counts.get(verdict)]


def target_words(judgement: Judgement) -> tuple[str, str]:
    """Return the target, and its settings; a recorded device is named where a table was asked."""
    target = judgement.target
    asked = ", ".join(sorted(judgement.tables))
    backend = f"{target.backend} ({asked})" if target.backend is Backend.RECORDED and asked else target.backend.value
    return backend, "as recorded" if target.settings is Settings.RECORDED else target.settings.value


# --- how a finding is called ------------------------------------------------------------------------------


def is_call(finding: Finding) -> bool:
    """Return whether ``finding`` speaks of recorded calls, which the tally counts."""
    return finding.about is About.CALL


def conditions_of(findings: Iterable[Finding]) -> str:
    """What the conditional ones of ``findings`` hang on; empty where that cannot be said in few words."""
    causes = {finding.cause for finding in findings if finding.verdict is Verdict.CONDITIONAL}
    return " or ".join(says for cause, says in CONDITIONS.items() if cause in causes) if causes <= {*CONDITIONS} else ""


def calls_behind(findings: Iterable[Finding]) -> int:
    """Recorded calls behind ``findings``; what is counted of the process is none."""
    return sum(finding.count for finding in findings if is_call(finding))


def sites_of(findings: Iterable[Finding]) -> int:
    """Distinct places of those of ``findings`` that speak of calls."""
    return len({finding.called_from or place_of(finding) for finding in findings if is_call(finding)})


def subject_of(finding: Finding) -> str:
    """The op or, where there is none, what of the process it is."""
    return op_of(finding) or finding.subject or finding.rule


def compiled_in(finding: Finding) -> str:
    """Return region and kernel of compiled calls: ``compiled, region 0/0 forward: cpp_index_add_0``; else empty."""
    if not finding.regions:
        return ""
    kernels = some(finding.kernels, 2)
    return f"compiled, region {some(finding.regions, 1)}{f': {kernels}' if kernels else ''}"


def runs_as_of(finding: Finding) -> str:
    """Return the op that runs on the target, where it is another one and the answer names the recorded one."""
    runs_as = name_of(finding.runs_as)
    return "" if runs_as == op_of(finding) else runs_as


def which_runs_as(finding: Finding) -> str:
    """``, which runs as aten._cudnn_rnn``; empty where ``runs_as_of`` is."""
    return f", which runs as {runs_as}" if (runs_as := runs_as_of(finding)) else ""


def answer_of(finding: Finding) -> str:
    """``is nondeterministic``, or ``raises``: the verdict as a sentence ends."""
    return "raises" if finding.verdict is Verdict.RAISES else f"is {finding.verdict}"


def statement_of(finding: Finding) -> str:
    """``aten.index_add_ is nondeterministic``."""
    return f"{subject_of(finding)}{which_runs_as(finding)} {answer_of(finding)}"


def said_of(finding: Finding) -> str:
    """``train.py:10: cuda-index-add: aten.index_add_.default forward in net.fc is nondeterministic``."""
    rule, led_from, answer = finding.rule, finding.called_from, answer_of(finding)
    if finding.subject and not finding.location:
        return f"{rule}: {finding.subject} {answer}"
    place = finding.location or led_from or finding.module or "place not recorded"
    phase = f" {finding.phase}" if finding.op else ""
    module = f" in {finding.module}" if finding.module and place != finding.module else ""
    led = f" (called from {led_from})" if led_from not in ("", place) else ""
    what = spoken(finding.op, finding.runs_as) or finding.subject
    return f"{place}: {rule}: {what}{phase}{which_runs_as(finding)}{module}{led} {answer}"


def phase_of(finding: Finding) -> str:
    """The phase; empty for what belongs to none, as a setting does."""
    return "" if not finding.op and not is_call(finding) and finding.phase is Phase.OTHER else finding.phase.value


def counted(finding: Finding) -> str:
    """Return the count: ``12 calls``; what was counted of the process may be no calls."""
    return plural(finding.count, "call") if is_call(finding) or finding.ops or finding.op else f"{finding.count:,}"


def ops_behind(finding: Finding) -> Mapping[str, int]:
    """The ops that make ``finding`` matter, beside the one that it names itself."""
    return {} if set(finding.ops) == {finding.op} else finding.ops


def calls_by_op(ops: Mapping[str, int], limit: int = 6) -> str:
    """``ops``, the most called first: ``aten.mm 120, aten.bmm 24 and 3 more``."""
    ordered = sorted(ops.items(), key=lambda item: (-item[1], item[0]))
    return some([f"{name_of(op)} {calls:,}" for op, calls in ordered], limit)


def of_the_process(findings: Iterable[Finding]) -> list[str]:
    """Return the parts of the process that ``findings`` cover, counted: ``2 settings``, ``1 unseeded generator``."""
    things: dict[tuple[About, bool], set[tuple[str, ...]]] = {}
    for finding in findings:
        if not is_call(finding):  # settings and generators are one each, at however many places they show
            is_one = finding.about in (About.SETTING, About.GENERATOR)
            place = () if is_one else (finding.op, finding.location, finding.called_from)
            things.setdefault((finding.about, finding.verdict is Verdict.UNKNOWN), set()).add((finding.subject, *place))
    parts = []
    for about in About:
        for is_open, noun in ((False, about.risk), (True, about.open)):
            if subjects := things.get((about, is_open)):
                parts.append(plural(len(subjects), noun.format(s="", was="was"), noun.format(s="s", was="were")))
    return parts
