"""What tables say, as blocks: a rule, its example, a setting's row, and whole tables side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from tracer.names import About, Backend, Differs, EvidenceKind, UnknownReason, Verdict
from tracer.plain import one_line
from tracer.report import blocks as said
from tracer.report.blocks import Block, Row, Rows, Words, first, quiet
from tracer.report.words import VERDICTS, plural
from tracer.tables.conditions import wanted_values
from tracer.tables.explaining import NO_EXAMPLES, Example, Examples, Explanation, VersionSpan, program, spans
from tracer.tables.rules import (
    CATEGORIES,
    GRADES,
    RESERVED,
    STAYS,
    AnsweredRule,
    Case,
    EnvironmentTable,
    Rule,
    RuleTable,
    SettingRow,
    in_words,
    strongest,
)
from tracer.tables.versions import reviewed_in_words, reviewed_releases, speaks_of

_LETTERS = {grade: "b" if grade is EvidenceKind.DISPATCHED else str(grade)[0] for grade in GRADES}


def explanation_blocks(
    name: str, explanations: Sequence[Explanation], examples: Examples = NO_EXAMPLES
) -> Iterator[Block]:
    """Yield each table's explanation of ``name``, from the top; the examples that trigger it come last."""
    for explanation in explanations:
        yield said.Heading(f"{one_line(name, 120)} on {explanation.backend}, torch {explanation.version}")
        yield from _reach(explanation)
        told = [(rule, span) for rule, span in explanation.rules if span is not None]
        rows = (Row(rule.id, blocks=tuple(_rule_now(rule, span, explanation.table))) for rule, span in told)
        yield Rows(tuple(rows), is_spaced=True)
    yield from _examples(explanations, examples)


def rule_blocks(rule: Rule, table: RuleTable, examples: Examples = NO_EXAMPLES) -> Iterator[Block]:
    """One rule whole: for each span of versions its conditions, then its words, evidence and example."""
    yield said.Heading(rule.id)
    yield from _names(rule)
    for span in spans(rule, table.reviewed_for(rule)):
        yield said.Paragraph(f"torch {from_to(span)}", said.Tone.STRONG)
        yield _conditions(span.cases)
    yield from _words(rule)
    if (example := examples.of(rule)) is not None:
        yield said.Paragraph(_label(example))
        yield said.Sample(program(example, table.backend).rstrip(), "the example")


def overview_blocks(tables: Sequence[RuleTable]) -> Iterator[Block]:
    """The tables that exist, a line each."""
    heads = ("Rules", "Ops")
    rows = tuple(
        (
            str(table.backend),
            f"torch {reviewed_in_words(table.reviewed)}",
            str(len(table.rule)),
            str(len({op for rule in table.rule for op in rule.ops})),
        )
        for table in tables
    )
    yield said.Table(said.columns("Backend", "Reviewed for", *heads, figures=heads), rows, is_grid=True)
    for is_deny, answer in ((True, "deterministic (torch's own page lists the exceptions)"), (False, "unknown")):
        names = [str(table.backend) for table in tables if table.deny_list is is_deny]
        if names:
            yield quiet(f"An aten op without a rule is {answer} on {', '.join(names)}.")


def rules_blocks(table: RuleTable) -> Iterator[Block]:
    """One table's rules, a line each, for the newest version that it was reviewed for."""
    newest = reviewed_releases(table.reviewed)[-1]
    compiled = f", and {len(table.compiled)} of what compilers make of ops" if table.compiled else ""
    title = f"{table.backend}, torch {newest}: {plural(len(table.rule), 'rule')}{compiled}"
    yield said.Paragraph(title, said.Tone.STRONG)
    rules = [(rule, spans(rule, table.reviewed_for(rule))[-1]) for rule in (*table.rule, *table.compiled)]
    yield said.Table(
        said.columns("Rule", "By default", "Under the mode", ""),
        tuple(
            (rule.id, _worst(span.as_is), _worst(span.in_mode), _LETTERS[strongest(rule.evidence)])
            for rule, span in rules
        ),
        is_grid=True,
    )
    yield quiet(
        "*: the worst of several, by call. m, b, s, d, v: the best evidence is measured, seen in builds of torch, read"
        " in a source, documented, or the vendor's list of kernels."
    )


def _worst(verdicts: tuple[Verdict, ...]) -> str:
    return f"{VERDICTS[verdicts[0]].label}{' *' if len(verdicts) > 1 else ''}"


def _reach(explanation: Explanation) -> Iterator[Block]:
    """Yield why there is no rule, or how far the table reaches."""
    table = explanation.table
    releases = reviewed_releases(table.reviewed)
    for row in explanation.becomes:
        spoken = {"": "no op that is known", STAYS: "itself"}
        names = dict.fromkeys(spoken.get(candidate.op, candidate.op) for candidate in row.becomes)
        yield said.Paragraph(f"Recorded on a CPU, it runs here as {' or '.join(names)}. {row.why}")
    if not explanation.rules:
        yield said.Paragraph(_without_rule(explanation))
    elif explanation.place == "newer":
        yield said.Paragraph(f"Reviewed up to torch {releases[-1]}: its verdicts, extrapolated.", said.Tone.STRONG)
    elif explanation.place != "reviewed":
        reviewed = f"{releases[0]} to {releases[-1]}"
        yield said.Paragraph(f"? unknown: the {table.backend} table was reviewed for torch {reviewed} alone.")


def _without_rule(explanation: Explanation) -> str:
    table = explanation.table
    if not explanation.is_torchs:
        return f"? unknown: {UnknownReason.OPAQUE.says}"
    if any(not candidate.op for row in explanation.becomes for candidate in row.becomes):
        return "? unknown: what it becomes here is not known in every case."
    if not table.deny_list:
        return f"? unknown: {table.unlisted or UnknownReason.UNLISTED.says}"
    exceptions = "torch's own page lists the exceptions (documented, the weakest evidence)"
    return f"= deterministic: no rule names it, and {exceptions}."


def _rule_now(rule: Rule, span: VersionSpan, table: RuleTable) -> Iterator[Block]:
    if isinstance(rule, AnsweredRule):
        yield said.Paragraph(f"Compiled by {rule.compiler.capitalize()}, in place of the rules above.")
    yield from _names(rule, 12)
    for label, verdicts in (("By default", span.as_is), ("Under deterministic mode", span.in_mode)):
        badges = [(" or " if number else "", said.Badge(verdict)) for number, verdict in enumerate(verdicts)]
        yield said.Paragraph((f"{label}: ", *badges, ", by call" if len(verdicts) > 1 else ""))
    if len(span.cases) > 1 or any(case.route for case in span.cases):
        yield _conditions(span.cases)
    yield from _words(rule, [case.why for case in span.cases if case.why])
    yield said.Paragraph(f"Versions: {_history(rule, table)}")


def _names(rule: Rule, limit: int | None = None) -> Iterator[Block]:
    runs = [f"{op} runs {names}" for op, names in rule.kernels.items()]
    listed = (("Ops", rule.ops), ("Runs as", [rule.runs_as]), ("APIs", rule.apis), ("Kernels", runs))
    for label, names in listed:
        shown, more = first(names, None if label == "APIs" else limit)
        if any(shown):
            join = "; " if label == "Kernels" else ", "
            pieces = tuple((join if number else "", name) for number, name in enumerate(shown))
            yield said.Paragraph((f"{label}: ", *pieces, f" and {more:,} more" if more else ""))


def _words(rule: Rule | SettingRow, notes: Sequence[str] = ()) -> Iterator[Block]:
    """Cause, reason, remedy and evidence; of a setting also the lines to paste, and where they must stand."""
    yield from said.paragraphs(f"Cause: {rule.cause}", f"Why: {rule.why}")
    yield said.Bullets(tuple(dict.fromkeys(notes or (case.why for case in rule.case if case.why))))
    yield said.Paragraph(f"Remedy: {rule.remedy}")
    if isinstance(rule, SettingRow) and rule.code:
        yield said.Sample(rule.code.rstrip(), "the code")
        yield from said.paragraphs(f"Where: {rule.where}" if rule.where else "")
    yield from (said.Paragraph(f"Evidence, {evidence.kind}: {evidence.ref}") for evidence in rule.evidence)


def cases_in_words(case: Case, rest: str, *, is_first: bool) -> list[str]:
    """The conditions of a case, a line each; what is left for one without any is ``any other call``."""
    whole = f"any {rest}" if is_first else f"any other {rest}"
    return [in_words(key, wanted_values(case, key)) for key in case.when] or [whole]


def _conditions(cases: Sequence[Case], heading: str = "Calls", rest: str = "call") -> Block:
    """Verdicts by call."""
    rows: list[tuple[Words, ...]] = []
    for case in cases:
        line, *more = cases_in_words(case, rest, is_first=case is cases[0])
        through = said.Soft(f"through {case.route}" if case.route else "", is_faint=False)
        words: Words = (line, *(said.Soft(further, is_faint=False) for further in more))
        rows.append((words, (said.Badge(case.verdict), through)))
    return said.Table(said.columns(f"{heading}: the first that fits decides", "Verdict"), tuple(rows), is_grid=True)


def from_to(span: VersionSpan) -> str:
    """The versions of a span, in words."""
    return span.first if span.first == span.last else f"{span.first} to {span.last}"


def _history(rule: Rule, table: RuleTable) -> str:
    """The versions at which a rule's answer changed, with the answer before and after under each setting."""
    history = spans(rule, table.reviewed_for(rule))
    changes = [f"other numbers from one seed since {rule.redrawn}"] if rule.redrawn else []
    if len(history) == 1:
        return f"{'; '.join([f'the same verdicts from {from_to(history[0])}', *changes])}."
    for before, after in pairwise(history):
        answers = (("by default", before.as_is, after.as_is), ("under the mode", before.in_mode, after.in_mode))
        moves = [f"{label} {' or '.join(old)} → {' or '.join(new)}" for label, old, new in answers if old != new]
        changes.append(f"changed in {after.first} ({', '.join(moves) or 'other calls are concerned'})")
    return f"{'; '.join(changes)}."


def _examples(explanations: Sequence[Explanation], examples: Examples) -> Iterator[Block]:
    """Each example once, for CUDA where one of its rules is among those that it serves: most people ask about that."""
    served: dict[Example, dict[Backend, str]] = {}
    for explanation in explanations:
        for rule, span in explanation.rules:
            if span is not None and (example := examples.of(rule)) is not None:
                served.setdefault(example, {}).setdefault(explanation.backend, rule.id)
    for example, rules in served.items():
        backend = Backend.CUDA if Backend.CUDA in rules else next(iter(rules))
        code = said.Sample(program(example, backend).rstrip(), "the example")
        yield Rows((Row(f"{_label(example)} {', '.join(rules.values())}", blocks=(code,)),), is_spaced=True)


def _label(example: Example) -> str:
    return f"Example (needs a device: {example.cuda_only}):" if example.cuda_only else "Example:"


# --- rows of the table of settings ------------------------------------------------------------------------


def row_blocks(row: SettingRow, table: EnvironmentTable, version: str = "") -> Iterator[Block]:
    """One row whole, or with a ``version`` what it says of that release."""
    yield said.Heading(row.id)
    kind = "Setting" if row.about is About.SETTING else row.about.label.capitalize()
    default = "" if row.default is None else f"; unset means {row.default}"
    pairs = (
        (kind, row.name),
        ("Also", ", ".join(row.aliases)),
        ("Bears on", ", ".join(row.backends)),
        ("Matters to", "; ".join(RESERVED.get(need, need) for need in row.needs)),
        ("Safe", f"{' or '.join(map(str, row.safe))}{default}" if row.safe else ""),
        ("torch", row.torch),
    )
    yield from said.paragraphs(*(f"{label}: {text}" for label, text in pairs if text))
    if row.differs is Differs.MACHINES:
        yield said.Paragraph("Two runs agree whatever it is; other machines or versions may answer otherwise.")
    for span in spans(row, table.reviewed):
        if version and not (speaks_of(f">={span.first}", version) and speaks_of(f"<={span.last}", version)):
            continue
        yield said.Paragraph(f"torch {from_to(span)}", said.Tone.STRONG)
        yield _conditions(span.cases, heading="Where", rest="case")
    yield from _words(row)


def rows_blocks(table: EnvironmentTable, backends: Collection[Backend] = ()) -> Iterator[Block]:
    """The table's rows by heading; those of ``backends`` alone, where some are named."""
    rows = [row for row in table.row if not backends or not row.backends or set(backends) & set(row.backends)]
    yield said.Paragraph(f"Settings and what else no op shows: {plural(len(rows), 'row')}", said.Tone.STRONG)
    for category in CATEGORIES:
        ours = [row for row in rows if row.category == category]
        if ours:
            yield said.Heading(category)
            marks = ("" if row.differs is Differs.RUNS else " *" for row in ours)
            yield said.Bullets(tuple(f"{row.id}: {row.name}{mark}" for row, mark in zip(ours, marks, strict=True)))
    yield quiet("*: makes no two runs differ, only machines, versions or values.")


def row_explanation(rows: Sequence[SettingRow], table: EnvironmentTable, version: str) -> Iterator[Block]:
    """Every row that a name stands for, for one release."""
    minor = ".".join(version.split(".")[:2])
    for row in rows:
        if speaks_of(row.torch, minor):
            yield from row_blocks(row, table, minor)
        else:
            yield said.Heading(row.id)
            yield said.Paragraph(f"{row.name} is of torch {row.torch}, not of {minor}.")
