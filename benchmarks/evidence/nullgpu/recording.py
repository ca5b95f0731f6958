"""What a CUDA build of torch did, as data: for each sample the ops that it dispatched, the kernels that each launched,
and what deterministic mode made of it.

A launch is an op and the kernels, or calls into CUDA's libraries, that one call of it made. Names are kept once and
rows hold places in the lists, so that the operator database takes under 100 kB a release.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

SCHEMA = 1
FOLDER = Path(__file__).resolve().parents[3] / "tests" / "data" / "dispatched"
MODES = ("off", "on", "warn", "bare")
_IDENTIFIER = re.compile(r"\d+")


class Launch(msgspec.Struct, frozen=True, array_like=True):
    """One kind of call: an op and what it launched, each name once, in the order of the first launches."""

    op: int
    kernels: tuple[int, ...]


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one run of a sample did in one mode; launches by place in ``Recording.launches``."""

    forward: tuple[int, ...] = ()
    backward: tuple[int, ...] = ()
    error: str = ""
    """Led by the phase and the type: ``backward: RuntimeError: ...``."""
    warned: tuple[str, ...] = ()
    """Warnings of deterministic mode, each once."""


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One sample. ``on``: deterministic mode; ``warn``: warnings only; ``bare``: the mode, cuBLAS without a workspace.

    A mode in which all was as with the mode off is left out; a release that asks for no workspace does without one as
    with it.
    """

    entry: str
    number: int
    dtype: str
    inputs: str
    """A fingerprint of shapes, dtypes and other arguments; releases whose fingerprints agree ran one and the same."""
    off: Outcome
    on: Outcome | None = None
    warn: Outcome | None = None
    bare: Outcome | None = None
    crashed: bool = False
    """The process died: libraries that are not there were needed."""

    @property
    def key(self) -> tuple[str, int, str]:
        """What names the sample in every release."""
        return self.entry, self.number, self.dtype

    @property
    def is_usable(self) -> bool:
        """Whether it ran with the mode off, so that what the mode does can be told."""
        return not self.crashed and not self.off.error

    def under(self, mode: str) -> Outcome:
        """The outcome in one of ``MODES``."""
        found: Outcome | None = getattr(self, mode)
        return self.off if found is None else found

    def fails(self, mode: str) -> bool:
        """Whether ``mode`` made it fail: torch refused it, or it broke on the way that the mode takes."""
        return bool(self.under(mode).error)


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One release over one suite of samples."""

    schema: int
    torch: str
    """``2.13.0``."""
    cuda: str
    capability: str
    """Of the device that it was made to believe in: ``9.0``."""
    suite: str
    ops: tuple[str, ...]
    kernels: tuple[str, ...]
    """Mangled names of torch's kernels; plain names of calls into CUDA's libraries."""
    launches: tuple[Launch, ...]
    rows: tuple[Row, ...]

    def op_of(self, launch: int) -> str:
        """The overload, as torch prints it."""
        return self.ops[self.launches[launch].op]

    def kernels_of(self, launch: int) -> tuple[str, ...]:
        """What one call launched, by name."""
        return tuple(self.kernels[place] for place in self.launches[launch].kernels)


def file_of(torch: str, suite: str, folder: Path = FOLDER) -> Path:
    """Where a recording is kept."""
    return folder / f"torch-{torch}-{suite}.json.xz"


def load(path: Path) -> Recording:
    """Read one recording; ``ValueError`` for another schema."""
    found = msgspec.json.decode(lzma.decompress(path.read_bytes()), type=Recording)
    if found.schema != SCHEMA:
        raise ValueError(f"{path.name}: schema {found.schema} is not {SCHEMA}; record it again")
    return found


def keep(recording: Recording, path: Path) -> Path:
    """Write one recording, the same bytes for the same content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(msgspec.json.encode(recording), preset=9 | lzma.PRESET_EXTREME))
    return path


def releases(suite: str, folder: Path = FOLDER) -> dict[str, Path]:
    """Recordings of a suite by release, oldest first."""
    found = {path.name.split("-")[1]: path for path in folder.glob(f"torch-*-{suite}.json.xz")}
    return dict(sorted(found.items(), key=lambda item: tuple(map(int, item[0].split(".")))))


class Compiler:
    """Puts the worker's lines together: each name once."""

    def __init__(self) -> None:
        self._ops: dict[str, int] = {}
        self._kernels: dict[str, int] = {}
        self._launches: dict[tuple[int, tuple[int, ...]], int] = {}

    def compiled(self, head: Mapping[str, str], lines: Iterable[Mapping[str, Any]]) -> Recording:
        """A recording from ``head`` (release, CUDA, capability, suite) and one mapping a sample."""
        rows = tuple(self._rows(lines))
        return Recording(
            schema=SCHEMA,
            torch=head["torch"],
            cuda=head["cuda"],
            capability=head["capability"],
            suite=head["suite"],
            ops=tuple(self._ops),
            kernels=tuple(self._kernels),
            launches=tuple(Launch(op, kernels) for op, kernels in self._launches),
            rows=rows,
        )

    def _rows(self, lines: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
        for line in lines:
            crashed = "off" not in line
            told = {**line, "bare": line.get("bare", line.get("on"))}
            made = {mode: Outcome() if crashed else self._outcome(told[mode]) for mode in MODES}
            on, warn, bare = (made[mode] if made[mode] != made["off"] else None for mode in MODES[1:])
            yield Row(
                entry=line["entry"],
                number=line["number"],
                dtype=line["dtype"],
                inputs=line["inputs"],
                off=made["off"],
                on=on,
                warn=warn,
                bare=bare,
                crashed=crashed,
            )

    def _outcome(self, told: Mapping[str, Any]) -> Outcome:
        return Outcome(
            forward=tuple(self._launch(op, kernels) for op, kernels in told["forward"]),
            backward=tuple(self._launch(op, kernels) for op, kernels in told["backward"]),
            error=told["error"],
            warned=tuple(told["warned"]),
        )

    def _launch(self, op: str, kernels: list[str]) -> int:
        place = self._ops.setdefault(op, len(self._ops))
        names = dict.fromkeys(self._kernels.setdefault(name, len(self._kernels)) for name in kernels)
        return self._launches.setdefault((place, tuple(names)), len(self._launches))


@cache
def family(kernel: str) -> str:
    """A mangled kernel's own name, without namespaces and template arguments: ``vectorized_elementwise_kernel``."""
    if not kernel.startswith("_Z"):
        return kernel
    place, name = 2, ""
    nested = kernel[place : place + 1] == "N"
    place += nested
    while place < len(kernel):
        if kernel.startswith("St", place) or kernel[place] in "KL":
            place += 2 if kernel[place] == "S" else 1
            continue
        digits = _IDENTIFIER.match(kernel, place)
        if digits is None:
            break
        begin = digits.end()
        place = begin + int(digits[0])
        name = kernel[begin:place]
        if not nested:
            break
    return name or kernel
