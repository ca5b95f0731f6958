"""What a trace says that a call was given, as far as torch has it: it becomes part of a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tracer.trace.arguments import Argument, DeviceType, NotKept, Number, TensorForm, TorchWord

#: Stands in for a size that was not fixed in compiled code.
UNFIXED = 16


class Tensor(NamedTuple):
    """A tensor without its data."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None = None
    """``None`` for one without gaps in the usual order."""
    layout: str = ""
    """``sparse_coo`` and its like; empty for a strided one."""
    device: str = ""
    """Where it lay, if not where the call ran."""
    is_unfixed: bool = False
    """Was a size not fixed, so that another stands in its place?"""

    @property
    def is_floating(self) -> bool:
        return self.dtype.startswith(("float", "bfloat", "complex"))

    @property
    def is_integer(self) -> bool:
        return self.dtype.startswith(("int", "uint"))

    @property
    def numel(self) -> int:
        """Its elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count


class Word(NamedTuple):
    """A name of torch's: ``torch.float32``, ``torch.device('cpu')``."""

    text: str


class Unknown(NamedTuple):
    """Something that was not kept."""


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


#: The types of device that torch has, and the names by which vendors call one of their own.
DEVICES = words("""
    cpu cuda hip xpu mps npu meta hpu xla mtia maia ipu vulkan opengl opencl ideep ve fpga lazy privateuseone
    """)
#: As ``str`` writes them, without ``torch.``; what a trace calls otherwise is no dtype of a release that we know.
DTYPES = words("""
    bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64
    complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2 quint8 qint8
    qint32 quint4x2 quint2x4 bits8 bits16 bits1x8 bits2x4 bits4x2 int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3
    uint4 uint5 uint6 uint7
    """)
LAYOUTS = words("strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc _mkldnn jagged")
#: As a tensor's form names them.
_NAMED_LAYOUTS = frozenset(name.removeprefix("_") for name in LAYOUTS)
MEMORY_FORMATS = words("contiguous_format channels_last channels_last_3d preserve_format")
_WORDS = DTYPES | LAYOUTS | MEMORY_FORMATS | {"Generator"}
_LARGEST = 2**63 - 1


def given_by(given: Mapping[str, Argument]) -> dict[str, Any]:
    """``CallGroup.given`` as a program may write it. Raises ``ValueError`` for what torch has not.

    What is returned becomes part of a program: plain values, tensors of dtypes, layouts and devices that torch has, and
    words of closed lists.
    """
    odd = next((name for name in given if not name.isidentifier()), None)
    if odd is not None:
        raise ValueError(f"are named {odd!r}, which is no name")
    return {name: _checked(value) for name, value in given.items()}


def tensors_in(given: dict[str, Any]) -> Iterator[Tensor]:
    """Every tensor among them, those in lists too."""
    for value in given.values():
        for one in value if isinstance(value, list) else (value,):
            if isinstance(one, Tensor):
                yield one


def has_unknown(value: Any) -> bool:
    """Was it, or something in it, not kept?"""
    return isinstance(value, Unknown) or (isinstance(value, list) and any(map(has_unknown, value)))


def _checked(value: object) -> Any:
    if isinstance(value, list):
        return [_checked(one) for one in value]
    if isinstance(value, TensorForm):
        return _tensor(value)
    if isinstance(value, TorchWord | DeviceType):
        known = _WORDS if isinstance(value, TorchWord) else DEVICES
        if (value.name if isinstance(value, TorchWord) else value.type) not in known:
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
    unknown = [(form.layout, _NAMED_LAYOUTS), (form.device, DEVICES), (form.dtype, DTYPES)]
    odd = next((word for word, known in unknown if word not in known and (word or known is DTYPES)), None)
    if odd is not None:
        raise ValueError(f"holds a tensor of {odd}, which is no dtype, no layout and no device")
    stride = form.stride
    if stride is not None and len(stride) != len(form.shape):
        raise ValueError("holds a tensor with another number of strides than sizes")
    if any(size is not None and not 0 <= size <= _LARGEST for size in (*form.shape, *(stride or ()))):
        raise ValueError("holds a tensor whose sizes are no numbers")
    is_unfixed = None in form.shape
    return Tensor(
        form.dtype,
        tuple(UNFIXED if size is None else size for size in form.shape),
        None if stride is None or is_unfixed or None in stride else tuple(step for step in stride if step is not None),
        form.layout,
        form.device,
        is_unfixed,
    )
