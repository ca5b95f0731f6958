"""The libraries that the steps come from, fetched from the package index: for every build, or for one release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.evidence.nullgpu.builds import Build, BuildError, pip

#: Read by every build, and in need of no release of torch of their own. ``transformers`` comes with the extra ``test``.
_ANY = ("timm", "diffusers", "torch_geometric", "scipy", "pillow")
#: What belongs to one release, and its Triton. No torchaudio is built for the CUDA of 2.15, where it ends every import
#: of ``transformers``: the steps of torchaudio end there.
_OWN: Mapping[str, tuple[tuple[str, ...], str]] = {
    "2.6.0": (("torchvision==0.21.0", "torchaudio==2.6.0"), "triton==3.2.0"),
    "2.9.1": (("torchvision==0.24.1", "torchaudio==2.9.1"), "triton==3.5.1"),
    "2.13.0": (("torchvision==0.28.0", "torchaudio==2.11.0"), "triton==3.7.1"),
    "2.15.0": (("torchvision==0.29.2",), "triton==3.9.0"),
}
RELEASES = tuple(_OWN)
PACKAGES, VISION, TRITON = "packages", "vision", "triton"


def packages_of(cache: Path) -> Path:
    """The folder with the libraries that every build reads; ``BuildError`` where they cannot be had."""
    return _installed(cache / PACKAGES, _ANY)


def libraries_of(build: Build) -> None:
    """Fetches what belongs to the build's release alone: ``torchvision`` and ``torchaudio``, and Triton in a folder of
    its own, so that a process can do without. ``BuildError`` where they cannot be had."""
    if build.torch not in _OWN:
        raise BuildError(f"which torchvision belongs to torch {build.torch} is not declared")
    libraries, triton = _OWN[build.torch]
    _installed(build.folder / VISION, libraries)
    _installed(build.folder / TRITON, (triton,))


def _installed(folder: Path, requirements: Iterable[str]) -> Path:
    if not folder.is_dir():
        error = pip("install", "-q", "--no-deps", "--target", str(folder), *requirements)
        if error:
            raise BuildError(f"{', '.join(requirements)} could not be had: {error}")
    return folder
