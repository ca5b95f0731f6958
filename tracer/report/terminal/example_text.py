"""Examples in a terminal: the program that triggers a rule, ready to be copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from tracer.names import Backend
from tracer.report.terminal.terminal import Prose
from tracer.tables.examples import Example, Examples, program
from tracer.tables.explaining import Explanation
from tracer.tables.model import Rule


def example_parts(rule: Rule, backend: Backend, examples: Examples) -> Iterator[RenderableType]:
    """The rule's own example, where it has one."""
    example = examples.of(rule)
    if example is not None:
        yield Padding(Text(label(example)), (0, 0, 0, 2))
        yield _code(program(example, backend))


def examples_parts(told: Sequence[Explanation], examples: Examples) -> Iterator[RenderableType]:
    """Each example once, whatever the number of rules and backends that it serves.

    It is spelt for CUDA where CUDA's rules are among them, since it is what most people ask about.
    """
    served: dict[Example, dict[Backend, str]] = {}
    for explanation in told:
        for rule, span in explanation.rules:
            example = examples.of(rule) if span is not None else None
            if example is not None:
                served.setdefault(example, {}).setdefault(explanation.backend, rule.id)
    for example, rules in served.items():
        backend = Backend.CUDA if Backend.CUDA in rules else next(iter(rules))
        yield Text()
        yield Prose(f"{label(example)} {', '.join(rules.values())}", style="bold")
        yield _code(program(example, backend))


def label(example: Example) -> str:
    """What stands above an example."""
    return f"Example (needs a device: {example.cuda_only}):" if example.cuda_only else "Example:"


def _code(text: str) -> RenderableType:
    return Padding(Text(text.rstrip(), overflow="fold"), (0, 0, 0, 4))
