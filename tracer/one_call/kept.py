"""The recorded data of one call, taken out of the file beside the trace and put beside its program."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tracer.errors import ReportError, UsageError, reason_of
from tracer.files import open_plain, write_whole
from tracer.trace.records import CallGroup
from tracer.trace.values.columns import inputs_path

#: What a function calls an argument that the op calls otherwise.
_ALSO = {"attn_mask": "attn_bias"}


def group_with_data(calls: Iterable[CallGroup]) -> CallGroup:
    """The first group of which data were kept. Raises ``UsageError`` in one line where there is none."""
    groups = tuple(calls)
    found = next((group for group in groups if group.inputs), None)
    if found is None:
        op = groups[0].op.rpartition(".")[0] if groups else "OP"
        raise UsageError(
            "the recording holds no data of this call", hint=f"record it with `tracer run --keep-inputs '{op}'`"
        )
    return found


def copy_data(trace: str | os.PathLike[str], group: CallGroup, names: Iterable[str], path: Path) -> None:
    """Write the tensors of ``group`` that ``names`` name to ``path``, by these names."""
    source = inputs_path(trace)
    try:
        from safetensors.torch import load_file, save
    except ImportError as problem:
        raise UsageError(
            f"--with-values needs safetensors and torch ({problem})", hint="pip install safetensors"
        ) from problem
    try:
        open_plain(source).close()
        held = load_file(source)
    except Exception as problem:  # safetensors raises errors of its own
        raise UsageError(f"cannot read {source}: {reason_of(problem)}", hint="it belongs beside the trace") from problem
    kept = {}
    for name in names:
        stem, dot, place = name.partition(".")
        keys = (f"{group.inputs}/{name}", f"{group.inputs}/{_ALSO.get(stem, stem)}{dot}{place}")
        found = next((held[key] for key in keys if key in held), None)
        if found is None:
            raise UsageError(f"{source} lacks {name} of {group.op}", hint="record it again with --keep-inputs")
        kept[name] = found
    write_whole(path, save(kept, {"format": "pt"}), error=ReportError)
