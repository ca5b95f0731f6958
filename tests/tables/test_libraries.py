"""Rules for ops that libraries bring along: when they are asked, for whom, and what they read of a call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.support.build import call, trace
from tests.tables.samples import HEAD, parse_libraries, parse_table, rule_text
from tracer import DeterminismTracer, judge
from tracer.errors import TableError
from tracer.names import About, Backend, Cause, UnknownReason, Verdict
from tracer.tables.lint import faults_of
from tracer.tables.loading import load_libraries, load_tables, named_variables, required_facts
from tracer.tables.rules import LibraryRule, LibraryTable, RuleTable

LIBRARIES = load_libraries()
LIBRARY_HEAD = HEAD.replace('backend = "cuda"\n', "")


def libraries(*rules: str) -> LibraryTable:
    return parse_libraries(LIBRARY_HEAD + "".join(rules), "sample.toml")


def library_rule(*cases: str, backends: str = "", id: str = "lib-sample", ops: str = '["toy.sample"]') -> str:
    text = rule_text(*cases, id=id, ops=ops)
    return text.replace("[[rule]]", f"[[rule]]\nbackends = {backends}") if backends else text


def test_a_backends_table_finds_a_rule_where_it_holds_and_nowhere_else() -> None:
    def is_held(holder: RuleTable, rule: LibraryRule) -> bool:
        holds = not rule.backends or holder.backend in rule.backends
        found = [holder.find(op.replace("*", "of_nobody") + ".default") for op in rule.ops]
        return all((one == rule) is holds or one in holder.rule for one in found)

    for holder in load_tables().values():
        assert holder.libraries == LIBRARIES.speaking_of(holder.backend)
        assert [rule.id for rule in LIBRARIES.rule if not is_held(holder, rule)] == []


def test_a_backends_own_rule_comes_before_a_librarys() -> None:
    own = parse_table(HEAD + rule_text(id="cuda-own", ops='["toy.sample"]'), "sample.toml")
    shared = libraries(library_rule(ops='["toy.sample.default", "toy.*"]'))
    both = RuleTable(schema=1, backend=Backend.CUDA, reviewed=own.reviewed, rule=own.rule, libraries=shared.rule)
    found = {op: both.find(op) for op in ("toy.sample.default", "toy.other.default", "other.sample.default")}
    assert [rule.id if rule else None for rule in found.values()] == ["cuda-own", "lib-sample", None]


def test_a_named_op_comes_before_its_namespace() -> None:
    shared = libraries(library_rule(id="lib-whole", ops='["toy.*"]'), library_rule(id="lib-one"))
    holder = RuleTable(schema=1, backend=Backend.CPU, reviewed=">=1.11", rule=(), libraries=shared.rule)
    found = [holder.find(op) for op in ("toy.sample.default", "toy.sample.out", "toy.other.default")]
    assert [rule.id for rule in found if rule] == ["lib-one", "lib-one", "lib-whole"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (library_rule(id="cuda-sample"), "not kebab-case with the prefix `lib-`"),
        (library_rule(ops='["aten.sample"]'), "is torch's own"),
        (library_rule(ops='["*"]'), "not of the form namespace.name[.overload]"),
        (library_rule(ops='["toy.sample.*"]'), "not of the form namespace.name[.overload]"),
        (library_rule(backends='["recorded"]'), "not for `recorded`"),
    ],
)
def test_a_misspelt_library_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(TableError) as error:
        libraries(text)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_backends_table_names_no_namespace_and_no_library() -> None:
    with pytest.raises(TableError, match="not of the form"):
        parse_table(HEAD + rule_text(ops='["toy.*"]'), "sample.toml")
    misplaced = rule_text(id="lib-sample", ops='["toy.sample"]').replace("[[rule", "[[libraries")
    with pytest.raises(TableError, match=r"libraries belong in libraries\.toml"):
        parse_table(HEAD + rule_text() + misplaced, "sample.toml")


def test_two_rules_may_share_an_op_on_different_backends_alone() -> None:
    apart = libraries(
        library_rule(id="lib-one", backends='["cuda"]'), library_rule(id="lib-two", backends='["cpu", "rocm"]')
    )
    assert list(faults_of(apart)) == []
    together = libraries(library_rule(id="lib-one"), library_rule(id="lib-two", backends='["cpu", "rocm"]'))
    assert set(faults_of(together)) == {"toy.sample: claimed by lib-one and lib-two"}


def test_a_recorder_is_asked_for_what_library_rules_read() -> None:
    assert required_facts()["flash_attn._flash_attn_backward"] == {"arg.deterministic"}
    assert {"FLASH_ATTENTION_DETERMINISTIC", "NVTE_ALLOW_NONDETERMINISTIC_ALGO"} <= named_variables()


def test_an_op_that_no_rule_names_stays_opaque() -> None:
    (finding,) = judge(trace(call("nobody.knows.default")), backend="cuda").findings
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, UnknownReason.OPAQUE)
    assert (finding.rule, finding.cause) == ("cuda-opaque", Cause.OPAQUE)


@pytest.mark.parametrize("backend", load_tables(), ids=str)
def test_a_named_range_of_the_profiler_is_no_finding(backend: Backend) -> None:
    with DeterminismTracer() as tracer, torch.profiler.record_function("step"):
        pass
    ranges = [group for group in tracer.trace.calls if group.op.startswith("profiler.")]
    assert ranges
    assert judge(trace(*ranges), backend=backend).findings == ()


@pytest.fixture
def flash_attention() -> Iterator[None]:
    """An op of the library's name and signature (cut to what matters), which computes nothing."""
    with torch.library._scoped_library("flash_attn", "DEF") as library:
        library.define("_flash_attn_backward(Tensor dout, float dropout_p, bool deterministic) -> Tensor")
        library.impl("_flash_attn_backward", lambda dout, dropout_p, deterministic: dout.clone(), "CPU")
        yield


@pytest.mark.usefixtures("flash_attention")
@pytest.mark.parametrize(("asked", "verdict"), [(False, Verdict.NONDETERMINISTIC), (True, Verdict.DETERMINISTIC)])
def test_flash_attentions_own_argument_decides_and_torchs_mode_does_not(asked: bool, verdict: Verdict) -> None:
    gradient = torch.ones(2)
    with DeterminismTracer() as tracer:
        torch.ops.flash_attn._flash_attn_backward(gradient, 0.0, asked)
    tally = judge(tracer.trace, backend="cuda", settings="default").tally
    on = judge(tracer.trace, backend="cuda", settings="deterministic").tally
    assert tally[verdict] == on[verdict] == 1


@pytest.mark.parametrize(("limit", "verdict"), [(0.0, Verdict.DETERMINISTIC), (2.0, Verdict.NONDETERMINISTIC)])
def test_an_optimizer_of_bitsandbytes_varies_where_it_limits_the_norm(limit: float, verdict: Verdict) -> None:
    with torch.library._scoped_library("bitsandbytes", "DEF") as library:
        library.define("optimizer_update_32bit(str optimizer_name, Tensor(a!) p, float max_unorm) -> ()")
        library.impl("optimizer_update_32bit", lambda optimizer_name, p, max_unorm: None, "CPU")
        weights = torch.ones(2)
        with DeterminismTracer() as tracer:
            torch.ops.bitsandbytes.optimizer_update_32bit("lamb", weights, limit)
    assert judge(tracer.trace, backend="cuda", settings="default").tally[verdict] == 1


@pytest.mark.parametrize(
    ("op", "version", "off", "on"),
    [
        ("_roi_pool_backward", "2.0", Verdict.NONDETERMINISTIC, Verdict.NONDETERMINISTIC),
        ("_roi_pool_backward", "2.6", Verdict.NONDETERMINISTIC, Verdict.RAISES),
        ("_roi_pool_backward", "2.15", Verdict.NONDETERMINISTIC, Verdict.RAISES),
        ("_ps_roi_align_backward", "2.15", Verdict.NONDETERMINISTIC, Verdict.RAISES),
        ("_roi_align_backward", "2.0", Verdict.NONDETERMINISTIC, Verdict.NONDETERMINISTIC),
        ("_roi_align_backward", "2.14", Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL),  # its other way needs Triton
        ("deform_conv2d", "2.6", Verdict.CONDITIONAL, Verdict.RAISES),  # it multiplies within
    ],
)
def test_torchvisions_refusals_came_and_went(op: str, version: str, off: Verdict, on: Verdict) -> None:
    recorded = trace(call(f"torchvision.{op}.default"))
    found = judge(recorded, backend="cuda", torch=version, settings="default").findings
    (finding,) = (one for one in found if one.about is About.CALL)
    assert (finding.verdict, finding.deterministic_mode) == (off, on)


@pytest.mark.parametrize(
    ("beside", "mode", "verdict"),
    [
        (True, "on", Verdict.DETERMINISTIC),
        (True, "warn", Verdict.DETERMINISTIC),
        (False, "on", Verdict.RAISES),
        (False, "warn", Verdict.NONDETERMINISTIC),
        (None, "on", Verdict.CONDITIONAL),
    ],
)
def test_what_mode_does_to_roi_align_depends_on_triton(beside: bool | None, mode: str, verdict: Verdict) -> None:
    recorded = trace(call("torchvision._roi_align_backward.default"))
    settings = {"deterministic_mode": mode, **({} if beside is None else {"has_triton": beside})}
    assert judge(recorded, backend="cuda", torch="2.13", settings=settings).tally[verdict] == 1


@pytest.mark.parametrize("op", ["_roi_align_backward", "_ps_roi_align_backward"])
@pytest.mark.parametrize(("version", "on"), [("2.13", Verdict.DETERMINISTIC), ("2.15", Verdict.RAISES)])
def test_without_a_region_nothing_is_added_and_older_torchvisions_do_not_refuse(
    op: str, version: str, on: Verdict
) -> None:
    recorded = trace(
        call(f"torchvision.{op}.default", facts={"device": "cpu", "dtype": "float32", "shape.no_elements": True})
    )
    settings = {"has_triton": False, "deterministic_mode": "off"}
    assert judge(recorded, backend="cuda", torch=version, settings=settings).tally[Verdict.DETERMINISTIC] == 1
    settings["deterministic_mode"] = "on"
    assert judge(recorded, backend="cuda", torch=version, settings=settings).tally[on] == 1


@pytest.mark.parametrize(
    ("op", "backend", "verdict"),
    [
        *(
            (f"torchvision.{op}", "cuda", Verdict.DETERMINISTIC)
            for op in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d", "_cuda_version")
        ),
        ("torchvision._cuda_version", "mps", Verdict.DETERMINISTIC),
        ("_torchaudio.cuda_version", "cpu", Verdict.DETERMINISTIC),
        ("torchvision._roi_align_backward", "cpu", Verdict.DETERMINISTIC),
        ("torchvision._roi_align_backward", "mps", Verdict.UNKNOWN),
        ("torchvision.box_iou_rotated", "cuda", Verdict.DETERMINISTIC),
        ("torchvision.box_iou_rotated", "mps", Verdict.UNKNOWN),
        ("torchaudio._lfilter_core_loop", "cuda", Verdict.DETERMINISTIC),
        ("torchaudio._lfilter_core_loop", "xpu", Verdict.UNKNOWN),
        ("torchaudio.forced_align", "cuda", Verdict.DETERMINISTIC),
        ("torchaudio.rnnt_loss_forward", "cpu", Verdict.DETERMINISTIC),
        ("torchaudio.rnnt_loss_forward", "cuda", Verdict.UNKNOWN),  # blocks wait for each other's sums
        ("torchvision.deform_conv2d", "cpu", Verdict.DETERMINISTIC),
        ("torchvision._deform_conv2d_backward", "cpu", Verdict.DETERMINISTIC),
    ],
)
def test_what_was_read_of_torchvision_and_torchaudio_and_what_was_not(op: str, backend: str, verdict: Verdict) -> None:
    judged = judge(trace(call(f"{op}.default")), backend=backend, torch="2.13", settings="default")
    assert judged.tally.as_is == {verdict: 1}


def test_an_op_registered_once_for_every_device_leaves_no_call_while_gradients_are_recorded() -> None:
    """Why torch_scatter's kernels are not seen in training, as the table's head says."""
    with torch.library._scoped_library("toy_scatter", "DEF") as library:
        library.define("scatter(Tensor x) -> Tensor")
        library.impl("scatter", lambda x: x * 2, "CompositeImplicitAutograd")
        x = torch.ones(2, requires_grad=True)
        with DeterminismTracer() as training:
            torch.ops.toy_scatter.scatter(x).sum().backward()
        with DeterminismTracer() as inference, torch.inference_mode():
            torch.ops.toy_scatter.scatter(torch.ones(2))
    assert "toy_scatter.scatter.default" not in {group.op for group in training.trace.calls}
    assert "toy_scatter.scatter.default" in {group.op for group in inference.trace.calls}
