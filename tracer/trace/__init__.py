"""A trace: what was seen of a training step, as typed, frozen data with a versioned file format."""

from tracer.trace.file import Trace

__all__ = ["Trace"]
