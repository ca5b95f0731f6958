"""A trace that has findings and in which every field is set, and the places of its texts."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec

from tests.support.build import tensor, trace
from tests.trace.filled import filled
from tracer.names import EventKind
from tracer.tables.settings import CUBLAS_VARIABLE
from tracer.trace import Trace

#: Where a text stands: keys and indices from the document's root; ``KEY`` at the end: the name of an entry itself.
Place = tuple[str | int, ...]
KEY = "\0key"


def full_document(**call: Any) -> dict[str, Any]:
    """A trace with every field set: of one call that has findings, beside one of an op that no table knows."""
    document = filled("text")
    plain = msgspec.to_builtins(trace())
    (group,) = document["calls"]
    known: dict[str, Any] = {
        "op": "aten.index_add_.default",
        "given": msgspec.to_builtins(ADDS),
        "location": "train.py:10",
        "called_from": "run.py:3",
    }
    known |= {"facts": {"device": "cpu", "dtype": "float32", "word": "text"}, "phase": "forward", "host": None}
    known["forward_unknown"] = False
    document |= {"schema": plain["schema"], "calls": [group | known | call, group | known | {"op": "mine.op.default"}]}
    (event,) = document["events"]
    document["events"] = [event | {"kind": kind.value, "name": NAMES.get(kind, "text")} for kind in EventKind]
    environment = document["environment"]
    environment |= {"torch": "2.13.0", "hip": None}  # with it, devices are AMD's
    environment["variables"][CUBLAS_VARIABLE] = ":4096:8"
    environment["settings"]["torch.backends.cudnn.conv.fp32_precision"] = "text"
    msgspec.convert(document, Trace)
    return document


NAMES = {EventKind.VARIABLE: CUBLAS_VARIABLE, EventKind.SETTING: "cudnn_benchmark", EventKind.FIRST_USE: "cublas"}
ADDS = {
    "self": tensor("float32", 10, 4),
    "dim": 0,
    "index": tensor("int64", 500),
    "source": tensor("float32", 500, 4),
    "alpha": "text",
}


def texts(document: Any, at: Place = ()) -> Iterator[Place]:
    """The place of every text, names of entries included."""
    if isinstance(document, str):
        yield at
    elif isinstance(document, dict):
        for name, value in document.items():
            if (
                name.isupper() or name == "text" or "." in name or at[-1:] == ("given",)
            ):  # an entry's name, not a field's
                yield (*at, name, KEY)
            yield from texts(value, (*at, name))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from texts(value, (*at, index))


def changed(document: dict[str, Any], place: Place, to: Any) -> dict[str, Any]:
    """A copy with another value at ``place``."""
    made = copy.deepcopy(document)
    inner: Any = made
    *way, last = place
    if last == KEY:
        *way, last = way
        for key in way:
            inner = inner[key]
        inner[to] = inner.pop(last)
        return made
    for key in way:
        inner = inner[key]
    inner[last] = to
    return made


def spelled(place: Place) -> str:
    """A place as a test's name bears it."""
    return ".".join("<name>" if part == KEY else str(part) for part in place)
