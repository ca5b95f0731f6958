"""``tracer explain`` answers for a name in one screen, plainly, at any width."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from tests.support.command import Command, tracer_process
from tracer.names import Backend
from tracer.report.render.terminal import drawn, printed
from tracer.report.sections.rules import rule_blocks
from tracer.tables.explaining import find_rules, load_examples, spelled
from tracer.tables.loading import load_libraries, load_tables
from tracer.tables.rules import Rule


@pytest.mark.parametrize(
    "name",
    [
        "torch.cumsum",
        "F.interpolate",
        "torch.nn.functional.interpolate",
        "nn.CTCLoss",
        "aten.index_add_",
        "aten::index_add_",
        "cuda-index-put",
    ],
)
def test_a_name_is_explained(name: str, tracer: Command) -> None:
    done = tracer("explain", name, "--backend", "cuda", "--torch", "2.13")
    assert (done.code, done.err) == (0, "")
    for part in ("on cuda, torch 2.13.0", "By default:", "Under deterministic mode:", "Why:", "Remedy:", "Evidence, "):
        assert part in done.out


def test_each_backend_answers(tracer: Command) -> None:
    out = tracer("explain", "torch.cumsum", "--torch", "2.13").out
    for backend in ("cpu", "cuda", "rocm", "xpu", "mps", "npu"):
        assert f"torch.cumsum on {backend}, torch 2.13.0" in out


def test_the_version_decides_the_verdict(tracer: Command) -> None:
    def in_mode(version: str) -> str:
        out = tracer("explain", "nn.ReflectionPad2d", "--backend", "cuda", "--torch", version).out
        return next(line.strip() for line in out.splitlines() if "Under deterministic mode" in line)

    assert in_mode("2.6") == "Under deterministic mode: ! raises"
    assert in_mode("2.13") == "Under deterministic mode: = deterministic"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            "cuda-kthvalue --torch 2.13",
            "changed in 2.10 (by default conditional → deterministic, under the mode raises → deterministic)",
        ),
        ("cuda-bincount --torch 2.13", "given.weights: true"),
        ("torch.empty --backend cuda --torch 2.13", "environment-unwritten-memory"),
        ("torch.empty --backend cuda --torch 2.13", "cuda-empty"),
        ("cuda-cusparselt --torch 2.13", "Example (needs a device: cuSPARSELt exists for CUDA alone):"),
        ("environment-cublas-workspace --torch 2.13", "torch 2.10 to 2.15"),
        ("npu.npu_linear --backend cuda --torch 2.13", "? unknown"),
    ],
)
def test_an_answer_says_what_it_hangs_on(asked: str, said: str, tracer: Command) -> None:
    assert said in " ".join(tracer("explain", *asked.split()).out.split())


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("CUBLAS_WORKSPACE_CONFIG", "environment-cublas-workspace"),
        ("cublas_workspace_config", "environment-cublas-workspace"),
        ("torch.backends.cudnn.benchmark", "environment-cudnn-benchmark"),
        ("cudnn.benchmark", "environment-cudnn-benchmark"),
        ("torch.use_deterministic_algorithms(True)", "environment-deterministic-mode"),
        ("torch.utils.data.DataLoader", "environment-loader-shuffle"),
        ("environment-python-generator", "environment-python-generator"),
    ],
)
def test_a_setting_is_explained_by_its_row(name: str, row: str, tracer: Command) -> None:
    done = tracer("explain", name, "--torch", "2.13")
    assert (done.code, done.err) == (0, "")
    assert f"{row}\n" in done.out
    for part in ("Cause: ", "Why: ", "Remedy: ", "Evidence, "):
        assert part in done.out


def test_a_rows_answer_is_that_of_the_version(tracer: Command) -> None:
    out = tracer("explain", "environment-cublas-workspace", "--torch", "2.6").out
    assert "nondeterministic" in out or "conditional" in out
    assert "torch 2.10 to 2.15" not in out


def test_an_op_from_elsewhere_is_unknown_on_a_backend_that_does_not_know_it(tracer: Command) -> None:
    out = tracer("explain", "npu.npu_linear", "--backend", "cuda", "--torch", "2.13").out
    assert "deterministic" not in out


@pytest.mark.parametrize("columns", [30, 60, 80, 140])
def test_lines_keep_to_the_width_without_colour(columns: int, tracer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = tracer("explain", "cuda-put", "--torch", "2.13")
    assert done.code == 0
    assert "\x1b" not in done.out
    words, _, code = done.out.partition("\nExample: cuda-put\n")
    assert max(map(len, words.splitlines())) <= columns
    ast.parse(textwrap.dedent(code))


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.id) for rule in load_tables()[Backend.CUDA].rule])
def test_the_example_of_each_rule_is_printed_as_a_program(rule: Rule) -> None:
    table = load_tables()[Backend.CUDA]
    said = printed(drawn(rule_blocks(rule, table, load_examples()), unfolds=True), width=40, color=False)
    code = textwrap.dedent(str(said)[str(said).index("   import torch") :])
    compile(code, rule.id, "exec")


APIS = sorted({spelled(api) for rule in load_libraries().rule for api in rule.apis})


@pytest.mark.parametrize("api", APIS)
def test_every_library_api_that_a_table_lists_can_be_asked(api: str) -> None:
    found = find_rules(api, load_tables())
    holding = {rule.id for rule in load_libraries().rule if api in map(spelled, rule.apis)}
    assert holding <= {rule.id for rules in found.values() for rule in rules}


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        ("torchvision.ops.roi_align", "lib-torchvision-roi-align-backward"),
        ("torchvision.roi_align", "lib-torchvision-forward"),
        ("torchvision._roi_align_backward", "lib-torchvision-roi-align-backward"),
        ("torchvision.ops.DeformConv2d", "lib-torchvision-deform-conv2d"),
        ("torch_scatter.scatter", "lib-torch-scatter"),
        ("flash_attn.flash_attn_func", "lib-flash-attention-backward"),
        ("xformers.ops.memory_efficient_attention", "lib-xformers-flash-backward"),
    ],
)
def test_a_library_answers_for_its_functions_and_for_its_ops(tracer: Command, asked: str, rule: str) -> None:
    done = tracer("explain", asked, "--backend", "cuda")
    assert done.code == 0
    assert f"\n{rule}\n" in done.out


def test_a_name_cannot_drive_the_terminal(tracer: Command) -> None:
    done = tracer("explain", "torch.cumsum (\x1b[31m)", "--backend", "cuda", "--torch", "2.13")
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "\x1b" not in tracer("explain", "\x1b[31m").err


def test_a_terminal_that_cannot_spell_a_sign_gets_a_question_mark(tmp_path: Path) -> None:
    line = ("explain", "cuda-kthvalue", "--torch", "2.6")
    done = tracer_process(*line, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (done.code, done.err) == (0, "")
    assert "? conditional" in done.out


def test_an_example_stands_once_at_the_end_ready_to_be_pasted(tracer: Command) -> None:
    out = tracer("explain", "torch.cumsum", "--torch", "2.13").out
    assert out.count("import torch\n") == 1
    _, _, example = out.rpartition("Example: ")
    lines = [line.strip() for line in example.splitlines()[1:]]
    assert lines[:2] == ["import torch", ""]
    assert 'device = "cuda"' in lines
    compile("\n".join(lines), "example.py", "exec")
