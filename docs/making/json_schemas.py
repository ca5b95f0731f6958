"""JSON Schemas of what the program writes: the report in JSON, and the trace; made from the models by ``make docs``.

The types come from the models as they are read and written; what a field means comes from the line under it.
"""

from __future__ import annotations

import ast
import inspect
from enum import Enum
from types import ModuleType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from tracer import findings, gate
from tracer.plain import json_lines
from tracer.report import json_format
from tracer.trace import differences, file, records

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_MODULES: tuple[ModuleType, ...] = (file, records, differences, findings, gate, json_format)


def schemas() -> dict[str, str]:
    """File name -> schema, a property a line."""
    return {
        "report.schema.json": _schema(json_format.Document, "report", json_format.REPORT_SCHEMA),
        "trace.schema.json": _schema(file.Trace, "trace", records.SCHEMA),
    }


def _schema(kind: type[msgspec.Struct], name: str, version: int) -> str:
    made = msgspec.json.schema(kind)
    parts = made.pop("$defs")
    for part in parts.values():
        _explain(part)
    head = {
        "$schema": DRAFT,
        "$id": f"urn:determinism-tracer:{name}:{version}",
        "title": f"A {name} of determinism-tracer, schema {version}",
    }
    return json_lines({**head, **made, "$defs": dict(sorted(parts.items()))}, depth=4) + "\n"


def _explain(part: dict[str, Any]) -> None:
    """Give each field of a struct's schema what stands under it in the source; one line of plain text each."""
    if "description" in part:
        part["description"] = _plain(part["description"])
    said = _FIELDS.get(part.get("title", ""), {})
    for name, field in part.get("properties", {}).items():
        if name in said:
            field["description"] = _plain(said[name])
        _close_keys(field, _KINDS[part["title"]].get(name))


def _close_keys(field: dict[str, Any], kind: Any) -> None:
    """Name the words that a mapping takes as keys, at every depth: msgspec's schema lets any text be one."""
    keys = get_args(kind)
    if get_origin(kind) is not dict or not keys:
        return
    if isinstance(keys[0], type) and issubclass(keys[0], Enum):
        field["propertyNames"] = {"enum": sorted(word.value for word in keys[0])}
    _close_keys(field["additionalProperties"], keys[1])


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _fields(module: ModuleType) -> dict[str, dict[str, str]]:
    """Class -> field -> the string that stands under it, for the classes of ``module``."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        fields = found.setdefault(node.name, {})
        for field, below in zip(node.body, node.body[1:], strict=False):
            if not isinstance(below, ast.Expr) or not isinstance(below.value, ast.Constant):
                continue
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                fields[field.target.id] = str(below.value.value)
    return found


_FIELDS: dict[str, dict[str, str]] = {name: said for module in _MODULES for name, said in _fields(module).items()}
_FIELDS["JudgementForm"] = _FIELDS["Trace"] | _FIELDS["Judgement"]
for _placed in records.Placed.__subclasses__():
    if _placed.__name__ in _FIELDS:  # the file of values has another, which no schema speaks of
        _FIELDS[_placed.__name__] = {**_FIELDS["Place"], **_FIELDS[_placed.__name__]}
_KINDS: dict[str, dict[str, Any]] = {
    name: get_type_hints(getattr(module, name))
    for module in _MODULES
    for name in _fields(module)
    if issubclass(getattr(module, name), msgspec.Struct)
}
