"""A trace: what was seen of a training step, as typed, frozen data with a versioned file format."""

from tracer.trace.differences import DrawDifference, RankComparison, compare_draws, compare_ranks
from tracer.trace.file import Trace, load_trace, save_trace
from tracer.trace.merging import merge_traces
from tracer.trace.records import (
    SCHEMA,
    ArmTrials,
    BlindSpot,
    CallGroup,
    CudaDevice,
    Environment,
    FactValue,
    Kernel,
    Region,
    TraceSource,
    Tried,
)

__all__ = [
    "SCHEMA",
    "ArmTrials",
    "BlindSpot",
    "CallGroup",
    "CudaDevice",
    "DrawDifference",
    "Environment",
    "FactValue",
    "Kernel",
    "RankComparison",
    "Region",
    "Trace",
    "TraceSource",
    "Tried",
    "compare_draws",
    "compare_ranks",
    "load_trace",
    "merge_traces",
    "save_trace",
]
