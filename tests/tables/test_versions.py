"""Versions of torch bind by minor release."""

from __future__ import annotations

import pytest

from tracer.tables.versions import placed, release, reviewed_in_words, reviewed_releases, speaks_of


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2.13.0+cpu", "2.13.0"),
        ("2.13", "2.13.0"),
        ("2.9.0a0+git1234", "2.9.0"),
        ("2.15.0.dev20260801+cu130", "2.15.0"),
        ("1.13.1", "1.13.1"),
        ("2.6.0rc3", "2.6.0"),
    ],
)
def test_a_version_is_read_as_its_release(text: str, read: str) -> None:
    assert release(text) == read


@pytest.mark.parametrize("text", ["", "two", "2", "2.x", "latest", "2.13.0 "[:0]])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="version"):
        release(text)


@pytest.mark.parametrize(
    ("version", "place"),
    [
        ("1.10.2", "older"),
        ("1.11.0", "reviewed"),
        ("1.13.1", "reviewed"),
        ("2.15.0", "reviewed"),
        ("2.15.1", "reviewed"),
        ("2.16.0", "newer"),
        ("3.0.0", "newer"),
    ],
)
def test_a_version_lies_where_its_minor_release_lies(version: str, place: str) -> None:
    assert placed(">=1.11,<=2.15", version) == place


def test_a_version_between_two_reviewed_ranges_is_in_neither() -> None:
    assert placed(">=2.0,<=2.1", "2.1.2") == "reviewed"
    assert placed("<2.0", "2.0.0") == "newer"


def test_releases_are_listed_oldest_first() -> None:
    listed = reviewed_releases(">=1.13,<=2.2")
    assert listed == ("1.13", "2.0", "2.1", "2.2")


def test_an_empty_range_holds_everything_and_patch_releases_stay_with_their_minor() -> None:
    assert speaks_of("", "2.6.0")
    assert speaks_of("<2.6", "2.5.1")
    assert not speaks_of("<2.6", "2.6.1")
    assert speaks_of(">=2.6", "2.6.1")


@pytest.mark.parametrize(
    ("reviewed", "words"),
    [(">=1.11,<=2.15", "1.11 to 2.15"), ("==2.4", "2.4"), (">=2.4,<=2.7,!=2.6", "2.4 to 2.5, 2.7"), (">=9", ">=9")],
)
def test_a_range_is_said_in_words(reviewed: str, words: str) -> None:
    assert reviewed_in_words(reviewed) == words
