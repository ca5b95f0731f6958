"""Calls to try on a device: torch's own operator database, and what that database leaves out.

A ``Sample`` is made outside every mode and run inside one: its inputs are copied afresh for each run, its random
streams are seeded, and it returns the outputs, the gradients and the inputs (an op may write into them).
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pytest
import torch
from torch.utils import _pytree as pytree

DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool)
#: Their result is whatever the memory held before: only its shape can be compared.
UNWRITTEN = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})


def _as_it_is(result: Any) -> Any:
    return result


@dataclass(frozen=True)
class Sample:
    """One call of a public function, with its backward where it has one."""

    entry: str
    """The entry of the operator database, or what stands for one."""
    number: int
    dtype: str
    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    finish: Callable[[Any], Any] = _as_it_is
    """Takes the differentiable part out of a result."""

    @property
    def name(self) -> str:
        """``index_put, float32, sample 3``."""
        return f"{self.entry}, {self.dtype}, sample {self.number}"

    def prepared(self) -> Callable[[], list[torch.Tensor]]:
        """A function that runs the sample once, on inputs of its own."""
        args, kwargs = copied((self.args, self.kwargs))
        seed_everything(1)

        def run() -> list[torch.Tensor]:
            outputs = tensors(self.finish(self.function(*args, **kwargs)))
            given = tensors((args, kwargs))
            leaves = [t for t in given if t.requires_grad]
            roots = [t for t in outputs if t.requires_grad]
            gradients: tuple[torch.Tensor | None, ...] = ()
            if roots and leaves:
                seeds = [torch.randn_like(t) for t in roots]
                gradients = torch.autograd.grad(roots, leaves, seeds, allow_unused=True)
            return [*outputs, *(g for g in gradients if g is not None), *given]

        return run


def llama() -> torch.nn.Module:
    """A small language model of transformers."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 64}
    config = transformers.LlamaConfig(num_attention_heads=4, num_key_value_heads=2, **sizes)
    model: torch.nn.Module = transformers.LlamaForCausalLM(config)
    return model


def seed_everything(seed: int) -> None:
    """Seed torch's and Python's generators; the operator database draws from both."""
    torch.manual_seed(seed)
    random.seed(seed)


def tensors(tree: Any) -> list[torch.Tensor]:
    """The tensors in a nest of tuples, lists and dicts."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def copied(tree: Any) -> Any:
    """``tree`` with fresh leaf tensors; a tensor that stands in two places stays one."""
    made: dict[int, torch.Tensor] = {}

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in made:
            made[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        return made[id(tensor)]

    return pytree.tree_map_only(torch.Tensor, copy, tree)


def operator_database() -> list[Any]:
    """torch's OpInfo entries. Loading them forbids this process to set backend flags; that is taken back."""
    from torch.testing._internal.common_methods_invocations import op_db

    torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = True
    return list(op_db)


def sample_inputs(op: Any, device: str, dtype: torch.dtype, requires_grad: bool) -> Iterator[Any]:
    """An OpInfo entry's own samples.

    torch looks up the stack for the unittest that asks, twice an entry, which under pytest takes ten times as long as
    the samples: there is none here.
    """
    from torch.testing._internal import common_utils
    from torch.testing._internal.opinfo import core

    asks_who = "extract_test_fn"
    with contextlib.ExitStack() as stack:
        for module in (common_utils, core):
            if hasattr(module, asks_who):
                stack.enter_context(mock.patch.object(module, asks_who, return_value=None))
        return iter(op.sample_inputs(device, dtype, requires_grad=requires_grad))


def samples_of(op: Any, device: str, dtype: torch.dtype, count: int) -> Iterator[Sample]:
    """The first ``count`` samples of an OpInfo entry."""
    kind = torch.device(device).type
    differentiates = op.supports_autograd and dtype in op.supported_backward_dtypes(kind)
    seed_everything(0)
    for number, sample in enumerate(itertools.islice(sample_inputs(op, device, dtype, differentiates), count)):
        yield Sample(
            op.formatted_name,
            number,
            str(dtype).removeprefix("torch."),
            op.op,
            (sample.input, *sample.args),
            dict(sample.kwargs),
            sample.output_process_fn_grad,
        )


def dtypes_of(op: Any, device: str) -> tuple[torch.dtype, ...]:
    """The dtypes worth trying that an entry supports, the plainest first."""
    supported = op.supported_dtypes(torch.device(device).type)
    wanted = tuple(one for one in DTYPES if one in supported)
    return wanted or tuple(sorted(supported, key=str))[:1]
