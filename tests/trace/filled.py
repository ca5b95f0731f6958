"""A trace in which nothing is empty: made from the model's types, so that a new field is in it at once."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from tracer.trace.file import Trace

Record = TypeVar("Record", bound=msgspec.Struct)


def filled(text: str, word: int = 0) -> dict[str, Any]:
    """The JSON of a trace whose every text but torch's version is ``text``; of a closed vocabulary, ``word`` picks."""
    made: dict[str, Any] = _value(inspect.type_info(Trace), text, word)
    made["environment"]["torch"] = "2.13.0"
    return made


def filled_record(kind: type[Record]) -> Record:
    """A record none of whose fields is empty, nor its default where another value is."""
    return msgspec.convert(_value(inspect.type_info(kind), "x", -1), kind)


def _value(of: inspect.Type, text: str, word: int) -> Any:
    if isinstance(of, inspect.StructType):
        return {field.encode_name: _value(field.type, text, word) for field in of.fields}
    if isinstance(of, inspect.UnionType):
        kinds = [one for one in of.types if not isinstance(one, inspect.NoneType)]
        return _value(next((one for one in kinds if isinstance(one, inspect.StrType)), kinds[0]), text, word)
    if isinstance(of, inspect.DictType):
        return {_value(of.key_type, text, word): _value(of.value_type, text, word)}
    if isinstance(of, inspect.VarTupleType):
        return [_value(of.item_type, text, word)]
    if isinstance(of, inspect.TupleType):
        return [_value(one, text, word) for one in of.item_types]
    if isinstance(of, inspect.EnumType):
        words = [one.value for one in of.cls]
        return words[word % len(words)]
    simple: dict[type[inspect.Type], Any] = {
        inspect.StrType: text,
        inspect.IntType: 1,
        inspect.FloatType: 0.5,
        inspect.BoolType: True,
    }
    return simple[type(of)]
