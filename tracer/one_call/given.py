"""What a trace says that a call was given, read from its text by Python's own parser."""

from __future__ import annotations

import ast
import re
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


_WORD = re.compile(r"torch\.\w+(\(\)|\('\w+'\))?\Z")
_NUMBERS = {"inf": float("inf"), "nan": float("nan")}
_DEVICES = ("cpu", "cuda", "xpu", "mps", "npu", "meta", "hpu", "xla")


def given_by(text: str) -> dict[str, Any]:
    """The arguments that ``CallGroup.arguments`` spells, by name. Raises ``ValueError`` for a text of another form."""
    try:
        call = ast.parse(f"call({text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise ValueError(f"cannot be read: {problem}") from problem
    if not isinstance(call, ast.Call) or call.args:
        raise ValueError("is no list of named arguments")
    return {_name(one.arg): _read(one.value) for one in call.keywords if one.arg is not None}


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
        return -_read(node.operand)
    if isinstance(node, ast.Name):
        return _NUMBERS[node.id]
    if isinstance(node, ast.BinOp):  # a complex number
        return ast.literal_eval(node)
    if isinstance(node, ast.Call) or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        text = ast.unparse(node)
        if not _WORD.match(text):  # what comes from a trace becomes part of a program
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
    if not isinstance(node, ast.Name) or not sizes:
        raise ValueError(f"holds {ast.unparse(node)}, which is no tensor")
    shape, stride = sizes[0], sizes[1] if len(sizes) > 1 else None
    unfixed = None in shape
    if unfixed or (stride is not None and None in stride):
        stride = None
    return Tensor(
        node.id,
        tuple(UNFIXED if size is None else size for size in shape),
        None if stride is None else tuple(step for step in stride if step is not None),
        next((word for word in words if word not in _DEVICES), ""),
        next((word for word in words if word in _DEVICES), ""),
        unfixed,
    )


def _sizes(node: ast.expr) -> tuple[int | None, ...]:
    value = ast.literal_eval(node)
    return value if isinstance(value, tuple) else (value,)
