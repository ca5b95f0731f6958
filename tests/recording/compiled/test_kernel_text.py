"""Generated code: which kernels it has, and which of them add atomically."""

from __future__ import annotations

import pytest

from tracer.names import KernelLanguage
from tracer.recording.compiled.graph_text import AnnotatedTensor, Node
from tracer.recording.compiled.kernel_text import (
    atomic_lines,
    dispatches,
    match_kernels,
    may_call_kernels,
    read_kernels,
)

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
    assert {name: (one.language, one.calls) for name, one in kernels.items()} == {
        "cpp_fused_index_add_0": (CPP, 1),
        "triton_poi_fused_add_sin_1": (TRITON, 1),
        "extern_kernels.mm": (KernelLanguage.EXTERN, 2),
        "aten.index_put_": (KernelLanguage.FALLBACK, 1),
    }
    assert {name: one.atomic for name, one in kernels.items()} == {
        "cpp_fused_index_add_0": True,
        "triton_poi_fused_add_sin_1": False,
        "extern_kernels.mm": None,
        "aten.index_put_": None,
    }
    assert kernels["triton_poi_fused_add_sin_1"].nodes == ("sin",)
    assert kernels["triton_poi_fused_add_sin_1"].original_ops == ("aten.sin", "aten.add")


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
    assert bool(atomic_lines(line, language)) == adds


def test_a_kernel_of_the_cache_that_adds_atomically_belongs_to_the_call_that_adds_at_indices() -> None:
    nodes = (node("a", "aten.sin.default"), node("b", "aten.index_put.default"), node("c", "aten.mm.default"))
    matching = match_kernels(nodes, read_kernels(CODE), {})
    assert matching.kernels["b"] == ("cpp_fused_index_add_0", "aten.index_put_")
    assert matching.kernels["c"] == ("extern_kernels.mm",)


def test_what_the_compiler_told_of_a_kernel_stands_before_its_name() -> None:
    nodes = (node("a", "aten.sin.default"), node("b", "aten.index_put.default"))
    matching = match_kernels(nodes, read_kernels(CODE), {"cpp_fused_index_add_0": {"a"}})
    assert matching.kernels["a"] == ("cpp_fused_index_add_0",)
    assert "cpp_fused_index_add_0" not in matching.kernels["b"]


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


def test_code_that_calls_its_own_kernels_alone_dispatches_nothing() -> None:
    assert dispatches(CODE)
    own = "\n".join(line for line in CODE.splitlines() if "extern_kernels" not in line and "aten.index" not in line)
    assert not dispatches(own)
    assert dispatches("code of another form")
    parts = (
        "def partition_0(args):\n    {}\n\nclass Runner:\n    def call(self, args):\n        self.partitions[0](args)\n"
    )
    assert dispatches(parts.format("extern_kernels.mm(a, b, out=c)"))
    assert not dispatches(parts.format("triton_poi_fused_add_0.run(a, stream=stream0)"))


def test_views_and_numbers_that_are_read_and_checked_are_no_kernels() -> None:
    numbers = """
def call(args):
    u0 = reinterpret_tensor(arg1_1, (), (), 0).item()
    u1 = max(0, min(5, u0))
    if not (u1 <= 5):
        raise RuntimeError('u1 <= 5')
    return (reinterpret_tensor(arg0_1, (u1, 5), (5, 1), 0), )
"""
    assert dispatches(numbers)  # reading a number does
    assert not may_call_kernels(numbers)
    assert may_call_kernels(numbers.replace("max(0, min(5, u0))", "torch.ops.mine.count.default(arg0_1)"))
    assert may_call_kernels("code of another form")


def test_code_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="call"):
        read_kernels("x = 1")
    with pytest.raises(ValueError, match="parsed"):
        read_kernels("#include <torch/csrc>\nvoid f() {}")
