"""A remedy that its reader can follow, a switch where a library's line is meant; a verdict that hangs on sizes."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.build import call, finding, judgement, trace
from tracer import judge
from tracer.judging.call_findings import with_own_remedy
from tracer.names import Prerequisite
from tracer.plan import make_plan
from tracer.report.sections.answers import headline
from tracer.tables.loading import load_switches, load_tables

INSIDE = {"location": "transformers/models/vit/modeling_vit.py:90", "called_from": "train.py:7"}


def test_inside_a_library_a_switch_comes_first_and_no_edit() -> None:
    attention = finding("cuda-flash-attention-backward", deterministic_mode="nondeterministic", **INSIDE)
    told = with_own_remedy(attention, load_switches())
    assert told.library == "transformers"
    assert "attn_implementation" in told.remedy
    assert told.switch.startswith("transformers 5.")


@pytest.mark.parametrize(
    ("rule", "location", "says"),
    [
        ("cuda-efficient-attention-backward", "timm/layers/attention.py:125", "timm.layers.set_fused_attn(False)"),
        ("rocm-flash-attention-backward", "timm/models/eva.py:200", "timm.layers.set_fused_attn(False)"),
        ("cuda-upsample-antialias-backward", "timm/layers/pos_embed.py:54", "`dynamic_img_size` at False"),
        ("cuda-flash-attention-backward", "diffusers/models/attention_dispatch.py:3900", "SDPBackend.MATH"),
        ("cuda-sparse-mm", "torch_geometric/utils/_spmm.py:116", "`edge_index`"),
    ],
)
def test_a_switch_is_that_of_the_library_whose_line_it_is(rule: str, location: str, says: str) -> None:
    inside = finding(rule, deterministic_mode="nondeterministic", location=location, called_from="train.py:7")
    told = with_own_remedy(inside, load_switches())
    assert says in told.remedy
    assert told.switch.startswith(f"{told.library} ")
    elsewhere = msgspec.structs.replace(inside, location="monai/networks/nets/vit.py:3")
    assert says not in with_own_remedy(elsewhere, load_switches()).remedy


def test_where_no_switch_is_known_what_raises_names_warn_only() -> None:
    refused = finding(
        "cuda-histc",
        op="aten.histc.default",
        deterministic_mode="raises",
        remedy="Edit it.",
        needs=(Prerequisite.DETERMINISTIC_MODE,),
        **INSIDE,
    )
    told = with_own_remedy(refused, load_switches())
    assert "warn_only=True" in told.remedy
    assert "Edit it" not in told.remedy
    assert told.needs == ()
    (change,) = make_plan(judgement(told))
    assert change.title == "Avoid aten.histc in transformers, which raises under deterministic mode"


def test_what_repeats_with_the_mode_off_and_raises_with_it_is_not_told_to_warn() -> None:
    refused = finding("cuda-histc", verdict="deterministic", deterministic_mode="raises", **INSIDE)
    remedy = with_own_remedy(refused, load_switches()).remedy
    assert "warn_only" not in remedy
    assert "is deterministic with deterministic mode off" in remedy


def test_a_rule_whose_remedy_is_made_from_outside_keeps_it_and_so_does_a_line_of_ones_own() -> None:
    attention = finding(
        "cuda-flash-attention-backward",
        deterministic_mode="raises",
        remedy="Choose.",
        location="monai/networks/blocks/selfattention.py:9",
        called_from="train.py:7",
    )
    assert with_own_remedy(attention, load_switches()).remedy == "Choose."
    own = finding("cuda-histc", deterministic_mode="raises", location="models/net.py:9")
    assert with_own_remedy(own, load_switches()) == own


def test_every_switch_is_for_rules_that_exist() -> None:
    known = {rule.id for table in load_tables().values() for rule in (*table.rule, *table.libraries)}
    table = load_switches()
    assert [rule for one in table.switch for rule in one.rules if rule not in known] == []
    assert [rule for rule in table.in_hand if rule not in known] == []
    assert all(one.ref and one.what.endswith(".") for one in table.switch)


@pytest.mark.parametrize(
    ("op", "facts", "settings", "hangs"),
    [
        ("aten.embedding_dense_backward.default", {"shape.rows_repeat_long": False}, "default", "many more indices"),
        ("aten.embedding_dense_backward.default", {"shape.rows_repeat_long": False}, "deterministic", ""),
        ("aten.cumsum.default", {"shape.scan_is_whole": False, "dtype": "float32"}, "default", "one scan over a whole"),
        ("aten._ctc_loss_backward.default", {"shape.ctc_small": True}, "default", "repeated labels of one target"),
        ("aten.histc.default", {"shape.numel_gt_16777216": False, "dtype": "float32"}, "default", "bins of floating"),
        ("aten.add.Tensor", {"shape.same_size": True}, "default", ""),
    ],
)
def test_what_is_safe_by_its_sizes_alone_is_so_at_this_size_only_for_a_reason(
    op: str, facts: dict[str, bool | str], settings: str, hangs: str
) -> None:
    made = judge(trace(call(op, facts={"device": "cuda", **facts}, count=3)), backend="cuda", settings=settings)
    assert made.tally.as_is == {"deterministic": 3}
    found = [(bound.op, bound.calls) for bound in made.judgement.at_this_size]
    assert found == [(op.removesuffix(".default"), {"train.py:10": 3})] * bool(hangs)
    says = f"at this size only, 3 calls of {op.removesuffix('.default')} (train.py:10) repeat: {hangs}"
    assert (says in headline(made)[1]) is bool(hangs)


@pytest.mark.parametrize(("also", "says"), [("aten.index_add_.default", "settles that too"), ("", "record it too")])
def test_a_larger_size_asks_for_a_recording_where_the_plan_does_not_settle_it(also: str, says: str) -> None:
    facts = {"device": "cuda", "dtype": "float32", "shape.rows_repeat_long": False}
    calls = [call(op, facts=facts) for op in ("aten.embedding_dense_backward.default", also) if op]
    assert headline(judge(trace(*calls), backend="cuda", settings="default"))[1].endswith(says)


def test_a_call_that_varies_at_its_size_is_a_finding_and_no_caveat() -> None:
    facts = {"device": "cuda", "shape.rows_repeat_long": True}
    made = judge(trace(call("aten.embedding_dense_backward.default", facts=facts)), backend="cuda", settings="default")
    assert made.tally["nondeterministic"] == 1
    assert made.judgement.at_this_size == ()
