"""Two recordings with values: where they part, the cause of each root, and what merely follows."""

from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import (
    Changed,
    Divergence,
    Drift,
    NotRestored,
    Parting,
    Place,
    Replicas,
    Resumed,
    Root,
    Span,
    State,
)
from tracer.divergence.recordings import Recording, has_values, read_recording
from tracer.divergence.replicas import are_ranks, compare_replicas

__all__ = [
    "Changed",
    "Divergence",
    "Drift",
    "NotRestored",
    "Parting",
    "Place",
    "Recording",
    "Replicas",
    "Resumed",
    "Root",
    "RootCause",
    "Span",
    "State",
    "are_ranks",
    "compare_recordings",
    "compare_replicas",
    "has_values",
    "read_recording",
]
