"""A name leads to the rules that speak of it; every example runs and makes a finding of each rule that shows it."""

from __future__ import annotations

from itertools import islice, product

import pytest

from tests.support.examples import RUN, first_op, recorded
from tests.tables.samples import keys_of, parse_examples, rule_text, split, table
from tracer import Trace, judge
from tracer.errors import TableError, TargetError, UsageError
from tracer.names import Backend, Settings, Verdict
from tracer.tables.conditions import BoundRule, wanted_values
from tracer.tables.explaining import Example, explain, find_rules, load_examples, program, spans
from tracer.tables.loading import load_tables
from tracer.tables.rules import DOMAINS, Rule, RuleTable, in_words, load_translations
from tracer.tables.versions import release, reviewed_releases

OFF = '{ when = { deterministic_mode = "off" }, verdict = "nondeterministic" }'

SWITCHED = '{ torch = ">=2.1", when = { deterministic_mode = ["warn", "on"] }, verdict = "deterministic" }'

OLD_WARN = '{ torch = "<2.1", when = { deterministic_mode = "warn" }, verdict = "nondeterministic" }'

OLD_ON = '{ torch = "<2.1", when = { deterministic_mode = "on" }, verdict = "raises" }'


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("F.interpolate", "cuda-upsample-bilinear2d-backward"),
        ("torch.nn.functional.interpolate", "cuda-upsample-trilinear3d-backward"),
        ("F.ctc_loss", "cuda-ctc-loss-backward"),
        ("aten::index_add_", "cuda-index-add"),
        ("torch.ops.aten.index_add_", "cuda-index-add"),
        ("torch.index_select (backward)", "cuda-index-add"),
        ("Tensor.put_", "cuda-put"),
        (" torch.bmm() ", "cuda-bmm"),
        ("torch.scatter(reduce='add')", "cuda-scatter-reduce-argument"),
        ("aten.index_add_.default", "cuda-index-add"),
        ("cuda-index-add", "cuda-index-add"),
        ("torch.Tensor.__getitem__", "cpu-index-put"),
        ("nn.AvgPool3d", "cuda-avg-pool3d-backward"),
        ("ctc_loss", "npu-ctc-loss"),
        ("torch_npu.npu_linear", "npu-npu-linear"),
        ("profiler._record_function_exit", "lib-profiler"),
    ],
)
def test_a_name_leads_to_its_rule(name: str, rule: str) -> None:
    assert rule in {found.id for rules in find_rules(name, load_tables()).values() for found in rules}


def test_an_overload_leads_to_its_own_rule_alone() -> None:
    (rule,) = find_rules("aten.scatter.src", load_tables())[Backend.CUDA]
    assert rule.id == "cuda-scatter-src"
    assert len(find_rules("aten.scatter", load_tables())[Backend.CUDA]) > 1


@pytest.mark.parametrize("name", ["torch.indx_ad", "aten.bincoun", "cuda-index-ad", "nothing.like.this", "", "()"])
def test_an_unknown_name_is_refused_in_one_line_with_what_is_near(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        explain(name, load_tables(), "2.13")
    assert "\n" not in str(refused.value)
    near = {"aten.bincoun": "aten.bincount", "cuda-index-ad": "cuda-index-add"}
    assert near.get(name, "") in str(refused.value)


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(TargetError, match="'new' is not a version"):
        explain("torch.cumsum", load_tables(), "new")


def test_a_table_without_a_rule_answers_by_its_list() -> None:
    tables = load_tables()
    told = {one.backend: one for one in explain("torch.cumsum", tables, "2.13")}
    assert told.keys() == tables.keys()
    assert told[Backend.CPU].rules == ()
    assert told[Backend.CPU].is_torchs
    assert not explain("npu.npu_linear", tables, "2.13", [Backend.CUDA])[0].is_torchs


def test_a_rules_id_is_a_question_to_its_own_table() -> None:
    assert [one.backend for one in explain("cuda-cumsum", load_tables(), "2.13")] == [Backend.CUDA]
    with pytest.raises(UsageError, match="a rule of another table; ask for cuda"):
        explain("cuda-cumsum", load_tables(), "2.13", [Backend.CPU])


def test_an_op_of_the_cpu_alone_is_explained_by_what_it_becomes() -> None:
    name = "aten._scaled_dot_product_flash_attention_for_cpu_backward"
    (told,) = explain(name, load_tables(), "2.13", [Backend.CUDA], load_translations())
    becomes = {candidate.op for row in told.becomes for candidate in row.becomes}
    assert "aten._scaled_dot_product_flash_attention_backward.default" in becomes
    assert "cuda-flash-attention-backward" in {rule.id for rule, _ in told.rules}
    (old,) = explain(name, load_tables(), "1.13", [Backend.CUDA], load_translations())
    assert [candidate.op for row in old.becomes for candidate in row.becomes] == [""]


@pytest.mark.parametrize(("version", "place", "known"), [("1.8", "older", False), ("2.99", "newer", True)])
def test_a_version_beyond_the_review_is_said_to_be_one(version: str, place: str, known: bool) -> None:
    (told,) = explain("torch.cumsum", load_tables(), version, [Backend.CUDA])
    ((_, span),) = told.rules
    assert told.place == place
    assert (span is not None) is known


def test_versions_with_the_same_answers_are_one_span() -> None:
    (rule,) = table(rule_text(OFF, SWITCHED, OLD_WARN, OLD_ON)).rule
    before, after = spans(rule, ">=1.11,<=2.15")
    assert (before.first, before.last, after.first, after.last) == ("1.11", "2.0", "2.1", "2.15")
    assert (before.as_is, before.in_mode) == ((Verdict.NONDETERMINISTIC,), (Verdict.RAISES,))
    assert (after.as_is, after.in_mode) == ((Verdict.NONDETERMINISTIC,), (Verdict.DETERMINISTIC,))


def test_defaults_leave_out_calls_that_only_other_settings_make() -> None:
    timed = '{ when = { cudnn_benchmark = true }, verdict = "nondeterministic" }'
    plain = '{ when = { cudnn_benchmark = false }, verdict = "deterministic" }'
    (rule,) = table(rule_text(timed, plain)).rule
    (span,) = spans(rule, ">=1.11,<=2.15")
    assert span.as_is == (Verdict.DETERMINISTIC,)
    assert len(span.cases) == 2


@pytest.mark.parametrize(
    ("key", "values", "words"),
    [
        ("arg.accumulate", {True}, "arg.accumulate: true"),
        ("dtype", {"float32", "float64", "float16", "bfloat16", "float8"}, "dtype: floating"),
        ("deterministic_mode", {"off"}, "deterministic_mode: off"),
        ("device", set(DOMAINS["device"]) - {"cuda"}, "device: not cuda"),
        ("arg.reduce", {"sum", "mean"}, "arg.reduce: sum or mean"),
    ],
)
def test_a_condition_reads_as_words(key: str, values: set[str], words: str) -> None:
    assert in_words(key, frozenset(values)) == words


@pytest.mark.parametrize("backend", [Backend.CPU, Backend.CUDA], ids=str)
def test_the_first_case_that_fits_says_what_is_decided_of_every_call(backend: Backend) -> None:
    holder = load_tables()[backend]
    assert [rule.id for rule in holder.rule if not tells_what_is_decided(holder, rule)] == []


def tells_what_is_decided(holder: RuleTable, rule: Rule) -> bool:
    """For one value of each key for each way in which the cases tell its values apart."""
    keys = list(keys_of(rule))
    choices = [
        {tuple(value in wanted_values(case, key) for case in rule.case): value for value in DOMAINS[key]}.values()
        for key in keys
    ]
    oldest, *_, newest = reviewed_releases(holder.reviewed)
    first, *_, last = (*spans(rule, holder.reviewed),) * 2
    for version, cases in ((oldest, first.cases), (newest, last.cases)):
        for values in islice(product(*choices), 300):
            call = dict(zip(keys, values, strict=True))
            case = next(case for case in cases if all(call[key] in wanted_values(case, key) for key in case.when))
            facts, settings = split(call)
            if BoundRule(rule, release(version), settings).decide(facts).verdict is not case.verdict:
                return False
    return True


EXAMPLES = load_examples()

#: Versions that differ in what rules say of examples; the lint proves that no rule lacks a case for any other.
VERSIONS = ("2.15", "2.8", "2.4", "1.13")

SHOWN = [
    pytest.param(backend, rule, example, id=rule.id)
    for backend in (Backend.CUDA, Backend.CPU)
    for rule in load_tables()[backend].rule
    if (example := EXAMPLES.of(rule)) is not None
    and not example.cuda_only
    and {case.verdict for case in rule.case} != {Verdict.DETERMINISTIC}
]


def reached(op: str, trace: Trace) -> bool:
    """Whether ``op`` was recorded, or what was recorded runs as it elsewhere."""
    seen = {call.op for call in trace.calls}
    seen |= {
        candidate.op
        for row in load_translations().translation
        if any(is_of(one, op) for one in seen for op in row.ops)
        for candidate in row.becomes
    }
    return any(is_of(one, op) for one in seen)


def is_of(overload: str, op: str) -> bool:
    return overload == op or overload.startswith(f"{op}.")


@pytest.mark.filterwarnings("ignore")  # of torch, about ops in beta and spellings that it would rather not see
@pytest.mark.parametrize("example", RUN, ids=first_op)
def test_an_example_dispatches_its_ops_on_a_cpu(example: Example) -> None:
    missing = [op for op in example.ops if not reached(op, recorded(example))]
    assert not missing


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("backend", "rule", "example"), SHOWN)
def test_an_example_makes_a_finding_of_the_rule_that_shows_it(backend: Backend, rule: Rule, example: Example) -> None:
    assert any(
        rule.id in shown(recorded(example), backend, version, settings)
        for version in VERSIONS
        for settings in (Settings.DEFAULT, Settings.DETERMINISTIC)
    )


def shown(trace: Trace, backend: Backend, version: str, settings: Settings) -> set[str]:
    """The rules that a trace has a finding of; with the mode off, those of whatever its calls may run as, too."""
    findings = judge(trace, backend=backend, torch=version, settings=settings).findings
    found = {finding.rule for finding in findings}
    if settings is Settings.DEFAULT:
        found |= {one for finding in findings for one in candidates(load_tables()[backend], finding.runs_as)}
    return found


def candidates(table: RuleTable, runs_as: str) -> set[str]:
    """The rules of every op that a call may run as, where the worst of several bears the finding's name."""
    rules = (table.find(f"{op}.default") for op in runs_as.split(" or ") if op)
    return {rule.id for rule in rules if rule is not None}


@pytest.mark.parametrize("backend", [Backend.CUDA, Backend.NPU, Backend.ROCM])
def test_the_whole_program_of_each_example_compiles_for_each_device(backend: Backend) -> None:
    for example in EXAMPLES.example:
        text = program(example, backend)
        compile(text, f"{first_op(example)}.py", "exec")
        assert f'device = "{ {Backend.ROCM: "cuda"}.get(backend, backend.value) }"' in text, first_op(example)
        assert ("import torch_npu" in text) is (backend is Backend.NPU), first_op(example)


def test_every_rule_has_one_but_for_ops_of_packages_that_torch_does_not_bring() -> None:
    for backend, loaded in load_tables().items():
        of_torch = [rule for rule in loaded.rule if not all(op.startswith(("npu.", "atb.")) for op in rule.ops)]
        assert [rule.id for rule in of_torch if EXAMPLES.of(rule) is None] == [], backend


def test_an_op_has_one_example_which_fits_on_the_page_and_is_some_rules() -> None:
    ops = [op for example in EXAMPLES.example for op in example.ops]
    assert len(ops) == len(set(ops))
    named = {op for table in load_tables().values() for rule in table.rule for op in rule.ops}
    assert [op for op in ops if not named & {op, op.rpartition(".")[0]}] == []
    assert [line for example in EXAMPLES.example for line in example.code.splitlines() if len(line) > 120] == []
    of_cpu = [example for rule in load_tables()[Backend.CPU].rule if (example := EXAMPLES.of(rule)) is not None]
    assert [example.ops for example in of_cpu if example.cuda_only] == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("schema = 1\n[[example]]\nops = []\ncode = 'x'", "dispatches no op"),
        ("schema = 1\n[[example]]\nops = ['aten.mm']\ncode = ' '", "has no code"),
    ],
)
def test_what_a_file_may_not_hold_is_one_line(text: str, says: str) -> None:
    with pytest.raises(TableError, match=says) as refused:
        parse_examples(text, "examples.toml")
    assert "\n" not in str(refused.value)
