"""What a trace says that a call was given, read from its text by Python's own parser."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from keyword import iskeyword
from typing import Any, NamedTuple

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
_WORDS = frozenset(
    (
        *(f"torch.{name}" for name in DTYPES | LAYOUTS | MEMORY_FORMATS),
        *(f"torch.device('{name}')" for name in DEVICES),
        "torch.Generator()",
    )
)
_NUMBERS = {"inf": float("inf"), "nan": float("nan")}
#: A fused optimizer's lists take a few thousand characters.
_LONGEST = 1 << 18
_LARGEST = 2**63 - 1


def given_by(text: str) -> dict[str, Any]:
    """The arguments that ``CallGroup.arguments`` spells, by name. Raises ``ValueError`` for a text of another form.

    What is returned becomes part of a program: plain values, tensors of dtypes, layouts and devices that torch has, and
    words of closed lists.
    """
    if len(text) > _LONGEST:
        raise ValueError("are longer than those of any op")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an escape that Python does not know
            call = ast.parse(f"call({text})", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError("is no list of named arguments")
        if any(one.arg is None for one in call.keywords):
            raise ValueError("is no list of named arguments")
        return {_name(one.arg or ""): _read(one.value) for one in call.keywords}
    except (SyntaxError, RecursionError, MemoryError) as problem:
        raise ValueError(f"cannot be read: {problem}") from problem


def tensors_in(given: dict[str, Any]) -> Iterator[Tensor]:
    """Every tensor among them, those in lists too."""
    for value in given.values():
        for one in value if isinstance(value, list) else (value,):
            if isinstance(one, Tensor):
                yield one


def has_unknown(value: Any) -> bool:
    """Was it, or something in it, not kept?"""
    return isinstance(value, Unknown) or (isinstance(value, list) and any(map(has_unknown, value)))


def _name(name: str) -> str:
    """As the schema has it: a keyword of Python's was written with ``_`` behind it."""
    stem = name.removesuffix("_")
    return stem if iskeyword(stem) else name


def _read(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return Unknown() if node.value is ... else node.value
    if isinstance(node, ast.List):
        return [_read(one) for one in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _read(node.operand)
        if type(value) not in (int, float, complex):
            raise ValueError(f"holds {ast.unparse(node)}, which is no number")
        return -value
    if isinstance(node, ast.Name) and node.id in _NUMBERS:
        return _NUMBERS[node.id]
    if isinstance(node, ast.BinOp):  # a complex number
        return ast.literal_eval(node)
    if isinstance(node, ast.Call) or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        text = ast.unparse(node)
        if text not in _WORDS:
            raise ValueError(f"holds {text}, which is no word of torch")
        return Word(text)
    return _tensor(node)


def _tensor(node: ast.expr) -> Tensor:
    """``float32[10, 4][1, 10].sparse_coo.cpu``."""
    words = []
    while isinstance(node, ast.Attribute):
        words.append(node.attr)
        node = node.value
    sizes: list[tuple[int | None, ...]] = []
    while isinstance(node, ast.Subscript):
        sizes.insert(0, _sizes(node.slice))
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in DTYPES or len(sizes) not in (1, 2):
        raise ValueError(f"holds {ast.unparse(node)}, which is no tensor")
    unknown = next((word for word in words if word not in DEVICES and word not in _NAMED_LAYOUTS), None)
    if unknown is not None:
        raise ValueError(f"holds a tensor of {unknown}, which is no layout and no device")
    shape, stride = sizes[0], sizes[1] if len(sizes) > 1 else None
    if stride is not None and len(stride) != len(shape):
        raise ValueError("holds a tensor with another number of strides than sizes")
    unfixed = None in shape
    if unfixed or (stride is not None and None in stride):
        stride = None
    return Tensor(
        node.id,
        tuple(UNFIXED if size is None else size for size in shape),
        None if stride is None else tuple(step for step in stride if step is not None),
        next((word for word in words if word not in DEVICES), ""),
        next((word for word in words if word in DEVICES), ""),
        unfixed,
    )


def _sizes(node: ast.expr) -> tuple[int | None, ...]:
    sizes: list[int | None] = []
    for part in node.elts if isinstance(node, ast.Tuple) else [node]:
        size = part.value if isinstance(part, ast.Constant) else part
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size > _LARGEST):
            raise ValueError("holds a tensor whose sizes are no numbers")
        sizes.append(size)
    return tuple(sizes)
