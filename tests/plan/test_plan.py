"""The plan closes every finding exactly once, the cheapest change first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import event, finding, judgement, process_finding, target
from tracer.findings import Finding, Need, PlannedChange
from tracer.names import About, Cause, EventKind, HintKind, Prerequisite, SeedOrigin, UnknownReason, Verdict
from tracer.plan import PlanStep, importing_once, make_plan, step_of
from tracer.report.sections.plan import step_of_plan
from tracer.report.words import sites_of
from tracer.trace.records import CodeHint

GOOD = (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)

ANYTHING = st.builds(
    finding,
    rule=st.sampled_from(["cuda-a", "cuda-b"]),
    location=st.sampled_from(["", "train.py:1", "train.py:2"]),
    verdict=st.sampled_from(list(Verdict)),
    deterministic_mode=st.sampled_from(list(Verdict)),
    cause=st.sampled_from([None, *Cause]),
    reason=st.sampled_from([None, *UnknownReason]),
    count=st.integers(1, 9),
)


def raising(**fields: object) -> Finding:
    return finding("cuda-put", op="aten.put_.default", deterministic_mode="raises", **fields)


def test_one_line_of_settings_comes_first_and_closes_all_that_it_fixes() -> None:
    opaque = finding("cuda-opaque", op="mylib.op.default", verdict="unknown", deterministic_mode="unknown", count=50)
    conditional = finding(location="train.py:20", verdict="conditional", count=3)
    plan = make_plan(judgement(opaque, finding(count=2), conditional))
    assert make_plan(judgement()) == ()
    assert plan[0].code == "import torch\n\ntorch.use_deterministic_algorithms(True)"
    assert (plan[0].number, plan[0].closes, plan[0].calls) == (1, 2, 5)
    assert "before" in plan[0].where
    assert plan[1].number == 2


def test_lines_pasted_in_the_order_of_the_plan_run_and_import_each_module_once() -> None:
    pasted = {
        "torch.use_deterministic_algorithms(True)": "import torch\n\ntorch.use_deterministic_algorithms(True)",
        "import torch\n\ntorch.backends.cudnn.benchmark = False": "torch.backends.cudnn.benchmark = False",
        "export OMP_DYNAMIC=FALSE": "export OMP_DYNAMIC=FALSE",
        "torch.rand(1)\nrandom.seed(0)": "import random\n\ntorch.rand(1)\nrandom.seed(0)",
        "from torch import nn\n\nos.getcwd()": "import os\nfrom torch import nn\n\nos.getcwd()",
    }
    assert list(importing_once(pasted)) == list(pasted.values())


def test_all_random_draws_are_closed_by_one_seed() -> None:
    seeded = {"verdict": "seeded", "deterministic_mode": "seeded"}
    draws = [finding("cuda-rng", op=f"aten.{op}.default", **seeded) for op in ("bernoulli", "rand", "randn")]
    (change,) = make_plan(judgement(*draws))
    assert (change.code, change.closes) == ("import torch\n\ntorch.manual_seed(0)", 3)


def test_what_raises_is_named_by_site_with_its_remedy() -> None:
    plan = make_plan(
        judgement(
            raising(location="a.py:1", remedy="Use this: that."),
            raising(location="a.py:1", phase="backward", remedy="Use this: that."),
            raising(location="b.py:2", remedy="Use this: that.", called_from="train.py:9"),
        )
    )
    assert [change.where for change in plan] == ["a.py:1", "b.py:2 (called from train.py:9)"]
    title = "Replace aten.put_, which raises under deterministic mode"
    assert (plan[0].closes, plan[0].title, plan[0].remedy) == (2, title, "Use this: that.")
    assert step_of_plan(plan[0]).advice == f"{title}: Use this: that."
    assert step_of_plan(PlannedChange(number=1, title="Seed")).advice == "Seed"


USUAL = finding("cuda-cublas", cause="workspace", remedy="Set `CUBLAS_WORKSPACE_CONFIG=:4096:8`.")
EITHER = finding("cuda-bmm", cause="workspace", remedy="Set it to `:4096:8` or `:16:8`.")
NARROW = finding("cuda-rnn", cause="workspace", remedy="Set it to `:16:8` (or `:4096:2`).")
CONVOLUTION = finding("cuda-autotune", cause="autotune", deterministic_mode="nondeterministic")


@pytest.mark.parametrize(
    ("found", "conditions", "words"),
    [
        ([USUAL, EITHER], {}, 'CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"'),
        ([USUAL, EITHER, NARROW], {}, 'CUBLAS_WORKSPACE_CONFIG"] = ":16:8"'),
        ([USUAL], {"cublas_workspace": "set"}, "Turn deterministic mode on"),
        ([finding()], {"deterministic_mode": "warn"}, "Turn deterministic mode on without warn_only"),
        ([CONVOLUTION], {"cudnn_benchmark": True}, "import torch\n\ntorch.backends.cudnn.benchmark = False"),
        ([CONVOLUTION], {}, "does not fix"),
    ],
)
def test_a_change_suits_what_is_found_and_set(found: list[Finding], conditions: dict[str, object], words: str) -> None:
    (change,) = make_plan(judgement(*found, target=target(conditions=conditions)))
    assert words in f"{change.title}\n{change.code}"
    assert ("CUBLAS_WORKSPACE_CONFIG" in change.code) is ("CUBLAS_WORKSPACE_CONFIG" in words)


def test_the_unknown_comes_last_and_says_how_to_find_out() -> None:
    opaque = [
        finding(f"cuda-{op}", op=f"mylib.{op}.default", verdict="unknown", deterministic_mode="unknown")
        for op in "abcdefghijklmnopq"
    ]
    plan = make_plan(judgement(*opaque, finding()))
    assert plan[-1].where == f"{', '.join(f'mylib.{op}' for op in 'abcdefghijkl')} and 5 more"
    assert "compare bits" in plan[-1].title
    assert plan[-1].closes == 17


@given(st.lists(ANYTHING, max_size=12))
def test_every_finding_that_needs_a_change_is_closed_exactly_once(findings: list[Finding]) -> None:
    judged = judgement(*findings)
    plan = make_plan(judged)
    assert [change.number for change in plan] == list(range(1, len(plan) + 1))
    closed = [place for change in plan for place in change.findings]
    needing = [i for i, one in enumerate(judged.findings) if step_of(one, judged.target) is not PlanStep.NOTHING]
    assert sorted(closed) == needing
    for change in plan:
        of_it = [judged.findings[place] for place in change.findings]
        assert (change.closes, change.calls) == (len(of_it), sum(one.count for one in of_it))
        assert change.where
        assert change.title


@given(ANYTHING)
def test_only_what_is_as_good_as_it_can_be_needs_no_change(one: Finding) -> None:
    (finding,) = judgement(one).findings
    if step_of(finding, judgement(one).target) is PlanStep.NOTHING:
        assert {finding.verdict, finding.deterministic_mode} <= {Verdict.DETERMINISTIC, Verdict.SEEDED}


def test_a_finding_that_another_setting_closes_does_not_lend_that_its_own_line() -> None:
    by_the_mode = process_finding(
        "environment-cudnn-deterministic",
        subject="torch.backends.cudnn.deterministic = False",
        code="import torch\n\ntorch.backends.cudnn.deterministic = True\n",
        sets={"deterministic_mode": "on"},
        planned=GOOD,
    )
    (change,) = make_plan(judgement(by_the_mode))
    assert change.title == "Turn deterministic mode on"
    assert change.code == "import torch\n\ntorch.use_deterministic_algorithms(True)"


def test_an_edit_that_works_under_the_mode_alone_names_the_change_that_turns_it_on() -> None:
    edit = raising(needs=(Prerequisite.DETERMINISTIC_MODE,), verdict="nondeterministic")
    change, mode = make_plan(judgement(finding(count=9), edit))
    assert mode.sets == {"deterministic_mode": "on"}
    assert change.needs == (Need(kind=Prerequisite.DETERMINISTIC_MODE, setting="deterministic_mode", changes=(2,)),)
    assert list(step_of_plan(change).needs) == ["Needs deterministic mode too: make change 2 with it"]


def test_what_the_mode_would_refuse_is_replaced_before_it_is_turned_on() -> None:
    places = [raising(location=f"train.py:{line}") for line in (1, 2, 3)]
    *edits, mode = make_plan(judgement(finding(count=9), *places))
    assert mode.needs == (Need(kind=Prerequisite.NOTHING_RAISES, changes=(1, 2, 3)),)
    assert list(step_of_plan(mode).needs) == [
        "Make changes 1 to 3 first: what they replace raises under deterministic mode"
    ]
    assert not any(edit.needs for edit in edits)


def test_what_was_seen_to_differ_comes_first_behind_what_it_needs() -> None:
    judged = judgement(
        finding(count=9), raising(location="train.py:3"), raising(location="train.py:4", verdict="raises")
    )
    plan = make_plan(judged)
    mode = next(change for change in plan if change.sets)
    first = judged.findings[mode.findings[0]]
    ordered = make_plan(judged, {(first.op, first.phase, first.location)})
    assert [bool(change.sets) for change in ordered] == [False, True, False]
    assert ordered[1].needs[0].changes == (1,)


def test_a_line_that_seeds_from_the_clock_is_what_changes_and_no_seed_before_it() -> None:
    facts = {"rng.generator": "cpu", "rng.origin": "machine", "rng.seeded_at": "train.py:4"}
    calls = [
        finding(f"cpu-{op}", op=f"aten.{op}.default", deterministic_mode="nondeterministic", facts=facts, cause="rng")
        for op in ("randn", "rand")
    ]
    seed = process_finding(
        about=About.GENERATOR,
        verdict="nondeterministic",
        location="train.py:4",
        subject="generator cpu, seeded with a clock",
        facts={"origin": "machine", "seed.number": "clock"},
        remedy="Seed it with a number that stands in the code.",
        sets={},
    )
    (change,) = make_plan(judgement(*calls, seed))
    assert (change.where, change.closes, change.sets) == ("train.py:4", 3, {})
    assert change.remedy == "Seed it with a number that stands in the code."


@pytest.mark.parametrize("about", [About.CALL, About.MEMORY])
def test_unwritten_memory_is_written_and_never_filled(about: About) -> None:
    read = finding("cpu-resize", cause="uninitialized-memory", about=about, planned=GOOD)
    judged = judgement(read, finding(count=9))
    plan = make_plan(judged)
    (write,) = (change for change in plan if "cpu-resize" in change.rules)
    assert (write.closes, write.sets, write.code) == (1, {}, "")
    assert len(plan) == 2


def test_where_the_mode_is_on_or_nowhere_planned_an_edit_says_so() -> None:
    edit = raising(needs=(Prerequisite.DETERMINISTIC_MODE,), verdict="raises")
    (left_on,) = make_plan(judgement(edit, target=target(conditions={"deterministic_mode": "on"})))
    assert left_on.needs[0].holds
    assert list(step_of_plan(left_on).needs) == ["Needs deterministic mode too: leave it on"]
    (off,) = make_plan(judgement(edit))
    assert (off.needs[0].holds, off.needs[0].changes) == (False, ())
    assert list(step_of_plan(off).needs) == ["Needs deterministic mode too: switch it on with this change"]


@pytest.mark.parametrize("origin", SeedOrigin)
def test_a_seeded_generator_needs_nothing_unless_chance_set_its_state(origin: SeedOrigin) -> None:
    seeded = process_finding(
        about=About.GENERATOR, verdict="seeded", deterministic_mode="seeded", facts={"origin": origin.value}
    )
    left_to_chance = origin in (SeedOrigin.MACHINE, SeedOrigin.UNSEEN)
    assert step_of(seeded, target()) is (PlanStep.SEED if left_to_chance else PlanStep.NOTHING)


def test_two_settings_that_calls_need_together_are_one_change() -> None:
    both = {"cudnn_benchmark": False, "deterministic_mode": "on"}
    conv = finding("cuda-convolution", op="aten.convolution.default", sets=both, planned=GOOD, count=70)
    cudnn = process_finding("environment-cudnn-deterministic", sets={"deterministic_mode": "on"}, planned=GOOD)
    bench = process_finding(sets={"cudnn_benchmark": False}, planned=GOOD)
    (change,) = make_plan(judgement(conv, cudnn, bench, planned=both))
    assert change.sets == both
    assert (change.closes, change.calls) == (3, 70)


def test_what_only_deterministic_mode_refuses_comes_last_where_nothing_asks_for_the_mode() -> None:
    refused = raising(verdict="deterministic", count=9, needs=(Prerequisite.DETERMINISTIC_MODE,))
    drawn = finding("cuda-op", op="mylib.op.default", verdict="nondeterministic", deterministic_mode="nondeterministic")
    plan = make_plan(judgement(refused, drawn))
    assert [change.rules for change in plan] == [("cuda-op",), ("cuda-put",)]
    assert plan[1].needs == (), "its title says that it is for the mode alone"
    asked = make_plan(judgement(refused, finding(count=2)))
    assert [change.rules for change in asked] == [("cuda-put",), ("cuda-index-add",)]


DRAWS = (
    CodeHint(kind=HintKind.PYTHON_DRAW, location="main.py:134", name="random.choice"),
    CodeHint(kind=HintKind.NUMPY_DRAW, location="noise.py:7", name="np.random.normal"),
)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("generator python", "Python's global generator, which nobody seeded, is drawn from at main.py:134 `random.c"),
        ("generator numpy", "NumPy's global generator, which nobody seeded, is drawn from at noise.py:7 `np.random.n"),
        ("generator cpu", "Drawn."),
    ],
)
def test_a_generator_that_nobody_seeded_names_where_the_code_draws_from_it(name: str, said: str) -> None:
    what = {"about": About.GENERATOR, "name": name, "ops": {}, "sets": {}, "cause": Cause.RNG}
    unseeded = process_finding(subject=f"{name}, never seeded", why="Drawn.", **what)
    (change,) = make_plan(judgement(unseeded))
    assert step_of_plan(change, [unseeded], hints=DRAWS).why.startswith(said)
    assert change.calls == 0


SEED_LINES = {"cpu": "main.py:49", "python": "main.py:48"}


@pytest.mark.parametrize(
    ("drawn_at", "draws", "seeds", "whole"),
    [
        ("main.py:46", ["main.py:46"], ("cpu", "python"), [2]),
        ("main.py:46", ["main.py:46", "data.py:3"], ("cpu", "python"), [1, 1]),
        ("main.py:46", ["main.py:46"], ("cpu",), [1, 1]),  # nothing seeds what else is drawn from Python's generator
        ("", ["main.py:46"], ("cpu", "python"), [1, 1]),
    ],
)
def test_a_seed_that_is_drawn_is_given_where_it_is_drawn(
    drawn_at: str, draws: list[str], seeds: tuple[str, ...], whole: list[int]
) -> None:
    what = {"about": About.GENERATOR, "ops": {}, "cause": Cause.RNG, "remedy": "`seed(0)`. Or log it."}
    torchs = process_finding(
        name="generator cpu", location="main.py:49", sets={}, facts={"seed.number": "drawn"}, **what
    )
    pythons = process_finding(name="generator python", sets={"seed.python": True}, planned=GOOD, **what)
    number = {"kind": EventKind.SEED, "is_drawn": True, "drawn_at": drawn_at}
    events = tuple(event(name=name, location=SEED_LINES[name], **number) for name in seeds)
    hints = tuple(CodeHint(kind=HintKind.PYTHON_DRAW, location=place, name="random.randint") for place in draws)
    plan = make_plan(judgement(torchs, pythons, events=events, hints=hints))
    assert [change.closes for change in plan] == whole
    (given,) = [change for change in plan if "with a constant" in change.title]
    both = f"{drawn_at} draws the number, and main.py:49 seeds with it"
    assert given.where == (both if drawn_at else "main.py:49")
    assert ("write one at main.py:46" in given.remedy) is bool(drawn_at)


@pytest.mark.parametrize("phase", ["backward", "other"])
def test_a_line_with_a_reason_of_its_own_leads_however_few_its_calls_unless_it_may_stay_on_the_host(phase: str) -> None:
    often = [finding(location=f"net.py:{line}", count=100) for line in (1, 2, 3, 4)]
    rare = finding("cuda-up", location="fpn.py:92", phase=phase, why="Outputs near it.", may_be_host=phase == "other")
    (mode,) = make_plan(judgement(*often, rare))
    places = [line.place for line in step_of_plan(mode, [*often, rare]).lines]
    assert places == (
        ["net.py:1", "fpn.py:92", "net.py:2"] if phase == "backward" else ["net.py:1", "net.py:2", "net.py:3"]
    )


def test_one_line_of_the_users_counts_once_however_many_of_a_library_it_leads_to() -> None:
    inside = [finding(location=f"lib/net.py:{line}", called_from="train.py:60") for line in (1, 2, 3)]
    (mode,) = make_plan(judgement(*inside))
    (line,) = step_of_plan(mode, inside).lines
    assert (line.place, line.what) == ("train.py:60", "aten.index_add_, 3 calls")
    assert sites_of(inside) == 1
    (one,) = step_of_plan(mode, inside[:1]).lines
    assert one.what == "aten.index_add_, 1 call (in lib/net.py:1)"


def test_each_op_of_a_change_has_its_reason_and_data_are_named_before_what_fills_parameters() -> None:
    pad = {"op": "aten.reflection_pad2d_backward.default", "why": "Mirrored elements. More.", "location": "net.py:52"}
    both = [finding(why="Rows are added. More.", count=9), finding("cuda-pad", **pad)]
    (mode,) = make_plan(judgement(*both))
    assert step_of_plan(mode, both).why == (
        "aten.index_add_: Rows are added. aten.reflection_pad2d_backward: Mirrored elements."
    )
    drawn = {"cause": Cause.RNG, "phase": "other", "sets": {"seed.torch": True}, "planned": GOOD}
    filled = finding("cuda-rng", op="aten.uniform_.default", location="net.py:9", count=90, **drawn)
    split = finding("cuda-rng", op="aten.randperm.generator", location="data.py:3", **drawn)
    (seed,) = make_plan(judgement(filled, split, planned={"seed.torch": True}))
    assert [line.place for line in step_of_plan(seed, [filled, split]).lines] == ["data.py:3", "net.py:9"]


def test_an_op_that_a_cpu_ran_otherwise_is_named_as_what_runs_on_the_target() -> None:
    softmax = finding(
        op="aten._softmax_backward_data.default", count=9, runs_as="aten._scaled_dot_product_attention_backward"
    )
    (mode,) = make_plan(judgement(softmax))
    (line,) = step_of_plan(mode, [softmax, finding(location="b.py:1")]).lines[:1]
    assert "aten._scaled_dot_product_attention_backward" in line.what
