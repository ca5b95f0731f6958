"""The file of values: digests of what each call read and wrote, in the order of the calls.

It stands beside the trace, is written as the run goes and is read without torch. ``docs/values.md`` describes it.
"""

from tracer.trace.values.columns import (
    NO_DIGEST,
    TURN_SHIFT,
    Entries,
    Group,
    Header,
    Mark,
    Moments,
    Name,
    ValueKind,
    Values,
    inputs_path,
    values_path,
)
from tracer.trace.values.digests import fold, places_of, spelt_places, text_digest, without_places
from tracer.trace.values.reader import read_values
from tracer.trace.values.writer import ValuesWriter

__all__ = [
    "NO_DIGEST",
    "TURN_SHIFT",
    "Entries",
    "Group",
    "Header",
    "Mark",
    "Moments",
    "Name",
    "ValueKind",
    "Values",
    "ValuesWriter",
    "fold",
    "inputs_path",
    "places_of",
    "read_values",
    "spelt_places",
    "text_digest",
    "values_path",
    "without_places",
]
