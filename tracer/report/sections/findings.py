"""Findings: what trials refuted, the table of all, why, by the user's lines, what data settle, what is unknown."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import tracer
from tracer.findings import Acceptance, Finding, Judgement
from tracer.gate import ChangeKind, Difference, GateComparison
from tracer.names import (
    AT_RISK,
    OF_A_RUN,
    SEVERITY,
    About,
    AcceptedBy,
    Cause,
    Detail,
    EvidenceKind,
    Phase,
    UnknownReason,
    Verdict,
)
from tracer.plain import visible
from tracer.plan import place_of
from tracer.report import Report
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, Words, first
from tracer.report.finding_columns import backend_of
from tracer.report.sections.answers import evidence_counts, met, unnamed_sentence
from tracer.report.sections.plan import listed
from tracer.report.words import (
    calls_behind,
    calls_by_op,
    compiled_in,
    is_call,
    ops_behind,
    phase_of,
    plural,
    runs_as_of,
    some,
    subject_of,
)
from tracer.trace.records import split_place

_WHOLE_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")
#: Modules, and places, that a row names.
_MODULES, _PLACES = 2, 2
#: Lines that the page lists, worst first, and of them those that stand unfolded.
MOST_LINES, OPEN_LINES = 200, 25
#: Ops, and library lines, that a line names; and characters of its source.
_NAMES, _LONGEST = 4, 200
#: Differences between two judgements that are listed; JSON has them all.
_SHOWN = 60

_NO_PROOF = (
    " That is no proof: nothing was run twice, and a call without a finding rests on a rule, on what torch's builds"
    " launch or on documentation. "
)


class FindingRow(NamedTuple):
    """Findings with one answer, or those beyond what a reader has room for."""

    findings: tuple[Finding, ...]
    is_rest: bool = False
    """Whether it is what was left of one verdict, whatever the op."""

    @property
    def first(self) -> Finding:
        """The one whose words stand for all."""
        return self.findings[0]

    @property
    def calls(self) -> int:
        """Calls behind them; what was counted of the process where there are none."""
        return sum(finding.count for finding in self.findings)

    @property
    def verdicts(self) -> tuple[Verdict, Verdict]:
        """As the settings stand, and under deterministic mode."""
        return self.first.verdict, self.first.deterministic_mode

    @property
    def places(self) -> str:
        """The places, the one with the most calls first."""
        if len(self.findings) == 1:
            return place_of(self.first)
        counts: Counter[str] = Counter()
        for finding in self.findings:
            counts[finding.location or place_of(finding)] += finding.count
        shown, more = [place for place, _ in counts.most_common(_PLACES)], len(counts) - _PLACES
        files = {place.rpartition(":")[0] for place in shown}
        if len(shown) == _PLACES and len(files) == 1 and "" not in files:
            shown[1:] = [place.removeprefix(*files) for place in shown[1:]]
        further = f" and {plural(more, 'more place')}" if more > 0 else ""
        callers = {finding.called_from for finding in self.findings if finding.location}
        led_here = f" (called from {''.join(callers)})" if len(callers) == 1 and any(callers) else ""
        return f"{', '.join(shown)}{further}{led_here}"

    @property
    def modules(self) -> str:
        """Their modules, the first of several."""
        placed = (finding.module for finding in self.findings if finding.location + finding.called_from)
        return some(list(dict.fromkeys(filter(None, placed))), _MODULES)


def rows_of(
    findings: Iterable[Finding], answer_of: Callable[[Finding], object], most: int | None = None
) -> tuple[FindingRow, ...]:
    """A row for each op, phase and answer, the worst and most called first; beyond ``most`` rows, one more for each
    pair of verdicts that has others.

    ``answer_of`` gives what is said of a finding: what to do about it.
    """
    groups: defaultdict[object, list[Finding]] = defaultdict(list)
    for finding in findings:
        is_alone = None if is_call(finding) else (finding.location, finding.called_from)
        called = finding.about, subject_of(finding), finding.runs_as, finding.host, phase_of(finding), finding.rule
        groups[finding.verdict, finding.deterministic_mode, called, is_alone, answer_of(finding)].append(finding)
    rows = [FindingRow(tuple(group)) for group in groups.values()]
    rows.sort(key=lambda row: (*map(SEVERITY.index, row.verdicts), -row.calls))
    rest: defaultdict[tuple[Verdict, Verdict], list[Finding]] = defaultdict(list)
    for row in rows[most:] if most is not None else ():
        rest[row.verdicts] += row.findings
    return (*rows[:most], *(FindingRow(tuple(left_over), is_rest=True) for left_over in rest.values()))


def like_draws(findings: Iterable[Finding], notes: Mapping[int, str] | None = None) -> Iterator[tuple[int, ...]]:
    """The positions of each row of a page: seeded draws with one note, in modules that a number parts, share one."""
    groups: dict[object, list[int]] = {}
    for at, finding in enumerate(findings):
        kind: object = at
        if finding.about is About.CALL and finding.verdict is finding.deterministic_mode is Verdict.SEEDED:
            kind = finding.backend, _WHOLE_NUMBER.sub("*", finding.module), finding.remedy, (notes or {}).get(at)
        groups.setdefault(kind, []).append(at)
    return map(tuple, groups.values())


def refuted(report: Report, reader: Reader) -> Section | None:
    """Return the findings of which trials showed that the table is wrong, with the text to paste into an issue."""
    findings = [finding for finding in report.findings if finding.refuted is not None]
    if not findings:
        return None
    lead = (
        "These calls were replayed in this run, from the same inputs and generator states, and gave other results,"
        " though the table holds them for deterministic. Please report it; the text below says all that is needed, and"
        " no value of any tensor."
    )
    blocks = (said.lead(lead), said.Sample(_to_report(report.judgement, findings), "the report"))
    return Section(anchor="refuted", title="The table is wrong for this device", label="Refuted", blocks=blocks)


def _to_report(judgement: Judgement, refuted: Sequence[Finding]) -> str:
    """Where it ran, which calls, what the table says, what was seen."""
    environment = judgement.trace.environment
    on = ", ".join(dict.fromkeys(device.name for device in environment.devices)) or environment.platform
    versions = [
        f"{name} {version}" for name in ("torch", "CUDA", "cuDNN") if (version := getattr(environment, name.lower()))
    ]
    versions += [plural(environment.num_threads, "thread")] if environment.num_threads else []
    lines = [
        f"determinism-tracer {tracer.__version__}: trials refute a table",
        f"{on}; {', '.join(versions)}; deterministic mode {environment.deterministic_mode}",
    ]
    for finding in refuted:
        table = f"{finding.backend} table says {finding.refuted} (rule {finding.rule})"
        facts = ", ".join(f"{name}={value}" for name, value in sorted(finding.facts.items()))
        lines += ["", f"{subject_of(finding)} ({finding.phase}): {table}"]
        lines += [f"  tried: {of_this_run(finding)}", f"  facts: {facts}"]
    return "\n".join(lines)


def findings(report: Report, reader: Reader) -> Section | None:
    """Every finding, worst first; draws that repeat as they are do not count."""
    unnamed, count = unnamed_sentence(report.judgement), len(report.open_findings)
    if reader.is_one_screen and report.accepted is None:
        no_proof = (said.quiet(f"{_NO_PROOF.strip()} --verbose counts them."),)
        is_safe = met(report).isdisjoint(AT_RISK)
        return Section(anchor="findings", title="", label="Findings", blocks=no_proof) if is_safe else None
    blocks: list[said.Block] = []
    if count:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in evidence_counts(report.open_findings))
        order = f"{plural(count, 'finding')}, worst first, as the settings stand and with deterministic mode on. "
        lead = f"{order}Evidence at best: {kinds}. {unnamed}".rstrip() if reader.is_whole else f"Evidence: {kinds}."
        if reader.detail is not Detail.USUAL:  # one screen has no room for it
            blocks.append(said.lead(lead))
    else:
        none = said.Badge(Verdict.DETERMINISTIC, "No finding")
        blocks.append(said.Paragraph((none, f"{_NO_PROOF}{unnamed}".rstrip())))
    if gate := gate_in_words(report):
        blocks.append(said.Paragraph(gate))
    if report.findings:
        blocks.append(said.Picture("findings", _filters(report, has_gate=bool(gate)), _tables(report, reader)))
    if report.repeating:
        words = "seeded draw repeats and counts", "seeded draws repeat and count"
        blocks.append(said.quiet(f"{plural(calls_behind(report.repeating), *words)} as no finding here."))
    return Section(anchor="findings", title="Findings", blocks=tuple(blocks), count=count)


def gate_in_words(report: Report) -> str:
    """Return how many of the findings a gate accepted, and why; empty for a report behind no gate."""
    if report.accepted is None:
        return ""
    counts = Counter(accepted.by for accepted in report.accepted)
    grounds = ", ".join(f"{counts[by]:,} {by.says}" for by in AcceptedBy if counts[by])
    accepted = f"{plural(counts.total(), 'finding is', 'findings are')} accepted{f' ({grounds})' if grounds else ''}"
    left = plural(len(report.findings) - counts.total(), "is", "are")
    return f"A gate has looked at this report: {accepted}, {left} not."


def accepted_in_words(acceptance: Acceptance) -> str:
    """``By the baseline: seen in review.``"""
    return f"{acceptance.by.says.capitalize()}{': ' if acceptance.reason else ''}{acceptance.reason}"


def _filters(report: Report, *, has_gate: bool) -> dict[str, object]:
    """The choices of the page table's filters."""
    findings = report.findings
    # A set a kind: words of two kinds that are spelt alike are equal.
    verdicts, abouts = {finding.verdict for finding in findings}, {finding.about for finding in findings}
    causes = {finding.cause for finding in findings}
    phases = {finding.phase for finding in findings if phase_of(finding)}
    return {
        "verdicts": list(filter(verdicts.__contains__, SEVERITY)),
        "phases": list(filter(phases.__contains__, Phase)),
        "backends": sorted({backend_of(finding, report.judgement).value for finding in findings}),
        "causes": list(filter(causes.__contains__, Cause)),
        "abouts": [about.label for about in About if about in abouts],
        "has_gate": has_gate,
    }


def _tables(report: Report, reader: Reader) -> tuple[said.Block, ...]:
    """The findings as tables: those that nobody accepted and, where there is room, those that a gate accepted."""
    accepted = report.spoken_for
    positions = {id(finding): at for at, finding in enumerate(report.findings)}
    shown = report.findings if reader.is_whole else report.open_findings
    blocks = _table(report, [finding for finding in shown if positions[id(finding)] not in accepted], reader)
    if accepted and reader.detail is not Detail.BRIEF:
        blocks += [said.Heading("Accepted"), *_table(report, [report.findings[at] for at in accepted], reader)]
    if reader.is_whole:  # the reason of each rule once, however many findings bear it
        by_reason: dict[tuple[str, str], Finding] = {}
        for finding in report.findings:
            by_reason.setdefault((finding.rule, finding.why), finding)
        reasons, left_out = first(tuple(by_reason.values()), reader.rows)
        rows = []
        for finding in reasons:
            why = finding.why or (finding.reason.says if finding.reason is not None else "")
            evidence = (said.quiet(str(row)) for row in finding.evidence)
            rows.append(said.Row(said.Code(finding.rule or "no rule"), blocks=(*said.paragraphs(why), *evidence)))
        blocks += [said.Heading("Why, and the evidence"), said.Rows(tuple(rows), left_out=left_out)]
    return tuple(blocks)


def _table(report: Report, findings: Sequence[Finding], reader: Reader) -> list[said.Block]:
    """``findings`` as rows; a reader of everything has one for each, others one for each answer."""
    if not findings:
        return []
    advice = {id(finding): _advice(finding) for finding in findings}
    if reader.is_whole:
        single, left_out = first(findings, reader.findings)
        rows: Sequence[FindingRow] = [FindingRow((finding,)) for finding in single]
    else:
        for change in first(listed(report, reader), reader.changes)[0]:
            closed = {id(report.findings[position]) for position in change.findings}
            advice |= dict.fromkeys(closed & advice.keys(), f"as change {change.number}")
        rows, left_out = rows_of(findings, lambda finding: advice[id(finding)], reader.findings), 0
    cells = tuple(_cells(row, "--verbose" if row.is_rest else advice[id(row.first)]) for row in rows)
    heads = ("Now, then under the mode", "Calls", "Op and place", "What to do")
    columns = said.columns(*heads, brief=heads[0], figures=(heads[1],), long=heads[2])
    return [said.Table(columns, cells, "finding", left_out, "the HTML, CSV and JSON reports have", is_grouped=True)]


def _advice(finding: Finding) -> str:
    if finding.remedy or finding.reason is None:
        return finding.remedy
    return f"{finding.reason.says}{f' ({finding.reason_detail})' if finding.reason_detail else ''}"


def _cells(row: FindingRow, advice: str) -> tuple[Words, ...]:
    finding, (verdict, in_mode) = row.first, row.verdicts
    badges = said.Badge(verdict), said.Soft(("→ ", said.Badge(in_mode)) if in_mode is not verdict else "", " ", False)
    if row.is_rest:
        ops = said.Code(some(list(dict.fromkeys(map(subject_of, row.findings))), _NAMES))
        more = said.Strong((f"{plural(len(row.findings), 'more finding')}, of ", ops))
        return badges, f"{row.calls:,}", (more, said.Soft(said.Code(row.places))), advice
    compiled = {compiled_in(each) for each in row.findings}
    regions = {region for each in row.findings for region in each.regions}
    plain: tuple[Words, ...] = (
        said.Code(row.places),
        ("runs as ", said.Code(runs_as_of(finding))) if runs_as_of(finding) else "",
        *(compiled if len(compiled) == 1 else [f"compiled, in {plural(len(regions), 'region')}"]),
    )
    faint: tuple[Words, ...] = (
        f"{finding.host.says}: judged for cpu" if finding.host else "",
        f"for {calls_by_op(finding.ops, 3)}" if ops_behind(finding) else "",
        said.Code(row.modules),
    )
    name: Words = (
        said.Strong(said.Code(subject_of(finding))),
        f" {phase_of(finding)}".rstrip(),
        *(said.Soft(words, is_faint=False) for words in plain),
        *(said.Soft(words) for words in faint),
    )
    return badges, f"{row.calls:,}", name, advice


def settled(report: Report, reader: Reader) -> Section | None:
    """Return the findings that the data of the run settle."""
    observed = report.judgement.observed
    if not observed:
        return None
    lead = (
        "The tables hold these calls for a risk; their data were looked at, and leave no two ways. Deterministic for"
        " these data: with others they may not be."
    )
    shown, left_out = first(observed, reader.rows)
    rows = tuple(
        said.Row(
            (said.Badge(finding.verdict), " ", said.Code(subject_of(finding)), f" {finding.phase}"),
            aside=plural(finding.count, "call"),
            blocks=(said.Paragraph(said.Code(place_of(finding))), said.quiet(of_this_run(finding))),
        )
        for finding in shown
    )
    ops = some(list(dict.fromkeys(map(subject_of, observed))), 4)
    return Section(
        anchor="settled",
        title="Settled by the data of this run",
        label="Settled by data",
        blocks=(said.lead(lead), said.Rows(rows, left_out=left_out)),
        count=len(observed),
        gist=f"{plural(calls_behind(observed), 'call')} ({ops}): deterministic for these data, with others perhaps not",
    )


def of_this_run(finding: Finding) -> str:
    """Return the trials' and data's results on a finding's calls; empty without any."""
    return "; ".join(row.ref for row in finding.evidence if row.kind in (EvidenceKind.TRIED, EvidenceKind.OBSERVED))


def rests_on_a_rule(finding: Finding) -> bool:
    """Return whether a rule that has a page of its own speaks of it."""
    return any(row.kind not in OF_A_RUN for row in finding.evidence)


def unknown(report: Report, reader: Reader) -> Section | None:
    """Findings by the reason for which they are not answered."""
    groups: dict[UnknownReason | None, list[Finding]] = {}
    for finding in report.findings:
        if Verdict.UNKNOWN in (finding.verdict, finding.deterministic_mode):
            groups.setdefault(finding.reason, []).append(finding)
    if not groups:
        return None
    rows = []
    for reason, group in groups.items():
        ops = [op for op, _ in Counter(map(subject_of, group)).most_common(8)]
        details = list(dict.fromkeys(finding.reason_detail for finding in group if finding.reason_detail))[:8]
        badge = said.Badge(Verdict.UNKNOWN, reason.value if reason else "no reason given")
        told = said.paragraphs(reason.says if reason else "The table does not say why.", said.Code(", ".join(ops)))
        told += said.paragraphs(", ".join(details), tone=said.Tone.QUIET)
        rows.append(said.Row(badge, _counted(group), told))
    lead = "Unknown is an answer: these calls may be safe or not, and nothing that the tables hold decides it."
    blocks = (said.lead(lead), said.Rows(tuple(rows), anchor="unknown"))
    return Section(anchor="unknown", title="Unknown, and why", label="Unknown", blocks=blocks)


def _counted(group: Sequence[Finding]) -> str:
    calls = calls_behind(group)
    return plural(len(group), "finding") + (f", {plural(calls, 'call')}" if calls else "")


# --- findings by the user's own lines ---------------------------------------------------------------------


class UserLine(NamedTuple):
    """One line of code and what was found there."""

    number: int
    """Its place among the lines, worst first, from 1: what an address names."""
    place: str
    """``path:line``: what the table of findings filters by."""
    source: str
    """Its text, where the trace holds it."""
    worst: Words
    """The worst verdict, findings and calls."""
    ops: Words
    through: Words
    """Library lines that it led to."""


class UserLines(NamedTuple):
    """The page's section: by file, from the top; the file with the worst line first."""

    open: dict[str, list[UserLine]]
    folded: dict[str, list[UserLine]]
    left_out: int
    """Lines beyond ``MOST_LINES``."""


def own_lines(report: Report, reader: Reader) -> Section | None:
    """The lines behind the findings, with their text where the trace holds it."""
    lines = user_lines(report)
    if not lines.open:
        return None
    shown = [line for files in (lines.open, lines.folded) for file in files.values() for line in file]
    how = "" if any(line.source for line in shown) else " `tracer run --with-source` keeps their text."
    lead = f"The lines of your code that led to the findings, and the library lines between.{how}"
    columns = said.columns("Line", "Worst", "Ops", "Through", brief="Worst")
    rows = tuple((said.Code(line.place), line.worst, line.ops, line.through) for line in shown)
    table = said.Table(columns, rows, noun="line", left_out=lines.left_out, elsewhere="the table of findings has")
    blocks = (said.lead(lead), said.Picture("lines", lines, (table,)))
    return Section(anchor="lines", title="Your lines", blocks=blocks)


def user_lines(report: Report) -> UserLines:
    """The lines behind the findings."""
    by_line: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        by_line[finding.called_from or finding.location].append(finding)
    by_line.pop("", None)
    worst = {place: min(SEVERITY.index(finding.verdict) for finding in group) for place, group in by_line.items()}
    ordered = sorted(by_line, key=lambda place: (worst[place], -calls_behind(by_line[place]), place))
    shown, left_out = first(ordered, MOST_LINES)
    lines = UserLines({}, {}, left_out)
    for number, place in enumerate(shown, 1):
        group = by_line[place]
        through = Counter(finding.location for finding in group if finding.called_from and finding.location)
        line = UserLine(
            number,
            place,
            " ".join(visible(report.judgement.trace.source_lines.get(place, "")).splitlines())[:_LONGEST],
            (said.Badge(SEVERITY[worst[place]]), f" {_counted(group)}"),
            _named(list(dict.fromkeys(map(subject_of, group)))),
            _named([place for place, _ in through.most_common()]),
        )
        files = lines.open if number <= OPEN_LINES else lines.folded
        files.setdefault(place.rpartition(":")[0] or place, []).append(line)
    for members in (*lines.open.values(), *lines.folded.values()):
        members.sort(key=lambda line: (split_place(line.place)[1] or 0, line.place))
    return lines


def _named(names: Sequence[str]) -> Words:
    shown, more = first(names, _NAMES)
    return (said.Code(", ".join(shown)), f" and {more:,} more" if more else "") if shown else ""


# --- two judgements side by side: what is new, gone, worse or better ---------------------------------------


def comparison_blocks(compared: GateComparison) -> Iterator[said.Block]:
    """Yield the changes, from the top; a remedy stands once, below the last that it is for."""
    counts = Counter(change.kind for change in compared.differences)
    words = {kind: "with another count" if kind is ChangeKind.RECOUNTED else kind.value for kind in ChangeKind}
    changed = ", ".join(f"{count:,} {words[kind]}" for kind, count in counts.items()) or "No finding changed"
    yield said.Paragraph(f"{changed}; {plural(compared.same, 'finding')} the same.", said.Tone.STRONG)
    for label, target in (("before", compared.before), ("after", compared.after)):
        yield said.Paragraph(f"{label}: {target.backend}, torch {target.torch}, settings {target.settings}")
    for kind in counts:
        members, left_out = first([change for change in compared.differences if change.kind is kind], _SHOWN)
        following = [change.remedy for change in members[1:]]
        items = []
        for change, remedy in zip(members, (*following, None), strict=True):
            is_told = kind in (ChangeKind.NEW, ChangeKind.WORSENED) and change.remedy != remedy
            items.append((_sentence(change), said.Soft(change.remedy if is_told else "", " ")))
        yield said.Heading(kind.capitalize())
        yield said.Bullets(tuple(items), left_out, "--format json has")
    if compared.settings:
        yield said.Heading("Settings and versions")
        yield said.Bullets(tuple(f"{setting.name}: {' -> '.join(setting.values)}" for setting in compared.settings))
    if compared.draws:
        yield said.Heading("Random draws")
        yield said.Bullets(tuple(compared.draws))


def _sentence(change: Difference) -> str:
    """``train.py:10 aten.mm: deterministic -> raises, 12 calls``."""
    before, after = change.calls_before, change.calls_after
    verdicts = f"{change.before or 'no finding'} -> {change.after or 'no finding'}"
    if change.mode_before is not change.mode_after and None not in (change.before, change.after):
        verdicts += f" (under the mode {change.mode_before} -> {change.mode_after})"
    moved = before and after and before != after
    calls = f"{before:,} -> {after:,} calls" if moved else plural(after or before, "call")
    place = f"{change.place} " if change.place else ""
    module = f" in {change.module}" if change.module else ""
    return f"{place}{change.op} {change.phase}{module}: {verdicts}, {calls}"
