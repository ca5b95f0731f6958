"""Whose threads are proven to keep apart, and the near misses of which that is not said."""

from __future__ import annotations

import pytest

from tracer.recording.compiled.generated.disjoint_threads import keeps_threads_apart, may_let_threads_meet

LOOP = "for(int64_t {0}=static_cast<int64_t>(0L); {0}<static_cast<int64_t>({1}); {0}+=static_cast<int64_t>({2}L))"
LANES = """auto {0} =
[&]
{{
    __at_align__ std::array<int64_t, 16> tmpbuf;
    #pragma GCC unroll 16
    for (long x2_inner = 0; x2_inner < static_cast<int64_t>(16); x2_inner++)
    {{
        tmpbuf[x2_inner] = static_cast<int64_t>({1});
    }}
    return at::vec::VectorizedN<int64_t,2>::loadu(tmpbuf.data(), static_cast<int64_t>(16));
}}
()
;
"""
VECTORS = "at::vec::VectorizedN<int64_t,2>"
#: An index of rows, and 16 of columns at once, each checked against 64 before it is used.
READ = """auto tmp0 = in_ptr0[static_cast<int64_t>(x1)];
auto tmp3 = int64_t(tmp0 + 64L);
auto tmp4 = tmp0 < 0;
auto tmp5 = tmp4 ? tmp3 : tmp0;
auto tmp6 = tmp5;
auto tmp7 = c10::convert<int64_t>(tmp6);
TORCH_CHECK((0 <= tmp7) & (tmp7 < 64L), "index out of bounds: 0 <= tmp7 < 64L");
auto tmp15 = at::vec::VectorizedN<int64_t,2>::loadu(in_ptr1 + static_cast<int64_t>(x2), static_cast<int64_t>(16));
auto tmp16 =
[&]
{
    __at_align__ std::array<int64_t, 16> tmpbuf;
    tmp15.store(tmpbuf.data(), static_cast<int64_t>(16));
    return tmpbuf;
}
()
;
""" + LANES.format("tmp17", "tmp16[x2_inner]")
CHECK = (
    f"TORCH_CHECK((at::vec::VecMask<int64_t,2>(({VECTORS}(0) <= tmp17) & (tmp17 < {VECTORS}(64L)))).all_masked(),"
    ' "index out of bounds: 0 <= tmp17 < 64L");\n'
)
PLANES = "tmp16[x2_inner] + 64L*tmp5 + 4096L*x0"
ADD = "atomic_add_vec<float, 2, 1>(out_ptr0, tmp25, tmp24);\n"


def nest(*loops: tuple[str, object, int], body: str, pragma: str = "#pragma omp for") -> str:
    """Loops within loops, the outermost shared out."""
    made = body
    for loop in reversed(loops):
        made = f"{LOOP.format(*loop)}\n{{\n{made}}}\n"
    return f"{{\n{pragma}\n{made}}}\n"


def kernel(*nests: str) -> str:
    """A whole kernel."""
    body = "".join(nests)
    return (
        '#include <torch/csrc/inductor/cpp_prefix.h>\nextern "C"  void  kernel(const int64_t* in_ptr0,\n'
        "                       float* out_ptr0)\n{\n#pragma omp parallel\n{\nint tid = omp_get_thread_num();\n"
        f"{body}}}\n}}\n"
    )


def planes(
    place: str = PLANES, *, read: str = READ + CHECK, add: str = ADD, extent: object = "32L", pragma: str = ""
) -> str:
    """The gradient of a resampling over 32 planes, or something like it."""
    loops = (("x0", extent, 1), ("x1", "128L", 1), ("x2", "128L", 16))
    return kernel(nest(*loops, body=read + LANES.format("tmp25", place) + add, pragma=pragma or "#pragma omp for"))


def scalar(place: str, extent: int = 64) -> str:
    """Something written at an index that was read and checked against ``extent``."""
    read = "auto tmp1 = in_ptr0[static_cast<int64_t>(x1 + 100L*x0)];\n"
    check = f'TORCH_CHECK((0 <= tmp1) & (tmp1 < {extent}L), "index out of bounds: 0 <= tmp1 < {extent}L");\n'
    write = f"out_ptr0[static_cast<int64_t>({place})] = static_cast<float>(tmp2);\n"
    return kernel(nest(("x0", "300L", 1), ("x1", "100L", 1), body=read + check + write))


def heads(place: str, extent: int = 8) -> str:
    """The gradient of a table of biases, a column a head: rows clamped, not checked, the index under its own name."""
    read = "auto tmp1 = in_ptr0[static_cast<int64_t>(x1)];\nauto tmp5 = max_propagate_nan(tmp4, tmp1);\n"
    index = f"auto tmp2 = {place};\nauto tmp3 = c10::convert<int64_t>(tmp2);\n"
    add = "atomic_add_vec<float, 2, 1>(out_ptr0, tmp3, tmp24);\n"
    return kernel(nest(("x0", f"{extent}L", 1), ("x1", "100L", 1), body=read + index + add))


SECOND = LANES.format("tmp26", "tmp16[x2_inner] + 64L*tmp5 + 8192L*x0") + ADD.replace("tmp25", "tmp26")
TAIL = (
    "TORCH_CHECK((at::vec::VecMask<int64_t,2>::set(at::vec::VecMask<int64_t,2>::from(1),"
    f" (at::vec::VecMask<int64_t,2>(({VECTORS}(0) <= tmp17) & (tmp17 < {VECTORS}(64L)))), static_cast<int64_t>(8L)))"
    '.all_masked(), "index out of bounds: 0 <= tmp17 < 64L");\n'
)
SIZES = READ.replace("tmp7 < 64L)", "tmp7 < 2L + ks1)") + CHECK.replace("(64L)", "(2L + ks1)")
OF_SIZES = "tmp16[x2_inner] + 2L*tmp5 + 4L*x0 + ks1*tmp5 + x0*static_cast<int64_t>(ks1*ks1) + 4L*ks1*x0"
WINDOWS = (
    "auto tmp1 = x2 + {0}L*x1;\nauto tmp2 = c10::convert<int64_t>(tmp1);\n"
    "auto tmp25 = at::vec::VectorizedN<int64_t,2>::arange(tmp2, 1);\n" + ADD
)

APART = {
    "planes": planes(),
    "the lanes of a loop's end": planes(read=READ + TAIL),
    "channels inside": kernel(
        nest(
            ("x0", "2L", 1),
            ("x1", "64L", 1),
            body=READ.partition("auto tmp15")[0]
            + "atomic_add(&out_ptr0[static_cast<int64_t>(tmp5 + 64L*x1 + 4096L*x0)], static_cast<float>(tmp20));\n",
        )
    ),
    "sizes that are not fixed": planes(OF_SIZES, read=SIZES, extent="ks0*ks2"),
    "two loops shared out, each a digit": planes(
        "tmp16[x2_inner] + 64L*x1 + 8192L*x0", pragma="#pragma omp for collapse(2)"
    ),
    "windows beside each other": kernel(nest(("x1", "64L", 1), ("x2", "64L", 16), body=WINDOWS.format(64))),
    "rows written at an index": scalar("tmp1 + 64L*x0"),
    "a remainder for each head": heads("x0 + 8L*tmp5"),
    "one thread alone, wherever it adds": planes("tmp16[x2_inner] + 64L*tmp5", pragma="#pragma omp single"),
}
#: The same, each with the one thing that the proof needs taken away.
NEAR_MISSES = {
    "one plane": planes("tmp16[x2_inner] + 64L*tmp5"),
    "planes that overlap by one": planes("tmp16[x2_inner] + 64L*tmp5 + 4095L*x0"),
    "rows that nobody checked": planes(read=READ.replace("TORCH_CHECK", "// TORCH_CHECK") + CHECK),
    "columns that nobody checked": planes(read=READ),
    "columns checked under a mask": planes(read=READ + CHECK.replace(").all_masked()", " | ~tmp9).all_masked()")),
    "columns read once more after the check": planes(read=READ + CHECK + READ[READ.index("auto tmp15") :]),
    "columns checked against more": planes(read=READ + CHECK.replace("64L", "65L")),
    "two loops shared out, of which one does not count": planes(pragma="#pragma omp for collapse(2)"),
    "a second addition by another stride": planes(add=ADD + SECOND),
    "a number that is read meanwhile": planes(add=ADD + "auto tmp30 = out_ptr0[static_cast<int64_t>(x0)];\n"),
    "no wait at the loop's end": planes(pragma="#pragma omp for nowait"),
    "nobody shares the loop out": planes().replace("#pragma omp for\n", ""),
    "tiles added atomically": planes(add=ADD + "transpose_mxn<float,static_cast<int64_t>(16),true>(tmp1, out_ptr0);\n"),
    "an addition of another form": planes(add=ADD + "atomic_add(out_ptr0 + tmp5, tmp24);\n"),
    "sizes of another stride": planes(OF_SIZES.replace("+ 4L*x0 ", ""), read=SIZES, extent="ks0"),
    "windows that overlap by one": kernel(nest(("x1", "64L", 1), ("x2", "64L", 16), body=WINDOWS.format(63))),
    "one thread that nobody waits for": planes(pragma="#pragma omp single nowait"),
    "an index alone": scalar("tmp1"),
    "rows written wider than they lie": scalar("tmp1 + 64L*x0", extent=65),
    "more heads than columns": heads("x0 + 8L*tmp5", extent=9),
    "rows of heads that overlap": heads("2L*x0 + 8L*tmp5"),
    "arithmetic that may round": heads("tmp5 * tmp1"),
    "two kernels in one text": planes() + planes(),
    "a text that is cut off": planes()[:-4],
}


@pytest.mark.parametrize("name", APART)
def test_threads_that_keep_apart_are_proven_to(name: str) -> None:
    assert keeps_threads_apart(APART[name])


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_what_lacks_one_part_of_the_proof_is_not_said_to_keep_apart(name: str) -> None:
    assert may_let_threads_meet(NEAR_MISSES[name])
    assert not keeps_threads_apart(NEAR_MISSES[name])


def test_a_kernel_that_neither_adds_nor_writes_at_an_index_needs_no_proof() -> None:
    plain = kernel(nest(("x0", "64L", 1), body="out_ptr0[static_cast<int64_t>(x0)] = tmp0;\n"))
    assert not may_let_threads_meet(plain)
    assert not keeps_threads_apart(plain)


@pytest.mark.parametrize("divisor", ["2L", "ks0"])
def test_a_bound_that_is_no_sum_proves_nothing(divisor: str) -> None:
    bound = f"c10::div_floor_integer(static_cast<int64_t>(ks1), static_cast<int64_t>({divisor}))"
    assert not keeps_threads_apart(planes(extent=bound))
