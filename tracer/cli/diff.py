"""``tracer diff``: two traces, or one trace for two targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tracer.cli import completing
from tracer.cli.output import show
from tracer.cli.progress import progress
from tracer.errors import UsageError
from tracer.names import Verdict

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tracer.gate.comparing import Comparison, Difference

FAILED = 1
#: Differences that are printed; JSON has them all.
_SHOWN = 60

EXAMPLES = """\b
Examples:
  tracer diff old.json new.json --backend cuda
  tracer diff trace.json --torch 2.4,2.13 --backend cuda
  tracer diff trace.json --backend cuda,npu

Exit code 1, with --fail-on: a finding is new or worse, and of a verdict that is named there."""


@click.command("diff", epilog=EXAMPLES, short_help="Say what changed between two traces, or two targets of one.")
@click.argument("old", metavar="OLD", shell_complete=completing.files)
@click.argument("new", metavar="[NEW]", required=False, shell_complete=completing.files)
@click.option(
    "--backend",
    default="recorded",
    metavar="B[,B]",
    shell_complete=completing.backends,
    help="Judge for this backend, or for one and another.",
)
@click.option(
    "--torch",
    "version",
    default="recorded",
    metavar="V[,V]",
    shell_complete=completing.releases,
    help="Judge for this version, or for two.",
)
@click.option(
    "--settings",
    default="recorded",
    metavar="S[,S]",
    shell_complete=completing.settings_pair,
    help="Judge under these settings, or under two.",
)
@click.option(
    "--fail-on",
    metavar="V[,V]",
    shell_complete=completing.verdicts_and_new,
    help="Exit with 1 when a finding of these verdicts is new or worse.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
def command(
    old: str, new: str | None, backend: str, version: str, settings: str, fail_on: str | None, form: str
) -> int:
    """Judge OLD and NEW, and say which findings are new, gone, worse or better.

    Findings are matched by what was recorded: op, phase, module, file and function. With one trace, name two targets.
    """
    pairs = [_pair(text, name) for text, name in ((backend, "backend"), (version, "torch"), (settings, "settings"))]
    if new is None and not any(one != other for one, other in pairs):
        raise UsageError("one trace and one target do not differ", hint="name a second trace, or two with a comma")
    verdicts = _verdicts(fail_on)
    with progress("judging"):
        from tracer.gate.comparing import compare_judgements
        from tracer.session import judge
        from tracer.trace import compare_draws, load_trace

        traces = [load_trace(old)]
        traces.append(load_trace(new) if new is not None else traces[0])
        reports = [
            judge(trace, backend=pairs[0][side], torch=pairs[1][side], settings=pairs[2][side])
            for side, trace in enumerate(traces)
        ]
        draws = [
            (difference.generator, difference.ahead, difference.second or difference.first)
            for difference in compare_draws(*traces)
        ]
        compared = compare_judgements(reports[0].judgement, reports[1].judgement, draws)
    if form == "json":
        import msgspec

        show(msgspec.json.format(msgspec.json.encode(compared), indent=2).decode("utf-8"))
    else:
        from tracer.report.terminal.terminal import printed

        show(printed(lambda width: _parts(compared)))
    return (
        FAILED
        if any(_is_worse(difference) and difference.after in verdicts for difference in compared.differences)
        else 0
    )


def _pair(text: str, name: str) -> tuple[str, str]:
    """``A,B``, or ``A`` for both sides."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 2 or not all(parts):
        raise UsageError(f"--{name} {text!r} is neither one nor two", hint="write A or A,B")
    return parts[0], parts[-1]


def _verdicts(fail_on: str | None) -> frozenset[Verdict]:
    from tracer.gate.gating import parse_fail_on

    if fail_on is None:
        return frozenset()
    verdicts, any_new = parse_fail_on(fail_on)
    return frozenset(Verdict) if any_new else verdicts


def _is_worse(one: Difference) -> bool:
    from tracer.gate.comparing import Kind

    return one.kind in (Kind.NEW, Kind.WORSENED)


def _parts(compared: Comparison) -> Iterator[RenderableType]:
    """What is printed, from the top."""
    from tracer.gate.comparing import Kind
    from tracer.report.terminal.terminal import Prose, hanging, heading, indented
    from tracer.report.wording.plain import one_line
    from tracer.report.wording.words import plural

    counts: dict[str, int] = {}
    for difference in compared.differences:
        counts[difference.kind.value] = counts.get(difference.kind.value, 0) + 1
    as_told = {Kind.RECOUNTED.value: "with another count"}
    told = ", ".join(f"{count:,} {as_told.get(kind, kind)}" for kind, count in counts.items()) or "no finding changed"
    yield Prose(f"{told[0].upper()}{told[1:]}; {plural(compared.same, 'finding')} the same.", style="bold")
    for label, target in (("before", compared.before), ("after", compared.after)):
        yield Prose(f"{label}: {target.backend}, torch {target.torch}, settings {target.settings}")
    for kind in counts:
        yield heading(kind.capitalize())
        members = [difference for difference in compared.differences if difference.kind.value == kind]
        for number, one in enumerate(members[:_SHOWN], 1):
            yield hanging("-", one_line(_told(one), 400))
            after = members[number] if number < min(len(members), _SHOWN) else None
            if one.remedy and _is_worse(one) and (after is None or after.remedy != one.remedy):
                # once below all that it is for: another backend's remedy is often the same for each op
                yield indented(one_line(one.remedy, 400), 4, style="dim")
        if len(members) > _SHOWN:
            yield indented(f"and {len(members) - _SHOWN:,} more; --format json has them all")
    if compared.settings:
        yield heading("Settings and versions")
        for setting in compared.settings:
            yield indented(one_line(f"{setting.name}: {setting.before} -> {setting.after}", 400))
    if compared.draws:
        yield heading("Random draws")
        for sentence in compared.draws:
            yield indented(one_line(sentence, 400))


def _told(one: Difference) -> str:
    """``train.py:10 aten.mm: deterministic -> raises, 12 calls``."""
    verdicts = f"{one.before or 'no finding'} -> {one.after or 'no finding'}"
    if one.mode_before is not one.mode_after and None not in (one.before, one.after):
        verdicts += f" (under the mode {one.mode_before} -> {one.mode_after})"
    calls = f"{one.calls_after or one.calls_before:,}"
    if one.calls_before and one.calls_after and one.calls_before != one.calls_after:
        calls = f"{one.calls_before:,} -> {one.calls_after:,}"
    place = f"{one.place} " if one.place else ""
    module = f" in {one.module}" if one.module else ""
    word = "call" if calls == "1" else "calls"
    return f"{place}{one.op} {one.phase}{module}: {verdicts}, {calls} {word}"
