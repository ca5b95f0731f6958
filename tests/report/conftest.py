"""The browser, and the trace of a real model that the page is driven with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tracer.trace import Trace


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with playwright.sync_playwright() as driver:
        path = found or driver.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("no Chromium is installed (set CHROMIUM to its path)")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def deep_trace() -> Trace:
    """Two training steps of a transformer of 24 layers with random weights: thousands of calls."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    import torch

    from tracer import DeterminismTracer

    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.GPT2Config(
            n_layer=24, n_embd=32, n_head=2, vocab_size=64, n_positions=16, bos_token_id=0, eos_token_id=0
        )
        model = transformers.GPT2LMHeadModel(config)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        tokens = torch.randint(0, 64, (2, 8))
        with DeterminismTracer(model, name="gpt2") as recorder:
            for _ in range(2):
                optimizer.zero_grad()
                model(tokens, labels=tokens).loss.backward()
                optimizer.step()
    return recorder.trace
