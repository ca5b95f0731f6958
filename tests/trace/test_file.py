"""The trace's file: every field round-trips, older ones read, what is broken is one line; draws as they are kept."""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.build import call, trace
from tests.trace.strategies import traces
from tracer.errors import TraceError
from tracer.names import GeneratorKind, Phase, SeedOrigin
from tracer.trace import Trace
from tracer.trace import file as trace_file
from tracer.trace.differences import compare_draws
from tracer.trace.records import SCHEMA, CallGroup, Generator, kind_drawn_from

PROPERTY = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@PROPERTY
@given(one=traces, name=st.sampled_from(["t.json", "t.json.gz"]))
def test_a_trace_round_trips_through_its_file(tmp_path: Path, one: Trace, name: str) -> None:
    one.save(tmp_path / name)
    assert Trace.load(tmp_path / name) == one


@PROPERTY
@given(one=traces)
def test_the_same_trace_is_written_as_the_same_bytes(tmp_path: Path, one: Trace) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        one.save(tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


@PROPERTY
@given(one=traces, data=st.data())
def test_a_file_that_was_cut_anywhere_is_refused_in_one_line(tmp_path: Path, one: Trace, data: st.DataObject) -> None:
    path = tmp_path / "t.json"
    one.save(path)
    whole = path.read_bytes().rstrip()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(TraceError) as refusal:
        Trace.load(path)
    assert len(str(refusal.value).splitlines()) == 1


@PROPERTY
@given(garbage=st.binary(max_size=200), name=st.sampled_from(["t.json", "t.json.gz"]))
def test_bytes_that_are_no_trace_are_refused_in_one_line(tmp_path: Path, garbage: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(garbage)
    with pytest.raises(TraceError) as refusal:
        Trace.load(tmp_path / name)
    assert len(str(refusal.value).splitlines()) == 1


def changed(path: Path, *keys: str | int, to: Any) -> Path:
    """A good trace's file with the value at ``keys`` replaced."""
    trace(call(count=2)).save(path)
    document = json.loads(path.read_bytes())
    place = document
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = to
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("keys", "to", "says"),
    [
        (("schema",), SCHEMA + 1, f"reads schema {SCHEMA}; update determinism-tracer"),
        (("schema",), 0, f"of schema 0; this release reads schema {SCHEMA}; record it again"),
        (("schema",), "1", "$.schema"),
        (("calls",), {}, "$.calls"),
        (("calls", 0, "count"), "three", "$.calls[0].count"),
        (("calls", 0, "count"), -1, "$.calls[0].count"),
        (("calls", 0, "count"), 1.5, "$.calls[0].count"),
        (("calls", 0, "phase"), "sideways", "$.calls[0].phase"),
        (("calls", 0, "op"), None, "$.calls[0].op"),
        (("calls", 0, "facts"), {"device": [1]}, "$.calls[0].facts"),
        (("environment",), None, "$.environment"),
        (("environment", "deterministic_mode"), "perhaps", "$.environment.deterministic_mode"),
        (("sources",), [1], "$.sources[0]"),
    ],
)
def test_a_wrong_field_is_named_by_its_path(tmp_path: Path, keys: tuple[str | int, ...], to: Any, says: str) -> None:
    path = changed(tmp_path / "t.json", *keys, to=to)
    with pytest.raises(TraceError) as refusal:
        Trace.load(path)
    assert says in str(refusal.value)
    assert str(path) in str(refusal.value)


def test_a_newer_field_of_the_same_schema_is_passed_over(tmp_path: Path) -> None:
    path = changed(tmp_path / "t.json", "colour", to="blue")
    assert Trace.load(path) == trace(call(count=2))


def test_a_file_that_unpacks_to_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "MAX_BYTES", 4 << 20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" * (16 << 20)))
    with pytest.raises(TraceError, match="holds more than 4 MiB"):
        Trace.load(path)


# --- a trace that cannot be written where it belongs ---
MADE = trace(call(count=3))


def folder_there(at: Path) -> Path:
    (at / "t.json").mkdir()
    return at / "t.json"


def below_a_file(at: Path) -> Path:
    (at / "plain").write_bytes(b"")
    return at / "plain" / "t.json"


PLACES: dict[str, Callable[[Path], Path]] = {
    "a folder": folder_there,
    "below a file": below_a_file,
    "a name too long": lambda at: at / f"{'x' * 300}.json.gz",
    "a path too long": lambda at: at / "/".join(["x" * 200] * 30) / "t.json",
    "a NUL in the name": lambda at: at / "t\0.json",
    "a full disk": lambda at: Path("/dev/full"),
}


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a trace goes that cannot be written beside its path, nor in the working directory."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def rescued_by(problem: pytest.ExceptionInfo[TraceError]) -> Path:
    found = re.search(r"it is in (\S+) instead", str(problem.value))
    assert found
    return Path(found[1])


@pytest.mark.parametrize("place", PLACES)
def test_a_trace_that_cannot_be_written_is_written_elsewhere(place: str, tmp_path: Path, elsewhere: Path) -> None:
    path = PLACES[place](tmp_path)
    with pytest.raises(TraceError, match=r"cannot write|is a folder") as problem:
        MADE.save(path)
    rescued = rescued_by(problem)
    assert Trace.load(rescued) == MADE
    assert rescued.parent == tmp_path
    rescued.unlink()


def test_it_goes_to_the_folder_for_temporary_files_where_no_other_takes_it(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(TraceError) as problem:
        MADE.save(below_a_file(tmp_path))
    assert rescued_by(problem).parent == elsewhere


def test_nothing_is_left_elsewhere_by_one_that_is_tried_again(tmp_path: Path, elsewhere: Path) -> None:
    path = below_a_file(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(TraceError):
        MADE.save(path, rescue=False)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_name_that_is_not_utf8_is_spelt_escaped(tmp_path: Path) -> None:
    trace(call(location="tr\udce9.py:3", module="größe"), call("aten.add.Tensor")).save(tmp_path / "t.json")
    first, second = Trace.load(tmp_path / "t.json").calls
    assert (first.location, first.module, second.location) == ("tr\\udce9.py:3", "größe", "train.py:10")


def test_a_name_as_long_as_a_file_system_takes_is_written(tmp_path: Path) -> None:
    path = tmp_path / f"{'😀' * 62}.json"
    MADE.save(path)
    assert [Trace.load(one) for one in tmp_path.iterdir()] == [MADE]


def dropout(**fields: Any) -> CallGroup:
    drawn = {"rng.generator": "cpu", "rng.origin": "program", "rng.seeded_at": "train.py:3"}
    return call("aten.native_dropout.default", **{"facts": {"device": "cpu", **drawn}, **fields})


def test_a_call_that_drew_is_in_the_ledger_with_its_place_and_one_that_did_not_is_not() -> None:
    (draw,) = trace(dropout(count=3), call()).draws
    assert (draw.generator, draw.op, draw.count) == ("cpu", "aten.native_dropout.default", 3)
    assert (draw.phase, draw.module, draw.location) == (Phase.FORWARD, "net.fc", "train.py:10")
    assert (draw.origin, draw.seeded_at) == (SeedOrigin.PROGRAM, "train.py:3")


@pytest.mark.parametrize(
    ("spelt", "kind"),
    [
        ("cpu", GeneratorKind.TORCH),
        ("cuda:0", GeneratorKind.TORCH),
        ("passed (cpu)", GeneratorKind.PASSED),
        ("passed", GeneratorKind.PASSED),
        ("python", GeneratorKind.PYTHON),
        ("numpy", GeneratorKind.NUMPY),
        ("numpy-objects", GeneratorKind.NUMPY_OBJECTS),
    ],
)
def test_the_kind_of_a_generator_is_read_from_the_words_that_traces_bear(spelt: str, kind: GeneratorKind) -> None:
    assert Generator(name=spelt, origin=SeedOrigin.PROGRAM).kind is kind
    assert kind_drawn_from({"rng.generator": spelt}) is kind
    assert kind_drawn_from({"device": spelt}) is None


def test_ledgers_that_agree_do_not_differ_whatever_seeded_them() -> None:
    other = dropout(facts={"rng.generator": "cpu", "rng.origin": "machine"})
    assert compare_draws(trace(dropout()), trace(other)) == ()


def test_the_generator_that_ran_ahead_is_named_with_the_place_from_which_on() -> None:
    passed = dropout(facts={"rng.generator": "passed (cpu)"})
    later = dropout(module="net.head", location="train.py:20")
    (found,) = compare_draws(trace(dropout(count=2), later, passed), trace(dropout(count=5), later, passed))
    assert (found.generator, found.ahead, found.first) == ("cpu", 3, None)
    assert found.second is not None
    assert (found.second.module, found.second.location) == ("net.fc", "train.py:10")
    assert found.second.origin is SeedOrigin.PROGRAM
    assert trace(passed).draws[0].origin is SeedOrigin.UNUSED


def test_draws_elsewhere_differ_although_as_many() -> None:
    (found,) = compare_draws(trace(dropout()), trace(dropout(location="train.py:30")))
    assert found.ahead == 0
    assert found.first is not None
    assert found.second is not None
    assert (found.first.location, found.second.location) == ("train.py:10", "train.py:30")
