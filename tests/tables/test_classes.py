"""Classes of ops that no device can make vary: what a table takes over, and whether their reasons hold on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from packaging.version import Version
from torch import Tensor

from tests.tables.samples import parse_classes, rule_text, table
from tracer.errors import TableError
from tracer.names import Verdict
from tracer.tables.conditions import BoundRule
from tracer.tables.lint import faults_of
from tracer.tables.loading import load_classes, load_tables, with_classes
from tracer.tables.rules import DOMAINS, RuleTable

CLASSES = load_classes()
NPU = 'schema = 1\nbackend = "npu"\nreviewed = ">=1.11,<=2.15"\ndeny_list = false\nclasses = {}\n'
HEAD = 'schema = 1\nreviewed = ">=1.11,<=2.15"\n'
SURE = '{ verdict = "deterministic" }'


def class_text(*cases: str, id: str = "class-sample", ops: str = '["aten.mul", "aten.add"]') -> str:
    return rule_text(*(cases or (SURE,)), id=id, ops=ops)


def own(*rules: str, classes: str = '["sample"]') -> RuleTable:
    return table(*(rules or (rule_text(id="npu-own", ops='["aten.mm"]'),)), head=NPU.format(classes))


SAMPLE = parse_classes(HEAD + class_text(), "classes.toml")


def test_a_table_takes_a_class_over_under_its_own_name() -> None:
    merged = with_classes(own(), SAMPLE)
    found = merged.find("aten.mul.Tensor")
    assert found is not None
    assert found.id == "npu-sample"
    assert list(faults_of(merged)) == []


def test_a_tables_own_rule_keeps_an_op_out_of_its_class() -> None:
    merged = with_classes(own(rule_text(id="npu-mul", ops='["aten.mul"]')), SAMPLE)
    assert [(rule.id, rule.ops) for rule in merged.rule] == [("npu-mul", ("aten.mul",)), ("npu-sample", ("aten.add",))]
    assert list(faults_of(merged)) == []
    whole = with_classes(own(rule_text(id="npu-both", ops='["aten.mul", "aten.add"]')), SAMPLE)
    assert [rule.id for rule in whole.rule] == ["npu-both"]


def test_a_class_that_does_not_exist_is_refused_in_one_line() -> None:
    with pytest.raises(TableError, match="no class 'elementwize'") as caught:
        with_classes(own(classes='["elementwize"]'), SAMPLE)
    assert caught.value.hint == "classes.toml has sample"


def test_a_class_that_ships_says_of_no_call_that_it_varies() -> None:
    assert {case.verdict for rule in CLASSES.rule for case in rule.case} <= {Verdict.DETERMINISTIC, Verdict.UNKNOWN}
    assert sum(bool(one.classes) for one in load_tables().values()) == 4


def ops_of(name: str) -> tuple[str, ...]:
    (rule,) = [rule for rule in CLASSES.rule if rule.id == f"class-{name}"]
    return rule.ops


def overloads(op: str) -> Iterator[torch._ops.OpOverload]:
    packet = getattr(torch.ops.aten, op.removeprefix("aten."))
    return (getattr(packet, name) for name in packet.overloads())


#: The classes were read from torch 2.13: older releases lack some of their ops, and the tag on others.
as_read = pytest.mark.skipif(Version(torch.__version__) < Version("2.13"), reason="the classes are those of torch 2.13")


@as_read
def test_every_pointwise_op_bears_the_tag_that_its_reason_names() -> None:
    for op in ops_of("pointwise"):
        assert any(torch.Tag.pointwise in overload.tags for overload in overloads(op)), op


@as_read
@pytest.mark.parametrize("name", ["pointwise", "elementwise", "foreach", "views", "copies", "exact"])
def test_no_op_of_a_class_draws_or_multiplies_matrices(name: str) -> None:
    for op in ops_of(name):
        assert not any(torch.Tag.nondeterministic_seeded in overload.tags for overload in overloads(op)), op
        assert not op.endswith(("mm", "mv", "dot")), op


#: Views that copy where no view exists, or that say of themselves that they are none.
PLAIN_COPIES = frozenset(
    [
        *("as_tensor", "contiguous", "flatten", "lift_fresh", "pin_memory", "ravel", "reshape", "reshape_as", "to"),
        *("resolve_conj", "resolve_neg", "_reshape_alias", "_unsafe_view"),
        *("unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"),
    ]
)


def test_every_op_among_the_views_returns_its_inputs_memory_or_a_number() -> None:
    for op in ops_of("views"):
        for overload in overloads(op):
            if overload._overloadname.endswith("out") or op.removeprefix("aten.") in PLAIN_COPIES:
                continue
            returns = overload._schema.returns
            assert all(one.alias_info is not None or "Tensor" not in str(one.type) for one in returns), op


a = torch.ops.aten
X, Y = torch.linspace(-3, 3, 64), torch.linspace(2, 5, 64)

#: Ops without the tag, of tensors alone: what they compute of a part of the inputs is the part of what they compute.
LOCAL: dict[str, Callable[..., Tensor]] = {
    "aten.floor_divide": a.floor_divide,
    "aten.rsub": a.rsub,
    "aten.isclose": a.isclose,
    "aten.complex": a.complex,
    "aten.polar": a.polar,
    "aten.arctan2": a.arctan2,
    "aten.leaky_relu_backward": partial(a.leaky_relu_backward, negative_slope=0.1, self_is_result=False),
    "aten.elu_backward": lambda x, y: a.elu_backward(x, 1, 1, 1, False, y),
    "aten.hardtanh_backward": partial(a.hardtanh_backward, min_val=-1, max_val=1),
    "aten.hardswish_backward": a.hardswish_backward,
    "aten.hardsigmoid_backward": a.hardsigmoid_backward,
    "aten.hardshrink_backward": partial(a.hardshrink_backward, lambd=0.5),
    "aten.softshrink_backward": partial(a.softshrink_backward, lambd=0.5),
    "aten.softplus_backward": partial(a.softplus_backward, beta=1, threshold=20),
    "aten.mish_backward": a.mish_backward,
    "aten.hardswish": lambda x, _: a.hardswish(x),
    "aten.log_sigmoid_forward": lambda x, _: a.log_sigmoid_forward(x)[0],
    "aten.huber_loss_backward": lambda x, y: a.huber_loss_backward(torch.ones_like(x), x, y, 0, 1.0),
    "aten.glu": lambda x, y: F.glu(torch.stack([x, y], 1), 1).flatten(),
    "aten.linalg_cross": lambda x, y: torch.linalg.cross(torch.stack([x, y, x], 1), torch.stack([y, y, x], 1)),
    "aten._softmax": lambda x, _: torch.softmax(x, 0),
}


def is_local(function: Callable[..., Tensor]) -> bool:
    """Is what ``function`` makes of each half of its inputs that half of what it makes of all of them, bit for bit?"""
    halves = torch.cat([function(X[:32], Y[:32]), function(X[32:], Y[32:])])
    return torch.equal(halves, function(X, Y))


@pytest.mark.parametrize("op", LOCAL)
def test_an_elementwise_op_computes_each_element_from_its_own_place(op: str) -> None:
    assert (op in ops_of("elementwise")) is is_local(LOCAL[op])


def test_an_update_of_a_fused_optimizer_computes_each_element_from_its_own_place() -> None:
    def stepped(values: Tensor, gradient: Tensor) -> Tensor:
        moments = [torch.zeros_like(values) for _ in range(2)]
        parts = ([values.clone()], [gradient], [moments[0]], [moments[1]], [], [torch.tensor(1.0)])
        a._fused_adamw_(
            *parts, lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False
        )
        return parts[0][0]

    assert is_local(stepped)


def test_sparse_sums_are_in_no_class_of_what_is_sure() -> None:
    for name in ("pointwise", "elementwise", "foreach"):
        (rule,) = [rule for rule in CLASSES.rule if rule.id == f"class-{name}"]
        bound = BoundRule(rule, "2.13.0", {})
        sure = {
            (layout, sparse)
            for layout in DOMAINS["layout"]
            for sparse in (True, False)
            if bound.decide({"layout": layout, "operands.sparse": sparse}).verdict is Verdict.DETERMINISTIC
        }
        assert sure == {(layout, False) for layout in ("strided", "mkldnn", "jagged", "none")}
