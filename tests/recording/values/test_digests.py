"""Digests: what changes a tensor changes its digest, and nothing else does."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.bits import bits
from tracer.recording.storage.registry import StorageRegistry
from tracer.recording.values import digests
from tracer.recording.values.digest_table import DigestTable
from tracer.recording.values.digests import digest, seed_of

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
        first, second = draw.randrange(len(flat)), draw.randrange(len(flat))
        how = draw.choice(("swap", "rows", "bit", "ulp", "sign", "nan", "one-hot"))
        width = 8 * flat.itemsize
        if how == "swap":
            flat[[first, second]] = flat[[second, first]].clone()
        elif how == "rows":
            rows = other.view(UNITS[min(8, tensor.itemsize)]).view(29, -1)
            rows[[first % 29, second % 29]] = rows[[second % 29, first % 29]].clone()
        elif how == "bit":
            flat.numpy().view(f"u{flat.itemsize}")[first] ^= 1 << draw.randrange(width)
        elif how == "ulp":
            flat.numpy().view(f"u{flat.itemsize}")[first] ^= 1
        elif how == "sign":
            flat.numpy().view(f"u{flat.itemsize}")[first] ^= 1 << (width - 1)
        elif how == "nan":
            # a NaN in both, of another payload
            units = flat.numpy().view(f"u{flat.itemsize}")
            units[first] |= (1 << (width - 1)) - 1
            tensor.view(-1).view(flat.dtype).view(-1).numpy().view(units.dtype)[first] = units[first]
            units[first] ^= 1 << draw.randrange(max(1, width // 8))
        else:
            rolled = torch.zeros_like(flat)
            rolled[first] = 1
            tensor.view(-1).view(flat.dtype).view(-1).copy_(rolled)
            flat.copy_(rolled.roll(1 + second % (len(flat) - 1)))
        if bits(other) != bits(tensor):
            return other


@pytest.mark.parametrize("of", [digest, mixed], ids=["host", "device"])
@pytest.mark.parametrize("dtype", FLOATS + WHOLE, ids=str)
@pytest.mark.parametrize("changes", [200, pytest.param(750, marks=pytest.mark.slow)])
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


@pytest.mark.parametrize(
    ("shape", "dtype", "of"),
    itertools.product(
        [(5, 3), (300, 170), (2, 3, 4, 5), (40, 30, 50), (7,)],
        [torch.float32, torch.bfloat16, torch.complex64, torch.bool],
        [digest, mixed],
    ),
)
def test_strides_and_storage_do_not_matter(shape: tuple[int, ...], dtype: torch.dtype, of: Any) -> None:
    torch.manual_seed(0)
    tensor = torch.randn(shape).to(dtype)
    for other in in_other_strides(tensor):
        assert bits(other)[:1] == bits(tensor)[:1]
        assert of(other) == of(tensor)


def test_a_large_tensor_out_of_order_is_digested_piece_by_piece() -> None:
    tensor = torch.arange(3 * 1100 * 1000, dtype=torch.int32).view(3, 1100, 1000)
    for order in ((2, 1, 0), (0, 2, 1), (1, 0, 2)):
        other = tensor.permute(order)
        assert digest(other) == digest(other.contiguous())


@pytest.mark.parametrize(
    ("sizes", "dtype"),
    itertools.product(
        [(640, 512), (516, 514), (5, 300, 8, 40), (1, 2, 3 * 2**17)],
        [torch.uint8, torch.bfloat16, torch.float32, torch.complex128],
    ),
)
def test_whatever_the_size_and_dtype_elements_are_digested_in_logical_order(
    sizes: tuple[int, ...], dtype: torch.dtype
) -> None:
    tensor = torch.arange(torch.Size(sizes).numel()).view(sizes).to(dtype)
    for order in {(-1, *range(len(sizes) - 1)), tuple(reversed(range(len(sizes)))), (0, *range(len(sizes) - 1, 0, -1))}:
        other = tensor.permute([axis % len(sizes) for axis in order])
        assert digest(other) == digest(other.contiguous())
        assert digest(other[..., ::2]) == digest(other[..., ::2].contiguous())


def test_the_same_bytes_in_another_shape_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.randn(40, 30).t()
    registry = StorageRegistry()
    memory = DigestTable(digest, registry)
    memory.wrote(tensor, memory.stored(tensor), 1)
    read: list[int] = []
    content = digests.Layout.content
    monkeypatch.setattr(digests.Layout, "content", lambda self, address: read.append(address) or content(self, address))
    other = tensor.view(30, 8, 5)
    assert memory.read(other, memory.stored(other)) == (digest(other.contiguous()), False)
    assert len(read) == 1, "the test's own"
    registry.forget()


def test_bytes_that_changed_unseen_are_told_whatever_the_shape_they_are_read_in() -> None:
    tensor = torch.zeros(6, 4)
    array = tensor.numpy()
    registry = StorageRegistry()
    memory = DigestTable(digest, registry)
    memory.wrote(tensor, memory.stored(tensor), 1)
    array[5, 3] = 1
    other = tensor.view(24)
    assert memory.read(other, memory.stored(other)) == (digest(other), True)
    assert memory.read(other, memory.stored(other)) == (digest(other), False)
    registry.forget()


@pytest.mark.parametrize("lazy", [torch.conj, torch._neg_view], ids=["conjugated", "negated"])
def test_a_lazy_sign_is_neither_overlooked_nor_taken_for_a_change(lazy: Any) -> None:
    tensor = torch.randn(3, 2, dtype=torch.complex64)
    registry = StorageRegistry()
    memory = DigestTable(digest, registry)
    memory.wrote(tensor, memory.stored(tensor), 1)
    for other in (lazy(tensor), tensor, lazy(tensor)):
        resolved = other.resolve_conj().resolve_neg().clone()
        assert memory.read(other, memory.stored(other)) == (digest(resolved), False)
    registry.forget()


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


def test_lazy_conjugation_and_negation_digest_as_what_they_stand_for() -> None:
    tensor = torch.randn(5, 3, dtype=torch.complex64)
    for lazy in (tensor.conj(), tensor.conj().imag, tensor.t().conj(), torch._neg_view(tensor), tensor.conj()[1:, ::2]):
        assert lazy.is_conj() or lazy.is_neg()
        assert digest(lazy) == digest(lazy.resolve_conj().resolve_neg().clone()) == digest(lazy)
        assert mixed(lazy) == mixed(lazy.resolve_conj().resolve_neg().clone())
    assert digest(tensor.conj()) != digest(tensor)


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


def test_looking_changes_nothing() -> None:
    torch.manual_seed(0)
    tensors = [make(1.0) for make in KINDS.values()]
    tensors += [torch.randn(4, 4, requires_grad=True).t(), torch.randn(3, dtype=torch.complex64).conj()]
    with torch.inference_mode():
        tensors.append(torch.randn(5, 5).t())
    state = torch.get_rng_state()
    versions = [None if tensor.is_inference() else tensor._version for tensor in tensors]
    number = torch._C._autograd._get_sequence_nr()
    grads = [tensor.grad_fn for tensor in tensors]
    for tensor in tensors:
        assert digest(tensor) is not None
    assert versions == [None if tensor.is_inference() else tensor._version for tensor in tensors]
    assert torch._C._autograd._get_sequence_nr() == number
    assert [tensor.grad_fn for tensor in tensors] == grads
    assert torch.equal(torch.get_rng_state(), state)


def test_looking_is_seen_by_no_mode() -> None:
    from tests.support.modes import CountingMode

    tensors = [make(1.0) for make in KINDS.values()]
    with CountingMode() as seen:
        for tensor in tensors:
            digest(tensor)
    assert not seen.counts


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


def test_reading_hands_no_memory_out() -> None:
    told: list[Any] = []

    class Listener:
        live = {1: None}

        def escaped(self, tensor: Any) -> None:
            told.append(tensor)

        def give_up_all(self) -> None:
            told.append(None)

    from tracer.recording.storage.registry import ESCAPES

    listener: Any = Listener()
    ESCAPES.add(listener)
    try:
        for make in KINDS.values():
            tensor = make(1.0)
            told.clear()
            digest(tensor)
            assert not told
    finally:
        ESCAPES.discard(listener)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64])
@pytest.mark.parametrize("is_busy", [False, True], ids=["alone", "beside another thread"])
def test_what_is_remembered_of_a_tensor_out_of_order_is_its_digest(dtype: torch.dtype, is_busy: bool) -> None:
    held = torch.arange(1 << 19).remainder(7).to(dtype)
    layouts = [
        held[:512].view(16, 32).t(),
        held[:4096].view(4, 8, 128).transpose(0, 1),
        held[:64].view(8, 8)[:, ::2],
        held[:8].view(8, 1).expand(8, 300),
        held.view(512, 1024).t(),  # too large to be held in one place while it is brought into order
    ]
    registry = StorageRegistry()
    memory = DigestTable(digest, registry)
    with room_of_another_thread() if is_busy else nullcontext():
        for call, tensor in enumerate(layouts, 1):
            assert memory.wrote(tensor, memory.stored(tensor), call) == digest(tensor.contiguous())
    registry.forget()


@contextmanager
def room_of_another_thread() -> Iterator[None]:
    with digests._room_is_mine:
        yield
