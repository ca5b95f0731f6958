"""``tracer report``: traces, judged and written."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from tracer.cli.options import files, option, target_options, verbosity
from tracer.cli.output import destinations, progress, render_report, write_rendered
from tracer.names import Backend, Detail, Settings
from tracer.plain import say

PARTIAL = 3

EXAMPLES = """\b
Examples:
  tracer report trace.json
  tracer report trace.json --backend cuda --settings deterministic
  tracer report trace.json --backend npu -o report.html
  tracer report trace.rank*.json --format html,csv -o out/

Exit code 3 says that a trace is partial: the report is written, and speaks for what was recorded alone."""


@click.command("report", epilog=EXAMPLES)
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...", shell_complete=files)
@target_options(
    backend=f"Judge for {', '.join(Backend)} (each call's own device).",
    torch="Judge for this version of torch, such as 2.13.",
    settings=f"Judge under these settings: {', '.join(Settings)}.",
)
@option("--format formats", "F[,F]", "text, html, csv, json, markdown, sarif, junit; by default what -o ends in.")
@option("--table", "T", "What CSV holds: findings (the default) or calls.")
@option(
    "-o --output",
    "PATH",
    "A file; for several formats a folder, or the name that all the files begin with.",
    shell_complete=files,
)
@click.option("--no-hints", is_flag=True, help="Leave out hints at what may be otherwise in another run or process.")
@verbosity
def command(
    traces: tuple[str, ...],
    target: dict[str, Any],
    formats: str | None,
    table: str | None,
    output: str | None,
    no_hints: bool,
    detail: Detail,
) -> int:
    """Judge TRACE for a backend, a torch version and settings, and write the report.

    Several traces (steps, repeated runs, ranks) are merged, and with a trace those of its child processes beside it.
    Neither torch nor the device is needed.
    """
    wanted = destinations(formats, output, inputs=traces, table=table)
    with progress("reading traces"):
        from tracer.gate import host_lines
        from tracer.runner.script import source_at_hand
        from tracer.session import judge_job
        from tracer.trace.file import load_families

        loaded = load_families(traces)
    with progress("judging and rendering"):
        calls = (call for own in loaded for call in own.calls)
        target["host"] = (*target["host"], *host_lines(calls, Path.cwd()))
        report = judge_job(loaded, **target)
        trace = report.judgement.trace
        report = replace(
            report, traces=tuple(Path(path).name for path in traces), strict=target["strict"], has_hints=not no_hints
        )
        how: dict[str, Any] = {"table": table or "findings", "detail": detail}
        rendered = render_report(report, [place for place in wanted if place[0] != "html"], **how)
        if pages := [place for place in wanted if place[0] == "html"]:
            texts = source_at_hand(trace, os.getcwd(), min(os.stat(path).st_mtime for path in traces))
            shown = msgspec.structs.replace(report.judgement, trace=msgspec.structs.replace(trace, source_lines=texts))
            rendered += render_report(replace(report, judgement=shown), pages, **how)
    written = [str(path) for _, path in wanted if path is not None]
    write_rendered(rendered)
    if detail is not Detail.BRIEF and written:
        write_rendered(render_report(report, [("text", None)], detail=Detail.BRIEF))
        say(f"tracer: wrote {', '.join(written)}")
    if trace.partial:
        say(f"tracer: the trace is partial ({trace.partial}); the rest was not judged")
        return PARTIAL
    return 0
