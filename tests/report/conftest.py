"""The browser, and the trace of a real model that the page is driven with."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import Browser
from tracer.trace import Trace


@pytest.fixture(scope="session")
def _started() -> Iterator[tuple[Browser, asyncio.AbstractEventLoop]]:
    """A Chromium that is started once, which takes seconds, and playwright's event loop; it stands still meanwhile."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with playwright.sync_playwright() as driver:
        loop = asyncio.get_running_loop()
        path = found or driver.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("no Chromium is installed (set CHROMIUM to its path)")
        browser = Browser(driver.chromium.launch(executable_path=path, args=["--no-sandbox"]))
        asyncio._set_running_loop(None)
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture(scope="module")
def chromium(_started: tuple[Browser, asyncio.AbstractEventLoop]) -> Iterator[Browser]:
    """The browser; tests of other modules find no event loop running."""
    browser, loop = _started
    asyncio._set_running_loop(loop)
    yield browser
    browser.rest()
    asyncio._set_running_loop(None)


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
