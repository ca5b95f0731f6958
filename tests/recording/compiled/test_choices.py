"""What Inductor chose with a stopwatch. Triton's objects are stood in for: its kernels run on devices alone."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support.lines import record
from tracer.names import KernelLanguage
from tracer.recording.compiled.compilations import configurations, was_timed
from tracer.recording.compiled.kernel_text import read_kernels

TEMPLATE = '''
triton_tem_fused_mm_0 = async_compile.triton('triton_tem_fused_mm_0', """
@triton_heuristics.template(
num_stages=3,
num_warps=4,
triton_meta={'signature': {'arg_A': '*fp32'}},
)
@triton.jit
def triton_tem_fused_mm_0(arg_A, arg_B, out_ptr0):
    GROUP_M : tl.constexpr = 8
    BLOCK_M : tl.constexpr = 64
    ALLOW_TF32 : tl.constexpr = False
    ACC_TYPE : tl.constexpr = tl.float32
""")

class Runner:
    def call(self, args):
        triton_tem_fused_mm_0.run(arg0_1, arg1_1, buf0, 1, 1, 1, stream=stream0)
'''


def tuned(configs: int, *, info: dict[str, Any] | None = None, launchers: int = 1, coordesc: bool = False) -> Any:
    """What stands for a generated kernel in loaded code."""
    config = SimpleNamespace(kwargs={"XBLOCK": 128}, num_warps=4, num_stages=1, found_by_coordesc=coordesc)
    return SimpleNamespace(
        configs=[config] * configs or None,
        launchers=[SimpleNamespace(config=config)] * launchers,
        autotune_cache_info=info,
    )


def loaded(monkeypatch: pytest.MonkeyPatch, **kernels: Any) -> dict[str, str]:
    codecache, module = ModuleType("torch._inductor.codecache"), ModuleType("generated")
    vars(module).update(kernels, key="k")
    codecache.PyCodeCache = SimpleNamespace(modules=[module])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch._inductor.codecache", codecache)
    return configurations("k")


def test_a_configuration_that_won_against_others_now_or_earlier_was_chosen_with_a_stopwatch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_timing = "XBLOCK=128, num_warps=4, num_stages=1"
    found = loaded(
        monkeypatch,
        now=tuned(4, info={"autotune_cache_state": "miss", "num_configs": 4}),
        freed=tuned(0, info={"autotune_cache_state": "miss", "num_configs": 4}),
        earlier=tuned(1, info={"autotune_cache_state": "hit"}),
        older_torch=tuned(2),
        descended=tuned(1, coordesc=True),
        alone=tuned(1, info={"autotune_cache_state": "only 1 config"}),
        not_run_yet=tuned(4, launchers=4),
        no_kernel=7,
    )
    assert found == dict.fromkeys(("now", "freed", "earlier", "older_torch", "descended"), by_timing)
    assert configurations("") == configurations("other") == {}


def test_of_several_kernels_that_were_timed_the_one_that_runs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [SimpleNamespace(fn=SimpleNamespace(__name__=name)) for name in ("triton_red_a", "triton_per_a")]
    multi = SimpleNamespace(picked_kernel=1, _kernels=kernels)
    assert loaded(monkeypatch, multi_kernel_0=multi) == {"multi_kernel_0": "triton_per_a"}


def test_a_templates_choice_is_read_in_its_source() -> None:
    (kernel,) = read_kernels(TEMPLATE)
    assert kernel.language is KernelLanguage.TEMPLATE
    assert kernel.template == "BLOCK_M=64, GROUP_M=8, num_stages=3, num_warps=4"


def test_one_candidate_is_no_choice_and_deterministic_mode_takes_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModuleType("torch._inductor.config")
    monkeypatch.setitem(sys.modules, "torch._inductor.config", config)
    assert not was_timed(["extern"])
    assert was_timed(["extern", "template"])
    config.deterministic = True  # type: ignore[attr-defined]
    assert not was_timed(["extern", "template"])


@pytest.mark.slow
def test_a_product_that_was_timed_says_so(inductor: None) -> None:
    """With weights that are frozen the C++ backend times a template against a library's product."""
    from torch._inductor import config

    torch._dynamo.reset()
    linear = torch.nn.Linear(32, 32).eval()
    with torch.no_grad(), config.patch(freezing=True):
        trace = record(lambda: torch.compile(linear, mode="max-autotune")(torch.ones(4, 32))).trace
    kernels = [kernel for region in trace.regions for kernel in region.kernels]
    assert [kernel.by_stopwatch for kernel in kernels if kernel.ops].count(True) == 1
