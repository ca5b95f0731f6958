"""Every example runs, dispatches what it says, and makes a finding of each rule that shows it."""

from __future__ import annotations

import pytest

from tests.support.examples import RUN, first_op, recorded
from tests.tables.samples import parse_examples
from tracer import Trace, judge
from tracer.errors import TableError
from tracer.names import Backend, Settings, Verdict
from tracer.tables.explaining import Example, load_examples, program
from tracer.tables.loading import load_tables
from tracer.tables.rules import Rule, RuleTable
from tracer.tables.translation import load_translations

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
    for backend, table in load_tables().items():
        of_torch = [rule for rule in table.rule if not all(op.startswith(("npu.", "atb.")) for op in rule.ops)]
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
        ("schema = 2\nexample = []", "schema 2 is not 1"),
        ("schema = 1\n[[example]]\nops = []\ncode = 'x'", "dispatches no op"),
        ("schema = 1\n[[example]]\nops = ['aten.mm']\ncode = ' '", "has no code"),
        ("schema = 1\n[[example]]\nops = ['mm']\ncode = 'x'", "not of the form namespace.name"),
        ("schema = 1\n[[example]]\nops = ['aten.mm']\ncode = 'x'\nrule = 'cuda-mm'", "unknown field `rule`"),
    ],
)
def test_what_a_file_may_not_hold_is_one_line(text: str, says: str) -> None:
    with pytest.raises(TableError, match=says) as refused:
        parse_examples(text, "examples.toml")
    assert "\n" not in str(refused.value)
