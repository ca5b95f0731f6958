"""What tables say, in a terminal: a rule, its example, a setting's row, and whole tables side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import compress, pairwise

from rich import box
from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from tracer.names import About, Backend, Differs, EvidenceKind, UnknownReason, Verdict
from tracer.plain import one_line
from tracer.report.render.terminal import Program, Prose, indented
from tracer.report.words import ABOUT, UNKNOWN_REASONS, VERDICTS, plural, some
from tracer.tables.examples import NO_EXAMPLES, Example, Examples, program
from tracer.tables.explaining import Explanation, TableSummary, VerdictRow, VersionSpan, spans
from tracer.tables.rules import GRADES, AnsweredRule, Rule, Table, strongest
from tracer.tables.settings.rows import CATEGORIES, RESERVED, EnvironmentTable, SettingRow
from tracer.tables.translation import STAYS
from tracer.tables.versions import reviewed_releases, speaks_of
from tracer.tables.vocabulary import in_words

#: Columns from which conditions stand beside their verdicts.
_GRID_FROM = 64
#: Columns from which the tables, and one table's rules, are a grid.
_OVERVIEW_FROM, _RULES_FROM = 76, 76
#: Ops of a rule that an explanation names; ``tracer tables show`` names all.
_OPS_SHOWN = 12
#: The column of rules by the best evidence of a kind.
_GRADE_HEADINGS = {
    EvidenceKind.MEASURED: "Meas.",
    EvidenceKind.DISPATCHED: "Build",
    EvidenceKind.SOURCE: "Source",
    EvidenceKind.DOCUMENTED: "Doc.",
    EvidenceKind.VENDOR_KERNEL_LIST: "List",
}
#: How a candidate reads that is no op's name.
_SPOKEN = {"": "no op that is known", STAYS: "itself"}


def explanation_parts(
    name: str, explanations: Sequence[Explanation], width: int, examples: Examples = NO_EXAMPLES
) -> Iterator[RenderableType]:
    """Yield each table's explanation of ``name``, from the top; the examples that trigger it come last."""
    for number, explanation in enumerate(explanations):
        if number:
            yield Text()
        title = f"{one_line(name, 120)} on {explanation.backend}, torch {explanation.version}"
        yield Text(title, style="bold underline")
        yield from _reach(explanation)
        for rule, span in explanation.rules:
            if span is not None:
                yield Text()
                yield from _rule_now(rule, span, explanation.table, width)
    yield from examples_parts(explanations, examples)


def rule_parts(rule: Rule, table: Table, width: int, examples: Examples = NO_EXAMPLES) -> Iterator[RenderableType]:
    """One rule whole: for each span of versions its conditions, then its words, evidence and example."""
    yield Text(rule.id, style="bold underline")
    yield from _names(rule)
    for number, span in enumerate(spans(rule, table.reviewed_for(rule))):
        if number == 0 or width < _GRID_FROM:  # a grid ends with an empty line of its own
            yield Text()
        yield Text(f"torch {from_to(span)}", style="bold")
        yield from _conditions(span.rows, width)
    if width < _GRID_FROM:
        yield Text()
    yield from _words(rule)
    if (example := examples.of(rule)) is not None:
        yield indented(Text(_label(example)))
        yield _code(program(example, table.backend))


def overview_parts(summaries: Sequence[TableSummary], width: int) -> Iterator[RenderableType]:
    """The tables that exist, a line each; in a narrow terminal a few."""
    if width < _OVERVIEW_FROM:
        for summary in summaries:
            grades = ", ".join(f"{count} {grade}" for grade, count in summary.by_grade.items() if count)
            taken = f"; {summary.inherited} inherited" if summary.inherited else ""
            yield Prose(str(summary.backend), style="bold")
            yield indented(f"torch {' to '.join(summary.reviewed)}")
            yield indented(f"{summary.rules} rules, {summary.ops} ops: {grades}{taken}")
        yield Text()
        yield Prose("Rules are counted by their best evidence; inherited: from another backend's table.", style="dim")
    else:
        grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, collapse_padding=True)
        grid.add_column("Backend", no_wrap=True)
        grid.add_column("Reviewed", no_wrap=True)
        for heading in ("Rules", "Ops", *(_GRADE_HEADINGS[grade] for grade in GRADES), "Inh."):
            grid.add_column(heading, justify="right")
        for summary in summaries:
            counts = [summary.rules, summary.ops, *summary.by_grade.values(), summary.inherited]
            grid.add_row(str(summary.backend), " to ".join(summary.reviewed), *map(str, counts))
        yield grid
        yield Prose(
            "Reviewed: versions of torch. Meas., Build, Source, Doc., List: rules by the best evidence of each"
            " (measured, seen in builds of torch, read in a source, documented, a vendor's list of kernels). Inh.: of"
            " these, inherited from another backend's table.",
            style="dim",
        )
    for is_deny, answer in ((True, "deterministic (torch's own page lists the exceptions)"), (False, "unknown")):
        names = [str(summary.backend) for summary in summaries if summary.deny_list is is_deny]
        if names:
            yield Prose(f"An aten op without a rule is {answer} on {', '.join(names)}.", style="dim")


def rules_parts(table: Table, width: int) -> Iterator[RenderableType]:
    """One table's rules, a line each, for the newest version that it was reviewed for; in a narrow terminal two."""
    newest = reviewed_releases(table.reviewed)[-1]
    compiled = f", and {len(table.compiled)} of what compilers make of ops" if table.compiled else ""
    yield Prose(f"{table.backend}, torch {newest}: {plural(len(table.rule), 'rule')}{compiled}", style="bold")
    rules = [(rule, spans(rule, table.reviewed_for(rule))[-1]) for rule in (*table.rule, *table.compiled)]
    if width < _RULES_FROM:
        for rule, span in rules:
            yield Prose(rule.id, overflow="fold")
            line = _worst(span.as_is).append(" → ", style="default").append_text(_worst(span.in_mode))
            yield indented(line.append(f"  {_letter(rule)}", style="default"))
        yield Text()
        yield Prose("→: under deterministic mode.", style="dim")
    else:
        grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for heading in ("Rule", "By default", "Under the mode", ""):
            grid.add_column(heading, overflow="fold")
        for rule, span in rules:
            grid.add_row(rule.id, _worst(span.as_is), _worst(span.in_mode), _letter(rule))
        yield grid
    yield Prose(
        "*: the worst of several, by call. m, b, s, d, v: the best evidence is measured, seen in builds of torch, read"
        " in a source, documented, or the vendor's list of kernels.",
        style="dim",
    )


def _letter(rule: Rule) -> str:
    grade = strongest(rule.evidence)
    return "b" if grade is EvidenceKind.DISPATCHED else str(grade)[0]  # seen in a build


def _worst(verdicts: tuple[Verdict, ...]) -> Text:
    words = VERDICTS[verdicts[0]]
    return Text(f"{words.label}{' *' if len(verdicts) > 1 else ''}", style=words.style)


def _reach(explanation: Explanation) -> Iterator[RenderableType]:
    """Yield why there is no rule, or how far the table reaches."""
    table = explanation.table
    releases = reviewed_releases(table.reviewed)
    for row in explanation.becomes:
        names = dict.fromkeys(_SPOKEN.get(candidate.op, candidate.op) for candidate in row.becomes)
        yield indented(f"Recorded on a CPU, it runs here as {' or '.join(names)}. {row.why}")
    if not explanation.rules:
        yield indented(_without_rule(explanation))
    elif explanation.place == "newer":
        yield Text(f"Reviewed up to torch {releases[-1]}: its verdicts, extrapolated.", style="bold")
    elif explanation.place != "reviewed":
        reviewed = f"{releases[0]} to {releases[-1]}"
        yield indented(Text(f"? unknown: the {table.backend} table was reviewed for torch {reviewed} alone."))


def _without_rule(explanation: Explanation) -> str:
    table = explanation.table
    if not explanation.is_torchs:
        return f"? unknown: {UNKNOWN_REASONS[UnknownReason.OPAQUE]}"
    if any(not candidate.op for row in explanation.becomes for candidate in row.becomes):
        return "? unknown: what it becomes here is not known in every case."
    if not table.deny_list:
        return f"? unknown: {table.unlisted or UNKNOWN_REASONS[UnknownReason.UNLISTED]}"
    exceptions = "torch's own page lists the exceptions (documented, the weakest evidence)"
    return f"= deterministic: no rule names it, and {exceptions}."


def _rule_now(rule: Rule, span: VersionSpan, table: Table, width: int) -> Iterator[RenderableType]:
    yield Text(rule.id, style="bold")
    if isinstance(rule, AnsweredRule):
        yield indented(f"Compiled by {rule.compiler.capitalize()}, in place of the rules above.")
    yield from _names(rule, _OPS_SHOWN)
    for label, verdicts in (("By default", span.as_is), ("Under deterministic mode", span.in_mode)):
        yield indented(Text(f"{label}: ").append_text(_or(verdicts)).append(", by call" if len(verdicts) > 1 else ""))
    if len(span.rows) > 1 or any(row.route for row in span.rows):
        yield from _conditions(span.rows, width)
    yield from _words(rule, [note for row in span.rows for note in row.notes])
    yield indented(f"Versions: {_history(rule, table)}")


def _names(rule: Rule, limit: int | None = None) -> Iterator[RenderableType]:
    runs = [f"{op} runs {names}" for op, names in rule.kernels.items()]
    yield from _labelled(
        ("Ops", some(rule.ops, limit)),
        ("Runs as", rule.runs_as),
        ("APIs", ", ".join(rule.apis)),
        ("Kernels", some(runs, limit, "; ")),
    )


def _labelled(*pairs: tuple[str, str]) -> Iterator[RenderableType]:
    """A line for each label that has a text."""
    return (indented(f"{label}: {text}") for label, text in pairs if text)


def _words(rule: Rule | SettingRow, notes: Sequence[str] = ()) -> Iterator[RenderableType]:
    """Cause, reason, remedy and evidence; of a setting also the lines to paste, and where they must stand."""
    yield indented(f"Cause: {rule.cause}")
    yield indented(f"Why: {rule.why}")
    for note in dict.fromkeys(notes or (case.why for case in rule.case if case.why)):
        yield indented(f"- {note}", 4)
    yield indented(f"Remedy: {rule.remedy}")
    if isinstance(rule, SettingRow):
        yield from (indented(Text(line), 6) for line in rule.code.rstrip().splitlines())
        if rule.code and rule.where:
            yield indented(f"Where: {rule.where}")
    yield from (indented(f"Evidence, {evidence.kind}: {evidence.ref}") for evidence in rule.evidence)


def _conditions(
    rows: tuple[VerdictRow, ...], width: int, *, heading: str = "Calls", rest: str = "call"
) -> Iterator[RenderableType]:
    """Verdicts by call: a grid, or in a narrow terminal a few lines for each set of calls."""
    short = rows_in_short(rows, rest)
    if width < _GRID_FROM:
        for words, row in short:
            yield indented(words)
            yield indented(_by_mode(row), 4)
        return
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    grid.add_column(heading, overflow="fold")
    grid.add_column("Deterministic mode", overflow="fold")
    for words, row in short:
        grid.add_row(words, _by_mode(row))
    yield indented(grid)


def _by_mode(row: VerdictRow) -> Text:
    """A line for each state of the mode, or for several that agree."""
    text = Text()
    lines = dict.fromkeys(row.verdicts)
    for verdict in lines:
        modes = compress(("off", "warn_only", "on"), (in_mode is verdict for in_mode in row.verdicts))
        text.append("\n" if text else "")
        text.append(f"{'any' if len(lines) == 1 else ', '.join(modes)}: ").append_text(_or((verdict,)))
    if row.route:
        text.append(f"\nthrough {row.route}")
    return text


def rows_in_short(rows: tuple[VerdictRow, ...], rest: str) -> list[tuple[str, VerdictRow]]:
    """Rows with their conditions in words; the answer that most rows give stands last, for every other ``rest``."""
    answer, times = Counter((row.verdicts, row.route) for row in rows).most_common(1)[0]
    if times < 2:
        return [(_when(row, rest), row) for row in rows]
    short = [(_when(row, rest), row) for row in rows if (row.verdicts, row.route) != answer]
    others = next(row for row in rows if (row.verdicts, row.route) == answer)
    return [*short, (f"any other {rest}" if short else f"any {rest}", others)]


def _when(row: VerdictRow, rest: str) -> str:
    return "\n".join(in_words(key, values) for key, values in row.when.items()) or f"any {rest}"


def _or(verdicts: tuple[Verdict, ...]) -> Text:
    text = Text()
    for number, verdict in enumerate(verdicts):
        text.append(" or " if number else "")
        words = VERDICTS[verdict]
        text.append(f"{words.sign} {words.label}", style=words.style)
    return text


def from_to(span: VersionSpan) -> str:
    """The versions of a span, in words."""
    return span.first if span.first == span.last else f"{span.first} to {span.last}"


def _history(rule: Rule, table: Table) -> str:
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


# --- examples ---------------------------------------------------------------------------------------------


def examples_parts(explanations: Sequence[Explanation], examples: Examples) -> Iterator[RenderableType]:
    """Each example once, for CUDA where one of its rules is among those that it serves: most people ask about that."""
    served: dict[Example, dict[Backend, str]] = {}
    for explanation in explanations:
        for rule, span in explanation.rules:
            if span is not None and (example := examples.of(rule)) is not None:
                served.setdefault(example, {}).setdefault(explanation.backend, rule.id)
    for example, rules in served.items():
        backend = Backend.CUDA if Backend.CUDA in rules else next(iter(rules))
        yield Text()
        yield Prose(f"{_label(example)} {', '.join(rules.values())}", style="bold")
        yield _code(program(example, backend))


def _label(example: Example) -> str:
    return f"Example (needs a device: {example.cuda_only}):" if example.cuda_only else "Example:"


def _code(text: str) -> RenderableType:
    return Program(text.rstrip(), 4)


# --- rows of the table of settings ------------------------------------------------------------------------


def row_parts(row: SettingRow, table: EnvironmentTable, width: int, version: str = "") -> Iterator[RenderableType]:
    """One row whole, or with a ``version`` what it says of that release."""
    yield Prose(row.id, style="bold underline")
    kind = "Setting" if row.about is About.SETTING else ABOUT[row.about].label.capitalize()
    yield from _labelled(
        (kind, row.name),
        ("Also", ", ".join(row.aliases)),
        ("Bears on", ", ".join(row.backends)),
        ("Matters to", "; ".join(RESERVED.get(need, need) for need in row.needs)),
    )
    if row.differs is Differs.MACHINES:
        yield indented("Two runs agree whatever it is; other machines or versions may answer otherwise.")
    if row.safe:
        default = "" if row.default is None else f"; unset means {row.default}"
        yield indented(f"Safe: {' or '.join(map(str, row.safe))}{default}")
    if row.torch:
        yield indented(f"torch: {row.torch}")
    for span in spans(row, table.reviewed):
        if version and not (speaks_of(f">={span.first}", version) and speaks_of(f"<={span.last}", version)):
            continue
        yield indented(Text(f"torch {from_to(span)}", style="bold"))
        yield from _conditions(span.rows, width, heading="Where", rest="case")
    yield from _words(row)


def rows_parts(
    table: EnvironmentTable, backends: Collection[Backend] = (), width: int = 80
) -> Iterator[RenderableType]:
    """The table's rows by heading, a line each where it fits; those of ``backends`` alone, where some are named."""
    rows = [row for row in table.row if not backends or not row.backends or set(backends) & set(row.backends)]
    yield Text(f"Settings and what else no op shows: {plural(len(rows), 'row')}", style="bold")
    for category in CATEGORIES:
        ours = [row for row in rows if row.category == category]
        if ours:
            yield Text()
            yield Prose(category, style="bold underline")
        for row in ours:
            name = f"{row.name}{'' if row.differs is Differs.RUNS else ' *'}"
            if len(row.id) + 2 + len(name) <= width:
                yield Prose(f"{row.id}  {name}")
            else:
                yield Prose(row.id, overflow="fold")
                yield indented(name)
    yield Text()
    yield Prose("*: makes no two runs differ, only machines, versions or values.", style="dim")


def row_explanation(
    rows: Sequence[SettingRow], table: EnvironmentTable, width: int, version: str
) -> Iterator[RenderableType]:
    """Every row that a name stands for, for one release."""
    minor = ".".join(version.split(".")[:2])
    for number, row in enumerate(rows):
        if number:
            yield Text()
        if speaks_of(row.torch, minor):
            yield from row_parts(row, table, width, minor)
        else:
            yield Prose(row.id, style="bold underline")
            yield indented(f"{row.name} is of torch {row.torch}, not of {minor}.")
