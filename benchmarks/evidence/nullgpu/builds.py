"""A CUDA build of torch, unpacked beside empty CUDA libraries: what it takes to run it where no GPU is.

Nothing is installed: the wheel comes from the package index, is unpacked into a cache folder, and found through
``PYTHONPATH`` and ``LD_LIBRARY_PATH`` by a process of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.evidence.nullgpu.libraries import build

REPOSITORY = Path(__file__).resolve().parents[3]
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64")
_HEADERS = {"11": "nvidia-cuda-runtime-cu11", "12": "nvidia-cuda-runtime-cu12", "13": "nvidia-cuda-runtime"}
#: What newer packages of the runtime's headers keep in another package, as far as two files of types need it.
_HOST_DEFINES = """#pragma once
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDA_CB
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __align__(n) __attribute__((aligned(n)))
#define __host__
#define __device__
#define __specialization_static static
#define __CUDA_ARCH_HAS_FEATURE__(x) 0
"""
#: What marks a folder as whole, with what it was made from.
_STAMP = "ready"
_LAYOUT = "4"


class BuildError(Exception):
    """A build that cannot be had here; the text says why, in one line."""


class Build(NamedTuple):
    """One release, ready to run."""

    torch: str
    folder: Path

    @property
    def package(self) -> Path:
        """The ``torch`` package."""
        return self.folder / "torch" / "torch"

    def environment(self) -> dict[str, str]:
        """Variables for a process that runs this build, of the repository's code."""
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(self.folder / "lib"),
            "PYTHONPATH": f"{self.folder / 'torch'}{os.pathsep}{REPOSITORY}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
            "OMP_NUM_THREADS": "1",
        }


def cache_folder() -> Path:
    """Where builds are kept unless the caller says otherwise."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "determinism-tracer" / "nullgpu"


def prepare(torch: str, cache: Path) -> Build:
    """The build of a release (``2.13.0``), made in ``cache`` unless it is there; ``BuildError`` where it cannot be."""
    made = Build(torch, cache / torch)
    stamp = made.folder / _STAMP
    if stamp.is_file() and stamp.read_text() == _LAYOUT:
        return made
    if shutil.which("gcc") is None:
        raise BuildError("no gcc is here to build the empty CUDA libraries")
    made.folder.mkdir(parents=True, exist_ok=True)
    if not (made.package / "version.py").is_file():
        _unpack(torch, made.folder)
    cuda = _cuda_of(made.package)
    headers = _headers(cuda, made.folder)
    libraries = made.folder / "lib"
    shutil.rmtree(libraries, ignore_errors=True)
    (libraries / "crt").mkdir(parents=True)
    if not (headers / "crt" / "host_defines.h").is_file():
        (libraries / "crt" / "host_defines.h").write_text(_HOST_DEFINES)
    try:
        build(made.package, headers, libraries, cuda)
    except RuntimeError as problem:
        raise BuildError(str(problem)) from problem
    stamp.write_text(_LAYOUT)
    return made


def _unpack(torch: str, folder: Path) -> None:
    wheel = folder / "wheel"
    told = ""
    for platform in _PLATFORMS:
        options = ["--no-deps", "--only-binary", ":all:", "--python-version", _python(), "--platform", platform]
        told = pip("download", "-q", f"torch==={torch}", *options, "-d", str(wheel))
        if not told:
            break
    found = sorted(wheel.glob("torch-*.whl"))
    if not found:
        raise BuildError(f"pip finds no wheel of torch {torch} for Python {_python()}: {told}")
    with zipfile.ZipFile(found[0]) as packed:
        packed.extractall(folder / "torch")
    shutil.rmtree(wheel)


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _cuda_of(package: Path) -> str:
    said = re.search(r"^cuda\b.*?['\"](\d+)\.", (package / "version.py").read_text(), re.M)
    if said is None or said[1] not in _HEADERS:
        raise BuildError(f"{package.parent.name} is no CUDA build of torch that is known here")
    return said[1]


def _headers(cuda: str, folder: Path) -> Path:
    place = folder / "headers"
    if not place.is_dir():
        told = pip("install", "-q", "--target", str(place), "--no-deps", _HEADERS[cuda])
        if told:
            raise BuildError(f"the headers of CUDA {cuda} could not be had: {told}")
    return next(place.rglob("driver_types.h")).parent


def pip(*arguments: str) -> str:
    """Run pip with ``arguments``; what went wrong, in one line, empty where nothing did."""
    certificate = os.environ.get("PIP_CERT")
    options = ["--cert", certificate] if certificate else []
    command = [sys.executable, "-m", "pip", "--isolated", *options, "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    said = done.stderr.strip().splitlines()
    return (said[-1] if said else f"exit code {done.returncode}") if done.returncode else ""
