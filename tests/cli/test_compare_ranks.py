"""One process against two ranks: layouts that only round otherwise, and faults that a layout can have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Command, ranks, tracer_process
from tests.support.layouts import LAYOUT_FAULTS, RANKS, LayoutFault


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script, a recording of one process, and its yardstick."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "train.py").write_text(RANKS)
    for name, options in {"one": (), "shaken": ("--shake", "1")}.items():
        done = tracer_process("run", "--magnitudes", *options, "-o", f"{name}.json", "train.py", "one", "", cwd=folder)
        assert done.code == 0, done.err
    return folder


def against(tracer: Command, folder: Path, layout: str, fault: str = "") -> dict[str, Any]:
    name = f"{layout}-{fault}.json"
    whole = ("--rows-of", "one.json")
    done = ranks("run", "--magnitudes", *whole, "-o", name, "train.py", layout, fault, cwd=folder)
    assert [one.code for one in done] == [0, 0], done[0].err + done[1].err
    compared = tracer(
        "diff", folder / "one.json", folder / name, "--yardstick", folder / "shaken.json", "--format", "json"
    )
    document: dict[str, Any] = json.loads(compared.out)
    assert compared.code == (document["verdict"] == "significant"), compared.err
    return document


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["ddp", "fsdp", "tp"])
def test_a_layout_over_two_ranks_is_rounding(tracer: Command, one_process: Path, layout: str) -> None:
    document = against(tracer, one_process, layout)
    assert document["verdict"] == "rounding"
    only = {(one["place"], one["lack"]) for one in document["only"]}
    columns = {(f"Net.blocks.{block}.up", "other-shape") for block in range(2)}
    inputs = {(f"Net.blocks.{block}.down", "other-shape") for block in range(2)}
    assert only == (columns | inputs if layout == "tp" else set())
    # gradients, parameters and two states of each of 15 parameters in two steps, and the parameters at first
    assert document["places"] >= 15 * (1 + 2 * 4)
    assert document["split_steps"] == ([] if layout == "tp" else [0, 1])
    assert document["row_steps"] == document["split_steps"]


@pytest.mark.slow
@pytest.mark.parametrize("planted", LAYOUT_FAULTS, ids=lambda planted: f"{planted.layout}-{planted.fault}")
def test_a_fault_of_a_layout_is_found_where_it_is(tracer: Command, one_process: Path, planted: LayoutFault) -> None:
    document = against(tracer, one_process, planted.layout, planted.fault)
    assert document["verdict"] == "significant"
    assert (document["first"]["place"], document["first"]["kind"]) == (planted.place, planted.kind)
    assert document["first"]["ranks_differ"] == ((planted.layout, planted.fault) == ("ddp", "not-reduced"))


@pytest.mark.slow
def test_what_only_some_ranks_recorded_is_refused_or_said(tracer: Command, one_process: Path) -> None:
    against(tracer, one_process, "fsdp")
    (one_process / "fsdp-.rank1.values").rename(one_process / "away.values")
    by_yardstick = ("--yardstick", one_process / "shaken.json")
    refused = tracer("diff", one_process / "one.json", one_process / "fsdp-.json", *by_yardstick)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "1 of 2 ranks" in refused.err
    alone = tracer("diff", one_process / "one.json", one_process / "fsdp-.rank0.json", *by_yardstick)
    assert alone.code == 2
    assert "all ranks" in alone.err
