"""The program of one call: it says what it makes, makes that, and leaves with what came of it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch
from torch.nn import functional as F

from tests.one_call.running import run_program
from tests.support.build import call, environment, finding, tensor, trace
from tests.support.racing import MANY, additions
from tracer import DeterminismTracer
from tracer.errors import UsageError
from tracer.findings import Finding
from tracer.names import About, DataShown
from tracer.one_call import _Writer, chosen_finding, program_of
from tracer.one_call.data import Tensor, has_unknown, program_arguments
from tracer.report import Report
from tracer.session import judge
from tracer.trace.records import Argument, DeviceType, NotKept, Number, TensorForm, TorchWord, spelled

pytestmark = pytest.mark.usefixtures("two_threads")


def judged(step: Callable[[], Any], backend: str = "cpu") -> Report:
    with DeterminismTracer() as tracer:
        step()
    return tracer.report(backend=backend)


def written(step: Callable[[], Any], name: str, backend: str = "cpu") -> str:
    report = judged(step, backend)
    place, _ = chosen_finding(report.findings, name)
    return program_of(report, report.findings[place]).text


def described(
    arguments: dict[str, Any], op: str = "aten.index_add_.default", backend: str = "cuda", **fields: Any
) -> str:
    """The program of a call that a trace describes so."""
    report = judge(trace(call(op, given=arguments, **fields)), backend=backend)
    return program_of(report, next(one for one in report.findings if one.about is About.CALL)).text


def adds_to_the_same_places() -> torch.Tensor:
    places, values = additions(5000)
    return torch.zeros(5000).index_put((places,), values, accumulate=True)


INDEX_ADD = {
    "self": tensor("float32", 10, 4),
    "dim": 0,
    "index": tensor("int64", 500),
    "source": tensor("float32", 500, 4, stride=(1, 500)),
    "alpha": 2,
}


def test_a_call_that_varies_here_ends_with_1_and_says_in_which_mode() -> None:
    done = run_program(written(adds_to_the_same_places, "cpu-index-put"), "--runs", "6")
    assert done.code == 1, done
    assert "deterministic mode off: VARIES: " in done.out
    assert "deterministic mode on:  all 6 runs agreed" in done.out
    assert "`aten.index_put.default` gives different results for the same inputs on cpu." in done.out


@pytest.mark.slow
def test_shrinking_keeps_what_varies_and_makes_it_smaller() -> None:
    done = run_program(written(adds_to_the_same_places, "cpu-index-put"), "--shrink", "--runs", "10")
    assert done.code in (0, 1), done  # of the smallest sizes that varied the additions may miss each other at last
    assert "- sizes tried: " in done.out
    assert f"b={MANY}" not in done.out


def test_a_call_that_agrees_ends_with_0_and_claims_nothing() -> None:
    text = described(INDEX_ADD)
    done = run_program(text, "--device", "cpu", "--runs", "3")
    assert done.code == 0, done
    assert "Agreement proves nothing" in done.out
    assert "agreed on cpu" in done.out


def made_by(text: str, **sizes: int) -> dict[str, Any]:
    """What a program gives its call on the CPU."""
    space: dict[str, Any] = {}
    exec(compile(text, "repro.py", "exec"), space)
    space["DEVICE"] = "cpu"
    given: dict[str, Any] = space["arguments"](**sizes)
    return given


def test_what_was_recorded_is_what_is_made() -> None:
    given = made_by(described(INDEX_ADD))
    assert given["self"].shape == (10, 4)
    assert given["source"].stride() == (1, 500)
    assert given["source"].shape == (500, 4)
    assert (given["alpha"], given["dim"]) == (2, 0)
    assert given["index"].min() >= 0
    assert given["index"].max() < 10
    assert made_by(described(INDEX_ADD), b=3)["self"].shape == (10, 3)


def test_repeats_are_made_where_the_recording_does_not_know_and_an_index_of_distinct_numbers_stays_one() -> None:
    unknown = described(INDEX_ADD)
    assert "index: numbers repeat: whether they did is not in the recording." in " ".join(unknown.split())
    assert "integers(" in unknown
    assert "once_each(" not in unknown
    text = described(
        {"self": tensor("float32", 10, 4), "dim": 0, "index": tensor("int64", 7), "src": tensor("float32", 7, 4)},
        op="aten.scatter_add_.default",
        backend="npu",
        facts={"device": "cpu", "dtype": "float32", "index.distinct": True},
    )
    assert made_by(text)["index"].unique().numel() == 7


def test_data_that_were_looked_at_are_of_the_same_kind() -> None:
    def text(op: str, arguments: dict[str, Any], *shown: DataShown) -> str:
        group = call(op, given=arguments, data=dict.fromkeys(shown, 1))
        report = judge(trace(group), backend="cpu")
        return " ".join(_Writer(report, finding(), group, 1, "r.py", "", ()).program().text.split())

    few = {"self": tensor("float32", 10, 4), "dim": 0, "index": tensor("int64", 7), "source": tensor("float32", 7, 4)}
    assert "once_each(" in text("aten.index_add_.default", few, DataShown.DISTINCT)
    assert "numbers repeat, as in the recording" in text("aten.index_add_.default", few, DataShown.DUPLICATES)
    assert "once_each(" not in text("aten.index_add_.default", few, DataShown.DISTINCT, DataShown.DUPLICATES)
    topk = {"self": tensor("float32", 100), "k": 5}
    assert "tied(" not in text("aten.topk.default", topk, DataShown.NO_TIES)
    assert "some elements are equal, as in the recording" in text("aten.topk.default", topk, DataShown.TIES)


def test_no_index_reaches_past_what_it_counts_through() -> None:
    def made(op: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return made_by(described(arguments, op=op, backend="npu"))

    scores = made(
        "aten._ctc_loss.default",
        {
            "log_probs": tensor("float32", 200, 2, 30),
            "targets": tensor("int64", 2, 50),
            "input_lengths": [200, 200],
            "target_lengths": [50, 50],
        },
    )
    assert scores["targets"].min() >= 1
    assert scores["targets"].max() < 30
    unknown = made("mine.gathers.default", {"x": tensor("float32", 40, 3), "index": tensor("int64", 500)})
    assert unknown["index"].max() < 3
    pooled = made(
        "aten.max_pool2d_with_indices_backward.default",
        {
            "grad_output": tensor("float32", 1, 1, 2, 3),
            "self": tensor("float32", 1, 1, 4, 6),
            "kernel_size": [2, 2],
            "indices": tensor("int64", 1, 1, 2, 3),
        },
    )
    assert pooled["indices"].max() < 24


@pytest.mark.parametrize(
    ("op", "backend", "says"),
    [
        pytest.param(
            "aten.index_add_.default",
            "cuda",
            "needs a cuda device",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="the device is here"),
        ),
        ("mine_alone.race.default", "cpu", "import here what does"),
    ],
)
def test_a_program_whose_device_or_op_is_missing_ends_with_2_in_one_line(op: str, backend: str, says: str) -> None:
    done = run_program(described(INDEX_ADD, op=op, backend=backend))
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert says in done.err
    assert ("--device cpu" in done.err) is (backend == "cuda")


def test_it_imports_torch_and_what_python_has() -> None:
    named = set(re.findall(r"^ *(?:import|from) (\w+)", described(INDEX_ADD), re.MULTILINE))
    assert named - set(sys.stdlib_module_names) == {"torch"}


def test_names_from_a_trace_end_no_text_and_run_nothing() -> None:
    evil = '"""\nimport os; os.abort()\n"""' + "\\"
    text = described(INDEX_ADD, module=evil, location=f"{evil}.py:3", function=evil)
    assert run_program(text, "--device", "cpu", "--runs", "2").code == 0
    (docstring,) = [node for node in ast.parse(text).body if isinstance(node, ast.Expr)]
    assert isinstance(docstring.value, ast.Constant)


def test_a_backward_call_is_made_by_its_own_op() -> None:
    def step() -> None:
        image = torch.randn(2, 3, 8, 8, requires_grad=True)
        F.interpolate(image, scale_factor=2, mode="bilinear").sum().backward()

    text = written(step, "cuda-upsample-bilinear2d-backward", "cuda")
    assert "torch.ops.aten.upsample_bilinear2d_backward.default(**given)" in text
    assert run_program(text, "--device", "cpu", "--runs", "2").code == 0


def test_a_backward_that_needs_its_forwards_statistics_goes_through_autograd() -> None:
    def step() -> None:
        query = torch.randn(2, 2, 9, 16, requires_grad=True)
        F.scaled_dot_product_attention(query, query, query, is_causal=True).sum().backward()

    text = written(step, "cuda-efficient-attention-backward", "cuda")
    assert "scaled_dot_product_attention(**given)" in text
    assert "torch.autograd.grad(outputs, wanted" in text
    assert "SDPBackend.EFFICIENT_ATTENTION" in text
    assert run_program(text, "--device", "cpu", "--runs", "2").code == 0


def test_a_recurrent_layer_is_made_whole() -> None:
    layer, data = torch.nn.LSTM(8, 16), torch.randn(7, 4, 8)
    text = written(lambda: layer(data)[0].sum().backward(), "cuda-rnn-backward", "cuda")
    assert 'torch.nn.LSTM(given["input"].shape[-1], 16' in text
    assert run_program(text, "--device", "cpu", "--runs", "2").code == 0


def test_a_compiled_call_is_compiled_again() -> None:
    given = {
        "self": tensor("float32", 10),
        "indices": [tensor("int64", 50)],
        "values": tensor("float32", 50),
        "accumulate": True,
    }
    group = call("aten.index_put.default", region="0/0 forward", given=given)
    report = judge(trace(group), backend="cuda")
    text = _Writer(report, finding(), group, 1, "r.py", "", ()).program().text
    assert "compiled = torch.compile(call, dynamic=False)" in text
    assert "compiled by itself here" in text


def test_what_is_no_call_and_what_was_not_kept_is_refused_in_one_line() -> None:
    report = judge(trace(call()), backend="cuda")
    process = next((one for one in report.findings if one.about is not About.CALL), None)
    assert process is not None
    with pytest.raises(UsageError, match="about the process"):
        program_of(report, process)
    older = next(one for one in report.findings if one.about is About.CALL)
    with pytest.raises(UsageError, match=r"does not hold what aten\.index_add_\.default was called with"):
        program_of(report, older)


def test_a_finding_is_named_by_number_rule_op_line_or_both() -> None:
    here = call(location="train.py:10", count=9)
    there = call(location="train.py:20", called_from="run.py:3")
    findings = judge(trace(here, there), backend="cuda").findings
    calls = [place for place, one in enumerate(findings) if one.about is About.CALL]

    def named(name: str) -> tuple[int, int]:
        return chosen_finding(findings, name)

    assert named("1") == (0, 1)
    assert named("cuda-index-add") == (calls[0], 2)
    assert named("aten.index_add_.default") == named("aten.index_add_") == named("index_add_") == (calls[0], 2)
    assert named("train.py:20") == named("run.py:3") == named("cuda-index-add@train.py:20") == (calls[1], 1)
    for wrong in ("0", "99", "cuda-nothing", "cuda-index-add@train.py:99"):
        with pytest.raises(UsageError):
            named(wrong)


def test_settings_of_the_recorded_run_are_made_where_they_are_not_torchs_own() -> None:
    recorded = trace(call(given=INDEX_ADD), environment=environment(cudnn_benchmark=True))
    report = judge(recorded, backend="cuda")
    found: Finding = next(one for one in report.findings if one.about is About.CALL)
    assert "torch.backends.cudnn.benchmark = True" in program_of(report, found).text
    assert "benchmark" not in described(INDEX_ADD).partition('"""\n\n')[2]


# --- what a call was given ---


@pytest.mark.parametrize(
    ("given", "text", "value"),
    [
        (tensor("float32", 10, 4), "float32[10, 4]", Tensor("float32", (10, 4))),
        (tensor("int64"), "int64[()]", Tensor("int64", ())),
        (tensor("float32", 3, stride=(0,)), "float32[3][0]", Tensor("float32", (3,), (0,))),
        (tensor("bool", 3, layout="sparse_coo"), "bool[3].sparse_coo", Tensor("bool", (3,), layout="sparse_coo")),
        (tensor("bool", 4, device="cuda"), "bool[4].cuda", Tensor("bool", (4,), device="cuda")),
        (
            TensorForm("float32", (None, 4), (4, 1)),
            "float32[None, 4][4, 1]",
            Tensor("float32", (16, 4), is_unfixed=True),
        ),
        ([None, tensor("int64", 2)], "[None, int64[2]]", [None, Tensor("int64", (2,))]),
        (-3, "-3", -3),
        (Number("-inf"), "-inf", float("-inf")),
        (Number("(1+2j)"), "(1+2j)", 1 + 2j),
        (Number(str(2**70)), str(2**70), 2**70),
        (TorchWord("float64"), "torch.float64", TorchWord("float64")),
        (DeviceType("cpu"), "torch.device('cpu')", DeviceType("cpu")),
        ("sum", "'sum'", "sum"),
        (NotKept(), "...", NotKept()),
    ],
)
def test_each_kind_of_argument_comes_back_from_a_file(given: Argument, text: str, value: Any) -> None:
    arguments = {"first": given, "from": True}
    assert msgspec.json.decode(msgspec.json.encode(arguments), type=dict[str, Argument]) == arguments
    assert spelled(arguments) == f"first={text}, from=True"
    assert program_arguments(arguments) == {"first": value, "from": True}


def test_what_was_not_kept_is_found_in_lists_too() -> None:
    assert has_unknown(program_arguments({"many": [tensor("float32", 2), NotKept()]})["many"])
    assert not has_unknown(program_arguments({"many": [tensor("float32", 2), 3]})["many"])
