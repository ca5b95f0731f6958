"""A program of ``tracer repro`` runs nothing that the trace says."""

from __future__ import annotations

import ast
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile.documents import KEY, Place, changed, full_document, spelled, texts
from tests.hostile.payloads import PAYLOADS
from tests.one_call.running import run_program
from tests.support.slow import slow_unless
from tracer.errors import TracerError, UsageError
from tracer.names import About
from tracer.one_call import program_of
from tracer.one_call.data import DEVICES, DTYPES, LAYOUTS, MEMORY_FORMATS
from tracer.plain import literal
from tracer.session import judge
from tracer.trace import Trace

DOCUMENT = full_document()
TEXTS = [place for place in texts(DOCUMENT) if place[:2] != ("calls", 1)]
ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
#: No text of this kind is an op: what is well formed makes another program, rightly.
MALFORMED = ANY_TEXT.map(lambda text: f'"{text}') | st.sampled_from(
    [text for name, text in PAYLOADS.items() if name not in ("dunder", "loads", "empty", "spaces")]
)


def programs(document: dict[str, Any], backend: str) -> list[str]:
    """The programs of its first call's findings; none where the trace, the target or the call is refused."""
    found = []
    try:
        report = judge(msgspec.convert(document, Trace), backend=backend)
    except (TracerError, msgspec.ValidationError):
        return []
    for finding in report.findings:
        if finding.about is About.CALL and not finding.op.startswith("mine."):
            with suppress(UsageError):
                found.append(program_of(report, finding).text)
    return found


def shape(text: str) -> str:
    """A program but for its constants: two that differ in these alone do the same things to other values."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value, node.kind = type(node.value).__name__, None
    return ast.dump(tree)


@cache
def clean(backend: str, place: Place = ()) -> frozenset[str]:
    """The shapes of the programs of a trace that means no harm; at ``place`` the name of an entry is another one."""
    document = changed(DOCUMENT, place, "other") if place else DOCUMENT
    elsewhere = changed(document, ("calls", 0, "facts", "device"), "cuda")  # where threads are not the CPU's
    return frozenset(map(shape, programs(document, backend) + programs(elsewhere, backend)))


def is_harmless(program: str, backend: str, place: Place) -> bool:
    return shape(program) in clean(backend, place if place[-1] == KEY else ())


def test_the_trace_with_every_field_has_a_program() -> None:
    assert all(clean(backend) for backend in ("recorded", "cuda", "cpu"))


@pytest.mark.parametrize("backend", ["recorded", "cuda"])
@given(place=st.sampled_from(TEXTS), text=MALFORMED)
def test_any_text_of_a_trace_changes_constants_alone(backend: str, place: Place, text: str) -> None:
    for program in programs(changed(DOCUMENT, place, text), backend):
        assert is_harmless(program, backend, place), spelled(place)


#: Where a text of these is no harm but another call: an op's name, no region.
OTHERS = {("op", "dunder"), ("op", "loads"), ("region", "empty")}


@pytest.mark.parametrize("name", slow_unless(["docstring"], PAYLOADS))
def test_each_known_payload_changes_constants_alone(name: str) -> None:
    wrong = [
        f"{spelled(place)} for {backend}"
        for place in TEXTS
        if place[0] in ("calls", "environment", "tracer_version", "events") and (place[-1], name) not in OTHERS
        for backend in ("recorded", "cuda")
        for program in programs(changed(DOCUMENT, place, PAYLOADS[name]), backend)
        if not is_harmless(program, backend, place)
    ]
    assert not wrong, wrong


WORDS = (
    st.sampled_from(["float32", "uint8", "sparse_coo", "cpu", "os", "torch", "load", "Generator", "inf", "1e999"])
    | ANY_TEXT
)
SIZES = st.lists(st.none() | st.integers(-3, 2**70), max_size=3)
ITEMS = (
    (
        st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats(allow_nan=False, allow_infinity=False)
        | WORDS
    )
    | st.fixed_dictionaries(
        {"is": st.just("tensor"), "dtype": WORDS, "shape": SIZES},
        optional={"stride": SIZES, "layout": WORDS, "device": WORDS},
    )
    | st.builds(lambda name: {"is": "torch", "name": name}, WORDS)
    | st.builds(lambda name: {"is": "device", "type": name}, WORDS)
    | st.builds(lambda text: {"is": "number", "text": text}, WORDS)
    | st.just({"is": "not-kept"})
)
NAMES = (
    st.sampled_from(["self", "dim", "index", "source", "alpha", "class", "__import__", "x=1", "**self", ""]) | ANY_TEXT
)


@given(st.dictionaries(NAMES, ITEMS | st.lists(ITEMS, max_size=3), max_size=3))
def test_whatever_arguments_say_a_program_names_what_programs_name(arguments: dict[str, Any]) -> None:
    named = names("\n".join(programs(DOCUMENT, "recorded")))
    for every in (arguments, DOCUMENT["calls"][0]["given"] | arguments):
        for program in programs(changed(DOCUMENT, ("calls", 0, "given"), every), "recorded"):
            assert names(program) - named <= OURS


#: What data are made by, and what a word of torch's is spelt with.
OURS = (
    {"floats", "uniform", "tied", "booleans", "chosen", "integers", "once_each", "offsets", "lengths", "spread"}
    | {"sparse", "definite", "boxes", "to_sparse", "to_sparse_csr", "to_sparse_csc", "complex", "float", "cpu", "min"}
    | DTYPES
    | LAYOUTS
    | MEMORY_FORMATS
    | {"drawn", "ends", "found", "pieces", "count", "whole", "place", "corner", "images", "bags", "range", "eye", "mT"}
    | {"narrow", "argsort", "flatten", "tensor", "rand", "cat", "arange", "Generator", "randint", "dim", "clamp"}
)


def names(program: str) -> set[str]:
    """Every name and attribute in a program but its parameters' and the keys of its calls."""
    tree = ast.walk(ast.parse(program))
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in tree
        if isinstance(node, ast.Name | ast.Attribute) and not (isinstance(node, ast.Name) and len(node.id) == 1)
    }


def form(**fields: Any) -> dict[str, Any]:
    return {"is": "tensor", "dtype": "float32", "shape": [3]} | fields


ODD_VALUES = (
    *(form(dtype="os"), form(dtype=""), form(layout="os"), form(device="cuda:0")),
    *(form(shape=[-1]), form(shape=[2**63]), form(stride=[1, 1]), [form(dtype="os")]),
    *({"is": "torch", "name": name} for name in ("load('evil')", "hub")),
    {"is": "device", "type": "x'); import os; ('"},
    *({"is": "number", "text": text} for text in ("__import__('os')", "9" * 4000, "0x" + "f" * 9000)),
    2**70,
)
ODD_NAMES = ("*self", "", "1", "self=1)(x", "a.b")


@pytest.mark.parametrize(
    ("name", "value"),
    [*(("self", value) for value in ODD_VALUES), *((name, value) for name in ODD_NAMES for value in ODD_VALUES[:1])],
    ids=str,
)
def test_odd_arguments_get_one_line(name: str, value: Any) -> None:
    document = changed(DOCUMENT, ("calls", 0, "given"), {name: value})
    report = judge(msgspec.convert(document, Trace), backend="recorded")
    for finding in report.findings:
        if finding.about is About.CALL and not finding.op.startswith("mine."):
            with pytest.raises(UsageError) as refused:
                program_of(report, finding)
            assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    "value", [{"is": "code"}, {}, form(shape="a"), form(shape=[3.5]), {"is": "torch", "name": 1}, [[[1]]], {1: 2}]
)
def test_arguments_of_another_kind_are_no_traces(value: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(changed(DOCUMENT, ("calls", 0, "given"), {"self": value}), Trace)


@pytest.mark.parametrize(
    "op", ["load_library.__call__.__call__", "aten.__class__.__init__", "antigravity.race.default", "aten._dir.default"]
)
def test_an_op_that_torch_has_not_is_neither_called_nor_imported(op: str, tmp_path: Any, monkeypatch: Any) -> None:
    (tmp_path / "antigravity.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # the program sets what the recorded run had
    document = changed(DOCUMENT, ("calls", 0, "op"), op)
    for program in programs(document, "cpu"):
        done = run_program(program)
        assert (done.code, done.err.count("\n")) == (2, 1), done


@pytest.mark.parametrize("device", ["other", "cuda:0", 'cpu"; import os; os.abort() #', "", "CPU", "load"])
def test_a_device_that_torch_does_not_name_gets_one_line(device: str) -> None:
    assert programs(changed(DOCUMENT, ("calls", 0, "facts", "device"), device), "recorded") == []


def test_an_op_that_opens_a_file_is_not_made_again() -> None:
    document = changed(DOCUMENT, ("calls", 0, "op"), "aten.from_file.default")
    document["calls"][0]["given"] = {"filename": "x", "shared": True, "size": 10}
    assert programs(document, "recorded") == programs(document, "npu") == []


def test_the_closed_lists_hold_what_this_torch_has() -> None:
    def spelt(kind: type) -> set[str]:
        return {str(one).removeprefix("torch.") for one in vars(torch).values() if isinstance(one, kind)}

    assert spelt(torch.dtype) <= DTYPES
    assert spelt(torch.layout) <= LAYOUTS
    assert spelt(torch.memory_format) <= MEMORY_FORMATS
    with pytest.raises(RuntimeError) as refused:
        torch.device("nosuch")
    known = str(refused.value).partition("one of ")[2].partition(" device type")[0]
    assert set(known.split(", ")) - {"mkldnn"} <= DEVICES  # a layout's name, and no device has it


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.complex_numbers(),
        st.lists,
        max_leaves=5,
    )
)
def test_a_literal_is_the_value_again(value: Any) -> None:
    written = literal(value)
    assert written.isprintable()
    found = eval(written, {"__builtins__": {}, "float": float, "complex": complex})
    assert repr(found) == repr(value) or found == value


@pytest.mark.parametrize("value", [2**64, {"a": 1}, (1,), b"x", object(), str, ..., {1}])
def test_what_is_no_plain_value_has_no_literal(value: object) -> None:
    with pytest.raises(ValueError, match="no"):
        literal(value)
