"""A remedy that its reader can follow: a switch where a library's line is meant, else the line rewritten."""

from __future__ import annotations

import ast

import msgspec
import pytest
import torch
import torch.nn.functional as F

from tests.support.build import call, finding, judgement, trace
from tracer.judging.call_findings import library_of, rewritten, with_own_remedy
from tracer.names import Prerequisite, Rewriting
from tracer.plan import make_plan
from tracer.session import judge
from tracer.tables.loading import load_switches, load_tables

INSIDE = {"location": "transformers/models/vit/modeling_vit.py:90", "called_from": "train.py:7"}
#: A line, how it is rewritten, and what must come out.
LINES = [
    ("out.index_add_(0, idx, src)", Rewriting.INDEX_ADD, "out.index_put_((idx,), src, accumulate=True)"),
    (
        "out = out.index_add(0, idx, src + 1)",
        Rewriting.INDEX_ADD,
        "out = out.index_put((idx,), src + 1, accumulate=True)",
    ),
    (
        "out = torch.index_add(out, dim=0, index=idx, source=src)",
        Rewriting.INDEX_ADD,
        "out = out.index_put((idx,), src, accumulate=True)",
    ),
    (
        "out = torch.index_add(out * 2, 0, idx, src)",
        Rewriting.INDEX_ADD,
        "out = (out * 2).index_put((idx,), src, accumulate=True)",
    ),
    (
        "é, out = 1, out.index_add(0, idx, src)",
        Rewriting.INDEX_ADD,
        "é, out = 1, out.index_put((idx,), src, accumulate=True)",
    ),
    ("out = torch.take(out, idx)", Rewriting.TAKE, "out = out.reshape(-1)[idx]"),
    (
        "out = F.pad(src.T, (1, 2), mode='reflect')",
        Rewriting.REFLECTION_PAD,
        "out = F.pad(src.T.unsqueeze(-2), (1, 2, 0, 0), mode='reflect').squeeze(-2)",
    ),
]


@pytest.mark.parametrize(("line", "how", "new"), LINES, ids=[line for line, _, _ in LINES])
def test_a_rewritten_line_computes_the_same_values(line: str, how: Rewriting, new: str) -> None:
    assert rewritten(line, how) == new

    def outcome(code: str) -> torch.Tensor:
        torch.manual_seed(0)
        names = {
            "torch": torch,
            "F": F,
            "out": torch.randn(5, 4),
            "idx": torch.tensor([0, 3, 3]),
            "src": torch.randn(3, 4),
        }
        exec(code, names)
        made = names["out"]
        assert isinstance(made, torch.Tensor)
        return made

    ast.parse(new)
    torch.testing.assert_close(outcome(new), outcome(line))


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("out.index_add_(1, idx, src)", Rewriting.INDEX_ADD),
        ("out.index_add_(dim, idx, src)", Rewriting.INDEX_ADD),
        ("out.index_add_(0, idx, src, alpha=2)", Rewriting.INDEX_ADD),
        ("out.index_add_(*args)", Rewriting.INDEX_ADD),
        ("out.index_add_(0, **kwargs)", Rewriting.INDEX_ADD),
        ("out.index_add_(0, idx, src).index_add_(0, idx, src)", Rewriting.INDEX_ADD),
        ("out.index_add_(0, idx,", Rewriting.INDEX_ADD),
        ("for x in y:", Rewriting.INDEX_ADD),
        ("scatter(src, idx)", Rewriting.INDEX_ADD),
        ("", Rewriting.INDEX_ADD),
        ("np.take(x, idx)", Rewriting.TAKE),
        ("x.take(idx)", Rewriting.TAKE),
        ("F.pad(x, (1, 1, 1, 1), mode='reflect')", Rewriting.REFLECTION_PAD),
        ("F.pad(x, pads, mode='reflect')", Rewriting.REFLECTION_PAD),
        ("F.pad(x, (1, 1))", Rewriting.REFLECTION_PAD),
        ("F.pad(x, (1, 1), mode=mode)", Rewriting.REFLECTION_PAD),
    ],
)
def test_what_is_not_certain_is_not_rewritten(line: str, how: Rewriting) -> None:
    assert rewritten(line, how) == ""


def test_every_rewriting_belongs_to_a_rule() -> None:
    met = {rule.rewriting for table in load_tables().values() for rule in table.rule}
    assert met - {None} == set(Rewriting)


def test_a_finding_on_a_line_that_the_trace_holds_has_it_rewritten() -> None:
    made = trace(
        call("aten.index_add_.default", location="train.py:3", facts={"device": "cuda", "dtype": "float32"}),
        source_lines={"train.py:3": "out.index_add_(0, idx, src)"},
    )
    (found,) = [one for one in judge(made, backend="cuda").findings if one.rule == "cuda-index-add"]
    assert found.rewritten == "out.index_put_((idx,), src, accumulate=True)"
    assert found.remedy == f"Write `{found.rewritten}`, or turn deterministic mode on."


def test_inside_a_library_a_switch_comes_first_and_no_edit() -> None:
    attention = finding("cuda-flash-attention-backward", deterministic_mode="nondeterministic", **INSIDE)
    told = with_own_remedy(attention, None, load_switches(), {})
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
    told = with_own_remedy(inside, None, load_switches(), {})
    assert says in told.remedy
    assert told.switch.startswith(f"{told.library} ")
    elsewhere = msgspec.structs.replace(inside, location="monai/networks/nets/vit.py:3")
    assert says not in with_own_remedy(elsewhere, None, load_switches(), {}).remedy


def test_where_no_switch_is_known_what_raises_names_warn_only() -> None:
    refused = finding(
        "cuda-histc",
        op="aten.histc.default",
        deterministic_mode="raises",
        remedy="Edit it.",
        needs=(Prerequisite.DETERMINISTIC_MODE,),
        **INSIDE,
    )
    told = with_own_remedy(refused, None, load_switches(), {})
    assert "warn_only=True" in told.remedy
    assert "Edit it" not in told.remedy
    assert told.needs == ()
    (change,) = make_plan(judgement(told))
    assert change.title == "Avoid aten.histc in transformers, which raises under deterministic mode"


def test_what_repeats_with_the_mode_off_and_raises_with_it_is_not_told_to_warn() -> None:
    refused = finding("cuda-histc", verdict="deterministic", deterministic_mode="raises", **INSIDE)
    remedy = with_own_remedy(refused, None, load_switches(), {}).remedy
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
    assert with_own_remedy(attention, None, load_switches(), {}).remedy == "Choose."
    own = finding("cuda-histc", deterministic_mode="raises", location="models/net.py:9")
    assert library_of(own) == ""
    assert with_own_remedy(own, None, load_switches(), {}) == own


def test_every_switch_is_for_rules_that_exist() -> None:
    known = {rule.id for table in load_tables().values() for rule in (*table.rule, *table.libraries)}
    table = load_switches()
    assert [rule for one in table.switch for rule in one.rules if rule not in known] == []
    assert [rule for rule in table.in_hand if rule not in known] == []
    assert all(one.ref and one.what.endswith(".") for one in table.switch)
