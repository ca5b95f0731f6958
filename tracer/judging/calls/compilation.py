"""What a trace holds of compiled code, as the tables are asked about it."""

from __future__ import annotations

from collections.abc import Mapping

from tracer.tables.compilers import CompilerTable
from tracer.tables.ruling.compiled import Compilation
from tracer.tables.versions import release
from tracer.trace.file import Trace


def compilation_of(trace: Trace, compilers: Mapping[str, CompilerTable]) -> Compilation:
    """The regions and launched kernels of ``trace``, and the tables that speak of their compilers."""
    return Compilation(
        tables=compilers,
        regions={region.id: region for region in trace.regions},
        launched={kernel.name: kernel for kernel in trace.launched},
        torch=_release(trace.environment.torch),
        is_rocm=trace.environment.hip is not None,
    )


def _release(text: str) -> str:
    try:
        return release(text)
    except ValueError:  # a recording that does not know its torch agrees with no target's
        return ""
