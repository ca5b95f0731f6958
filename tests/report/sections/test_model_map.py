"""The map of the model: widths are calls, colours the worst inside, whatever paths are called."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tracer.names import SEVERITY, Verdict
from tracer.report.sections.calls import DEEPEST, MOST_BLOCKS, OUTSIDE, model_map, worst_inside

SAFE, RISK = Verdict.DETERMINISTIC, Verdict.NONDETERMINISTIC
NET = {"net.a": {SAFE: 30}, "net.b.c": {SAFE: 5, RISK: 5}, "net": {SAFE: 10}, "": {SAFE: 50}}
PATHS = st.lists(st.sampled_from("ab."), max_size=6).map("".join)
COUNTS = st.dictionaries(st.sampled_from(SEVERITY), st.integers(0, 9), max_size=3)


def test_a_module_is_as_wide_as_its_calls_and_all_inside() -> None:
    blocks = {block.path or block.label: block for block in model_map(NET)}
    assert {name: (block.depth, block.width, block.calls) for name, block in blocks.items()} == {
        "all calls": (0, 100.0, 100),
        "net": (1, 50.0, 50),
        "net.a": (2, 30.0, 30),
        "net.b": (2, 10.0, 10),
        "net.b.c": (3, 10.0, 10),
        OUTSIDE: (1, 50.0, 50),
    }
    assert blocks["net.b"].left == 30.0


def test_the_worst_inside_gives_the_colour_and_its_count() -> None:
    found = {block.path or block.label: (block.verdict, block.worst) for block in model_map(NET)}
    assert found["net.b"] == found["net"] == found["all calls"] == (RISK, 5)
    assert found["net.a"] == (SAFE, 30)


def test_another_target_colours_the_same_blocks() -> None:
    blocks = model_map(NET)
    other = worst_inside({"net.a": {Verdict.UNKNOWN: 30}, "": {SAFE: 50}}, blocks)
    said = {
        block.path or block.label: (SEVERITY[verdict], calls)
        for block, verdict, calls in zip(blocks, other[::2], other[1::2], strict=True)
    }
    assert said["net.a"] == said["net"] == said["all calls"] == (Verdict.UNKNOWN, 30)
    assert said["net.b"] == (SAFE, 0)
    assert said[OUTSIDE] == (SAFE, 50)


def test_what_is_too_thin_too_deep_or_too_much_is_not_drawn() -> None:
    assert model_map({}) == ()
    deep = model_map({".".join("abcdefghijklmnop"): {SAFE: 1}})
    assert max(block.depth for block in deep) == DEEPEST
    assert len(model_map({f"m{number}": {SAFE: 1} for number in range(1_900)})) == MOST_BLOCKS
    assert [block.path for block in model_map({"big": {SAFE: 10_000}, "tiny": {SAFE: 1}})] == ["", "big"]


@given(st.dictionaries(PATHS, COUNTS, max_size=8))
def test_blocks_nest_and_never_overlap(by_module: dict[str, dict[Verdict, int]]) -> None:
    blocks = model_map(by_module)
    for depth in range(DEEPEST + 1):
        level = sorted(block[3:5] for block in blocks if block.depth == depth)
        for (left, width), (following, _) in pairwise(level):
            assert left + width <= following + 0.01
    assert all(block.left >= -0.01 and block.left + block.width <= 100.01 for block in blocks)
    own = worst_inside(by_module, blocks)
    assert [(SEVERITY.index(block.verdict), block.worst) for block in blocks] == list(
        zip(own[::2], own[1::2], strict=True)
    )
