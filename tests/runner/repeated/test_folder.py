"""One walk of a folder, for what runs leave and for copies of what the first run found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracer.runner.repeated.folder import Walk, entries_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path in ("a/b/deep.txt", "a/one.txt", "own/trace.json", ".git/config", "environment/pyvenv.cfg", "last.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "left-out").mkdir()
    return tmp_path


def test_folders_come_before_what_is_in_them_and_what_is_left_out_is_not_there(folder: Path) -> None:
    walk = Walk(str(folder / "own"), frozenset({"left-out"}))
    entries = {entry.path: entry for entry in entries_of(folder, walk)}
    assert list(entries) == [".git", "a", "environment", "last.txt", "link", "a/b", "a/one.txt", "a/b/deep.txt"]
    assert [path for path, entry in entries.items() if entry.is_closed] == [".git", "environment"]
    assert [path for path, entry in entries.items() if entry.is_file] == ["last.txt", "a/one.txt", "a/b/deep.txt"]
    assert not entries["link"].is_folder
    assert entries["last.txt"].stamp[0] == len("last.txt")


def test_a_walk_ends_one_entry_past_its_most(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracer.runner.repeated.folder.MOST_ENTRIES", 3)
    assert len(list(entries_of(folder, Walk(str(folder / "own"))))) == 4


def test_a_folder_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    assert list(entries_of(tmp_path / "absent", Walk(""))) == []
