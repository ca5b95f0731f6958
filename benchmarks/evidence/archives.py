"""Programs that are data, not source code: each list lies in one archive, and is unpacked where it is run.

Beside ``NAME.tar.xz`` stands ``NAME.csv``, its manifest: each entry's name, the day on which it was made, whether it
was made before the product was mended by it, what it labels, and the SHA-256 of its files. What was unpacked is held
against it, so that a label cannot change unseen.

    python -m benchmarks.evidence.archives unpack NAME FOLDER   # to read or change the entries
    python -m benchmarks.evidence.archives pack NAME FOLDER     # to write archive and manifest anew
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
#: What describes an entry, in its folder. It belongs to the entry, and is packed with it.
TRUTH = "truth.json"
_COLUMNS = ("name", "made", "before_mending", "labels", "sha256")


@contextmanager
def unpacked(name: str) -> Iterator[Path]:
    """A temporary folder with the entries of archive ``name``; raises ``ValueError`` where the manifest disagrees."""
    with tempfile.TemporaryDirectory() as scratch:
        unpack(name, Path(scratch))
        yield Path(scratch)


def unpack(name: str, folder: Path) -> None:
    """Put the entries of archive ``name`` into ``folder``, held against its manifest."""
    with tarfile.open(HERE / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    with (HERE / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        expected = {row["name"]: row["sha256"] for row in csv.DictReader(file)}
    found = {entry.name: _sha256(entry) for entry in _entries(folder)}
    for entry in sorted(expected.keys() | found.keys()):
        if expected.get(entry) != found.get(entry):
            raise ValueError(f"{name}.tar.xz: entry {entry!r} is not the one of {name}.csv; pack the folder again")


def pack(name: str, folder: Path) -> int:
    """Write archive and manifest of the entries in ``folder``; return their number. The same files give the same bytes."""
    entries = _entries(folder)
    with tarfile.open(HERE / f"{name}.tar.xz", "w:xz", preset=9) as archive:
        for entry in entries:
            for path in _files(entry):
                about = tarfile.TarInfo(path.relative_to(folder).as_posix())
                about.size, about.mode = path.stat().st_size, 0o644
                archive.addfile(about, io.BytesIO(path.read_bytes()))
    with (HERE / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        manifest = csv.writer(file, lineterminator="\n")
        manifest.writerow(_COLUMNS)
        for entry in entries:
            truth = json.loads((entry / TRUTH).read_text(encoding="utf-8"))
            label = f"{truth['kind']} at {' or '.join(_lines(truth['line']))}"
            manifest.writerow([entry.name, truth["made"], truth["unseen"], label, _sha256(entry)])
    return len(entries)


def _entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


def _files(entry: Path) -> list[Path]:
    return sorted(path for path in entry.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _lines(line: object) -> list[str]:
    return [str(place) for place in line] if isinstance(line, list) else [str(line)]


def _sha256(entry: Path) -> str:
    digest = hashlib.sha256()
    for path in _files(entry):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(entry).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def main() -> None:
    """Pack or unpack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("pack", "unpack"))
    parser.add_argument("name")
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    if asked.action == "pack":
        print(f"{pack(asked.name, asked.folder)} entries in {asked.name}.tar.xz")
    else:
        asked.folder.mkdir(parents=True, exist_ok=True)
        unpack(asked.name, asked.folder)


if __name__ == "__main__":
    main()
