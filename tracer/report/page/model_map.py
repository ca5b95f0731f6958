"""The model as nested blocks: each module as wide as its calls, in the colour of the worst verdict inside.

Laid out here and not in the page, so that it stands on paper and without scripts too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tracer.names import SEVERITY, Verdict

#: Blocks that are drawn, the widest first; levels below the root; the thinnest block in percent of the whole.
MOST_BLOCKS = 500
DEEPEST = 10
THINNEST = 0.05
OUTSIDE = "outside modules"


class Block(NamedTuple):
    """One module with all that it contains."""

    path: str
    """As ``named_modules()`` spells it; empty for the whole, and for calls outside modules."""
    label: str
    depth: int
    left: float
    """Percent of the whole width."""
    width: float
    calls: int
    verdict: Verdict
    """The worst inside, as the settings stand."""
    worst: int
    """Calls of that verdict."""
    is_outside: bool = False
    """Does it stand for the calls outside modules?"""


class _Module:
    """A node of the tree of module paths."""

    def __init__(self, path: str, label: str) -> None:
        self.path = path
        self.label = label
        self.counts: Counter[Verdict] = Counter()
        """Of all calls inside."""
        self.children: dict[str, _Module] = {}

    @property
    def calls(self) -> int:
        return sum(self.counts.values())


def model_map(by_module: Mapping[str, Mapping[Verdict, int]]) -> tuple[Block, ...]:
    """The whole, then its modules from the outside in, neighbours in the order in which they first ran."""
    root = _tree(by_module)
    if not root.calls:
        return ()
    blocks = [block for block in _blocks(root, 0, 0.0, 100.0) if block.width >= THINNEST]
    if len(blocks) > MOST_BLOCKS:
        least = sorted((block.width for block in blocks), reverse=True)[MOST_BLOCKS - 1]
        blocks = [block for block in blocks if block.width >= least][:MOST_BLOCKS]
    return tuple(blocks)


def worst_inside(by_module: Mapping[str, Mapping[Verdict, int]], blocks: tuple[Block, ...]) -> list[int]:
    """For ``blocks`` of another target: each its worst verdict's place in ``SEVERITY``, then its calls."""
    root = _tree(by_module)
    found: list[int] = []
    for block in blocks:
        node: _Module | None = root
        if block.is_outside:
            node = root.children.get("")
        else:
            for name in block.path.split(".") if block.depth else ():
                node = node.children.get(name) if node is not None else None
        verdict, calls = _worst(node.counts) if node is not None else (Verdict.DETERMINISTIC, 0)
        found += SEVERITY.index(verdict), calls
    return found


def _tree(by_module: Mapping[str, Mapping[Verdict, int]]) -> _Module:
    root = _Module("", "all calls")
    for path, counts in by_module.items():
        root.counts.update(counts)
        node = root
        parts = path.split(".")[:DEEPEST] if path else [""]
        for depth, name in enumerate(parts, 1):
            known = node.children.get(name)
            if known is None:
                known = node.children[name] = _Module(".".join(parts[:depth]), (name or ".") if path else OUTSIDE)
            known.counts.update(counts)
            node = known
    return root


def _blocks(module: _Module, depth: int, left: float, width: float) -> Iterator[Block]:
    verdict, worst = _worst(module.counts)
    is_outside = depth == 1 and not module.path and module.label == OUTSIDE
    yield Block(
        module.path, module.label, depth, round(left, 3), round(width, 3), module.calls, verdict, worst, is_outside
    )
    for child in module.children.values():
        share = width * child.calls / module.calls if module.calls else 0.0
        yield from _blocks(child, depth + 1, left, share)
        left += share


def _worst(counts: Mapping[Verdict, int]) -> tuple[Verdict, int]:
    return next(((verdict, counts[verdict]) for verdict in SEVERITY if counts.get(verdict)), (Verdict.DETERMINISTIC, 0))
