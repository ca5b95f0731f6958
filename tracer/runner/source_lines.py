"""The source text of lines that findings can name, read after the recording.

Stored only on request: traces are attached to public tickets, and code is more than a location. A page shows lines
whose files are at hand. Files outside the working directory, installed packages among them, are never read.
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.trace import Trace

#: Lines kept, and characters of one.
MOST_LINES = 5_000
LONGEST = 200
#: Lines before and after one that is shown with its neighbours.
AROUND = 2
_INSTALLED = {"site-packages", "dist-packages"}


def source_lines(trace: Trace, folder: str) -> dict[str, str]:
    """The source lines of ``trace`` in files below ``folder``, by ``path:line``; at most ``MOST_LINES``."""
    texts = texts_of(_places(trace), folder)
    return dict(itertools.islice(texts.items(), MOST_LINES))


def source_at_hand(trace: Trace, folder: str, recorded: float) -> dict[str, str]:
    """``source_lines`` of Python files that did not change after the time ``recorded``; the trace's own come first."""
    lines = dict.fromkeys(filter(None, _places(trace)))
    files = {file: Path(folder, file) for file in {place.rpartition(":")[0] for place in lines} if file.endswith(".py")}
    same = {file for file, path in files.items() if path.is_file() and path.stat().st_mtime <= recorded}
    texts = texts_of((place for place in lines if place.rpartition(":")[0] in same), folder)
    return {**dict(itertools.islice(texts.items(), MOST_LINES)), **trace.source_lines}


def with_neighbours(places: Iterable[str], folder: str) -> dict[str, str]:
    """By location: its line, marked, with the lines before and after it; files outside ``folder`` are not read."""
    root = Path(folder).resolve()
    shown: dict[str, str] = {}
    for place in texts_of(places, folder):
        file, middle = _named(root, place)
        shown[place] = "\n".join(
            f"{'>' if line == middle else ' '} {line:>5}  {text.rstrip()[:LONGEST]}"
            for line in range(max(1, middle - AROUND), middle + AROUND + 1)
            if (text := linecache.getline(file, line))
        )
    return shown


def texts_of(places: Iterable[str], folder: str) -> dict[str, str]:
    """By location: the text of its line; files outside ``folder`` are not read."""
    root = Path(folder).resolve()
    texts = {place: linecache.getline(*_named(root, place)).strip()[:LONGEST] for place in dict.fromkeys(places)}
    return {place: text for place, text in texts.items() if text}


def _places(trace: Trace) -> Iterator[str]:
    """Every ``path:line`` that a finding can have, the user's own frame before a library's."""
    for groups in (
        trace.calls,
        trace.events,
        trace.unwritten_reads,
        trace.overlaps,
        trace.loaders,
        trace.blind_spots,
    ):
        for group in groups:
            yield getattr(group, "called_from", "")
            yield group.location
    yield from (generator.seeded_at for generator in trace.generators)


def _named(root: Path, place: str) -> tuple[str, int]:
    """The file below ``root`` and the line that ``place`` names; none if that is not the user's own, or not there."""
    path, _, number = place.rpartition(":")
    with suppress(OSError, ValueError):
        file = (root / path).resolve()
        below = file.relative_to(root)
        if number.isdigit() and not _INSTALLED.intersection(below.parts) and file.is_file():
            return str(file), int(number)
    return "", 0
