"""Digests: what changes a tensor changes its digest, and nothing else does; on a device, and with its kernel."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.recording.values.reading import Row, entries, moments, recorded, rows
from tests.support.bits import bits
from tests.support.modes import CountingMode
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Recording
from tracer.recording import values as digests
from tracer.recording.storage.registry import ESCAPES, StorageRegistry
from tracer.recording.values import digest, digest_table, seed_of
from tracer.recording.values.digest_table import DeviceDigests, DigestTable
from tracer.trace.values import Mark, ValueKind, Values
from tracer.trace.values.columns import TURN_SHIFT

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.float8_e4m3fn]

WHOLE = [torch.int64, torch.uint8]

UNITS: dict[int, Any] = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def mixed(tensor: torch.Tensor) -> int:
    """The digest that a device would give, by plain torch."""
    return digests.finished(int(digests.mixed_sum(tensor)), seed_of(tensor.dtype, tensor.shape))


def sample_of(dtype: torch.dtype, kind: str) -> torch.Tensor:
    """A tensor as programs hold them: noise, small whole numbers (where swaps cancel in a sum), a one-hot."""
    if kind == "noise":
        return torch.randn(29, 7).mul(20).to(dtype)
    if kind == "small":
        return torch.randint(0, 4, (29, 7)).to(dtype)
    return torch.eye(29, 7).to(dtype)


def changed(tensor: torch.Tensor, draw: random.Random) -> torch.Tensor:
    """``tensor`` with one change, drawn by ``draw``, that its bits show."""
    while True:
        other = tensor.clone()
        flat = other.view(-1).view(UNITS[min(8, tensor.itemsize)]).view(-1)
        units = flat.numpy().view(f"u{flat.itemsize}")
        mine = tensor.view(-1).view(flat.dtype).view(-1)
        first, second = draw.randrange(len(flat)), draw.randrange(len(flat))
        how = draw.choice(("swap", "rows", "bit", "ulp", "sign", "nan", "one-hot"))
        width = 8 * flat.itemsize
        if how == "swap":
            flat[[first, second]] = flat[[second, first]].clone()
        elif how == "rows":
            rows = flat.view(29, -1)
            rows[[first % 29, second % 29]] = rows[[second % 29, first % 29]].clone()
        elif how == "nan":  # in both, of another payload
            units[first] |= (1 << (width - 1)) - 1
            mine.numpy().view(units.dtype)[first] = units[first]
            units[first] ^= 1 << draw.randrange(max(1, width // 8))
        elif how == "one-hot":
            rolled = torch.zeros_like(flat)
            rolled[first] = 1
            mine.copy_(rolled)
            flat.copy_(rolled.roll(1 + second % (len(flat) - 1)))
        else:
            units[first] ^= 1 << {"bit": draw.randrange(width), "ulp": 0, "sign": width - 1}[how]
        if bits(other) != bits(tensor):
            return other


@pytest.mark.parametrize("of", [digest, mixed], ids=["host", "device"])
@pytest.mark.parametrize("dtype", FLOATS + WHOLE, ids=str)
@pytest.mark.parametrize("changes", [100, pytest.param(750, marks=pytest.mark.slow)])
def test_no_single_change_is_missed(dtype: torch.dtype, of: Any, changes: int) -> None:
    torch.manual_seed(0)
    draw = random.Random(str(dtype))
    for number in range(changes if of is digest else changes // 10):
        tensor = sample_of(dtype, ("noise", "small", "one-hot")[number % 3])
        other = changed(tensor, draw)
        assert of(tensor) != of(other)


def in_other_strides(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The same elements, laid out otherwise."""
    wide = torch.zeros(*tensor.shape[:-1], 2 * tensor.shape[-1] + 1, dtype=tensor.dtype)
    wide[..., 1::2] = tensor
    return [
        tensor.transpose(0, -1).contiguous().transpose(0, -1),
        wide[..., 1::2],
        torch.cat([torch.zeros(1, dtype=tensor.dtype), tensor.reshape(-1)])[1:].view(tensor.shape),
        tensor.clone(),
    ]


@pytest.mark.parametrize("of", [digest, mixed])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.bool])
@pytest.mark.parametrize("shape", [(5, 3), (300, 170), (2, 3, 4, 5), (7,)])
def test_strides_and_storage_do_not_matter(shape: tuple[int, ...], dtype: torch.dtype, of: Any) -> None:
    torch.manual_seed(0)
    tensor = torch.randn(shape).to(dtype)
    for other in in_other_strides(tensor):
        assert bits(other)[:1] == bits(tensor)[:1]
        assert of(other) == of(tensor)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.complex128])
@pytest.mark.parametrize("sizes", [(640, 512), (5, 300, 8, 40), (1, 2, 3 * 2**17), (3, 1100, 600)])
def test_of_any_size_and_dtype_elements_are_read_in_logical_order(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = torch.arange(torch.Size(sizes).numel()).view(sizes).to(dtype)
    for order in {(-1, *range(len(sizes) - 1)), tuple(reversed(range(len(sizes)))), (0, *range(len(sizes) - 1, 0, -1))}:
        other = tensor.permute([axis % len(sizes) for axis in order])
        assert digest(other) == digest(other.contiguous())
        assert digest(other[..., ::2]) == digest(other[..., ::2].contiguous())


@pytest.fixture
def memory() -> Iterator[DigestTable]:
    registry = StorageRegistry()
    yield DigestTable(digest, registry)
    registry.forget()


def test_the_same_bytes_in_another_shape_are_read_once(memory: DigestTable, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.randn(40, 30).t()
    memory.wrote(tensor, memory.stored(tensor), 1)
    read: list[int] = []
    content = digests.Layout.content
    monkeypatch.setattr(digests.Layout, "content", lambda self, address: read.append(address) or content(self, address))
    other = tensor.view(30, 8, 5)
    assert memory.read(other, memory.stored(other)) == (digest(other.contiguous()), False)
    assert len(read) == 1, "the test's own"


def test_bytes_that_changed_unseen_are_told_whatever_the_shape_they_are_read_in(memory: DigestTable) -> None:
    tensor = torch.zeros(6, 4)
    memory.wrote(tensor, memory.stored(tensor), 1)
    tensor.numpy()[5, 3] = 1
    other = tensor.view(24)
    assert memory.read(other, memory.stored(other)) == (digest(other), True)
    assert memory.read(other, memory.stored(other)) == (digest(other), False)


@pytest.mark.parametrize("lazy", [torch.conj, torch._neg_view], ids=["conjugated", "negated"])
def test_a_lazy_sign_is_neither_overlooked_nor_taken_for_a_change(lazy: Any, memory: DigestTable) -> None:
    tensor = torch.randn(3, 2, dtype=torch.complex64)
    memory.wrote(tensor, memory.stored(tensor), 1)
    for other in (lazy(tensor), tensor, lazy(tensor), lazy(tensor)[1:, ::2], lazy(tensor).t(), lazy(tensor).imag):
        resolved = other.resolve_conj().resolve_neg().clone()
        assert digest(other) == digest(resolved)
        assert mixed(other) == mixed(resolved)
        assert memory.read(other, memory.stored(other)) == (digest(resolved), False)
    assert digest(lazy(tensor)) != digest(tensor)


@pytest.mark.parametrize("of", [digest, mixed], ids=["host", "device"])
def test_dtype_and_shape_are_part_of_it(of: Any) -> None:
    tensors = [
        torch.zeros(4),
        torch.zeros(2, 2),
        torch.zeros(4, dtype=torch.int32),
        torch.zeros(4, 1),
        torch.zeros(()),
        torch.zeros(1),
        torch.zeros(0),
        torch.zeros(0, 3),
        torch.zeros(5),
        -torch.zeros(4),
    ]
    assert len({of(tensor) for tensor in tensors}) == len(tensors)
    assert 0 not in {of(tensor) for tensor in tensors}


def test_repetitions_and_overlaps_digest_as_their_copies_do() -> None:
    row = torch.randn(1, 6)
    assert digest(row.expand(4, 6)) == digest(row.expand(4, 6).contiguous())
    overlapping = torch.randn(10).as_strided((4, 4), (2, 1))
    assert digest(overlapping) == digest(overlapping.contiguous())
    assert digest(torch.randn(()).expand(9)) is not None


def quantized(scale: float = 0.1) -> torch.Tensor:
    return torch.quantize_per_tensor(torch.arange(6.0), scale, 3, torch.quint8)


def per_channel(scale: float = 0.1) -> torch.Tensor:
    scales = torch.tensor([scale, 0.2])
    return torch.quantize_per_channel(torch.arange(6.0).view(2, 3), scales, torch.zeros(2), 0, torch.qint8)


def sparse(value: float = 1.0, layout: torch.layout = torch.sparse_coo) -> torch.Tensor:
    dense = torch.tensor([[0.0, value], [2.0, 0.0]])
    return dense.to_sparse(layout=layout, blocksize=(1, 1) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None)


def nested(value: float = 1.0, layout: torch.layout = torch.strided) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.tensor([value, 2.0]), torch.tensor([3.0])], layout=layout)


LAYOUTS = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]

KINDS: dict[str, Any] = {
    **{str(layout): (lambda value, layout=layout: sparse(value, layout)) for layout in LAYOUTS},
    "uncoalesced": lambda value: torch.sparse_coo_tensor([[0, 0]], [value, 2.0], (3,)),
    "nested": nested,
    "jagged": lambda value: nested(value, torch.jagged),
    "quantized": quantized,
    "quantized by channel": per_channel,
    "parameter": lambda value: torch.nn.Parameter(torch.tensor([value])),
    "sparse gradient": lambda value: sparse(value).requires_grad_(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tensor_has_a_digest_of_its_values(kind: str) -> None:
    make = KINDS[kind]
    assert digest(make(1.0)) == digest(make(1.0)) is not None
    assert digest(make(1.0)) != digest(make(1.5))


def test_what_has_no_bytes_has_no_digest() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(3)
    gone = torch.zeros(8)
    gone.untyped_storage().resize_(0)
    assert digest(fake) is digest(torch.empty(3, device="meta")) is digest(gone) is None


class Placed(torch.Tensor):
    """A tensor of a part, and of something that is no tensor, as ``DTensor`` names its mesh."""

    part: torch.Tensor
    mesh = "one machine"

    @staticmethod
    def __new__(cls, part: torch.Tensor) -> Placed:
        wrapper: Placed = torch.Tensor._make_wrapper_subclass(cls, part.shape, dtype=part.dtype)  # type: ignore[attr-defined]
        wrapper.part = part
        return wrapper

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["part", "mesh"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("nothing is computed")


def test_a_wrapper_that_names_more_than_tensors_has_the_digest_of_its_tensors() -> None:
    one, same, other = (digest(Placed(torch.full((2,), value))) for value in (1.0, 1.0, 2.0))
    assert one is not None
    assert one == same != other


def test_looking_changes_nothing_is_seen_by_no_mode_and_hands_no_memory_out() -> None:
    torch.manual_seed(0)
    tensors = [make(1.0) for make in KINDS.values()]
    tensors += [torch.randn(4, 4, requires_grad=True).t(), torch.randn(3, dtype=torch.complex64).conj()]
    with torch.inference_mode():
        tensors.append(torch.randn(5, 5).t())

    def state() -> list[Any]:
        versions = [None if tensor.is_inference() else tensor._version for tensor in tensors]
        number = torch._C._autograd._get_sequence_nr()
        return [versions, number, [tensor.grad_fn for tensor in tensors], torch.get_rng_state().tolist()]

    told: list[Any] = []
    listener: Any = types.SimpleNamespace(live={1: None}, escaped=told.append, give_up_all=lambda: told.append(None))
    before = state()
    ESCAPES.add(listener)
    try:
        with CountingMode() as seen:
            assert all(digest(tensor) is not None for tensor in tensors)
    finally:
        ESCAPES.discard(listener)
    assert (state(), dict(seen.counts), told) == (before, {}, [])


def reference(tensor: torch.Tensor) -> int:
    """``digests.mixed_sum`` in NumPy, written from its description."""
    data = bits(tensor)[-1]
    words = np.frombuffer(data + b"\0" * (-len(data) % 8), dtype="<u8")
    total = 0
    for position, word in enumerate(words.tolist(), 1):
        mixed = (word + position * 0x9E3779B97F4A7C15) % 2**64
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
        total += mixed ^ (mixed >> 31)
    return total % 2**64


SHAPES = [(0,), (1,), (3,), (7,), (8,), (5, 3), (1025,), (70, 61)]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.bfloat16, torch.float32, torch.complex128], ids=str)
def test_the_mix_of_plain_torch_is_the_one_described(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for shape in SHAPES:
        tensor = torch.randn(shape).mul(50).to(dtype)
        assert int(digests.mixed_sum(tensor)) % 2**64 == reference(tensor)
        assert int(digests.mixed_sum(tensor.reshape(-1)[1:])) % 2**64 == reference(tensor.reshape(-1)[1:])


def test_the_mix_does_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.randn(1000)
    whole = mixed(tensor)
    monkeypatch.setattr(digests, "_CHUNK", 37)
    assert mixed(tensor) == whole


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool])
@pytest.mark.parametrize("is_busy", [False, True], ids=["alone", "beside another thread"])
def test_of_a_tensor_out_of_order_its_digest_is_kept(dtype: torch.dtype, is_busy: bool, memory: DigestTable) -> None:
    held = torch.arange(1 << 19).remainder(7).to(dtype)
    layouts = [
        held[:512].view(16, 32).t(),
        held[:4096].view(4, 8, 128).transpose(0, 1),
        held[:64].view(8, 8)[:, ::2],
        held[:8].view(8, 1).expand(8, 300),
        held.view(512, 1024).t(),  # too large to be held in one place while it is brought into order
    ]
    with digests._room_is_mine if is_busy else nullcontext():
        for call, tensor in enumerate(layouts, 1):
            assert memory.wrote(tensor, memory.stored(tensor), call) == digest(tensor.contiguous())


SIZE = (64, 96)


def of(step: Callable[[], Any], path: Path, op: str) -> list[Row]:
    return [row for row in rows(recorded(path, step)) if row.op == op]


def test_it_is_not_brought_into_order_and_its_digest_tells_bytes_and_order_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[int] = []
    content = digests.Layout.content

    def counted(self: Any, address: int) -> Any:
        if not self.is_ordered:
            copied.append(self.size)
        return content(self, address)

    monkeypatch.setattr(digests.Layout, "content", counted)
    one, two = torch.randn(SIZE), torch.randn(SIZE)

    def read(start: torch.Tensor, turn: Callable[[torch.Tensor], torch.Tensor]) -> Row:
        (row,) = of(lambda: turn(start.exp()).sum(), tmp_path / "run.values", "sum.default")
        return row

    cube: Any = lambda tensor: tensor.view(64, 12, 8).permute(1, 0, 2)  # noqa: E731
    found = [read(start, turn) for start in (one, two) for turn in (torch.t, cube)]
    assert copied == []
    assert len({row.inputs for row in found}) == 4
    assert read(one, torch.t) == found[0]
    assert all(Mark.TURNED in row.mark_bits and row.mark_bits >> TURN_SHIFT for row in found)


WEIGHT = torch.nn.Parameter(torch.ones(SIZE))


def trained_before() -> None:
    """A resumed run has what steps before wrote from its checkpoint, where no recorded call wrote it."""
    optimizer = torch.optim.SGD([WEIGHT], lr=0.1)
    for _ in range(3):
        WEIGHT.t().sum().backward()
        optimizer.step()


@pytest.mark.parametrize(
    "step",
    [
        lambda: torch.ones(SIZE).exp()[:, 1:].t().sum(),  # part of what lies there
        lambda: torch.ones(SIZE).exp().expand(3, *SIZE).transpose(0, 2).sum(),  # elements that lie there once
        lambda: torch.ones(4, 4).exp().t().sum(),  # little
        lambda: torch.ones(SIZE, dtype=torch.complex64).exp().t().conj().sum(),  # a sign that is not in memory
        trained_before,
    ],
)
def test_what_is_not_all_of_the_memory_turned_is_read_in_its_order(tmp_path: Path, step: Callable[[], Any]) -> None:
    read = of(step, tmp_path / "run.values", "sum.default")
    assert read
    assert not any(Mark.TURNED in row.mark_bits for row in read)


def in_a_process(code: str, **environment: str) -> str:
    path = os.pathsep.join((str(ROOT), *sys.path))
    variables = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command, variables = [sys.executable, "-c", code], variables | {"PYTHONPATH": path} | environment
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed: pip install triton==3.9.0")
def test_the_kernel_gives_the_sums_of_plain_torch_and_compiles_for_a_gpu_that_is_not_here(tmp_path: Path) -> None:
    """The interpreter runs what no compiler takes: annotations with names of the module, say."""
    assert in_a_process(PROGRAM, TRITON_INTERPRET="1") == "equal\n"
    assert "ptx" in in_a_process(COMPILES, TRITON_CACHE_DIR=str(tmp_path)).split()


def test_bytes_that_changed_while_no_op_wrote_are_told(tmp_path: Path) -> None:
    def step(noise: float) -> Values:
        def run() -> None:
            made = torch.ones(SIZE).exp()
            made.numpy()[3, 5] += np.float32(noise)
            made.t().sum()

        return recorded(tmp_path / f"{noise}.values", run)

    changed, same = step(1.0), step(0.0)
    assert entries(changed) == [(ValueKind.OUTSIDE_CHANGE, "", -1)]
    found = compare_recordings(Recording(name="first", values=changed), Recording(name="second", values=same))
    assert [root.cause for root in found.roots] == [RootCause.OUTSIDE_CHANGE]


def test_tensors_that_lie_otherwise_are_compared_by_who_wrote_them(tmp_path: Path) -> None:
    def run(name: str, turn: bool, seed: int, read: Callable[[torch.Tensor], Any]) -> Recording:
        torch.manual_seed(seed)
        start = torch.randn(SIZE)

        def step() -> None:
            made = start.exp()
            read(made.as_strided((96, 64), (1, 96)) if turn else made.view(96, 64))

        return Recording(name=name, values=recorded(tmp_path / f"{name}.values", step))

    def roots(first: Recording, second: Recording) -> list[tuple[str, str, int]]:
        found = compare_recordings(first, second)
        return [(root.op.removeprefix("aten."), root.cause, root.follows) for root in found.roots]

    most, whole = (lambda tensor: tensor.max()), (lambda tensor: tensor * 2)
    turned, plain = run("turned", True, 1, most), run("plain", False, 1, most)
    assert Mark.TURNED in rows(turned.values)[-1].mark_bits
    assert Mark.TURNED not in rows(plain.values)[-1].mark_bits
    assert roots(turned, plain) == []  # the largest of the same elements
    assert roots(run("t", True, 1, whole), run("p", False, 1, whole)) == [("mul.Tensor", RootCause.ARGUMENT, 0)]
    assert roots(turned, run("other", False, 2, most)) == [("exp.default", RootCause.INPUT_DATA, 1)]


def test_what_an_op_changed_in_place_is_digested_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Autograd counts the write when the op is over, which is after it was digested."""
    digested: list[int] = []
    of_memory = DigestTable._digested

    def counted(self: Any, known: Any, layout: Any) -> Any:
        digested.append(layout.size)
        return of_memory(self, known, layout)

    monkeypatch.setattr(DigestTable, "_digested", counted)

    def step() -> None:
        mask = torch.empty(SIZE).bernoulli_(0.5)
        mask.div_(0.5)
        mask.mul(2.0)

    recorded(tmp_path / "run.values", step)
    assert digested == 3 * [4 * 64 * 96]


ROOT = Path(__file__).parents[4]

PROGRAM = """
import torch
from tracer.recording import values as digests
from tracer.recording.values.triton_mix import add_mixed_sum
torch.manual_seed(0)
for dtype in (torch.uint8, torch.bool, torch.bfloat16, torch.float32, torch.float64, torch.complex64):
    for shape in ((0,), (1,), (3,), (8,), (5, 3), (4097,), (9000,), (70, 61)):
        whole = torch.randn(shape).mul(50).to(dtype)
        for tensor in (whole, whole.reshape(-1)[1:], whole.t() if whole.ndim == 2 else whole):
            total = torch.zeros(1, dtype=torch.int64)
            if tensor.numel():
                add_mixed_sum(tensor, total)
            assert int(total) == int(digests.mixed_sum(tensor)), (dtype, shape)
one = torch.complex(torch.tensor([3.0]), torch.tensor([4.0])).imag  # contiguous, with a stride of two
totals = torch.zeros(9, dtype=torch.int64)
add_mixed_sum(one, totals, 7)
assert totals.tolist() == [0] * 7 + [int(digests.mixed_sum(one.clone())), 0]
print("equal")
"""


COMPILES = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from tracer.recording.values import triton_mix
types = {"words": "*i64", "data": "*u8", "totals": "*i64", "place": "i32", "count": "i64", "left": "i32"}
types["BLOCK"] = "constexpr"
source = ASTSource(fn=triton_mix.mixed_sum_kernel, signature=types, constexprs={"BLOCK": 4096})
print(*triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm)
"""


def add(data: Any, totals: Any, place: int, size: int, off: int = 0) -> None:
    memory = torch.frombuffer(bytearray(ctypes.string_at(data.data_ptr(), size)), dtype=torch.uint8)
    sums = ctypes.c_int64.from_address(totals.data_ptr() + 8 * place)
    sums.value += int(digests.mixed_sum(memory)) + off


class Launched:
    """What stands for a kernel: what its launch does, and gives."""

    def __init__(self, launch: Callable[..., Any]) -> None:
        self.launch = launch

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return self.launch


@pytest.mark.parametrize(("off", "is_used"), [(0, True), (1, False), (None, False)])
def test_the_compiled_kernel_is_launched_as_it_is_where_that_was_seen_to_give_the_same(
    monkeypatch: pytest.MonkeyPatch, off: int | None, is_used: bool
) -> None:
    """Other releases of Triton want other arguments, and a sum that is wrong would part runs that agree."""
    launches: list[int] = []

    def compiled(words: Any, data: Any, totals: Any, place: int, count: int, left: int, block: int) -> None:
        if off is None:
            raise TypeError("function takes exactly 19 arguments")
        launches.append(off)
        add(data, totals, place, count * 8 + left, off)

    def function(words: Any, data: Any, totals: Any, place: int, count: int, left: int, BLOCK: int) -> Launched:
        add(data, totals, place, count * 8 + left)
        return Launched(compiled)

    name = "tracer.recording.values.triton_mix"
    language = types.SimpleNamespace(constexpr=lambda value: value)
    jit = lambda given=None, **_: (lambda _: Launched(function)) if given is None else Launched(function)  # noqa: E731
    monkeypatch.setitem(sys.modules, "triton", types.SimpleNamespace(jit=jit, language=language))
    monkeypatch.setitem(sys.modules, "triton.language", language)
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    try:
        mix = import_module(name)
        for size in (9, 3, 9, 5000, 9, 5000, 4):
            x, totals = torch.randn(size), torch.zeros(3, dtype=torch.int64)
            for tensor in (x, x[1:]):  # the second lies where another kernel is needed
                totals.zero_()
                mix.add_mixed_sum(tensor, totals, 2)
                assert totals.tolist() == [0, 0, int(digests.mixed_sum(tensor))]
    finally:
        sys.modules.pop(name, None)
    assert (len(launches) > 1) is is_used


def step() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 300), torch.nn.Dropout(0.2), torch.nn.LSTM(300, 4))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 8))[0].square().sum().backward()
        optimizer.step()


def states(values: Any) -> dict[Any, int]:
    """Every moment but generators: what a test run before left of them is its own affair."""
    return {key: digest for key, digest in moments(values).items() if key[0] != "generator"}


def test_a_device_digests_the_calls_that_the_host_does_and_agrees_in_a_second_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, again = (recorded(tmp_path / f"{run}.values", step) for run in ("host", "again"))
    monkeypatch.setattr(DeviceDigests, "digest", lambda self, tensor: self._launch(tensor))
    monkeypatch.setattr(digest_table, "layout_of", lambda dtype, shape, strides: None)
    first, second = (recorded(tmp_path / f"{run}.values", step) for run in ("first", "second"))
    for one, other in ((host, again), (first, second)):
        assert rows(one) == rows(other)
        assert entries(one) == entries(other)
        assert states(one) == states(other)
        assert not any(row.mark_bits & (Mark.INPUT_NOT_DIGESTED | Mark.OUTPUT_NOT_DIGESTED) for row in rows(one))
    assert host.steps[1].tolist() == [0, 1, 2, 3]
    assert all(row.inputs and row.outputs for row in rows(first) if row.op == "addmm.default")
    assert all(first.entries.digest)
    told = ~(Mark.TURNED | 0xFF << TURN_SHIFT)  # a device digests each tensor in its own order
    shape: Any = lambda values: [(row.op, row.origins, row.numbers, row.mark_bits & told) for row in rows(values)]  # noqa: E731
    assert shape(host) == shape(first)
    assert entries(host) == entries(first)
    assert states(host).keys() == states(first).keys()
