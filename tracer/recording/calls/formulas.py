"""Backward formulas that autograd exchanges for others while any dispatch mode is active, an empty one too.

Most of those give the same bits; these do not. Which formula ran shows in the ops that the node dispatched, so that a
call whose shape leaves both the same (a product of one number) is not named, and watching for it costs nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from tracer.names import BlindSpotKind, Phase
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.origin.sites import spell
from tracer.trace.records import BlindSpot


class Formula(NamedTuple):
    """A formula that runs under a dispatch mode alone."""

    op: str
    """The op whose backward it is."""
    mark: str
    """An overload that it dispatches once, and the other one never or seldom."""
    differs: str
    """In what its result can differ."""
    on_cuda: bool = True
    """False where CUDA takes it without a mode too."""


_SELECTED = "in the sign of zeros, and where the gradient is infinite or NaN"
_SELECTING = {"Max": "max", "Min": "min", "Median": "median", "Nanmedian": "nanmedian"}

#: By the name of the autograd node without its number. Found by running formulas plain and under an empty mode on 2.13,
#: those of ``prod``, ``cumprod``, ``masked_fill``, ``max`` and ``median`` on each minor release from 2.4 to 2.15.
FORMULAS = {
    "ProdBackward": Formula("aten.prod", "aten.ones.default", "in its last bits"),
    # Up to 2.11; what 2.12 and newer take under a mode gives the same bits, and dispatches no such op.
    "CumprodBackward": Formula("aten.cumprod", "aten.ones.default", "in its last bits"),
    "MaskedFillBackward": Formula("aten.masked_fill", "aten.where.self", "in the last bits of the value's gradient"),
} | {
    f"{node}Backward": Formula(f"aten.{op}", "aten.logical_or_.default", _SELECTED, on_cuda=False)
    for node, op in _SELECTING.items()
}


def changed_by_recording(info: OverloadInfo, counter: CallCounter, working_directory: str) -> BlindSpot | None:
    """What says that the backward of this group's op is another than without the recorder; else ``None``."""
    formula = FORMULAS.get(counter.node.rstrip("0123456789"))
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
        detail=f"{formula.op}: recording this call changes it: under any dispatch mode its backward takes another"
        f" formula, whose result can differ {formula.differs}",
        location=spell(counter.origin.site, working_directory),
        count=counter.count,
    )
