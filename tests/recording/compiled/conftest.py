"""Inductor itself: one folder of its cache for the whole session, and no worker processes for a handful of kernels."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
import torch

from tracer.recording.torch_private import compile_seams

HAS_INDUCTOR = compile_seams.SEES_REGIONS and shutil.which("g++") is not None


@pytest.fixture(scope="session")
def inductor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiles for real; skips, and says so, where that cannot be."""
    if not HAS_INDUCTOR:
        pytest.skip("Inductor needs g++, and a torch whose compiled code stays compiled under a dispatch mode (2.9)")
    from torch._inductor import config

    with pytest.MonkeyPatch.context() as patch, config.patch(compile_threads=1):
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield
    torch._dynamo.reset()
