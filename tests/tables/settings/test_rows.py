"""Each row of the table of settings is found where it matters, and nowhere else; a misspelt one does not load."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from typing import Any, NamedTuple

import pytest
import torch
from packaging.version import Version

from tests.support.build import call, environment, trace
from tests.tables import samples
from tests.tables.samples import field_type, parse_rows, reaching
from tracer import judge
from tracer.errors import TableError
from tracer.facts import Value
from tracer.names import About, Backend, Cause, Differs, EventKind, Verdict
from tracer.recording.process.settings import read_settings
from tracer.report import Report
from tracer.tables.conditions import BoundRule
from tracer.tables.lint import faults_of
from tracer.tables.rules import CATEGORIES, NARROWING, PROCESS_FACTS, RESERVED, Case, SettingRow, expand, load_rows
from tracer.tables.versions import release, speaks_of
from tracer.trace.records import CallGroup, Environment, Event

TABLE = load_rows()

ROWS = {row.id: row for row in TABLE.row}

GROUPS = {group.name: group for group in TABLE.group}

#: What only another build, another library or a running job can answer.
ELSEWHERE = {
    "torch.cuda.tunable.is_enabled()",
    "torch.distributed.get_world_size()",
    "torch_npu.npu.matmul.allow_hf32",
    "torch_npu.npu.conv.allow_hf32",
}

#: Asking settles them, so they are asked only once CUDA has started.
SETTLED = {
    "torch.backends.cuda.preferred_blas_library()",
    "torch.backends.cuda.preferred_rocm_fa_library()",
}

#: Unset means ``None`` there, which a trace leaves out.
EMPTY = {
    "torch.backends.cudnn.benchmark_limit",
    "torch.backends.opt_einsum.strategy",
    "torch.nn.attention.current_flash_attention_impl()",
}


class Risk(NamedTuple):
    """A case of a setting's row by which runs differ, and a process in which it holds."""

    row: SettingRow
    case: Case
    torch: str
    backend: Backend


def risks() -> Iterator[Any]:
    """Every case of a readable setting that is a risk where calls show whether it matters."""
    for row in TABLE.row:
        seen = [need for need in row.needs if need in GROUPS]
        for number, case in enumerate(row.case):
            if row.about is About.SETTING and seen and case.verdict is not Verdict.DETERMINISTIC:
                newest = [one for one in samples.releases_of(TABLE, row, case) if speaks_of(row.torch, one)][-1]
                backend = (row.backends or (Backend.CUDA,))[0]
                yield pytest.param(Risk(row, case, newest, backend), id=f"{row.id}-{number}")


def state(risk: Risk, word: str) -> Environment:
    """A process in which the setting is what ``word`` says, and all else as the case asks."""
    asked = reaching(risk.row, risk.case, risk.torch)
    fields: dict[str, Any] = {"cudnn_enabled": True, "cudnn_deterministic": False, "cudnn_benchmark": False}
    fields |= {key: value for key, value in asked.items() if key in Environment.__struct_fields__}
    if asked.get("nccl_nvls") == "allowed":
        word = "unset"
    row, value = risk.row, value_of(risk.row, word)
    fields |= {"variables": {}, "settings": {}, "torch": release(risk.torch)}
    if row.field and word == "unset":
        fields.pop(row.field, None)
        fields |= {} if row.default is None else {row.field: row.default}
    elif row.read and word == "unset":
        fields["settings"] = {row.read.removesuffix("()"): row.default}
    elif word != "unset":
        fields |= (
            {row.field: value}
            if row.field
            else {"variables": {row.variable: value}}
            if row.variable
            else {"settings": {row.read.removesuffix("()"): value}}
        )
    return environment(**fields)


def value_of(row: SettingRow, word: str) -> Value | None:
    """A value that counts as ``word``."""
    if word == "unset":
        return None
    if word == "safe":
        return next(one for one in row.safe if one != row.default or len(row.safe) == 1)
    kinds = {type(one) for one in (*row.safe, row.default) if one is not None}
    wanted = field_type(row.field) if row.field else kinds.pop() if kinds else str
    candidates: tuple[Value, ...] = (True, False) if wanted is bool else (97, 98) if wanted is int else ("another",)
    return next(one for one in candidates if one not in row.safe and one != row.default)


def calls_for(row: SettingRow) -> tuple[CallGroup, ...]:
    """One call of the first group that the row needs; any one where it needs none."""
    named = [GROUPS[need] for need in row.needs if need in GROUPS]
    if not named:
        return (call("aten.relu.default"),)
    group = named[0]
    op = group.ops[0].removesuffix(".*") + (".sample" if group.ops[0].endswith(".*") else "")
    one = {key: expand(key, value[0] if isinstance(value, list) else value)[0] for key, value in group.when.items()}
    facts = {"device": "cuda", "dtype": "float32", "layout": "strided", **one}
    return (call(op if op.count(".") == 2 else f"{op}.default", facts=facts),)


def found(risk: Risk, word: str, *calls: CallGroup, **settings: Any) -> Report:
    recorded = trace(*calls, environment=state(risk, word))
    return judge(recorded, backend=risk.backend.value, torch=risk.torch, **settings)


def verdicts(report: Report, row: SettingRow) -> set[Verdict]:
    return {one.verdict for one in report.findings if one.rule == row.id}


@pytest.mark.parametrize("risk", risks())
def test_a_risky_setting_is_found_with_the_calls_that_depend_on_it_alone_and_the_rows_code_closes_it(
    risk: Risk,
) -> None:
    word = str(reaching(risk.row, risk.case, risk.torch).get("value", "unset"))
    calls = calls_for(risk.row)
    (finding,) = (one for one in found(risk, word, *calls).findings if one.rule == risk.row.id)
    assert (finding.verdict, finding.count) == (risk.case.verdict, 1)
    assert list(finding.ops) == [calls[0].op]
    assert verdicts(found(risk, word, call("aten.relu.default")), risk.row) == set()
    if risk.row.sets:
        closed = found(risk, word, *calls, settings=dict(risk.row.sets))
        assert verdicts(closed, risk.row) <= {Verdict.DETERMINISTIC}


def differing_between_machines() -> Iterator[Any]:
    """The rows that a process can be given another value of, each with the word for it."""
    for row in TABLE.row:
        is_read = row.about is About.SETTING and (row.field or row.variable or row.read)
        if row.differs is Differs.MACHINES and is_read and "unseen" not in row.needs:
            with suppress(StopIteration):  # every value is safe
                word = "other" if value_of(row, "other") is not None else "unset"
                yield pytest.param(row, word, id=row.id)


@pytest.mark.parametrize(("row", "word"), differing_between_machines())
def test_what_differs_between_machines_is_a_note_and_never_a_finding(row: SettingRow, word: str) -> None:
    risk = Risk(row, row.case[0], "2.13", (row.backends or (Backend.CUDA,))[0])
    report = found(risk, word, *calls_for(row))
    assert row.id not in {one.rule for one in report.findings}
    assert row.id in {note.rule for note in report.judgement.notes}


def test_deterministic_mode_is_found_where_it_would_fix_a_call_and_warning_where_it_would_raise() -> None:
    fixed = call("aten.index_add_.default", facts={"device": "cuda", "dtype": "float32"})
    raises = call("aten.avg_pool3d_backward.default", facts={"device": "cuda", "dtype": "float32"})
    for mode, group, rule in (
        ("off", fixed, "environment-deterministic-mode"),
        ("warn", raises, "environment-warn-only"),
    ):
        report = judge(trace(group, environment=environment(deterministic_mode=mode)), backend="cuda")
        assert rule in {one.rule for one in report.findings}
        clean = judge(trace(call("aten.relu.default"), environment=environment(deterministic_mode=mode)))
        assert clean.findings == ()


def test_every_heading_has_a_row() -> None:
    assert {row.category for row in TABLE.row} == set(CATEGORIES)


def test_every_fact_of_the_process_and_every_kind_of_row_is_used() -> None:
    asked = {key for row in TABLE.row for case in row.case for key in case.when}
    assert set(PROCESS_FACTS) <= asked
    assert {row.about for row in TABLE.row} == set(About) - {About.CALL}


def test_a_needed_word_is_a_group_or_reserved() -> None:
    assert {need for row in TABLE.row for need in row.needs} == set(GROUPS) - NARROWING | set(RESERVED)


def test_every_op_of_a_group_exists() -> None:
    if Version(version("torch")).release[:2] < (2, 13):
        pytest.skip("some ops are newer than this torch")
    known = {name.replace("::", ".") for name in torch._C._dispatch_get_all_op_names()}
    known |= {name.partition(".")[0] + "." + name.split(".")[1] for name in known}
    missing = {op for group in TABLE.group for op in group.ops if op.startswith("aten.") and op not in known}
    assert missing == set()


def test_every_dotted_name_can_be_read_in_this_torch() -> None:
    if Version(version("torch")).release[:2] < (2, 13):
        pytest.skip("some settings are newer than this torch")
    for module in ("torch._inductor.config", "torch._functorch.config", "torch._dynamo.config"):
        importlib.import_module(module)
    for module in ("torch.backends.python_native", "torch.nn.attention", "torch.backends.miopen"):
        importlib.import_module(module)
    asked = {row.read for row in TABLE.row if row.read} - ELSEWHERE - EMPTY - SETTLED
    read = read_settings(asked)
    assert {name for name in asked if name.removesuffix("()") not in read} == set()


def test_the_defaults_of_fields_are_torchs() -> None:
    assert {row.field: row.default for row in TABLE.row if row.field and row.default is not None} == {
        "deterministic_mode": "off",
        "fill_uninitialized_memory": True,
        "cudnn_enabled": True,
        "cudnn_deterministic": False,
        "cudnn_benchmark": False,
        "cudnn_allow_tf32": True,
        "cuda_matmul_allow_tf32": False,
        "float32_matmul_precision": "highest",
        "allow_fp16_reduced_precision_reduction": True,
        "allow_bf16_reduced_precision_reduction": True,
        "default_dtype": "float32",
    }


def test_what_torchs_page_says_that_the_mode_switches_off_in_inductor_is_off_in_the_mode() -> None:
    page = {
        row.id for row in TABLE.row if any("2.13 to 2.15" in one.ref for one in row.evidence) and row.torch != "<2.10"
    }
    assert page == {
        "environment-inductor-pad-mm",
        "environment-inductor-max-autotune",
        "environment-inductor-max-autotune-gemm",
        "environment-inductor-reduction-configs",
        "environment-inductor-autotune-pointwise",
        "environment-inductor-coordinate-descent",
        "environment-inductor-overlap-reorder",
        "environment-inductor-overlap-scheduling",
        "environment-inductor-dynamic-rblock",
    }
    for id in page:
        for value in ("unset", "safe", "other"):
            outcome = BoundRule(ROWS[id], "2.13.0", {"deterministic_mode": "on"}).decide({"value": value})
            assert outcome.verdict is Verdict.DETERMINISTIC
        assert ROWS[id].cause is Cause.AUTOTUNE


def test_a_plain_step_on_a_cpu_has_nothing_found_in_its_settings() -> None:
    ops = ("aten.addmm.default", "aten.convolution.default", "aten.sum.default", "aten.native_layer_norm.default")
    recorded = trace(*(call(op) for op in ops), environment=environment(deterministic_mode="off", num_threads=4))
    report = judge(recorded)
    assert [one for one in report.findings if one.about is not About.CALL] == []
    assert {note.rule for note in report.judgement.notes} == {"environment-threads"}


@pytest.mark.parametrize(
    ("variable", "value", "reader", "op", "version", "verdict"),
    [
        ("CUBLAS_WORKSPACE_CONFIG", ":4096:8", "cublas", "aten.mm.default", "2.9", Verdict.NONDETERMINISTIC),
        ("CUBLAS_WORKSPACE_CONFIG", ":4096:8", "cublas", "aten.mm.default", "2.13", None),
        ("CUBLAS_WORKSPACE_CONFIG", ":4096:8", "cublas", "aten._cudnn_rnn.default", "2.13", Verdict.NONDETERMINISTIC),
        ("CUBLAS_WORKSPACE_CONFIG", ":4096:8", "cublas", "aten.relu.default", "2.9", None),
        ("NCCL_NVLS_ENABLE", "0", "nccl", "c10d.allreduce_.default", "2.13", Verdict.NONDETERMINISTIC),
        ("NCCL_NVLS_ENABLE", "0", "nccl", "aten.relu.default", "2.13", None),
        ("NCCL_ALGO", "Ring", "nccl", "c10d.allreduce_.default", "2.13", None),
        ("PYTHONHASHSEED", "0", "python", "aten.relu.default", "2.13", Verdict.NONDETERMINISTIC),
        ("OMP_NUM_THREADS", "1", "torch", "aten.mm.default", "2.13", None),
    ],
)
def test_a_late_variable_is_worse_where_the_step_differs_without_it(
    variable: str, value: str, reader: str, op: str, version: str, verdict: Verdict | None
) -> None:
    used = Event(kind=EventKind.FIRST_USE, name=reader, first=1, last=1, location="train.py:3")
    made = Event(kind=EventKind.VARIABLE, name=variable, value=value, first=2, last=2, location="train.py:5")
    process = environment(torch=version, cudnn_enabled=True, variables={variable: value})
    facts = {"device": "cuda", "dtype": "float32"}
    recorded = trace(call(op, facts=facts), environment=process, events=(used, made))
    report = judge(recorded, backend="cuda")
    late = [one for one in report.findings if one.about is About.LATE]
    assert [(one.location, one.verdict) for one in late] == ([("train.py:5", verdict)] if verdict else [])
    noted = [note.why for note in report.judgement.notes if note.rule == "environment-set-too-late"]
    is_no_matter = verdict is None and variable != "OMP_NUM_THREADS"  # which nothing reads once
    assert ["another library" in why for why in noted] == [True] * is_no_matter


HEAD = """
schema = 1
reviewed = ">=2.0,<=2.15"
[[group]]
name = "products"
ops = ["aten.mm"]
"""

ROW = """
[[row]]
id = "environment-sample"
about = "setting"
name = "SAMPLE"
category = "hardware and versions"
variable = "SAMPLE"
safe = ["1"]
needs = ["products"]
differs = "runs"
cause = "workspace"
why = "It does harm."
remedy = "Set it."
code = "export SAMPLE=1"
where = "in the shell"
sets = { SAMPLE = "1" }
case = [
  { when = { value = ["unset", "other"] }, verdict = "conditional" },
  { verdict = "deterministic" },
]
evidence = [{ kind = "documented", ref = "The page, 2.13" }]
"""


def faults(*changes: tuple[str, str], text: str = HEAD + ROW) -> list[str]:
    """What the lint says of the sample with each first text replaced by the second."""
    for whole, broken in changes:
        assert whole in text
        text = text.replace(whole, broken, 1)
    return list(faults_of(parse_rows(text, "sample.toml")))


@pytest.mark.parametrize(
    ("whole", "broken", "says"),
    [
        ('{ verdict = "det', '{ when = { value = "safe" }, verdict = "det', "the last case has conditions"),
        ('needs = ["products"]', 'needs = ["products"]\ntorch = ">=2.16"', "no reviewed release has it"),
    ],
)
def test_a_row_is_linted_as_a_rule_is(whole: str, broken: str, says: str) -> None:
    assert faults() == []
    assert any(says in fault for fault in faults((whole, broken)))


@pytest.mark.parametrize(
    ("whole", "broken", "says"),
    [
        ('["products"]', '["nothing"]', "needs 'nothing', which is not a group"),
        ('"hardware and versions"', '"elsewhere"', "unknown category 'elsewhere'"),
        ('variable = "SAMPLE"', 'variable = "SAMPLE"\nread = "a.b"', "names more than one of field, variable and read"),
        ('variable = "SAMPLE"', 'variable = "sample"', "'sample' is not the name of an environment variable"),
        ('value = ["unset", "other"]', 'device = "cpu"', "'device' is not a fact of the process"),
        ("environment-sample", "sample", "'sample' is not kebab-case with the prefix `environment-`"),
        ('about = "setting"', 'about = "generator"\ngenerator = ["cuda"]', "Invalid enum value 'cuda'"),
    ],
)
def test_a_misspelt_row_does_not_load(whole: str, broken: str, says: str) -> None:
    with pytest.raises(TableError, match=r"sample\.toml") as raised:
        faults((whole, broken))
    assert says in str(raised.value)
