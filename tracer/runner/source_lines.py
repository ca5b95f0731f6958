"""The source text of lines that findings can name, read after the recording.

Stored only on request: traces are attached to public tickets, and code is more than a location. Files outside the
working directory, installed packages among them, are never read.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator
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
    root = Path(folder).resolve()
    files: dict[str, str] = {}
    lines: dict[str, str] = {}
    for place in dict.fromkeys(_places(trace)):
        if len(lines) >= MOST_LINES:
            break
        path, _, number = place.rpartition(":")
        if not path or not number.isdigit():
            continue
        if path not in files:
            files[path] = _own_file(root, path)
        text = linecache.getline(files[path], int(number)).strip() if files[path] else ""
        if text:
            lines[place] = text[:LONGEST]
    return lines


def with_neighbours(places: Iterable[str], folder: str) -> dict[str, str]:
    """By location: its line, marked, with the lines before and after it; files outside ``folder`` are not read."""
    root = Path(folder).resolve()
    shown: dict[str, str] = {}
    for place in dict.fromkeys(places):
        path, _, number = place.rpartition(":")
        file = _own_file(root, path) if number.isdigit() else ""
        if not file or not linecache.getline(file, int(number)).strip():
            continue
        middle = int(number)
        shown[place] = "\n".join(
            f"{'>' if line == middle else ' '} {line:>5}  {text.rstrip()[:LONGEST]}"
            for line in range(max(1, middle - AROUND), middle + AROUND + 1)
            if (text := linecache.getline(file, line))
        )
    return shown


def texts_of(places: Iterable[str], folder: str) -> dict[str, str]:
    """By location: the text of its line; files outside ``folder`` are not read."""
    shown = with_neighbours(places, folder)
    marked = {
        place: [line[9:].strip() for line in text.splitlines() if line[0] == ">"] for place, text in shown.items()
    }
    return {place: lines[0] for place, lines in marked.items()}


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


def _own_file(root: Path, path: str) -> str:
    """The file that ``path`` names below ``root``; empty if it is not the user's own or does not exist."""
    try:
        file = (root / path).resolve()
        below = file.relative_to(root)
        return "" if _INSTALLED.intersection(below.parts) or not file.is_file() else str(file)
    except (OSError, ValueError):
        return ""
