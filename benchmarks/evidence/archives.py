"""Programs that are data, not source code: each list lies in one archive, and is unpacked where it is run.

Beside ``NAME.tar.xz`` stands ``NAME.csv``, its manifest: each entry (a file or a folder), the day on which it was made,
whether it was made before the product was mended by it, what it labels, and the SHA-256 of its files. What was unpacked
is held against it, so that a label cannot change unseen. A new entry gets its row by hand; ``pack`` fills in the sum.

    python -m benchmarks.evidence.archives unpack NAME FOLDER   # to read or change the entries
    python -m benchmarks.evidence.archives pack NAME FOLDER     # to write the archive and the sums anew
"""

from __future__ import annotations

import argparse
import atexit
import csv
import hashlib
import io
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
_COLUMNS = ("name", "made", "before_mending", "labels", "sha256")


@contextmanager
def unpacked(name: str) -> Iterator[Path]:
    """A temporary folder with the entries of archive ``name``; raises ``ValueError`` where the manifest disagrees."""
    with tempfile.TemporaryDirectory() as scratch:
        unpack(name, Path(scratch))
        yield Path(scratch)


def add_modules(name: str, package: ModuleType) -> None:
    """Make the modules in archive ``name`` importable as those of ``package``, until this process ends."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    unpack(name, folder / name)
    package.__path__.append(str(folder / name))


def unpack(name: str, folder: Path) -> None:
    """Put the entries of archive ``name`` into ``folder``, held against its manifest."""
    with tarfile.open(HERE / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    expected = {row["name"]: row["sha256"] for row in _manifest(name)}
    found = {entry.name: _sha256(entry) for entry in _entries(folder)}
    for entry in sorted(expected.keys() | found.keys()):
        if expected.get(entry) != found.get(entry):
            raise ValueError(f"{name}.tar.xz: entry {entry!r} is not the one of {name}.csv; pack the folder again")


def pack(name: str, folder: Path) -> int:
    """Write the archive of the entries in ``folder``, the same bytes for the same files; return how many there are."""
    entries = _entries(folder)
    rows = {row["name"]: row for row in _manifest(name)}
    if lacking := [entry.name for entry in entries if entry.name not in rows]:
        raise ValueError(f"{name}.csv has no row for {', '.join(lacking)}: say when it was made and what it labels")
    with tarfile.open(HERE / f"{name}.tar.xz", "w:xz", preset=9) as archive:
        for entry in entries:
            for path in _files(entry):
                about = tarfile.TarInfo(path.relative_to(folder).as_posix())
                about.size, about.mode = path.stat().st_size, 0o644
                archive.addfile(about, io.BytesIO(path.read_bytes()))
    with (HERE / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        manifest = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        manifest.writeheader()
        manifest.writerows({**rows[entry.name], "sha256": _sha256(entry)} for entry in entries)
    return len(entries)


def _manifest(name: str) -> list[dict[str, str]]:
    with (HERE / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != "__pycache__")


def _files(entry: Path) -> list[Path]:
    if entry.is_file():
        return [entry]
    return sorted(path for path in entry.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _sha256(entry: Path) -> str:
    digest = hashlib.sha256()
    for path in _files(entry):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(entry.parent).as_posix()}\0{len(content)}\0".encode())
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
