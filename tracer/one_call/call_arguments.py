"""The recorded arguments of a call, checked against what torch has: they become part of a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

from tracer.trace.arguments import Argument, DeviceType, NotKept, Number, TensorForm, TorchWord

#: Stands in for a size that was not fixed in compiled code.
UNFIXED = 16


class Tensor(NamedTuple):
    """A tensor without its data."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None = None
    """``None`` for a contiguous one."""
    layout: str = ""
    """``sparse_coo`` and the like; empty for a strided one."""
    device: str = ""
    """Its device, if not that of the call."""
    is_unfixed: bool = False
    """Whether ``UNFIXED`` stands in for a size."""

    @property
    def is_floating(self) -> bool:
        return self.dtype.startswith(("float", "bfloat", "complex"))

    @property
    def is_integer(self) -> bool:
        return self.dtype.startswith(("int", "uint"))

    @property
    def numel(self) -> int:
        return prod(self.shape)


class Word(NamedTuple):
    """A name of torch's: ``torch.float32``, ``torch.device('cpu')``."""

    text: str


class Unknown(NamedTuple):
    """An argument that was not kept."""


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


#: The types of device that torch has, and the names that vendors register for their own.
DEVICES = words("""
    cpu cuda hip xpu mps npu meta hpu xla mtia maia ipu vulkan opengl opencl ideep ve fpga lazy privateuseone
    """)
#: As ``str`` writes them, without ``torch.``.
DTYPES = words("""
    bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64
    complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2 quint8 qint8
    qint32 quint4x2 quint2x4 bits8 bits16 bits1x8 bits2x4 bits4x2 int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3
    uint4 uint5 uint6 uint7
    """)
LAYOUTS = words("strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc _mkldnn jagged")
#: As a tensor's form names them; a strided one has none.
_NAMED_LAYOUTS = frozenset(name.removeprefix("_") for name in LAYOUTS) | {""}
MEMORY_FORMATS = words("contiguous_format channels_last channels_last_3d preserve_format")
_WORDS = DTYPES | LAYOUTS | MEMORY_FORMATS | {"Generator"}
_LARGEST = 2**63 - 1


def program_arguments(recorded: Mapping[str, Argument]) -> dict[str, Any]:
    """``CallGroup.given`` as a program may write it. Raises ``ValueError`` for anything that torch does not have.

    The result becomes part of a program: plain values, tensors of dtypes, layouts and devices that torch has, and words
    of closed lists.
    """
    odd = next((name for name in recorded if not name.isidentifier()), None)
    if odd is not None:
        raise ValueError(f"are named {odd!r}, which is no name")
    return {name: _checked(value) for name, value in recorded.items()}


def tensors_in(arguments: dict[str, Any]) -> Iterator[Tensor]:
    """Every tensor among them, those in lists too."""
    for value in arguments.values():
        yield from (item for item in (value if isinstance(value, list) else (value,)) if isinstance(item, Tensor))


def has_unknown(value: Any) -> bool:
    """Return whether ``value``, or an element of it, was not kept."""
    return isinstance(value, Unknown) or (isinstance(value, list) and any(map(has_unknown, value)))


def _checked(value: object) -> Any:
    if isinstance(value, list):
        return [*map(_checked, value)]
    if isinstance(value, TensorForm):
        return _tensor(value)
    if isinstance(value, TorchWord | DeviceType):
        if value.name not in _WORDS if isinstance(value, TorchWord) else value.type not in DEVICES:
            raise ValueError(f"holds {value}, which is no word of torch")
        return Word(str(value))
    if isinstance(value, Number):
        return _number(value.text)
    return Unknown() if isinstance(value, NotKept) else value


def _number(text: str) -> complex:
    for kind in (int, float, complex):
        try:
            return kind(text)
        except ValueError:
            continue
    raise ValueError(f"holds {text}, which is no number")


def _tensor(form: TensorForm) -> Tensor:
    parts = [(form.layout, _NAMED_LAYOUTS), (form.device, DEVICES | {""}), (form.dtype, DTYPES)]
    odd = next((part for part, allowed in parts if part not in allowed), None)
    if odd is not None:
        raise ValueError(f"holds a tensor of {odd}, which is no dtype, no layout and no device")
    stride = form.stride
    if stride is not None and len(stride) != len(form.shape):
        raise ValueError("holds a tensor with another number of strides than sizes")
    if any(size is not None and not 0 <= size <= _LARGEST for size in (*form.shape, *(stride or ()))):
        raise ValueError("holds a tensor whose sizes are no numbers")
    is_unfixed = None in form.shape
    sizes = tuple(UNFIXED if size is None else size for size in form.shape)
    steps = tuple(step for step in stride or () if step is not None)
    has_stride = stride is not None and None not in stride and not is_unfixed
    return Tensor(form.dtype, sizes, steps if has_stride else None, form.layout, form.device, is_unfixed)


_LETTERS = "abcdefghijkmnpqrstuvwxyz"
#: Arguments that repeat sizes of tensors.
SIZED = words("""
    size sizes shape input_size input_sizes output_size output_sizes self_sizes num_weights normalized_shape num_classes
    N C HxW n
    """)


class Sizes:
    """Letters for the sizes above 1 of a call's tensors, so that a program can halve each size wherever it occurs."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        above_one = dict.fromkeys(size for tensor in tensors for size in tensor.shape if size > 1)
        self.letters = dict(zip(above_one, _LETTERS, strict=False))

    def name(self, size: int) -> str:
        """Its letter, or the number itself."""
        return self.letters.get(size, str(size))

    def shape(self, sizes: Iterable[int]) -> str:
        """A shape as the program writes it."""
        return f"[{', '.join(map(self.name, sizes))}]"

    def product(self, sizes: Iterable[int]) -> str:
        """A product as the program writes it."""
        return " * ".join(map(self.name, sizes)) or "1"

    @property
    def parameters(self) -> str:
        """As parameters of a function, each with its recorded size."""
        return ", ".join(f"{letter}={size}" for size, letter in self.letters.items())
