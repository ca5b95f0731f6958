"""Facts of every call: what the tensor is that the op works on."""

from __future__ import annotations

from collections.abc import Mapping

from tracer.facts.argument_readers import MISSING
from tracer.facts.fact import Fact, Kind

#: dtype classes that a condition may write in place of their members. Every float8 format is "float8", every quantized
#: one "quantized".
DTYPE_CLASSES: Mapping[str, tuple[str, ...]] = {
    "floating": ("float64", "float32", "float16", "bfloat16", "float8"),
    "complex": ("complex128", "complex64", "complex32"),
    "integral": ("int64", "int32", "int16", "int8", "uint8", "uint64", "uint32", "uint16"),
    "boolean": ("bool",),
    "quantized": ("quantized",),
    "none": ("none", "other"),
}

FACTS = (
    Fact("device", ("cpu", "cuda", "xpu", "mps", "npu", "meta", "other", "none"), Kind.COMMON, "The tensor's device."),
    Fact("dtype", tuple(name for names in DTYPE_CLASSES.values() for name in names), Kind.COMMON, "Its dtype."),
    Fact(
        "layout",
        ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "mkldnn", "jagged", "none"),
        Kind.COMMON,
        "Its layout.",
        on_plain=MISSING,
    ),
    Fact("ndim", tuple(range(-1, 7)), Kind.COMMON, "Its number of dimensions; 6 for six and more, -1 for no tensor."),
)
