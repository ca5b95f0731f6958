"""``tracer diff``: two traces, with their values where they have them, one trace for two targets, or two machines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracer.cli.options import DEVICES, files, option
from tracer.cli.output import progress, show, show_blocks
from tracer.errors import UsageError
from tracer.names import SEVERITY, Backend, Verdict
from tracer.plain import json_text, say

if TYPE_CHECKING:
    from tracer.divergence.model import Divergence, Family, Recording
    from tracer.gate import GateComparison
    from tracer.report.blocks import Block
    from tracer.trace import Trace

FAILED = 1
PARTIAL = 3
#: The word of --fail-on for values that part.
PARTED = "parted"

RECORDED = ("recorded", "recorded")

EXAMPLES = """\b
Examples:
  tracer diff old.json new.json --backend cuda
  tracer diff first.trace.json second.trace.json
  tracer diff whole.trace.json resumed.trace.json --align-step 100=0 --fail-on parted
  tracer diff eager.json sdpa.json --yardstick shaken-1.json --yardstick shaken-2.json
  tracer diff one-process.json ddp.json --yardstick shaken-1.json
  tracer diff trace.json --torch 2.4,2.13 --backend cuda
  tracer diff trace.json --backend cuda,npu
  tracer diff here.doctor.json there.doctor.json

With --yardstick, or where both have magnitudes and no values, the two are held against each other as tracer compare
does, with its exit codes. A name that torchrun's processes were given stands for all ranks: ddp.json for
ddp.rank0.json, ddp.rank1.json and so on. Files of tracer doctor --save are two machines: their settings, versions and
devices are compared.

Exit code 1, with --fail-on: a finding is new or worse, and of a verdict that is named there; or, for "parted", the
values of the two runs, or two machines, differ. Exit code 3: the values that a trace was recorded with are missing, or
torch was on a machine."""


def _pair(name: str, text: str) -> tuple[str, str]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 2 or not all(parts):
        raise UsageError(f"{name} {text!r} is neither one nor two", hint="write A or A,B")
    return parts[0], parts[-1]


def _steps(name: str, text: str) -> tuple[int, int]:
    match = re.fullmatch(r"\s*(\d{1,18})\s*=\s*(\d{1,18})\s*", text, re.ASCII)
    if match is None:
        raise UsageError(f"{name} {text!r} names no two steps", hint="write A=B, as in --align-step 100=0")
    return int(match[1]), int(match[2])


def _fail_on(_: str, text: str) -> tuple[bool, frozenset[Verdict]]:
    """Whether values that part fail, and which verdicts of findings do."""
    from tracer.gate import parse_fail_on

    words = [word.strip() for word in text.split(",")] if text else []
    others = [word for word in words if word != PARTED]
    if not others:
        return PARTED in words, frozenset()
    verdicts, any_new = parse_fail_on(",".join(others))
    return PARTED in words, frozenset(Verdict) if any_new else verdicts


@click.command("diff", epilog=EXAMPLES)
@click.argument("old", metavar="OLD", shell_complete=files)
@click.argument("new", metavar="[NEW]", required=False, shell_complete=files)
@option(
    "--backend backends", "B[,B]", "Judge for this backend, or for one and another.", default="recorded", read=_pair
)
@option("--torch versions", "V[,V]", "Judge for this version, or for two.", default="recorded", read=_pair)
@option("--settings", "S[,S]", "Judge under these settings, or under two.", default="recorded", read=_pair)
@option(
    "--align-step",
    "A=B",
    "Hold OLD's step A against NEW's step B: a resumed run. By itself where NEW begins with OLD's parameters of a"
    " later step.",
    read=_steps,
)
@option(
    "--fail-on",
    "V[,V]",
    'Exit with 1 when a finding of these verdicts is new or worse; with "parted", when the runs diverge, or a resumed'
    " run did not get everything back.",
    default="",
    read=_fail_on,
)
@option(
    "--yardstick",
    "FILE",
    "A shaken recording of OLD (tracer run --magnitudes --shake SEED): what magnitudes are judged by.",
    shell_complete=files,
    multiple=True,
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
def command(
    old: str,
    new: str | None,
    backends: tuple[str, str],
    versions: tuple[str, str],
    settings: tuple[str, str],
    align_step: tuple[int, int] | None,
    fail_on: tuple[bool, frozenset[Verdict]],
    yardstick: tuple[str, ...],
    form: str,
) -> int:
    """Say where the runs of OLD and NEW part, if both have values (tracer run --values), and which findings changed.

    The first call that differs is told with its cause, then which findings are new, gone, worse or better. Findings
    are matched by what was recorded: op, phase, module, file and function. With one trace, name two targets.
    """
    if new is None and not any(first != second for first, second in (backends, versions, settings)):
        raise UsageError("one trace and one target do not differ", hint="name a second trace, or two with a comma")
    if new is not None and _are_machines(old, new):
        others: dict[str, object] = {"--align-step": align_step, "--yardstick": yardstick}
        others |= {"--torch": versions != RECORDED, "--settings": settings != RECORDED}
        return _compare_machines(old, new, backends, others, fail_on, as_json=form == "json")
    if new is not None and (yardstick or _are_magnitudes(old, new)):
        return _compare_magnitudes(old, new, yardstick, as_json=form == "json")
    on_parting, verdicts = fail_on
    with progress("comparing"):
        import msgspec

        from tracer.divergence.comparing import compare_recordings
        from tracer.divergence.families import compare_families, compare_jobs
        from tracer.divergence.model import has_values
        from tracer.gate import ChangeKind, compare_judgements
        from tracer.ops import spoken
        from tracer.session import judge
        from tracer.trace.differences import compare_draws
        from tracer.trace.file import load_families, load_traces, values_path
        from tracer.trace.lines import lines_path
        from tracer.trace.merging import merge_traces

        paths = (old,) if new is None else (old, new)
        jobs = _jobs(old, new)
        families = None if jobs is not None else _families(paths, needed=on_parting or align_step is not None)
        loaded: list[Sequence[Trace]]
        if families is not None:
            loaded = [[own.trace for own in family.values() if own.trace is not None] for family in families]
        else:
            loaded = [load_traces(job.values()) for job in jobs] if jobs else [load_families([path]) for path in paths]
        traces = [merge_traces(each) for each in loaded] if all(loaded) else []  # a killed run may have left none
        missing = ""
        for path, trace in zip(paths, traces, strict=False) if new is not None and jobs is None else ():
            if any(source.values for source in trace.sources) and not has_values(path):
                missing = missing or f"{path} was recorded with values, and there is no file {values_path(path)}"
        reports = [
            judge(trace, backend=backend, torch=version, settings=of_side)
            for trace, backend, version, of_side in zip(
                [traces[0], traces[-1]] if traces else [], backends, versions, settings, strict=False
            )
        ]
        compared = None
        if reports:
            differing = compare_draws(traces[0], traces[-1])
            draws = [(draw.generator, draw.ahead, draw.second or draw.first) for draw in differing]
            redrawn = [
                (spoken(call.group.op, call.ruling.runs_as).removesuffix(".default"), call.ruling.source.redrawn)
                for call in reports[1].judged_calls or ()
                if call.ruling.source is not None
            ]
            compared = compare_judgements(reports[0].judgement, reports[1].judgement, draws, redrawn)

        def compare(ours: Recording, theirs: Recording) -> Divergence:
            findings = reports[0].findings if reports else None
            return compare_recordings(ours, theirs, align_step=align_step, findings=findings)

        parted = None
        if jobs is not None:
            parted = compare_jobs(*jobs, compare)
        elif families is not None and new is not None:
            parted = compare_families(*families, compare)
            have_lines = all(lines_path(path).is_file() for path in (old, new))
            if have_lines and not parted.agrees and parted.resumed is None:
                from tracer.runner.repeated.root_lines import compared_traces

                parted = msgspec.structs.replace(parted, sources=compared_traces(Path(old), Path(new), parted).sources)
    _show(parted, compared, as_json=form == "json")
    if parted is not None and on_parting:
        lacks = parted.resumed is not None and parted.resumed.not_restored
        if lacks or not parted.agrees or not parted.calls_compared:
            return FAILED
    changes = compared.differences if compared is not None else ()
    if any(change.kind in (ChangeKind.NEW, ChangeKind.WORSENED) and change.after in verdicts for change in changes):
        return FAILED
    if missing:
        say(f"tracer: {missing}; values were not compared")
        return PARTIAL
    return 0


def _show(parted: Divergence | None, compared: GateComparison | None, *, as_json: bool) -> None:
    """Print values first where there are any; the findings stand beside them."""
    import msgspec

    if as_json:
        document: dict[str, Any] = {} if compared is None else msgspec.to_builtins(compared)
        if parted is not None:
            from tracer.report.compared import divergence_json

            values = divergence_json(parted)
            document = {**values, **document, "changed_settings": values["settings"]}
        show(json_text(document))
        return
    from tracer.report.blocks import Heading, Paragraph
    from tracer.report.render.terminal import READER
    from tracer.report.sections.findings import comparison_blocks

    blocks: list[Block] = []
    if parted is not None:
        from tracer.report.sections.runs import divergence_blocks

        blocks += [*divergence_blocks(parted, READER), Heading("Findings")]
    missing = Paragraph("A trace is missing, so findings were not compared.")
    show_blocks([*blocks, *(comparison_blocks(compared) if compared is not None else (missing,))])


def _are_machines(old: str, new: str) -> bool:
    """Return whether both are files of ``tracer doctor --save``. Raises ``UsageError`` where one alone is."""
    from tracer.doctor.two_machines import is_machine

    are = [is_machine(path) for path in (old, new)]
    if any(are) and not all(are):
        machine, other = (old, new) if are[0] else (new, old)
        what = f"{machine} is a file of `tracer doctor --save`, and {other} is none"
        raise UsageError(what, hint="name two of them, or two traces")
    return all(are)


def _compare_machines(
    old: str,
    new: str,
    backends: tuple[str, str],
    others: dict[str, object],
    fail_on: tuple[bool, frozenset[Verdict]],
    *,
    as_json: bool,
) -> int:
    from tracer.doctor.two_machines import compare_machines, comparison_blocks, load_machine
    from tracer.tables.rules import load_rows

    for name, value in others.items():
        if value:
            raise UsageError(f"{name} asks of traces, and {old} is a machine", hint="leave it out")
    on_parting, verdicts = fail_on
    backend = None if backends == RECORDED else backends[0]
    if backend is not None and (backends[0] != backends[1] or backend not in DEVICES):
        raise UsageError("--backend names one backend for both machines", hint=f"choose from {', '.join(DEVICES)}")
    names = (Path(old).name, Path(new).name)
    compared = compare_machines(
        load_rows(),
        load_machine(old),
        load_machine(new),
        names=names if names[0] != names[1] else (old, new),
        backend=None if backend is None else Backend(backend),
    )
    if as_json:
        show(json_text(compared))
    else:
        show_blocks(comparison_blocks(compared))
    if on_parting and compared.differences:
        return FAILED
    for difference in compared.differences:
        if difference.verdicts is not None:
            before, after = difference.verdicts
            if after in verdicts and SEVERITY.index(after) < SEVERITY.index(before):
                return FAILED
    if compared.without_torch:
        lacking = " and ".join(compared.without_torch)
        say(f"tracer: torch cannot be imported on {lacking}; its settings were not compared")
        return PARTIAL
    return 0


def _are_magnitudes(*paths: str) -> bool:
    """Return whether each has magnitudes and no digests."""
    from tracer.trace.file import values_of_ranks
    from tracer.trace.values import read_header

    headers = (read_header(values_of_ranks(path)[0]) for path in paths)
    return all(header is not None and header.magnitudes and not header.digests for header in headers)


def _compare_magnitudes(old: str, new: str, yardstick: Iterable[str], *, as_json: bool) -> int:
    """Say whether two configurations differ by rounding; the exit code is that of ``tracer compare``."""
    from tracer.divergence.magnitudes import compared
    from tracer.report.compared import code_of, comparison_json
    from tracer.report.render.terminal import READER
    from tracer.report.sections.configurations import configuration_blocks
    from tracer.trace.values import read_ranks

    first, second, *shaken = (read_ranks(path) for path in (old, new, *yardstick))
    comparison = compared(first, second, shaken)
    if as_json:
        show(json_text(comparison_json(comparison)))
    else:
        show_blocks(configuration_blocks(comparison, READER))
    return code_of(comparison)


def _jobs(old: str, new: str | None) -> tuple[dict[int, Path], dict[int, Path]] | None:
    """The traces of both runs by rank, where the names are those of jobs with values; ``None`` where none is.

    Raises ``UsageError`` where one alone is, or a rank has no values.
    """
    from tracer.divergence.model import has_values
    from tracer.trace.file import traces_of_ranks

    first, second = (traces_of_ranks(path) if path is not None else {} for path in (old, new))
    if not first and not second:
        return None
    if new is None or not first or not second:
        job, other = (old, new) if first else (new, old)
        raise UsageError(f"{job} stands for several ranks, and {other} does not", hint="name two jobs, or two files")
    for path in (*first.values(), *second.values()):
        if not has_values(path):
            raise UsageError(f"{path} has no values beside it", hint="record every rank with `tracer run --values`")
    return first, second


def _families(paths: Sequence[str], *, needed: bool) -> tuple[Family, Family] | None:
    """Both with values, and with those of child processes; ``None`` where one has none, or there is one trace."""
    from tracer.divergence.families import read_family
    from tracer.divergence.model import has_values, read_recording

    lacking = [path for path in paths if not has_values(path)]
    wants = needed or any(path.endswith(".values") for path in paths)
    if wants and (lacking or len(paths) < 2):
        which = f"{lacking[0]} has none" if lacking else "there is one recording"
        needs = f"two recordings with values are needed, and {which}"
        raise UsageError(needs, hint="record with `tracer run --values`")
    if lacking or len(paths) < 2:
        return None
    first, second = ({"": read_recording(path)} if path.endswith(".values") else read_family(path) for path in paths)
    return first, second
