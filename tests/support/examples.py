"""The examples of the tables, run on this CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType

import pytest
from torch import distributed

from tracer import DeterminismTracer, Trace
from tracer.names import Backend
from tracer.tables.explaining import Example, load_examples, program

#: Those that a CPU can run.
RUN = [example for example in load_examples().example if not example.cuda_only]


def first_op(example: Example) -> str:
    """What a test calls an example."""
    return example.ops[0]


@contextmanager
def groups_of_gloo() -> Iterator[None]:
    """Process groups that an example makes are gloo's, unless it names another, and end with it."""
    begin = distributed.init_process_group
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(distributed, "init_process_group", lambda backend="gloo", **how: begin(backend, **how))
            yield
    finally:
        if distributed.is_initialized():  # one that failed: the next example starts its own
            distributed.destroy_process_group()


def code_of(text: str) -> CodeType:
    """``text`` as a program of its own."""
    return compile(text, "example.py", "exec")


@cache
def recorded(example: Example) -> Trace:
    """What the example dispatches on a CPU."""
    with groups_of_gloo(), DeterminismTracer() as tracer:
        exec(code_of(program(example, Backend.CPU)), {})
    return tracer.trace
