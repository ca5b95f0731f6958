"""Generated code: which kernels it has, which add atomically, and what Inductor read and chose as it compiled."""

from __future__ import annotations

import shutil
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support.lines import line_of, record
from tracer.names import EventKind, KernelLanguage, Subsystem
from tracer.recording.compiled import CompileLog, configurations, was_timed
from tracer.recording.compiled.graph_text import AnnotatedTensor, Node
from tracer.recording.compiled.kernel_text import (
    adds_atomically,
    match_kernels,
    may_call_kernels,
    read_kernels,
)
from tracer.recording.events import EventLog
from tracer.recording.origin import Sites
from tracer.recording.torch_private import compile_seams, seams
from tracer.trace.records import Event

CPP, TRITON = KernelLanguage.CPP, KernelLanguage.TRITON

CODE = '''
cpp_fused_index_add_0 = async_compile.cpp_pybinding(['const float*', 'float*'], r"""
extern "C"  void  kernel(const float* in_ptr0, float* out_ptr0)
{
    #pragma omp parallel
    atomic_add_vec<float, 1, 1>(out_ptr0, tmp1, tmp2);
}
""")


# kernel path: /tmp/x.py
# Topologically Sorted Source Nodes: [y], Original ATen: [aten.sin, aten.add]
# Source node to ATen node mapping:
#   y => sin, add
# Graph fragment:
#   %x : Tensor "f32[4][1]cuda:0" = PlaceHolder[target=x]
#   %sin : Tensor "f32[4][1]cuda:0"[num_users=1] = call_function[target=torch.ops.aten.sin.default](args = (%x,))
triton_poi_fused_add_sin_1 = async_compile.triton('triton_poi_fused_add_sin_1', """
tl.store(out_ptr0 + (x0), tmp2, xmask)
""", device_str='cuda')


class Runner:
    def call(self, args):
        arg0_1, = args
        cpp_fused_index_add_0(arg0_1, buf0)
        triton_poi_fused_add_sin_1.run(buf0, buf1, 4, stream=stream0)
        # Topologically Sorted Source Nodes: [z], Original ATen: [aten.mm]
        extern_kernels.mm(buf0, buf1, out=buf2)
        extern_kernels.mm(buf2, buf1, out=buf3)
        aten.index_put_(buf3, [arg0_1], buf1, True)
        return (buf3, )
'''


def node(name: str, op: str) -> Node:
    value = AnnotatedTensor("f32", (4,), (1,), "cpu")
    return Node(name, op, (value,), {}, value, None)


def test_each_kernel_is_named_once_with_its_language_and_the_number_of_its_calls() -> None:
    kernels = {one.name: one for one in read_kernels(CODE)}
    assert {name: (one.language, one.calls, one.atomic) for name, one in kernels.items()} == {
        "cpp_fused_index_add_0": (CPP, 1, True),
        "triton_poi_fused_add_sin_1": (TRITON, 1, False),
        "extern_kernels.mm": (KernelLanguage.EXTERN, 2, None),
        "aten.index_put_": (KernelLanguage.FALLBACK, 1, None),
    }
    fused = kernels["triton_poi_fused_add_sin_1"]
    assert (fused.nodes, fused.original_ops) == (("sin",), ("aten.sin", "aten.add"))


@pytest.mark.parametrize(
    ("line", "language", "adds"),
    [
        ("void kernel(float* out_ptr0) atomic_add(&out_ptr0[0], tmp0);", CPP, True),
        ("void kernel(int64_t* out_ptr0) atomic_add(&out_ptr0[0], tmp0);", CPP, False),
        ("transpose_mxn<float,true>(in_ptr0, 8, out_ptr0, 8);", CPP, True),
        ("transpose_mxn<float,false>(in_ptr0, 8, out_ptr0, 8);", CPP, False),
        ("std::atomic<int> inductor_cpu_integer_div_error{0};", CPP, False),
        ("tl.atomic_add(out_ptr0 + (x0), tmp2, xmask, sem='relaxed')", TRITON, True),
        ("'signature': {'out_ptr0': '*i64'}  tl.atomic_add(out_ptr0 + (x0), tmp2)", TRITON, False),
        ("'signature': {'out_ptr0': '*fp32'}  tl.atomic_add(out_ptr0 + (x0), tmp2)", TRITON, True),
        ("tl.atomic_max(out_ptr0 + (x0), tmp2)", TRITON, False),
    ],
)
def test_only_additions_that_round_count_as_atomic(line: str, language: KernelLanguage, adds: bool) -> None:
    assert adds_atomically(line, language) == adds


def test_a_cached_kernel_belongs_to_the_call_that_does_as_it_does_and_what_the_compiler_told_comes_first() -> None:
    nodes = (node("a", "aten.sin.default"), node("b", "aten.index_put.default"), node("c", "aten.mm.default"))
    cached = match_kernels(nodes, read_kernels(CODE), {}).kernels
    assert (cached["b"], cached["c"]) == (("cpp_fused_index_add_0", "aten.index_put_"), ("extern_kernels.mm",))
    told = match_kernels(nodes, read_kernels(CODE), {"cpp_fused_index_add_0": {"a"}}).kernels
    assert (told["a"], told["b"]) == (("cpp_fused_index_add_0",), ("aten.index_put_",))


#: Kernels for lists of tensors as torch 2.11 wrote them on a device: of one the comment at its call tells, of one none.
LISTS = """
# Unsorted Source Nodes: [], Original ATen: []
# Source node to ATen node mapping:
triton_for_fused_0 = async_compile.triton('triton_for_fused_0', "tl.store(out_ptr0, tmp0)", device_str='cuda')


# Unsorted Source Nodes: [], Original ATen: []
triton_for_fused_1 = async_compile.triton('triton_for_fused_1', "tl.store(out_ptr0, tmp0)", device_str='cuda')


def call(args):
    # Topologically Sorted Source Nodes: [_foreach_add_], Original ATen: [aten._foreach_add]
    stream0 = get_raw_stream(0)
    triton_for_fused_0.run(arg0_1, stream=stream0)
    # Unsorted Source Nodes: [], Original ATen: []
    stream0 = get_raw_stream(0)
    triton_for_fused_1.run(arg1_1, stream=stream0)
    return ()
"""


def test_kernels_for_lists_of_tensors_name_their_ops_by_what_the_code_says_at_the_call_or_by_their_kind() -> None:
    one, other = read_kernels(LISTS)
    assert (one.original_ops, other.original_ops) == (("aten._foreach_add",), ())
    nodes = [node(name, f"aten.{name}") for name in ("_foreach_add.Scalar", "_foreach_mul.Scalar", "copy_.default")]
    matching = match_kernels(nodes, (one, other), {})
    assert matching.kernels == {
        "_foreach_add.Scalar": ("triton_for_fused_0",),
        "_foreach_mul.Scalar": ("triton_for_fused_1",),
    }


def test_what_code_calls_besides_its_own_kernels_are_kernels() -> None:
    assert may_call_kernels(CODE)
    own = "\n".join(line for line in CODE.splitlines() if "extern_kernels" not in line and "aten.index" not in line)
    assert not may_call_kernels(own)
    parts = (
        "def partition_0(args):\n    {}\n\nclass Runner:\n    def call(self, args):\n        self.partitions[0](args)\n"
    )
    assert may_call_kernels(parts.format("extern_kernels.mm(a, b, out=c)"))
    assert not may_call_kernels(parts.format("triton_poi_fused_add_0.run(a, stream=stream0)"))


def test_views_and_numbers_that_are_read_and_checked_are_no_kernels() -> None:
    numbers = """
def call(args):
    u0 = reinterpret_tensor(arg1_1, (), (), 0).item()
    u1 = max(0, min(5, u0))
    if not (u1 <= 5):
        raise RuntimeError('u1 <= 5')
    return (reinterpret_tensor(arg0_1, (u1, 5), (5, 1), 0), )
"""
    assert not may_call_kernels(numbers)
    assert may_call_kernels(numbers.replace("max(0, min(5, u0))", "torch.ops.mine.count.default(arg0_1)"))
    assert may_call_kernels("code of another form")


def test_code_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="call"):
        read_kernels("x = 1")
    with pytest.raises(ValueError, match="parsed"):
        read_kernels("#include <torch/csrc>\nvoid f() {}")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """Inductor's entry that gives back the graph as it is: nothing is compiled."""
    module, name = seams.INDUCTOR_ENTRY
    entry = types.ModuleType(module)
    setattr(entry, name, lambda graph, inputs, **_: graph.forward)
    entry.get_patched_config_dict = lambda **_: {}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module, entry)
    trees = types.ModuleType("torch._inductor.cudagraph_trees")  # loaded by a reset where CUDA has started
    trees.reset_cudagraph_trees = lambda: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, trees.__name__, trees)
    yield entry
    monkeypatch.undo()  # up to torch 2.11, what resets dynamo looks for more in that module
    torch._dynamo.reset()


def events_of(run: Callable[[], object]) -> tuple[Event, ...]:
    log = EventLog(Sites())
    watch = CompileLog(log)
    watch.start()
    try:
        run()
    finally:
        watch.stop()
    return tuple(event for event in log.listed() if event.name == Subsystem.INDUCTOR)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("stand_in")
def test_a_compilation_is_noted_at_the_line_that_ran_the_code_with_the_mode_of_that_moment() -> None:
    function = torch.compile(lambda x: x.sin())

    def run() -> None:
        torch.use_deterministic_algorithms(True, warn_only=True)
        function(torch.ones(2))  # compiles
        function(torch.ones(2))

    (event,) = events_of(run)
    assert (event.kind, event.value, event.count) == (EventKind.FIRST_USE, "deterministic_mode=warn", 1)
    assert int(event.location.rpartition(":")[2]) == line_of(run, "# compiles")


@pytest.mark.usefixtures("stand_in")
def test_a_later_compilation_under_another_mode_is_told_apart() -> None:
    def run() -> None:
        for mode in (False, True):
            torch.use_deterministic_algorithms(mode)
            torch._dynamo.reset()
            torch.compile(lambda x: x.sin())(torch.ones(2))

    (event,) = events_of(run)
    assert (event.value, event.values_differ, event.count) == ("deterministic_mode=off", True, 2)


@pytest.mark.skipif(compile_seams.FALLS_BACK, reason="this torch compiles nothing under a dispatch mode")
@pytest.mark.usefixtures("stand_in")
def test_settings_are_those_of_the_compilation_and_what_torch_compile_was_told_counts() -> None:
    config = pytest.importorskip("torch._inductor.config")

    def run() -> None:
        with config.patch(benchmark_kernel=True):
            torch.compile(lambda x: x.sin())(torch.ones(2))
        torch.compile(lambda x: x.cos(), mode="max-autotune-no-cudagraphs")(torch.ones(2))

    settings, without = (record(program).trace.environment.settings for program in (run, lambda: None))
    told = torch._inductor.list_mode_options("max-autotune-no-cudagraphs")
    descends = told.get("coordinate_descent_tuning", False)  # not of this mode in torch 2.4
    names = ("benchmark_kernel", "max_autotune", "coordinate_descent_tuning")
    assert [settings[f"torch._inductor.config.{name}"] for name in names] == [True, True, descends]
    assert [without[f"torch._inductor.config.{name}"] for name in names] == [False] * 3


@pytest.mark.usefixtures("stand_in")
def test_other_backends_and_code_that_fell_back_to_eager_are_no_use_of_inductor() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    def run() -> None:
        for backend in ("eager", "aot_eager"):
            torch.compile(lambda x: x.cos(), backend=backend)(torch.ones(2))
        if seams.KEEPS_COMPILED_CODE:  # older torch compiles under a user's dispatch mode
            with FlopCounterMode(display=False):
                torch.compile(lambda x: x.tan())(torch.ones(2))

    assert events_of(run) == ()


def test_inductor_without_torch_compile_is_noted_once_and_all_is_put_back(stand_in: types.ModuleType) -> None:
    """``compile_fx`` calls itself; only the outermost call counts."""
    name = seams.INDUCTOR_ENTRY[1]
    code = f"def {name}(graph, inputs, again=True):\n    return {name}(graph, inputs, False) if again else graph\n"
    exec(code, vars(stand_in))
    before = (vars(seams.inductor_wrapper)["__call__"], getattr(stand_in, name))

    def run() -> None:
        assert getattr(stand_in, name) is not before[1]
        assert getattr(stand_in, name)("graph", []) == "graph"  # uses

    (event,) = events_of(run)
    assert (event.count, int(event.location.rpartition(":")[2])) == (1, line_of(run, "# uses"))
    assert (vars(seams.inductor_wrapper)["__call__"], getattr(stand_in, name)) == before


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
def test_inductor_itself_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    x = torch.arange(4.0)

    def run() -> None:
        assert torch.allclose(torch.compile(lambda x: x.sin() + 1)(x), x.sin() + 1)  # compiles

    (event,) = events_of(run)
    assert (event.value, event.count) == ("deterministic_mode=off", 1)
    assert int(event.location.rpartition(":")[2]) == line_of(run, "# compiles")
    torch._dynamo.reset()


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


def test_a_configuration_that_ever_won_against_others_was_chosen_by_stopwatch(monkeypatch: pytest.MonkeyPatch) -> None:
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
