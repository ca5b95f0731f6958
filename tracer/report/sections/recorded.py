"""What was recorded: what of the run went by unseen, the process's versions and settings, how to judge it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, Words
from tracer.report.words import plural
from tracer.tables.settings.declared import DECLARED
from tracer.trace.records import Environment, TraceSource

if TYPE_CHECKING:
    from tracer.findings import Target
    from tracer.report.view import ReportView

#: Merged recordings disagree in it; the first one's value is shown.
_DIFFERS = said.Strong("differs between recordings")


def not_seen(report: ReportView, reader: Reader) -> Section | None:
    """What ran and was not seen, or seen only in part."""
    if not report.blind_spots:
        return None
    lead = "This ran without passing the recorder, or only in part; nothing is said about it."
    rows = tuple(
        said.Row(
            spot.kind.value,
            aside=plural(spot.count, "time"),
            blocks=(
                said.Paragraph(spot.detail),
                *((said.Paragraph(said.Code(spot.location)),) if spot.location else ()),
            ),
        )
        for spot in report.blind_spots
    )
    blocks: tuple[said.Block, ...] = (said.lead(lead), said.Rows(rows, anchor="not-seen"))
    return Section(anchor="blind-spots", title="What was not seen", label="Not seen", blocks=blocks)


def environment(report: ReportView, reader: Reader) -> Section:
    """Versions, settings and recordings, and the command that judges again."""
    judgement = report.judgement
    recorded = tuple(_settings(report.environment, judgement.differing_settings))
    beside: tuple[said.Block, ...] = (
        said.Pairs(recorded, "Versions and settings of the recorded process", "environment"),
    )
    if judgement.sources:
        beside += (said.Pairs(tuple(map(_source, judgement.sources)), "Recordings"),)
    lead = "As recorded: when recording began or, for a script, when its first recorded optimizer step began."
    again = command(report, judgement.target)
    return Section(
        anchor="environment",
        title="Environment",
        blocks=(
            said.lead(lead),
            said.Beside(beside),
            said.Heading("This judgement again"),
            said.Sample(again, "the command that judges again"),
        ),
    )


def command(report: ReportView, target: Target) -> str:
    """What to type (in Python, where settings were asked for by name) to judge the same trace for ``target``."""
    if target.sets:
        first = report.traces[0] if report.traces else "trace.json"
        strict = ", strict=True" if report.strict else ""
        return (
            f"judge(Trace.load({first!r}), backend={target.backend.value!r}, torch={target.torch!r}, "
            f"settings={dict(target.sets)!r}{strict})"
        )
    words = ["tracer", "report", *report.traces, "--backend", target.backend.value, "--torch", target.torch]
    words += ["--settings", target.settings.value, *(["--strict"] if report.strict else [])]
    return shlex.join(words)


def _source(source: TraceSource) -> tuple[str, Words]:
    of = "" if source.world_size is None else f" of {source.world_size}"
    rank = "" if source.rank is None else f", rank {source.rank}{of}"
    steps = f"{plural(source.optimizer_steps, 'optimizer step')}, {plural(source.calls, 'call')}"
    partial: Words = (" ", said.Strong(f"partial: {source.partial}")) if source.partial else ""
    return f"{source.name or 'unnamed'}{rank}", (steps, partial)


#: Fields with the names by which people know them, in reading order: versions, settings, what they started from.
_NAMES = {
    "torch": "torch",
    "cuda": "CUDA",
    "hip": "HIP",
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "python": "Python",
    "platform": "platform",
    **{setting.key: setting.label or setting.name for setting in DECLARED if setting.is_field},
    "sdp_backends": "attention backends",
    "default_dtype": "default dtype",
    "torch_seed": "torch seed",
    "cuda_seed": "CUDA seed",
}


def _settings(environment: Environment, differing: tuple[str, ...]) -> Iterator[tuple[str, Words]]:
    """Every field that could be read, devices, and the environment variables that were set."""

    def pair(name: str, value: str, field: str) -> tuple[str, Words]:
        return name, (value, " ", _DIFFERS) if field in differing else value

    for field, name in _NAMES.items():
        value = getattr(environment, field)
        if value is not None:
            yield pair(name, _spelled(value), field)
    for device in environment.devices:
        capability = f" (compute capability {device.capability})" if device.capability else ""
        yield pair("device", f"{device.name}{capability}", "devices")
    for variable, value in sorted(environment.variables.items()):
        yield pair(variable, value, "variables")


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)
