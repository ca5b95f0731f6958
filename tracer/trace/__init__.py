"""A trace: what was seen of a training step, as typed, frozen data with a versioned file format."""

from tracer.trace.differences import compare_draws, compare_ranks
from tracer.trace.file import Trace, load_trace, save_trace
from tracer.trace.merging import merge_traces

__all__ = ["Trace", "compare_draws", "compare_ranks", "load_trace", "merge_traces", "save_trace"]
