"""The lint finds what it is there for; every claim that ships is worded, cited and spelt as asked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import pytest

from tests.tables.samples import ALWAYS, GOOD_REF, HEAD, field_type, rule_text, table
from tracer.names import OF_A_RUN, About, Differs, EventKind, EvidenceKind, Verdict
from tracer.tables.compiled import ITSELF, CompiledCase, load_compilers
from tracer.tables.conditions import wanted_values
from tracer.tables.lint import faults_of
from tracer.tables.loading import load_classes, load_libraries, load_tables
from tracer.tables.rules import (
    NARROWING,
    PROCESS_FACTS,
    RECORDED_FACTS,
    RESERVED,
    SETTINGS,
    AffectedCalls,
    Case,
    Rule,
    RuleEvidence,
    RuleTable,
    SettingRow,
    load_rows,
    load_translations,
)
from tracer.tables.settings import FORWARD, MODE, SEEDS
from tracer.trace.records import Environment

OFF = '{ when = { deterministic_mode = "off" }, verdict = "nondeterministic" }'

WARN = '{ when = { deterministic_mode = "warn" }, verdict = "nondeterministic" }'

REST = '{ verdict = "deterministic" }'

ON = '{ when = { deterministic_mode = "on" }, verdict = "raises" }'


BOTH = '{ when = { deterministic_mode = ["off", "warn"] }, verdict = "conditional" }'

HALF = '{ when = { dtype = "float16", deterministic_mode = "warn" }, verdict = "raises" }'

NEWER = '{ torch = ">=2.1", when = { deterministic_mode = "off" }, verdict = "deterministic" }'

DEAD = '{ torch = ">=2.16", verdict = "raises" }'

EVERY = '{ when = { "arg.accumulate" = [true, false] }, verdict = "raises" }'

LEFT = "the last case has conditions: what no other case takes is left without one"


@pytest.mark.parametrize(
    ("cases", "says"),
    [
        ((OFF, WARN, REST), []),
        ((OFF, WARN, ON), [LEFT]),
        ((OFF, WARN, '{ torch = ">=2.1", verdict = "raises" }'), [LEFT]),
        ((OFF, WARN, BOTH, HALF, REST), ["case 2 can never be reached", "case 3 can never be reached"]),
        ((NEWER, OFF, REST), []),  # one version alone reaches it
        ((OFF, NEWER, REST), ["case 1 can never be reached"]),
        ((OFF, DEAD, REST), ["case 1 is dead: `>=2.16` contains no reviewed release"]),
        ((EVERY, REST), ["case 0 lists every value of arg.accumulate; leave the key out"]),
    ],
)
def test_cases_come_in_an_order_in_which_each_is_reached_and_the_last_takes_the_rest(
    cases: tuple[str, ...], says: list[str]
) -> None:
    assert list(faults_of(table(rule_text(*cases)))) == [f"cuda-sample: {fault}" for fault in says]


EVIDENCE = f'  [[rule.evidence]]\n  kind = "source"\n  ref = "{GOOD_REF}"'


@pytest.mark.parametrize(
    ("linted", "says"),
    [
        (table(rule_text(), rule_text(ops='["aten.other"]')), "cuda-sample: 2 of them have this id"),
        (table(rule_text(), rule_text(id="cuda-again")), "aten.sample: claimed by cuda-sample and cuda-again"),
        # An overload may stand in another rule than its packet.
        (table(rule_text(), rule_text(id="cuda-again", ops='["aten.sample.out"]')), ""),
        (table(rule_text().replace(EVIDENCE, "evidence = []")), "cuda-sample: evidence is empty"),
        (table(rule_text().replace(f"case = [{ALWAYS}]", "case = []")), "cuda-sample: case is empty"),
    ],
)
def test_a_rule_has_an_id_and_ops_of_its_own_cases_and_evidence(linted: RuleTable, says: str) -> None:
    assert list(faults_of(linted)) == [says] * bool(says)


def test_a_table_for_no_release_is_said_to_be_one() -> None:
    assert next(faults_of(table(head=HEAD.replace(">=1.11,<=2.15", ">=9.0")))) == "`>=9.0` contains no release of torch"


RULES = [
    rule
    for table in (*load_tables().values(), load_libraries(), load_classes(), load_compilers()["inductor"])
    for rule in table.rule
]

ROWS = load_rows().row

GROUPS = load_rows().group

TRANSLATIONS = load_translations()


def twice(ops: tuple[str, ...]) -> list[str]:
    """Ops that are listed more than once, or beside their packet."""
    return [op for op, times in Counter(ops).items() if times > 1 or op.rpartition(".")[0] in ops]


#: A release, or, for a project without releases, a commit.
VERSION = re.compile(r"\b\d+\.\d+|\bat [0-9a-f]{7,40}\b")

THREAD = re.compile(r"\b(PR|issue) ([\w.-]+/[\w.-]+)?#\d+\b")

FILE = re.compile(r"[\w/{},-]+\.(cu|cuh|cpp|h|py|mm|metal|yaml|csv|md)\b")

ROUTE = re.compile(r"(torch(\.[A-Za-z_]\w*)+|aten(\.\w+){1,2})(\([\w=, ]*\))?")

#: Facts that the cases of a row may use, besides settings.
KEYS = {
    About.SETTING: {"value"},
    About.LATE: {"late"},
    About.CHANGED: {"change", "origin"},
    About.GENERATOR: {"origin", "seed.number", "by.library", "made.often", "made.drew"},
    About.MEMORY: set(),
    About.OVERLAP: {"overlap"},
    About.LOADER: {"origin", *(key for key in PROCESS_FACTS if key.startswith("loader."))},
    About.COMPILED: {"value"},
}


def wrong(holds: Callable[[Any], object], rows: Iterable[Any]) -> list[str]:
    """The ids of the rows for which a claim does not hold."""
    return [row.id for row in rows if not holds(row)]


@pytest.mark.parametrize("rows", [pytest.param(RULES, id="rules"), pytest.param(ROWS, id="settings")])
def test_a_row_speaks_in_plain_sentences(rows: Sequence[Rule | SettingRow]) -> None:
    def speaks(row: Rule | SettingRow) -> bool:
        texts = [row.why, row.remedy, *filter(None, chain.from_iterable((case.why, case.remedy) for case in row.case))]
        return all(
            text and text == " ".join(text.split()) and text[-1] in ".`)" and len(text) < 500 and "/work" not in text
            for text in texts
        )

    assert wrong(speaks, rows) == []
    assert wrong(lambda row: len(row.why.split()) > 5 or isinstance(row, SettingRow), rows) == []


def can_be_followed(evidence: RuleEvidence) -> bool:
    kind, ref = evidence.kind, evidence.ref
    if not ref or ref != " ".join(ref.split()) or ref.startswith(("/", "~", "..")) or kind in OF_A_RUN:
        return False
    if kind is EvidenceKind.SOURCE and not (THREAD.search(ref) or FILE.search(ref)):
        return False
    return kind is EvidenceKind.MEASURED or bool(VERSION.search(ref) or THREAD.search(ref))


def test_a_reference_is_one_line_that_names_a_file_or_thread_and_a_version() -> None:
    rows = (*RULES, *ROWS, *TRANSLATIONS.translation, *TRANSLATIONS.note)
    cited = dict.fromkeys(evidence for row in rows for evidence in row.evidence)
    assert [evidence.ref for evidence in cited if not can_be_followed(evidence)] == []


@pytest.mark.parametrize(
    ("kind", "ref"),
    [
        ("source", ""),
        ("source", "/home/me/pytorch/Indexing.cu, 2.6.0"),
        ("source", "I looked at it, 2.6.0"),
        ("source", "aten/src/ATen/native/cuda/Indexing.cu"),
        ("documented", "torch.use_deterministic_algorithms page"),
        ("generated", "seen in Indexing.cu, 2.6.0"),
    ],
)
def test_a_reference_that_nobody_could_follow_is_seen(kind: str, ref: str) -> None:
    assert not can_be_followed(RuleEvidence(kind=EvidenceKind(kind), ref=ref))


def test_a_rule_lists_an_op_once_and_kernels_of_its_own_ops() -> None:
    def rests_on_kernels(rule: Rule) -> bool:
        return {evidence.kind for evidence in rule.evidence} == {EvidenceKind.VENDOR_KERNEL_LIST}

    assert wrong(lambda rule: rule.ops and not twice(rule.ops), RULES) == []
    assert wrong(lambda rule: set(rule.kernels) <= set(rule.ops), RULES) == []
    assert wrong(lambda rule: set(rule.kernels) == set(rule.ops), filter(rests_on_kernels, RULES)) == []


def test_a_rule_for_a_whole_namespace_asks_nothing_that_is_recorded_by_an_ops_name() -> None:
    whole = [rule for rule in load_libraries().rule if any(op.endswith(".*") for op in rule.ops)]
    assert whole
    assert wrong(lambda rule: not {k for case in rule.case for k in case.when} & RECORDED_FACTS.keys(), whole) == []


def test_a_route_is_spelt_taken_and_explained() -> None:
    def is_sound(rule: Rule, case: Case) -> bool:
        taken = wanted_values(case, MODE) & wanted_values(case, FORWARD + MODE)
        says = not case.route.startswith("torch.") or "direct call" in (case.why or rule.why)
        return bool(ROUTE.fullmatch(case.route)) and "off" not in taken and says

    assert wrong(lambda rule: all(is_sound(rule, case) for case in rule.case if case.route), RULES) == []


def test_a_compilers_case_has_a_verdict_or_names_what_is_called() -> None:
    def is_sound(case: CompiledCase) -> bool:
        if case.route or (case.facts and case.calls in ("", ITSELF)):
            return False
        return case.verdict is Verdict.UNKNOWN if case.calls else case.verdict is not Verdict.UNKNOWN or bool(case.why)

    assert wrong(lambda rule: all(map(is_sound, rule.case)), load_compilers()["inductor"].rule) == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_reads_what_it_asks_and_asks_what_its_kind_has(row: SettingRow) -> None:
    is_read = bool(row.field or row.variable or row.read)
    of_value = row.about in (About.SETTING, About.COMPILED)
    assert {key for case in row.case for key in case.when} <= {*KEYS[row.about], *SETTINGS}
    assert row.differs is Differs.RUNS or {case.verdict for case in row.case} <= {Verdict.DETERMINISTIC}
    assert of_value or not is_read
    assert is_read or not (row.safe or row.default is not None or any("value" in case.when for case in row.case))
    assert not row.read_by or of_value or row.about is About.LATE
    if row.about is About.SETTING and not is_read and not row.needs:  # else it would be a finding in every step
        assert {case.verdict for case in row.case} <= {Verdict.DETERMINISTIC}
    if row.field or row.variable:
        wanted = field_type(row.field) if row.field else str
        assert {type(value) for value in (*row.safe, row.default) if value is not None} <= {wanted}
    watches = row.about in (About.LATE, About.CHANGED)
    assert (row.watches in (EventKind.VARIABLE, EventKind.SETTING)) is watches
    assert watches or not row.events
    assert bool(row.generator) is (row.about is About.GENERATOR)


@pytest.mark.parametrize("row", [row for row in ROWS if row.code or row.sets or row.where], ids=lambda row: row.id)
def test_the_code_of_a_row_can_be_pasted_and_sets_what_a_target_has(row: SettingRow) -> None:
    assert row.where or not row.code
    assert row.code or (not row.sets and row.about is About.LATE)
    if row.code.startswith("export "):
        assert all(line.startswith("export ") for line in row.code.splitlines())
    else:
        compile(row.code, row.id, "exec")
    for name, value in row.sets.items():
        if name in SEEDS:
            assert value is True
        elif name in Environment.__struct_fields__:
            assert type(value) is field_type(name)
        else:
            assert "." in name or (name.isupper() and isinstance(value, str))


def test_a_setting_is_read_once_for_the_same_calls() -> None:
    read = [(name, frozenset(row.needs)) for row in ROWS for name in (row.variable, row.read) if name]
    assert len(read) == len(set(read))


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_a_group_is_used_and_names_an_op_once(group: AffectedCalls) -> None:
    assert group.name not in RESERVED
    assert group.name in NARROWING or any(group.name in row.needs for row in ROWS)
    assert group.ops or group.when
    assert twice(group.ops) == []
    assert sum(each.name == group.name for each in GROUPS) == 1
