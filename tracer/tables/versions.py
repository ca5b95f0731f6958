"""torch versions: which exist, how to parse them, and whether a table covers one.

Rules hold for minor releases: local parts (``+cpu``), pre-releases and development suffixes are ignored.
"""

from __future__ import annotations

from functools import cache
from itertools import groupby

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from tracer.errors import TargetError

#: Every minor release that a table may have been reviewed for, oldest first.
RELEASES: tuple[str, ...] = (*(f"1.{minor}" for minor in range(11, 14)), *(f"2.{minor}" for minor in range(16)))


def release(text: str) -> str:
    """``2.13.0`` for ``2.13.0+cpu``, ``2.13.0a0+git1``, ``2.13``. Raises ``ValueError`` for other text."""
    try:
        version = Version(text)
    except InvalidVersion as problem:
        raise ValueError(f"{text!r} is not a version") from problem
    if len(version.release) < 2:
        raise ValueError(f"{text!r} lacks a minor version")
    return f"{version.major}.{version.minor}.{version.micro}"


def named_release(text: str) -> str:
    """As ``release``, for what a user names. Raises ``TargetError`` in one line."""
    try:
        return release(text)
    except ValueError as problem:
        raise TargetError(f"torch version {problem}", hint="write a release such as 2.13") from problem


def release_or_text(text: str) -> str:
    """The release that ``text`` names; ``text`` itself if it names none, which then equals no target's."""
    try:
        return release(text)
    except ValueError:
        return text


@cache
def specifiers(text: str) -> SpecifierSet:
    """A version range, parsed once. Raises ``ValueError`` for other text."""
    try:
        return SpecifierSet(text)
    except InvalidSpecifier as problem:
        raise ValueError(f"{text!r} is not a version range") from problem


@cache
def speaks_of(text: str, version: str) -> bool:
    """Return whether the range ``text`` contains ``version``. An empty range contains every version."""
    return not text or specifiers(text).contains(Version(version), prereleases=True)


@cache
def reviewed_releases(reviewed: str) -> tuple[str, ...]:
    """The minor releases that a table was reviewed for, oldest first."""
    return tuple(minor for minor in RELEASES if speaks_of(reviewed, minor))


def judged_as(reviewed: str, version: str, *, extrapolated: bool) -> str:
    """The release whose verdicts are used for ``version``: the newest reviewed one if that is older."""
    return release(reviewed_releases(reviewed)[-1]) if extrapolated else version


def reviewed_in_words(reviewed: str) -> str:
    """A range in words: ``1.11 to 2.15``; with releases missing in between, ``2.4, 2.9 to 2.13``."""
    spans = [list(minors) for covered, minors in groupby(RELEASES, lambda minor: speaks_of(reviewed, minor)) if covered]
    return ", ".join(" to ".join(dict.fromkeys((span[0], span[-1]))) for span in spans) or reviewed


def placed(reviewed: str, version: str) -> str:
    """``reviewed``, ``older``, ``newer``, or ``between`` two ranges, by minor release: 2.15 includes 2.15.1."""
    wanted = Version(version)
    minor = f"{wanted.major}.{wanted.minor}"
    if speaks_of(reviewed, minor):
        return "reviewed"
    minors = reviewed_releases(reviewed)
    if not minors or Version(minor) < Version(minors[0]):
        return "older"
    return "newer" if Version(minor) > Version(minors[-1]) else "between"
