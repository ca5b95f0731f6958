"""A diagnosis holds a process's settings against rows, as if every op that they bear on had run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.build import environment
from tests.tables.samples import parse_rows
from tracer.doctor import LIBRARIES, Checked, Diagnosis, Outlook, diagnose, diagnosis_blocks
from tracer.names import Backend, Verdict
from tracer.report.render.terminal import drawn, printed
from tracer.tables.rules import EnvironmentTable, load_rows
from tracer.trace.records import CudaDevice

HEAD = 'schema = 1\nreviewed = ">=1.11,<=2.15"\n'


def row_text(**fields: str) -> str:
    """A row about a variable that torch before 2.10 needs set; fields are TOML."""
    given = {
        "id": '"environment-sample"',
        "about": '"setting"',
        "name": '"SAMPLE"',
        "category": '"memory"',
        "variable": '"SAMPLE"',
        "safe": '["good"]',
        "cause": '"workspace"',
        "why": '"Because."',
        "remedy": '"Set it."',
        "case": """[
  { when = { value = "safe" }, verdict = "deterministic" },
  { when = { value = ["unset", "other"] }, torch = "<2.10", verdict = "nondeterministic" },
  { when = { value = ["unset", "other"] }, torch = ">=2.10", verdict = "deterministic" },
]""".replace("\n", " "),
        "evidence": '[{ kind = "documented", ref = "a page" }]',
    } | fields
    return "[[row]]\n" + "".join(f"{name} = {value}\n" for name, value in given.items())


def table(**fields: str) -> EnvironmentTable:
    """A table of that one row."""
    return parse_rows(HEAD + row_text(**fields), "environment.toml")


def outlook(*backends: str, **fields: Any) -> Outlook:
    """A process with torch, on ``backends``."""
    return Outlook(**{"backends": tuple(map(Backend, backends or ("cuda",))), "has_torch": True} | fields)


def checked(found: Diagnosis) -> Checked:
    """The only setting."""
    (one,) = found.settings
    return one


@pytest.mark.parametrize(
    ("variables", "verdict"),
    [({}, "nondeterministic"), ({"SAMPLE": "bad"}, "nondeterministic"), ({"SAMPLE": "good"}, "deterministic")],
)
def test_a_variable_is_judged_as_it_stands(variables: dict[str, str], verdict: str) -> None:
    found = diagnose(table(), environment(torch="2.6.0+cpu", variables=variables), outlook())
    assert checked(found).verdict is Verdict(verdict)
    assert checked(found).wanted == "good"
    assert checked(found).is_set is bool(variables)
    assert found.faults == (() if verdict == "deterministic" else found.settings)


@pytest.mark.parametrize(
    ("torch", "verdict", "words"),
    [
        ("2.13.0", "deterministic", ""),
        ("2.99.0", "deterministic", "extrapolated"),
        ("1.9.0", "unknown", "nothing is known"),
    ],
)
def test_the_installed_release_decides_and_one_that_nobody_reviewed_is_said(
    torch: str, verdict: str, words: str
) -> None:
    found = diagnose(table(), environment(torch=torch), outlook())
    assert (checked(found).verdict, checked(found).wanted) == (verdict, "")
    assert words in " ".join(found.banners)
    assert bool(found.banners) is bool(words)


def test_a_field_of_torch_is_judged_by_its_value() -> None:
    rows = table(
        variable='""',
        field='"cudnn_benchmark"',
        default="false",
        safe="[false]",
        case='[{ when = { value = ["unset", "safe"] }, verdict = "deterministic" },'
        ' { when = { value = "other" }, verdict = "nondeterministic" }]',
    )
    assert diagnose(rows, environment(cudnn_benchmark=False), outlook()).faults == ()
    found = diagnose(rows, environment(cudnn_benchmark=True), outlook())
    assert checked(found).verdict is Verdict.NONDETERMINISTIC
    assert (checked(found).value, checked(found).wanted) == (True, "False")


@pytest.mark.parametrize(("backends", "count"), [(("cpu",), 0), (("cuda",), 1), (("cpu", "cuda"), 1)])
def test_a_row_of_another_backend_is_left_out(backends: tuple[str, ...], count: int) -> None:
    found = diagnose(table(backends='["cuda", "rocm"]'), environment(torch="2.6"), outlook(*backends))
    assert len(found.settings) == count
    assert all(one.backends == (Backend.CUDA,) for one in found.settings)


@pytest.mark.parametrize(
    "fields",
    [
        {"needs": '["transformer-engine"]'},  # a library that is not here
        {"variable": '""'},  # there to be explained
        {"about": '"generator"'},  # observed, not set
        {"torch": '">=2.7"'},
    ],
    ids=str,
)
def test_what_is_no_setting_of_this_process_is_left_out(fields: dict[str, str]) -> None:
    rows = parse_rows(f'{HEAD}[[group]]\nname = "transformer-engine"\n{row_text(**fields)}', "environment.toml")
    assert diagnose(rows, environment(torch="2.6.0"), outlook(absent=("transformer-engine",))).settings == ()


@pytest.mark.parametrize("needs", ["fixed-by-mode", "unseen"])
def test_needs_are_taken_as_met(needs: str) -> None:
    found = diagnose(table(needs=f'["{needs}"]'), environment(torch="2.6.0"), outlook())
    assert checked(found).verdict is Verdict.NONDETERMINISTIC


def test_each_library_that_is_looked_for_is_a_group_or_a_row_of_the_table() -> None:
    table = load_rows()
    assert LIBRARIES.keys() <= {group.name for group in table.group} | {row.id for row in table.row}


@pytest.mark.parametrize(
    ("variables", "is_note"), [({}, False), ({"SAMPLE": "good"}, False), ({"SAMPLE": "bad"}, True)]
)
def test_what_differs_between_machines_only_is_a_note(variables: dict[str, str], is_note: bool) -> None:
    rows = table(differs='"machines"', case='[{ verdict = "deterministic" }]')
    found = diagnose(rows, environment(variables=variables), outlook())
    assert found.faults == ()
    assert bool(found.notes) is is_note


def test_without_torch_its_settings_are_counted_and_releases_that_disagree_are_unknown() -> None:
    text = HEAD + row_text() + row_text(id='"environment-other"', variable='""', field='"cudnn_benchmark"')
    absent = Outlook(backends=tuple(Backend)[:-1], has_torch=False)
    found = diagnose(parse_rows(text, "environment.toml"), environment(torch=""), absent)
    assert checked(found).verdict is Verdict.UNKNOWN
    assert checked(found).missing == ("torch's version",)
    assert len(found.unread) == 1
    assert "torch cannot be imported" in found.banners[0]
    good = environment(torch="", variables={"SAMPLE": "good"})
    assert checked(diagnose(table(), good, absent)).verdict is Verdict.DETERMINISTIC


def test_a_setting_that_a_case_asks_for_and_nobody_knows_makes_it_unknown() -> None:
    rows = table(
        case='[{ when = { cudnn_enabled = true }, verdict = "nondeterministic" },'
        ' { when = { cudnn_enabled = false }, verdict = "deterministic" }]'
    )
    found = diagnose(rows, environment(), outlook())
    assert (checked(found).verdict, checked(found).missing) == (Verdict.UNKNOWN, ("cudnn_enabled",))


def test_the_worst_stands_first() -> None:
    text = (
        HEAD + row_text(torch='">=2.7"') + row_text(id='"environment-worse"', case='[{ verdict = "nondeterministic" }]')
    )
    found = diagnose(parse_rows(text, "environment.toml"), environment(torch="2.13"), outlook())
    assert [one.row for one in found.settings] == ["environment-worse", "environment-sample"]


@pytest.mark.parametrize("backend", ["cpu", "cuda", "rocm", "xpu", "mps", "npu"])
@pytest.mark.parametrize("width", [24, 40, 80, 160])
def test_the_text_fits_its_terminal_and_names_each_fault(backend: str, width: int) -> None:
    device = CudaDevice(name="NVIDIA H200", capability="9.0")
    there = outlook(backend, versions={"torch": "2.6.0", "NumPy": "2.1"}, devices=(device,))
    found = diagnose(load_rows(), environment(torch="2.6.0", cudnn_benchmark=True), there)
    text = printed(drawn(diagnosis_blocks(found, all_settings=True)), width=width, color=False)
    code = {line for one in found.settings for line in one.code.splitlines()}  # which is never broken
    assert max(len(line) for line in text.splitlines() if line.strip() not in code) <= width
    squeezed = "".join(text.split())
    for one in found.settings:
        if one.verdict is not Verdict.DETERMINISTIC or not one.is_note:
            assert "".join(one.name.split()) in squeezed


def test_the_rest_is_folded_away_until_it_is_asked_for() -> None:
    found = diagnose(load_rows(), environment(), outlook())
    folded, whole = (
        printed(drawn(diagnosis_blocks(found, all_settings=every)), width=80, color=False) for every in (False, True)
    )
    quiet = next(one for one in found.settings if one.verdict is Verdict.DETERMINISTIC and not one.is_note)
    assert f"= {quiet.name}" not in folded
    assert f"= {quiet.name}" in whole
    assert "--all lists the rest" in folded
