"""AOTInductor packages: a model's code as C++, which runs without dispatching an op.

A package contains its sources. Its ops are known if it was compiled during the recording.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from tracer.names import KernelLanguage
from tracer.recording.compiled.generated.kernel_text import KernelText

#: A kernel's definition; a declaration ends before a brace.
_KERNEL = re.compile(r'^extern "C"\s+void\s+(?P<name>\w+)\([^;{]*\)\s*\{', re.M)
_RUNS = re.compile(r"::run_impl\(.*?(?=^\S[^\n]*::\w+\()", re.M | re.S)
_FALLBACK = re.compile(r"\baoti_torch_(?:cpu|cuda|xpu|mps)_(?P<name>\w+?)(?:_out)?\(")
#: The largest source that is read.
_MOST_BYTES = 50_000_000


class Package(NamedTuple):
    """One model in a package."""

    names: frozenset[str]
    """Names of its files, without suffixes: each is a hash of the content."""
    source: str
    """Its kernels, and the code that runs them."""


def read_package(path: str, model: str) -> Package:
    """The package of ``model`` at ``path``. Raises ``OSError`` or ``ValueError`` for other files."""
    try:
        with zipfile.ZipFile(path) as archive:
            files = [
                entry
                for entry in archive.infolist()
                if PurePosixPath(entry.filename).parts[-3:-1] == ("aotinductor", model)
            ]
            names = frozenset(PurePosixPath(entry.filename).name.partition(".")[0] for entry in files)
            texts = (
                archive.read(entry).decode(errors="replace")
                for entry in files
                if entry.filename.endswith(".cpp") and entry.file_size <= _MOST_BYTES
            )
            return Package(names, "\n".join(texts))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as problem:
        raise ValueError(f"{path} is not a package") from problem


def read_package_kernels(source: str) -> tuple[KernelText, ...]:
    """The kernels of a package's C++ code, and the eager ones that it calls."""
    return (*_kernels(source), *_called(source))


def _kernels(source: str) -> Iterator[KernelText]:
    starts = [*_KERNEL.finditer(source)]
    for start, end in zip(starts, [*(match.start() for match in starts[1:]), len(source)], strict=True):
        name, text = start["name"], source[start.start() : end].partition("\n}\n")[0]
        calls = max(1, len(re.findall(rf"^\s*{name}\(", source, re.M)))
        kernel = f"{text}\n}}\n".replace(f"{name}(", "kernel(", 1)
        yield KernelText(name, KernelLanguage.CPP, kernel, (), (), calls)


def _called(source: str) -> Iterator[KernelText]:
    body = _RUNS.search(source)
    for name in dict.fromkeys(match["name"] for match in _FALLBACK.finditer(body[0] if body is not None else "")):
        yield KernelText(f"aten.{name}", KernelLanguage.FALLBACK, "", (), (), 1)
