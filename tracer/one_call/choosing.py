"""The finding that is meant, the recorded call that stands for it, and that call's data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tracer.errors import ReportError, UsageError, reason_of
from tracer.files import open_plain, write_whole
from tracer.findings import Finding
from tracer.names import About
from tracer.one_call.call_arguments import program_arguments, tensors_in
from tracer.report import Report
from tracer.trace.paths import inputs_path
from tracer.trace.records import CallGroup

_SHARED = ("op", "phase", "module", "location", "function", "called_from")
#: Names of arguments of functions that the op has under another name.
_ALSO = {"attn_mask": "attn_bias"}


def chosen_finding(findings: Sequence[Finding], name: str) -> tuple[int, int]:
    """Position of the first finding that ``name`` names, and how many it names.

    A name is a number, from 1 in the report's order, a rule or a glob of rules, an op, a line (``train.py:31``), or a
    rule or an op at a line: ``cuda-index-add@train.py:31``. A finding about a call comes before one about the process.
    Raises ``UsageError`` in one line if no finding has that name.
    """
    if not findings:
        raise UsageError("there is no finding", hint="another --backend may have some")
    if name.isdecimal():
        if not 1 <= int(name) <= len(findings):
            raise UsageError(f"there is no finding {name}", hint=f"they are numbered from 1 to {len(findings)}")
        return int(name) - 1, 1
    named = [place for place, finding in enumerate(findings) if _is_named(finding, name)]
    if not named:
        some = ", ".join(dict.fromkeys(finding.rule for finding in findings))
        raise UsageError(f"no finding is named {name!r}", hint=f"name a number, a line or one of {some}")
    return min(named, key=lambda place: findings[place].about is not About.CALL), len(named)


def _is_named(finding: Finding, name: str) -> bool:
    what, _, line = name.rpartition("@")
    packet, lines = finding.op.rpartition(".")[0], (finding.location, finding.called_from)
    names = (finding.op, packet, packet.partition(".")[2])
    is_named = (what or name) in names or fnmatchcase(finding.rule, what or name)
    return (is_named and line in lines) if what else (is_named or name in lines)


def calls_of(report: Report, finding: Finding) -> tuple[CallGroup, ...]:
    """The recorded groups behind a finding, the one with most elements first: it shows most."""
    groups = [
        judged.group
        for judged in report.calls
        if judged.ruling.rule == finding.rule
        and judged.ruling.verdict is finding.verdict
        and judged.ruling.deterministic_mode is finding.deterministic_mode
        and (judged.group.region is None) == (not finding.regions)
        and all(getattr(judged.group, name) == getattr(finding, name) for name in _SHARED)
    ]
    return tuple(sorted(groups, key=_elements, reverse=True))


def _elements(group: CallGroup) -> int:
    try:
        return sum(tensor.numel for tensor in tensors_in(program_arguments(group.given)))
    except ValueError:
        return -1


def group_with_data(groups: Sequence[CallGroup]) -> CallGroup:
    """The first group of which data were kept. Raises ``UsageError`` in one line if there is none."""
    group = next((group for group in groups if group.inputs), None)
    if group is None:
        hint = f"record it with `tracer run --keep-inputs '{groups[0].op.rpartition('.')[0] if groups else 'OP'}'`"
        raise UsageError("the recording holds no data of this call", hint=hint)
    return group


def copy_data(trace: str | os.PathLike[str], group: CallGroup, names: Iterable[str], path: Path) -> None:
    """Write the recorded tensors of ``group`` with these ``names`` to ``path``, from the file beside the trace."""
    source = inputs_path(trace)
    try:
        from safetensors.torch import load_file, save
    except ImportError as problem:
        raise UsageError(
            f"--with-values needs safetensors and torch ({problem})", hint="pip install safetensors"
        ) from problem
    try:
        open_plain(source).close()
        tensors = load_file(source)
    except Exception as problem:  # safetensors raises errors of its own
        raise UsageError(f"cannot read {source}: {reason_of(problem)}", hint="it belongs beside the trace") from problem
    copied = {}
    for name in names:
        stem, dot, place = name.partition(".")
        keys = (f"{group.inputs}/{name}", f"{group.inputs}/{_ALSO.get(stem, stem)}{dot}{place}")
        key = next((key for key in keys if key in tensors), None)
        if key is None:
            raise UsageError(f"{source} lacks {name} of {group.op}", hint="record it again with --keep-inputs")
        copied[name] = tensors[key]
    write_whole(path, save(copied, {"format": "pt"}), error=ReportError)
