"""A trace: what was seen of a training step, as typed, frozen data with a versioned file format."""

from tracer.trace.draw_differences import DrawDifference, compare_draws
from tracer.trace.file import Trace, load_trace, save_trace
from tracer.trace.merging import merge_traces
from tracer.trace.model import SCHEMA, BlindSpot, CallGroup, CudaDevice, Environment, FactValue, TraceSource
from tracer.trace.ranks import RankComparison, compare_ranks
from tracer.trace.regions import Kernel, Region
from tracer.trace.tried import ArmTrials, Tried

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
