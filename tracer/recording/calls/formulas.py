"""Backward formulas that autograd exchanges for others while any dispatch mode is active, an empty one too.

Most of those give the same bits; these do not. Which formula ran shows in the ops that the node dispatched, so that a
call whose shape leaves both the same (a product of one number) is not named, and watching for it costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracer.names import BlindSpotKind, Phase
from tracer.ops.op import Formula
from tracer.ops.rows import rows
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.origin.sites import spell
from tracer.trace.records import BlindSpot

#: By the name of the autograd node without its number. Found by running formulas plain and under an empty mode on 2.13,
#: those of ``prod``, ``cumprod``, ``masked_fill``, ``max`` and ``median`` on each minor release from 2.4 to 2.15.
#: ``cumprod``'s is that of torch up to 2.11; what 2.12 and newer take gives the same bits, and bears no such mark.
FORMULAS: Mapping[str, tuple[str, Formula]] = {
    row.formula.node: (row.name, row.formula) for row in rows() if row.formula is not None
}


def changed_by_recording(info: OverloadInfo, counter: CallCounter, working_directory: str) -> BlindSpot | None:
    """What says that the backward of this group's op is another than without the recorder; else ``None``."""
    op, formula = FORMULAS.get(counter.node.rstrip("0123456789"), ("", None))
    if (
        formula is None
        or formula.mark != info.name
        or counter.raw is None
        or counter.origin.phase is not Phase.BACKWARD
    ):
        return None
    _, device, _, dimensions = counter.raw
    if not dimensions or (device.type == "cuda" and not formula.on_cuda):
        return None
    return BlindSpot(
        kind=BlindSpotKind.CHANGED_BY_RECORDING,
        detail=f"aten.{op}: recording this call changes it: under any dispatch mode its backward takes another"
        f" formula, whose result can differ {formula.differs}",
        location=spell(counter.origin.site, working_directory),
        count=counter.count,
    )
