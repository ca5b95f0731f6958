"""Does ``tracer repeat`` notice that a script does not repeat, and does it name why?

Each pair is a training script with one planted source of difference and its twin without. Both are run by
``tracer repeat`` in a copy of their folder, and held against what was planted:

- *noticed*: the planted script's runs are not said to agree;
- *first*: the first line that is named as reaching what differs is the line that reads the source (at most two lines
  off), or leads there from a library's line;
- *named*: that line stands there or further down, at the first root or in the headline, or runs agree with the
  circumstance held that the source belongs to;
- *proven*: a further run that was given the values of lines agreed;
- *blamed wrongly*: the first root is a kernel, and none was planted;
- *accused*: the twin's runs are said to differ.

A pair says when it was made and whether it was made before the product was mended by it (``unseen``); the two are
counted apart.

The pairs lie in ``pairs.tar.xz`` (``archives.py``), listed in ``pairs.csv``.

    python -m benchmarks.evidence.causes [--jobs N] [--twins] [--sample N] [--output FILE] [PAIR ...]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.evidence.archives import unpacked

#: What describes a pair, in its folder.
TRUTH = "truth.json"
ROOT = Path(__file__).resolve().parents[2]
#: Seconds after which a script is given up.
_TIMEOUT = 600
#: The circumstances that explain a kind of source when they are held.
EXPLAINED_BY = {
    "hash-order": {"hash-seed", "addresses"},
    "address": {"addresses", "hash-seed", "memory"},
    "clock": {"clock"},
    "entropy": {"entropy"},
    "draw": {"entropy"},
    "files-left": {"folder"},
    "listing": {"folder", "environment"},
    "thread-order": {"order", "threads"},
    "loader": {"entropy", "order"},
    "process": {"entropy", "clock"},
    "host": {"environment", "clock", "entropy"},
    "socket": {"entropy", "order"},
    "environment": {"environment", "entropy"},
    "memory": {"memory"},
    "kernel": {"threads", "settings"},
    "compile": {"entropy"},
    "other": set(),
}
#: Lines by which a place may miss the line that was planted.
_NEAR = 2
#: Circumstances that are held together: more of them name no cause.
_MOST_HELD = 2


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A planted source, as its maker describes it."""

    name: str
    source: str
    kind: str
    line: int | str | tuple[str, ...]
    """Where ``planted.py`` reads it; ``file:line`` for another file, several where each of them is right."""
    causes: tuple[str, ...] = ()
    held_by: frozenset[str] = frozenset()
    """The circumstances that explain it when they are held; those of its kind if there are none."""
    run: str = ""
    """What is run in folders ``planted`` and ``clean``; without it the scripts are ``planted.py`` and ``clean.py``."""
    made: str = ""
    unseen: bool = True
    """Was it made before the product was mended by it?"""

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Each file and line."""
        places = self.line if isinstance(self.line, tuple) else (str(self.line),)
        split = [place.rpartition(":") for place in places]
        return tuple((file or "planted.py", int(line)) for file, _, line in split)

    @property
    def explained_by(self) -> frozenset[str] | set[str]:
        """The circumstances that name it when runs agree with them held."""
        return self.held_by or EXPLAINED_BY[self.kind]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What ``tracer repeat`` said of one script."""

    code: int
    agrees: bool | None = None
    """``None``: it gave no answer."""
    cause: str = ""
    location: str = ""
    named_by: tuple[str, ...] = ()
    """``place``, ``held``."""
    line: str = ""
    """The first line that reaches what differs."""
    is_first: bool = False
    """Whether that is the line that was planted."""
    is_proven: bool = False
    """Whether runs agree where lines are held."""
    held: tuple[str, ...] = ()
    """What was held where runs agreed."""
    ends: tuple[str, ...] = ()
    headline: str = ""
    error: str = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A pair and both answers."""

    pair: Pair
    planted: Answer
    clean: Answer | None = None


def pairs(folder: Path, names: list[str]) -> list[Pair]:
    """Those that are named, or all."""
    found = [msgspec.json.decode(path.read_bytes(), type=Pair) for path in sorted(folder.glob(f"*/{TRUTH}"))]
    return [pair for pair in found if not names or pair.name in names]


def answer(pairs_folder: Path, pair: Pair, half: str) -> Answer:
    """Run ``half`` of a pair, ``planted`` or ``clean``, twice in a copy of its folder."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, pair.name)
        source = pairs_folder / pair.name / (half if pair.run else "")
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns(TRUTH))
        if not pair.run:
            (folder / ("planted.py" if half == "clean" else "clean.py")).unlink()
        script = pair.run.split() or [f"{half}.py"]
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
        search = os.pathsep.join(filter(None, (str(ROOT), environ.get("PYTHONPATH"))))
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tracer", "repeat", "-o", "repeat", "--format", "text,json", *script],
                cwd=folder,
                env={**environ, "PYTHONPATH": search, "NO_COLOR": "1", "COLUMNS": "200"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            return Answer(code=-1, error=f"gave no answer in {_TIMEOUT} seconds")
        try:
            told = json.loads((folder / "repeat" / "repeat.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return Answer(code=done.returncode, error=(done.stderr.strip().splitlines() or [""])[-1])
    return _read(pair, done.returncode, done.stdout, told)


def _read(pair: Pair, code: int, text: str, told: dict[str, Any]) -> Answer:
    first = told["first"] or {}
    held = [
        set(one["circumstance"].split("+"))
        for one in told.get("held", ())
        if one["agrees"] and one.get("circumstance", "all") != "all"
    ]
    smallest = min(held, key=len, default=set())
    headline = text.partition("\n\n")[0]
    lines = [source for source in told.get("sources", ()) if source["reaches"]]
    places = [*_texts(first), *(text for source in lines for text in _texts(source)), headline]
    named_by = []
    if any(_is_near(pair, place) for place in places):
        named_by.append("place")
    if len(smallest) <= _MOST_HELD and smallest & pair.explained_by:
        named_by.append("held")
    return Answer(
        code=code,
        agrees=told["agrees"],
        cause=first.get("cause", ""),
        location=first.get("called_from") or first.get("location", ""),
        named_by=tuple(named_by),
        line=lines[0]["location"] if lines else "",
        is_first=bool(lines) and any(_is_near(pair, lines[0][key]) for key in ("location", "called_from")),
        is_proven=any(one["agrees"] for one in told.get("held", ()) if "line" in one),
        held=tuple(sorted(smallest)),
        ends=tuple(f"{end['kind']} {end['name']}" for end in told.get("ends", ())),
        headline=" ".join(headline.split()),
    )


def _texts(value: Any) -> Iterator[str]:
    """Every text in a document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _is_near(pair: Pair, text: str) -> bool:
    return any(
        abs(int(number) - line) <= _NEAR
        for file, line in pair.places
        for number in re.findall(rf"{re.escape(file)}:(\d+)", text)
    )


def judged(folder: Path, pair: Pair, twins: bool) -> Outcome:
    """Both answers; only the planted script's without ``twins``."""
    clean = answer(folder, pair, "clean") if twins else None
    return Outcome(pair=pair, planted=answer(folder, pair, "planted"), clean=clean)


def summary(outcomes: list[Outcome]) -> str:
    """The figures, for pairs that were made before the mending and after."""
    lines = []
    for unseen in (True, False):
        several = [one for one in outcomes if one.pair.unseen is unseen]
        if not several:
            continue
        count = len(several)
        noticed = sum(one.planted.agrees is False for one in several)
        named = sum(bool(one.planted.named_by) and one.planted.agrees is False for one in several)
        blamed = sum(one.planted.cause == "kernel" and one.pair.kind != "kernel" for one in several)
        twins = [one.clean for one in several if one.clean is not None]
        accused = sum(twin.agrees is False for twin in twins)
        lines.append(
            f"{'made before the mending' if unseen else 'made after'}: {count} pairs; noticed {noticed}, named {named},"
            f" first {sum(one.planted.is_first for one in several)},"
            f" proven {sum(one.planted.is_proven for one in several)},"
            f" kernel blamed wrongly {blamed}; {len(twins)} twins, accused {accused}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the pairs and print one line of each, then the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--twins", action="store_true", help="run the twins too")
    parser.add_argument("--sample", type=int, help="run so many, drawn with a fixed seed")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--output", type=Path)
    parser.add_argument("pair", nargs="*")
    asked = parser.parse_args()
    outcomes = []
    with unpacked("pairs") as folder, ThreadPoolExecutor(asked.jobs) as pool:
        chosen = pairs(folder, asked.pair)
        if asked.sample is not None:
            chosen = random.Random(asked.seed).sample(chosen, min(asked.sample, len(chosen)))
        for one in pool.map(lambda pair: judged(folder, pair, asked.twins), chosen):
            outcomes.append(one)
            planted = one.planted
            verdict = "MISSED" if planted.agrees else "no answer" if planted.agrees is None else "noticed"
            named = f"named by {' and '.join(planted.named_by)}" if planted.named_by else "NOT NAMED"
            named = f"{planted.line} first" if planted.is_first else named
            named += ", proven" if planted.is_proven else ""
            twin = " TWIN ACCUSED" if one.clean is not None and one.clean.agrees is False else ""
            print(f"{one.pair.name:28} {one.pair.kind:13} {verdict:9} {named:24}{twin} {planted.headline}", flush=True)
            if planted.error or (one.clean is not None and one.clean.error):
                print(f"    {planted.error} {one.clean.error if one.clean is not None else ''}")
            if twin and one.clean is not None:
                print(f"    twin: {one.clean.headline}")
            if asked.output is not None:
                asked.output.write_bytes(msgspec.json.format(msgspec.json.encode(outcomes), indent=1))
    print(summary(outcomes))


if __name__ == "__main__":
    main()
