"""Minimal programs that trigger rules, looked up by the ops that they dispatch. All backends share them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from tracer.names import Backend
from tracer.tables.rules import SCHEMA, Rule, check_ops, load

EXAMPLES = Path(__file__).with_name("examples.toml")

#: torch's name of a backend's device, where it differs.
_DEVICES: Mapping[Backend, str] = {Backend.ROCM: "cuda"}


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A program that dispatches certain ops."""

    ops: tuple[str, ...]
    """Packets or overloads that it dispatches, or that the target runs instead of what a CPU dispatches."""
    code: str
    """Its lines. ``torch`` is imported and ``device`` is set before them."""
    cuda_only: str = ""
    """The reason why it cannot run on a CPU, as a phrase; empty if it can."""

    def __post_init__(self) -> None:
        check_ops(self.ops)
        if not self.ops:
            raise ValueError("dispatches no op")
        if not self.code.strip():
            raise ValueError("has no code")


class Examples(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All examples, in the order in which rules search them."""

    schema: int
    example: tuple[Example, ...]

    def of(self, rule: Rule) -> Example | None:
        """The example of a rule: the first one that dispatches one of its ops."""
        return next((example for example in self.example if any(_speaks_of(rule, op) for op in example.ops)), None)


NO_EXAMPLES = Examples(schema=SCHEMA, example=())


@cache
def load_examples() -> Examples:
    """The packaged examples, read and checked once."""
    return load(EXAMPLES, Examples)


def program(example: Example, backend: Backend) -> str:
    """The complete program for a backend, with its imports and its device."""
    imports = "import torch\nimport torch_npu" if backend is Backend.NPU else "import torch"
    return f'{imports}\n\ndevice = "{_DEVICES.get(backend, backend.value)}"\n\n{example.code.strip()}\n'


def _speaks_of(rule: Rule, op: str) -> bool:
    """Whether a rule names an op, its packet, or one of its overloads."""
    return any(op == name or op.startswith(f"{name}.") or name.startswith(f"{op}.") for name in rule.ops)
