"""The file of values: digests of what each call read and wrote, in the order of the calls.

It stands beside the trace, is written as the run goes and is read without torch. ``docs/values.md`` describes it.
"""

from tracer.names import ValueKind
from tracer.trace.values.columns import Group, Header, Mark, Values, fold
from tracer.trace.values.places import Form, PlaceName
from tracer.trace.values.reader import Magnitudes, read_header, read_magnitudes, read_ranks, read_values
from tracer.trace.values.writer import ValuesWriter

__all__ = [
    "Form",
    "Group",
    "Header",
    "Magnitudes",
    "Mark",
    "PlaceName",
    "ValueKind",
    "Values",
    "ValuesWriter",
    "fold",
    "read_header",
    "read_magnitudes",
    "read_ranks",
    "read_values",
]
