"""Translations say what a CPU recording runs as elsewhere; the lint proves them, and each row is met and missed."""

from __future__ import annotations

import pytest

from tests.support.build import call, trace
from tests.tables.samples import GOOD_REF, parse_translations, rule_text, split, table
from tests.tables.test_schemas import ELSEWHERE, overloads
from tracer.errors import TableError
from tracer.facts import Kind, Value
from tracer.facts.every_fact import of_kind
from tracer.findings import Judgement, Target
from tracer.judging import judge_calls
from tracer.names import Backend, Settings, Verdict
from tracer.ops import bare_name, row_of
from tracer.tables.conditions import wanted_values
from tracer.tables.lint import faults_of
from tracer.tables.loading import load_tables, required_facts
from tracer.tables.rules import (
    DERIVATIONS,
    DOMAINS,
    SETTINGS,
    STAYS,
    UNNOTED,
    RuleTable,
    TargetNote,
    TargetOp,
    Translation,
    Translations,
    load_translations,
)
from tracer.tables.target_tables import BoundTranslation, _is_open
from tracer.tables.versions import RELEASES, release, reviewed_releases, speaks_of

HEAD = 'schema = 1\nreviewed = ">=1.11,<=2.15"\n'
ROW = """
[[translation]]
id = "{id}"
to = {to}
ops = {ops}
why = "The CPU runs another."
becomes = [{becomes}]
  [[translation.evidence]]
  kind = "source"
  ref = "{ref}"
"""
ALWAYS = '{ op = "aten.sample.default" }'
CUDA = {Backend.CUDA: table(rule_text())}

ROWS = load_translations().translation
CANDIDATES = [
    pytest.param(row, candidate, id=f"{row.id}-{number}")
    for row in ROWS
    for number, candidate in enumerate(row.becomes)
]


def row_text(
    *becomes: str,
    id: str = "to-cuda-sample",
    to: str = '["cuda"]',
    ops: str = '["aten.seen"]',
    ref: str = GOOD_REF,
) -> str:
    """One translation; each candidate is an inline table's inside."""
    return ROW.format(id=id, to=to, ops=ops, becomes=", ".join(becomes or (ALWAYS,)), ref=ref)


def translations(*rows: str) -> Translations:
    return parse_translations(HEAD + "".join(rows or (row_text(),)), "sample.toml")


# ------------------------------------------------------------------------------------ the table that ships


def test_the_translations_that_ship_are_clean() -> None:
    assert list(faults_of(load_translations())) == []


def test_every_op_of_a_row_is_known_to_torch_or_said_to_be_elsewhere() -> None:
    ops = {op for row in ROWS for op in (*row.ops, *(one.op for one in row.becomes)) if op not in ("", STAYS)}
    assert [op for op in sorted(ops) if not overloads(op) and op not in ELSEWHERE] == []


def test_a_recorder_notes_what_the_candidates_ask() -> None:
    def unnoted(row: Translation, op: str) -> set[str]:
        noted = required_facts().get(op, frozenset()) | required_facts().get(op.rpartition(".")[0], frozenset())
        asked = {
            key for one in row.becomes for key in one.when if key.startswith(("arg.", "given.", "shape.", "index."))
        }
        return asked - noted - {key for one in row.becomes for key in one.facts}

    assert [(row.id, op) for row in ROWS for op in row.ops if unnoted(row, op)] == []


@pytest.mark.parametrize(("row", "candidate"), CANDIDATES)
def test_a_candidate_is_open_where_it_says_and_closed_at_a_near_miss(row: Translation, candidate: TargetOp) -> None:
    met = {key: next(v for v in DOMAINS[key] if v in wanted_values(candidate, key)) for key in candidate.when}
    version = release(next(r for r in reviewed_releases(">=1.11,<=2.15") if speaks_of(candidate.torch, r)))
    assert candidate in open_candidates(row, version, met)
    for key in candidate.when:
        miss = next(value for value in DOMAINS[key] if value not in wanted_values(candidate, key))
        assert candidate not in open_candidates(row, version, {**met, key: miss})
    for key in split(met)[0]:
        if met[key] != UNNOTED.get(key, met[key]):
            continue  # it is noted wherever it holds, so that what lacks it does not
        without = {k: v for k, v in met.items() if k != key}
        assert candidate in open_candidates(row, version, without), f"{key} is not known, so it may be the one"


def open_candidates(row: Translation, version: str, values: dict[str, Value]) -> tuple[TargetOp, ...]:
    """What a call may run as, as things stand."""
    facts, settings = split(values)
    bound = BoundTranslation(row, row.ops[0], version, settings)
    stays = [candidate for candidate in row.becomes if candidate.op == STAYS]
    named = {repr((one.when, one.facts)): one for one in stays}
    opened = [candidate for candidate, _ in bound._both[0] if _is_open(candidate, facts)]
    return tuple(named.get(repr((one.when, one.facts)), one) if one.op == row.ops[0] else one for one in opened)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_each_recorded_op_comes_out_as_one_of_its_candidates_and_a_neighbour_does_not(row: Translation) -> None:
    for op in row.ops:
        overload = op if op.count(".") == 2 else f"{op}.default"
        becomes = {overload if candidate.op == STAYS else candidate.op for candidate in row.becomes}
        names = {name.removesuffix(".default") for name in becomes}
        for backend in row.to:
            found = judged(overload, backend).findings
            public = row_of(bare_name(op)).on_cpu_for
            assert all(set(f.runs_as.split(" or ")) <= {*names, public} for f in found if f.op)
            assert all(not f.rule.startswith("to-") or f.rule == row.id for f in found)
            neighbour = f"{'.'.join(op.split('.')[:2])}_of_nobody.default"
            assert all(not f.runs_as for f in judged(neighbour, backend).findings)


def judged(op: str, backend: Backend) -> Judgement:
    """A backward call of ``op`` recorded on a CPU, under every setting's first value."""
    target = Target(
        backend=backend,
        torch="2.13.0",
        settings=Settings.RECORDED,
        conditions={key: domain[0] for key, domain in SETTINGS.items()},
    )
    group = call(op, phase="backward", node="SafeSoftmaxBackward0", facts={"device": "cpu", "dtype": "float32"})
    return judge_calls(trace(group), load_tables(), target, translations=load_translations())[0]


@pytest.mark.parametrize("note", [pytest.param(n, id=n.id) for n in load_translations().note])
def test_a_note_is_said_where_its_ops_were_seen_and_only_there(note: TargetNote) -> None:
    for backend in note.to:
        for op in note.seen:
            overload = op if op.count(".") == 2 else f"{op}.Tensor"
            assert note.says in judged(overload, backend).banners[-1]
        assert not any(note.says in banner for banner in judged("aten.add.Tensor", backend).banners)


def test_every_derived_fact_has_a_derivation() -> None:
    assert set(DERIVATIONS) == set(of_kind(Kind.DERIVED))


# ---------------------------------------------------------------------------------------------- the lint


ELSE = "aten.other.default"
SPLIT_BY_DTYPE = (
    '{ op = "aten.sample.default", when = { dtype = "float32" } }',
    f'{{ op = "{ELSE}", when = {{ dtype = ["float64", "float16", "bfloat16", "float8"] }} }}',
    f'{{ op = "{ELSE}", when = {{ dtype = ["complex", "integral", "boolean", "quantized", "none"] }} }}',
)
OLD = '{ op = "aten.sample.default", torch = "<2.1" }'
NEW = '{ op = "aten.sample.default", torch = ">=2.1", when = { cudnn_enabled = true } }'
DEAD = f'{{ op = "{ELSE}", torch = ">=2.16" }}'
AGAIN = "to-cuda-again"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([row_text(*SPLIT_BY_DTYPE)], ""),
        ([row_text(ALWAYS, f'{{ op = "{ELSE}" }}')], ""),  # several candidates for one call are no overlap
        ([row_text(OLD, NEW)], "to-cuda-sample: gap in torch 2.1: no candidate for cudnn_enabled: false"),
        ([row_text(ALWAYS, DEAD)], "to-cuda-sample: candidate 1 is dead: `>=2.16` contains no reviewed release"),
        ([row_text(), row_text(id=AGAIN)], "aten.seen: claimed by to-cuda-sample and to-cuda-again for cuda"),
        (
            [row_text(), row_text(id=AGAIN, ops='["aten.seen.out"]')],
            "aten.seen.out: claimed by to-cuda-again and to-cuda-sample for cuda",
        ),
        ([row_text(), row_text(id="to-rocm-sample", to='["rocm"]')], ""),
    ],
)
def test_a_call_becomes_something_in_each_version_by_one_row_for_each_target(rows: list[str], says: str) -> None:
    assert list(faults_of(translations(*rows))) == [says] * bool(says)


def test_every_candidate_is_judged_by_a_rule_or_vouched_for_by_a_deny_list() -> None:
    def is_answered(op: str, holder: RuleTable) -> bool:
        is_open = op in ("", STAYS) or (holder.deny_list and op.startswith(("aten.", "prims.")))
        return is_open or holder.find(op) is not None

    candidates = [(one.op, backend) for row in ROWS for backend in row.to for one in row.becomes]
    assert [(op, backend) for op, backend in candidates if not is_answered(op, load_tables()[backend])] == []


def test_a_candidate_has_an_op_or_says_why_none_is_known_and_narrows_no_other() -> None:
    def narrows(one: TargetOp, other: TargetOp) -> bool:
        within = all(wanted_values(one, key) <= wanted_values(other, key) for key in other.when)
        shared = any(speaks_of(one.torch, r) and speaks_of(other.torch, r) for r in RELEASES)
        return (other.op, other.facts) == (one.op, one.facts) and within and shared

    assert [row.id for row in ROWS if any(bool(one.op) is bool(one.why) for one in row.becomes)] == []
    pairs = [(row, one, other) for row in ROWS for n, one in enumerate(row.becomes) for other in row.becomes[:n]]
    assert [row.id for row, one, other in pairs if narrows(one, other)] == []


# ---------------------------------------------------------------------------------------------- loading


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (row_text(id="cuda-sample"), "'cuda-sample' is not kebab-case with the prefix `to-`"),
        (row_text(to='["cpu"]'), "a recording on cpu can only be translated to another backend"),
        (row_text(to='["recorded"]'), "a recording on cpu can only be translated to another backend"),
        (row_text('{ op = "aten.sample" }'), "'aten.sample' is not of the form namespace.name.overload"),
        (row_text('{ op = "aten.sample.default", facts = { device = "cuda" } }'), "device = 'cuda' is not a recorded"),
    ],
)
def test_a_word_that_does_not_exist_fails_the_load(row: str, says: str) -> None:
    with pytest.raises(TableError) as error:
        translations(row)
    assert says in str(error.value)
    assert str(error.value).startswith("sample.toml: ")


def test_a_translation_that_names_no_op_makes_the_call_unknown() -> None:
    why = "Nobody knows."
    rows = translations(row_text(f'{{ why = "{why}" }}'))
    group = call("aten.seen.default", facts={"device": "cpu"})
    target = Target(backend=Backend.CUDA, torch="2.13.0", settings=Settings.DEFAULT)
    (finding,) = judge_calls(trace(group), CUDA, target, translations=rows)[0].findings
    assert (finding.rule, finding.verdict, finding.why) == ("to-cuda-sample", Verdict.UNKNOWN, why)
