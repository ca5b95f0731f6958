"""A trace that took a training is never lost: where it cannot be written as asked, an error says where it is."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.build import call, trace
from tracer.errors import TraceError
from tracer.trace import Trace

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
    rescued.unlink()


def test_it_goes_beside_first(tmp_path: Path, elsewhere: Path) -> None:
    with pytest.raises(TraceError) as problem:
        MADE.save(folder_there(tmp_path))
    assert rescued_by(problem).parent == tmp_path


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
