"""``docs/tables.md``: what the tables cover, counted.

It stands in git, so that a change of a table shows what it did to the counts; a test makes it again and compares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from docs.making.rule_pages import is_inherited
from tracer.names import SEVERITY, Differs, EvidenceKind, Verdict
from tracer.tables.compiled import load_compilers, with_compiled
from tracer.tables.explaining import VersionSpan, spans
from tracer.tables.loading import load_libraries, load_tables
from tracer.tables.rules import CATEGORIES, GRADES, Rule, RuleTable, load_rows, load_translations, strongest
from tracer.tables.versions import RELEASES, reviewed_in_words, reviewed_releases, speaks_of

HEAD = """\
# What the tables cover

Made from the tables by `make docs`; change those, not this page. `tracer tables show RULE` prints a rule whole.

A rule speaks of ops with one cause. Its grade is that of its best evidence: **measured** on a device, seen in builds of
torch that ran without a device (**dispatched**), read in a **source**, **documented**, or said of its kernels by a
vendor's list (**vendor-kernel-list**). Verdicts are those of the newest reviewed version under torch's default
settings, and under deterministic mode with all else as torch has it; where they hang on the call, each that is possible
is named, worst first.
"""


def tables_page() -> str:
    """``docs/tables.md``, whole."""
    tables = list(load_tables().values())
    history = {id(rule): spans(rule, table.reviewed) for table in tables for rule in table.rule}
    lines = [HEAD, *_backends(tables, history), *_absence(tables), *_versions(tables, history)]
    for table in tables:
        lines += [f"## {table.backend}", "", *_rules(table.rule, history), ""]
    lines += _compiled()
    libraries = load_libraries()
    history = {id(rule): spans(rule, libraries.reviewed) for rule in libraries.rule}
    lines += [
        "## Libraries",
        "",
        "Ops outside torch's own namespaces, on every backend that a rule does not leave out.",
        "",
        *_rules(libraries.rule, history),
        "",
        *_settings(),
    ]
    return "\n".join(lines) + "\n"


def _backends(tables: list[RuleTable], history: dict[int, tuple[VersionSpan, ...]]) -> Iterator[str]:
    yield "## Backends\n"
    yield from _grid(
        "backend", "torch", "rules", "ops", *map(str, GRADES), "inherited", "open", "an aten op without a rule"
    )
    for table in tables:
        yield _row(
            *_counted(table),
            sum(_is_open(history[id(rule)][-1]) for rule in table.rule),
            Verdict.DETERMINISTIC if table.deny_list else Verdict.UNKNOWN,
        )
    libraries, translated = len(load_libraries().rule), len(load_translations().translation)
    yield ""
    yield "Inherited: rules of another backend's table that hold here too, with weaker evidence. Open: rules with a"
    yield "case whose verdict is `unknown`.\n"
    yield f"Besides these, {libraries} rules cover ops of libraries, and {translated} translations say what ops"
    yield "recorded on a CPU run as elsewhere.\n"


def _absence(tables: list[RuleTable]) -> Iterator[str]:
    """What "deterministic" rests on for ops that no rule names."""
    for table in tables:
        seen = table.dispatched
        if seen is None:
            continue
        confirmed = sum(one.kind is EvidenceKind.DISPATCHED for rule in table.rule for one in rule.evidence)
        last = seen.builds[-1].rpartition(".")[0]
        newest = {op for entry in seen.vouched if entry.last == last for op in entry.ops}
        others = sum(len(entry["ops"]) for entry in seen.rest)
        yield f"## Seen in builds of torch: {table.backend}\n"
        yield (
            f"Builds of torch {', '.join(seen.builds)} were run without a device, as {seen.device}"
            " ([how](cuda-builds.md)): which kernels they launch is real, no value is."
        )
        yield f"{confirmed} of {len(table.rule)} rules have `dispatched` evidence."
        yield f"Of {len(newest) + others} recorded ops that no rule names, {len(newest)} launch no kernel that adds"
        yield f"atomically in torch {last} and before. That {others} are deterministic rests on absence"
        yield "alone: torch's page does not list them.\n"
        yield from _grid("what stands against more", "ops")
        for entry in seen.rest:
            yield _row(entry["why"], ", ".join(f"`{op}`" for op in sorted(entry["ops"])))
        yield ""
        if seen.counted:
            yield "Kernels that count with whole numbers, and why who comes first decides nothing:\n"
            for one in seen.counted:
                kernels = ", ".join(f"`{kernel}`" for kernel in one["kernels"])
                yield f"- {kernels}: {one['why']} ({one['ref']})"
            yield ""


def _compiled() -> Iterator[str]:
    """What compilers make of ops."""
    for name, compiler in load_compilers().items():
        yield f"## Compiled by {name.capitalize()}\n"
        backends, versions = " and ".join(map(str, compiler.backends)), reviewed_in_words(compiler.reviewed)
        yield f"What becomes of an op in code that `torch.compile` makes on {backends}, reviewed for torch {versions}."
        yield "Where an eager kernel is called, the verdicts are those of the backend's own rule for it. An op without"
        yield "a rule is inlined into a loop that adds nothing atomically, or called as it is. Where a trace holds the"
        yield "generated code, that is stronger evidence (`generated`).\n"
        rules = [rule for table in with_compiled(load_tables()).values() for rule in table.compiled]
        history = {id(rule): spans(rule, rule.reviewed) for rule in rules}
        yield from _rules(tuple(rules), history)
        yield ""


def _is_open(span: VersionSpan) -> bool:
    return Verdict.UNKNOWN in (*span.as_is, *span.in_mode)


def _versions(tables: list[RuleTable], history: dict[int, tuple[VersionSpan, ...]]) -> Iterator[str]:
    yield "## Versions\n"
    yield f"Rules that speak of each version of torch, as {'/'.join(map(str, GRADES))}; after the plus sign, those"
    yield "whose answer changed in that version.\n"
    yield from _grid("torch", *(str(table.backend) for table in tables))
    counted = [_by_version(table) for table in tables]
    for release in RELEASES:
        cells = []
        for table, counts in zip(tables, counted, strict=True):
            grades = "/".join(str(counts[release][grade]) for grade in GRADES) if release in counts else "not reviewed"
            changed = sum(release in {span.first for span in history[id(rule)][1:]} for rule in table.rule)
            cells.append(f"{grades} +{changed}" if changed else grades)
        yield _row(release, *cells)
    yield ""


def _rules(rules: tuple[Rule, ...], history: dict[int, tuple[VersionSpan, ...]]) -> Iterator[str]:
    yield from _grid("rule", "ops", "by default", "under the mode", "changed in", "evidence")
    for rule in rules:
        told = history[id(rule)]
        grade = f"{strongest(rule.evidence)}, inherited" if is_inherited(rule) else strongest(rule.evidence)
        changed = ", ".join(after.first for _, after in pairwise(told))
        yield _row(f"`{rule.id}`", _ops(rule), _or(told[-1].as_is), _or(told[-1].in_mode), changed, grade)


def _settings() -> Iterator[str]:
    """What no op shows, under its headings."""
    rows = load_rows().row
    yield "## What no op shows"
    yield ""
    yield f"{len(rows)} settings, and what else a process does that bears on a step. The verdicts are those that the"
    yield "cases can come to; `machines` stands where each run repeats itself, and another machine, version or value"
    yield "would not agree. A row is no finding without the calls that it matters for; `unseen`: none shows it.\n"
    yield from _grid("row", "name", "about", "matters for", "on", "verdicts", "evidence")
    for category in CATEGORIES:
        for row in rows:
            if row.category == category:
                verdicts = [one for one in SEVERITY if one in {case.verdict for case in row.case}]
                yield _row(
                    f"`{row.id}`",
                    f"`{row.name}`",
                    row.about,
                    ", ".join(row.needs),
                    ", ".join(map(str, row.backends)),
                    "machines" if row.differs is Differs.MACHINES else _or(tuple(verdicts)),
                    strongest(row.evidence),
                )


def _ops(rule: Rule) -> str:
    """The first few ops; a rule on random draws names dozens."""
    shown = ", ".join(f"`{op}`" for op in rule.ops[:3])
    return f"{shown} and {len(rule.ops) - 3} more" if len(rule.ops) > 3 else shown


def _or(verdicts: tuple[Verdict, ...]) -> str:
    return " or ".join(map(str, verdicts))


def _grid(*headings: str) -> Iterator[str]:
    yield _row(*headings)
    yield "|" + "---|" * len(headings)


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _by_version(table: RuleTable) -> dict[str, Counter[EvidenceKind]]:
    """For each reviewed release, rules by grade where a case speaks of it; builds say nothing of older releases."""
    releases = reviewed_releases(table.reviewed)
    seen = () if table.dispatched is None else releases[releases.index(table.dispatched.builds[0].rpartition(".")[0]) :]
    return {
        release: Counter(
            strongest(row for row in rule.evidence if release in seen or row.kind is not EvidenceKind.DISPATCHED)
            for rule in table.rule
            if any(speaks_of(case.torch, release) for case in rule.case)
        )
        for release in releases
    }


def _counted(table: RuleTable) -> tuple[str, ...]:
    """Its backend, the reviewed releases, its rules and the ops that they name (a packet counts once), its rules by
    their strongest evidence, and those of them that it inherits."""
    releases = reviewed_releases(table.reviewed)
    grades = Counter(strongest(rule.evidence) for rule in table.rule)
    ops, inherited = {op for rule in table.rule for op in rule.ops}, sum(map(is_inherited, table.rule))
    counts = (len(table.rule), len(ops), *(grades[grade] for grade in GRADES), inherited)
    return str(table.backend), f"{releases[0]} to {releases[-1]}", *map(str, counts)
