"""Which of the kernels that were launched hold atomic instructions: read in the machine code that the wheel ships.

A kernel's name does not tell (``_scatter_gather_elementwise_kernel`` both adds and assigns), its instructions do. The
code for the device that the build was made to believe in is taken out of the wheel's libraries, and each kernel's
instructions are told by their opcodes, as ``nvdisasm`` names them. Needs the packages of the extra
``bench`` (``pip install -e '.[bench]'``).

    python -m benchmarks.evidence.nullgpu.atomics --torch 2.13.0     # of a release whose suites are kept, a few minutes
"""

from __future__ import annotations

import argparse
import lzma
import mmap
import re
import struct
import subprocess
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path

import msgspec

from benchmarks.evidence.nullgpu import recording
from benchmarks.evidence.nullgpu.builds import cache_folder, prepare
from benchmarks.evidence.nullgpu.recording import FOLDER

SCHEMA = 1
ARCHITECTURE = 90
_CONTAINER = 0xBA55ED50
_ELF, _LZ4, _ZSTD = 2, 0x2000, 0x8000
#: Opcodes of sm_90: the lowest twelve bits of an instruction.
_FLOAT = (0x3A2, 0x3A3, 0x3A6, 0x3BB, 0x9A2, 0x9A3, 0x9A6)  # ATOM, ATOMG, REDG .ADD of floats; UBLKRED
_SWAP = (0x38B, 0x38D, 0x3A9, 0x98B, 0x98D, 0x9A9)  # ATOM, ATOMS, ATOMG .CAS
_INTEGER = (0x38A, 0x38C, 0x38E, 0x3A8, 0x98A, 0x98C, 0x98E, 0x9A8, 0xF8C)  # ATOM, ATOMS, ATOMG, REDG of integers


class Atomics(str, Enum):
    """What a kernel's atomic instructions can do to a result."""

    NONE = "none"
    INTEGER = "integer"
    """Whole numbers alone: their sum has one value, but who comes first may decide something else."""
    SWAP = "swap"
    """Compare and swap, with which floats are added too, or a lock is taken."""
    FLOAT = "float"
    """Floats are added in the order of arrival."""


class Kernels(msgspec.Struct, frozen=True, kw_only=True):
    """One release: each kernel that some suite launched, by what it holds."""

    schema: int
    torch: str
    architecture: int
    scanned: int
    """Kernels in the wheel's code for that architecture."""
    by_kind: dict[str, tuple[str, ...]]
    """Mangled names, by ``Atomics``."""
    missing: tuple[str, ...]
    """Launched, and not among what was scanned."""

    def kind_of(self) -> dict[str, Atomics]:
        """Mangled name -> what it holds."""
        return {name: Atomics(kind) for kind, names in self.by_kind.items() for name in names}


def scan(package: Path, launched: Iterable[str], torch: str) -> Kernels:
    """Read the code of every library of the ``torch`` package that holds some; keep what is said of ``launched``."""
    kinds: dict[str, Atomics] = {}
    for library in sorted((package / "lib").glob("*.so*")):
        for code in cubins(library):
            kinds.update(kernels_of(code))
    wanted = sorted({name for name in launched if name.startswith("_Z") or name in kinds})
    return Kernels(
        schema=SCHEMA,
        torch=torch,
        architecture=ARCHITECTURE,
        scanned=len(kinds),
        by_kind={kind.value: tuple(name for name in wanted if kinds.get(name) is kind) for kind in Atomics},
        missing=tuple(name for name in wanted if name not in kinds),
    )


def cubins(library: Path) -> Iterator[bytes]:
    """The code objects for the architecture in a library's ``.nv_fatbin``."""
    headers = subprocess.run(["readelf", "-S", "-W", str(library)], capture_output=True, text=True, check=True).stdout
    section = re.search(r"\.nv_fatbin\s+\w+\s+\w+\s+(\w+)\s+(\w+)", headers)
    if section is None:
        return
    with library.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as data:
        place = int(section[1], 16)
        end = place + int(section[2], 16)
        while place < end:
            magic, _, head, size = struct.unpack_from("<IHHQ", data, place)
            if magic != _CONTAINER:  # padding between containers
                place += 8
                continue
            yield from _entries(data, place + head, place + head + size)
            place += head + size


def _entries(data: mmap.mmap, place: int, end: int) -> Iterator[bytes]:
    while place < end:
        kind, _, head, size, packed = struct.unpack_from("<HHIQI", data, place)
        (architecture,) = struct.unpack_from("<I", data, place + 28)
        flags, _, plain = struct.unpack_from("<QQQ", data, place + 40)
        begin = place + head
        if kind == _ELF and architecture == ARCHITECTURE:
            yield _unpacked(data[begin : begin + (packed or size)], flags, plain)
        place = begin + size


def _unpacked(data: bytes, flags: int, size: int) -> bytes:
    if flags & _ZSTD:
        import zstandard

        return bytes(zstandard.ZstdDecompressor().decompress(data, max_output_size=size))
    if flags & _LZ4:
        import lz4.block

        return bytes(lz4.block.decompress(data, uncompressed_size=size))
    return data


def kernels_of(code: bytes) -> Iterator[tuple[str, Atomics]]:
    """Each kernel or function of a code object, with what its instructions hold."""
    table, count, names = struct.unpack_from("<Q", code, 0x28)[0], *struct.unpack_from("<HH", code, 0x3C)
    sections = [struct.unpack_from("<IIQQQQ", code, table + 64 * number) for number in range(count)]
    strings = sections[names][4]
    for name_at, kind, _, _, begin, size in sections:
        name = code[strings + name_at : code.index(b"\0", strings + name_at)].decode()
        if kind == 1 and name.startswith(".text."):
            yield name.removeprefix(".text."), _kind(code, begin, size)


def _kind(code: bytes, begin: int, size: int) -> Atomics:
    import numpy

    words = numpy.frombuffer(code, dtype="<u8", count=size // 16 * 2, offset=begin)
    opcodes = set(numpy.unique(words[0::2] & 0xFFF).tolist())
    for kind, known in ((Atomics.FLOAT, _FLOAT), (Atomics.SWAP, _SWAP), (Atomics.INTEGER, _INTEGER)):
        if opcodes.intersection(known):
            return kind
    return Atomics.NONE


def file_of(torch: str, folder: Path = FOLDER) -> Path:
    """Where a release's kernels are kept."""
    return folder / f"kernels-{torch}.json.xz"


def keep(kernels: Kernels, path: Path) -> Path:
    """Write one release's kernels."""
    path.write_bytes(lzma.compress(msgspec.json.encode(kernels), preset=9 | lzma.PRESET_EXTREME))
    return path


def load(path: Path) -> Kernels:
    """Read one release's kernels; ``ValueError`` for another schema."""
    found = msgspec.json.decode(lzma.decompress(path.read_bytes()), type=Kernels)
    if found.schema != SCHEMA:
        raise ValueError(f"{path.name}: schema {found.schema} is not {SCHEMA}; scan it again")
    return found


def main() -> None:
    """Read the kernels that the kept suites of each release launched, and keep what they hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--torch", nargs="+", required=True, metavar="RELEASE", help="whole releases: 2.13.0")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help=f"default: {cache_folder()}")
    parser.add_argument("--to", type=Path, default=FOLDER, help="where recordings are kept (default: tests/data)")
    options = parser.parse_args()
    for torch in options.torch:
        kept = options.to.glob(f"torch-{torch}-*.json.xz")
        launched = {kernel for path in kept for kernel in recording.load(path).kernels}
        found = scan(prepare(torch, options.cache).package, launched, torch)
        keep(found, file_of(torch, options.to))
        told = ", ".join(f"{len(names):,} {kind}" for kind, names in found.by_kind.items())
        missing = len(found.missing)
        print(f"torch {torch}: {found.scanned:,} kernels read; of those launched {told}, {missing:,} missing")


if __name__ == "__main__":
    main()
