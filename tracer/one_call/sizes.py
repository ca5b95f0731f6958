"""The sizes of one call by letters, so that a program can halve each wherever it occurs."""

from __future__ import annotations

from collections.abc import Iterable

from tracer.one_call.given import Tensor

_LETTERS = "abcdefghijkmnpqrstuvwxyz"
#: Numbers among the arguments that repeat sizes of tensors.
SIZED = frozenset(
    (
        *("size", "sizes", "shape", "input_size", "input_sizes", "output_size", "output_sizes", "self_sizes"),
        *("num_weights", "normalized_shape", "num_classes", "N", "C", "HxW", "n"),
    )
)


class Sizes:
    """Letters for the sizes above 1 of all tensors; equal sizes share one."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        found = dict.fromkeys(size for tensor in tensors for size in tensor.shape if size > 1)
        self.letters = dict(zip(found, _LETTERS, strict=False))

    def name(self, size: int) -> str:
        """Its letter, or the number itself."""
        return self.letters.get(size, str(size))

    def shape(self, sizes: Iterable[int]) -> str:
        """A shape as the program writes it."""
        return f"[{', '.join(map(self.name, sizes))}]"

    @property
    def parameters(self) -> str:
        """As parameters of a function, each with its recorded size."""
        return ", ".join(f"{letter}={size}" for size, letter in self.letters.items())
