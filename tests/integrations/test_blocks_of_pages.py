"""The Python of README and docs compiles, and what it imports of this package is there."""

from __future__ import annotations

import ast
import re
from importlib import import_module

import pytest

from docs.making.pages import written_pages
from tracer.integrations.chosen_steps import ChosenSteps
from tracer.integrations.pytest_plugin import _ALLOWED

BLOCKS = [
    block
    for page in written_pages()
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
]


def imported() -> list[tuple[str, str]]:
    """Module and name of each import of this package."""
    return sorted(
        {
            (node.module, one.name)
            for block in BLOCKS
            for node in ast.walk(ast.parse(block))
            if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "tracer"
            for one in node.names
        }
    )


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[0])
def test_a_block_compiles_and_fits(block: str) -> None:
    compile(block, "a page", "exec")
    assert max(map(len, block.splitlines())) <= 120


@pytest.mark.parametrize(("module", "name"), imported())
def test_an_import_is_there(module: str, name: str) -> None:
    host = module.rpartition(".")[2] if module.startswith("tracer.integrations.") else "torch"
    pytest.importorskip(host)
    assert hasattr(import_module(module), name)


def calls_of(name: str) -> list[ast.Call]:
    """Calls of ``name`` in the blocks."""
    nodes = (node for block in BLOCKS for node in ast.walk(ast.parse(block)))
    return [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == name]


def test_marks_and_callbacks_take_what_the_pages_pass() -> None:
    assert {"tracer.integrations.lightning", "tracer.integrations.transformers"} <= {one for one, _ in imported()}
    marks = calls_of("pytest.mark.determinism")
    assert {one.arg for mark in marks for one in mark.keywords} <= set(_ALLOWED)
    callbacks = calls_of("DeterminismCallback")
    assert (len(callbacks), bool(marks)) == (2, True)
    for made in callbacks:
        ChosenSteps(**{one.arg: ast.literal_eval(one.value) for one in made.keywords if one.arg})
