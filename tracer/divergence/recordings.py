"""A recording on disk: its trace, its values, or both."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tracer.trace.file import Trace, values_path
from tracer.trace.records import Environment
from tracer.trace.values import Values, read_values


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One run's trace and values."""

    name: str
    values: Values
    trace: Trace | None = None
    """``None`` where the run was killed before it wrote one."""

    @property
    def environment(self) -> Environment | None:
        """Versions and settings as recording began."""
        return self.trace.environment if self.trace is not None else self.values.header.environment


Family = Mapping[str, Recording]
"""The recordings of one run by role; the first process has an empty role."""


def has_values(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a file of values beside this trace, or it is one itself."""
    return os.path.isfile(values_path(path))


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Read the values and, where there is one, the trace. ``path`` names either. Raises ``TraceError`` in one line."""
    values = values_path(path)
    named = Path(path)
    endings = (".trace.json", ".trace.json.gz", ".json", ".json.gz")
    beside = [named] if named != values else [values.with_suffix(ending) for ending in endings]
    trace = next((path for path in beside if os.path.isfile(path)), None)
    return Recording(
        name=values.stem, values=read_values(values), trace=Trace.load(trace) if trace is not None else None
    )
