"""A trace: what was seen of a training step, as typed, frozen data with a versioned file format."""

from tracer.trace.file import Trace, load_trace, save_trace

__all__ = ["Trace", "load_trace", "save_trace"]
