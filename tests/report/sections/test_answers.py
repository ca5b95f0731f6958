"""Questions and answers: figures that add up, and words that never promise more than the tables know."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.test_plan import ANYTHING
from tests.support.build import call, finding, judgement, process_finding, report, target, trace
from tracer.findings import Finding
from tracer.names import SEVERITY, About, BlindSpotKind, Gradients, Phase, Training, Verdict
from tracer.report import Report
from tracer.report.blocks import PAGE, Card, Cards
from tracer.report.render.terminal import to_text
from tracer.report.sections.answers import evidence_counts, head_of, headline, questions
from tracer.report.sections.process import command
from tracer.report.words import calls_behind, sites_of
from tracer.session import judge
from tracer.trace.records import Allocation, BlindSpot, TraceSource

NO_STEP = "No optimizer step was recorded"
NOT_JUDGED = "; not judged: files and clocks that Python reads; `tracer repeat` judges that"


def answers(made: Report) -> tuple[Card, ...]:
    cards, *_ = questions(made, PAGE).blocks
    assert isinstance(cards, Cards)
    return cards.cards


def test_risk_is_answered_with_calls_places_and_the_line_that_has_most() -> None:
    first, _ = answers(report(finding(count=8), finding(location="train.py:99", count=2), clean=90))
    assert first.sentence == "Two runs of this step can differ. At risk: 10 calls at 2 places."


def test_the_mode_is_answered_with_what_it_fixes_raises_and_leaves() -> None:
    raising = finding("cuda-b", location="b.py:1", deterministic_mode="raises", count=5)
    left = finding("cuda-c", location="c.py:1", deterministic_mode="nondeterministic", count=7)
    _, second = answers(report(finding(count=3), raising, left))
    assert [(figure.value, figure.sites) for figure in second.figures] == [(3, 1), (5, 1), (7, 1)]
    assert "b.py:1" in second.sentence


def test_a_target_with_the_mode_on_is_not_told_to_switch_it_on() -> None:
    on = target(conditions={"deterministic_mode": "on"})
    _, second = answers(report(finding(deterministic_mode="nondeterministic"), target=on))
    assert second.sentence.startswith("It is on for this target already")
    assert "0 calls raise and 1 call stays at risk" in second.sentence


def test_two_edits_of_one_line_are_two_edits_and_one_place() -> None:
    both = (finding(rule, op=f"aten.{rule}.default", deterministic_mode="raises") for rule in ("cuda-a", "cuda-b"))
    made = report(*both)
    _, second = answers(made)
    assert second.figures[1].sites == 1
    assert len([change for change in made.plan if change.title.startswith("Replace")]) == 2


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], f"No risk found in 100 calls{NOT_JUDGED}"),
        (["seeded", "seeded"], f"No risk found in 101 calls once seeded{NOT_JUDGED}"),
        (["unknown", "unknown"], f"No risk found in what is known of 101 calls{NOT_JUDGED}"),
        (
            ["deterministic", "raises"],
            f"No risk found in 101 calls; 1 call would raise in deterministic mode{NOT_JUDGED}",
        ),
        (["conditional", "deterministic"], "Two runs can differ if additions meet at one index"),
        (["nondeterministic", "deterministic"], "Two runs of this step can differ"),
        (["raises", "raises"], "The step would stop with an error"),
    ],
)
def test_the_headline_is_the_worst_that_was_found(found: list[str], words: str) -> None:
    made = [finding(verdict=found[0], deterministic_mode=found[1])] if found else []
    assert headline(report(*made))[1] == words
    if "conditional" in found:
        summed = finding(verdict="conditional", cause="reduction-order")
        assert headline(report(summed))[1] == "Two runs can differ if network switches do the sum"


def test_nothing_recorded_is_not_called_safe_but_draws_outside_ops_are_something() -> None:
    drawn = process_finding("environment-python-generator", about="generator", subject="python")
    said = answers(report(drawn, clean=0))[0].sentence
    assert said == "Two runs of this step can differ. At risk: 1 unseeded generator."
    started = headline(report(clean=0, training=Training.ELSEWHERE))
    assert started == (Verdict.UNKNOWN, "Nothing was recorded; processes were started that were not followed")
    empty = report(clean=0)
    assert headline(empty)[1] == "Nothing was recorded"
    first, second = (answer.sentence for answer in answers(empty))
    assert "nothing can be said" in first
    assert "nothing can be said" in second


def test_calls_are_counted_from_the_tally_and_the_process_is_said_beside_them() -> None:
    made = report(
        finding(count=8),
        process_finding(),
        process_finding(subject="CUBLAS_WORKSPACE_CONFIG = None", count=90),
        process_finding("environment-torch-generator", about="generator", subject="cpu", count=3),
        clean=92,
    )
    first, _ = answers(made)
    assert first.sentence.endswith("At risk: 8 calls at 1 place, 2 settings and 1 unseeded generator.")
    assert [(figure.value, figure.label) for figure in first.figures][-1] == (3, "of the process")


@pytest.mark.parametrize(
    ("verdict", "head", "beside"),
    [
        ("nondeterministic", "Two runs of this step can differ", ". At risk: 1 setting."),
        ("conditional", "Two runs can differ under some conditions", ". At risk: 1 setting."),
        ("unknown", f"No risk found in what is known of 100 calls{NOT_JUDGED}", ". Unknown: 1 unknown setting."),
        ("raises", "The step would stop with an error", ". Raising: 1 setting."),
        ("seeded", f"No risk found in 100 calls once seeded{NOT_JUDGED}", ""),
    ],
)
def test_the_process_alone_decides_the_headline(verdict: str, head: str, beside: str) -> None:
    made = report(process_finding(verdict=verdict))
    assert headline(made)[1] == head
    assert answers(made)[0].sentence.startswith(f"{head}{beside}")


def test_draws_that_the_program_seeded_ask_for_nothing() -> None:
    judged = judgement(finding(verdict="seeded", deterministic_mode="seeded", count=24), clean=76)
    (drawing,) = judged.findings
    seeded = msgspec.structs.replace(drawing, sets={})
    made = Report(msgspec.structs.replace(judged, findings=(seeded,), planned={}))
    assert made.plan == ()
    assert headline(made)[1] == f"No risk found in 100 calls{NOT_JUDGED}; draws that were seen are seeded"
    assert answers(made)[0].sentence == f"{headline(made)[1]}."


def test_the_mode_is_answered_for_calls_and_for_the_process_apart() -> None:
    made = report(
        finding(count=3),
        process_finding(count=50, deterministic_mode="deterministic"),
        process_finding("environment-numpy-generator", about="generator", subject="numpy", count=70),
        process_finding("environment-loader-epoch", about="loader", verdict="unknown", deterministic_mode="unknown"),
    )
    _, second = answers(made)
    assert [figure.value for figure in second.figures] == [3, 0, 0]
    assert second.sentence == (
        "It settles 3 calls at 1 place; it does nothing known for 1 unseeded generator and "
        "1 data loader without an answer."
    )


PROCESS = st.builds(
    process_finding,
    about=st.sampled_from(list(About)[1:]),
    verdict=st.sampled_from(SEVERITY),
    deterministic_mode=st.sampled_from(SEVERITY),
    count=st.integers(1, 10_000),
)


@given(st.lists(ANYTHING, max_size=4), st.lists(PROCESS, max_size=4))
def test_no_risk_is_found_only_where_neither_a_call_nor_the_process_is_at_risk(
    calls: list[Finding], process: list[Finding]
) -> None:
    made = report(*calls, *process)
    verdict, head = headline(made)
    first = answers(made)[0].sentence
    worst = min((SEVERITY.index(one.verdict) for one in made.findings), default=len(SEVERITY) - 1)
    assert verdict is SEVERITY[worst]
    is_risk = SEVERITY[worst] in (Verdict.RAISES, Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL)
    assert is_risk is ("No risk found" not in head)
    assert is_risk is ("No risk found" not in first and "no other risk found" not in first)
    said = " ".join([head, *(answer.sentence for answer in answers(made))])
    assert "is deterministic" not in said
    assert "step deterministic" not in said


@given(st.lists(ANYTHING, max_size=8))
def test_evidence_is_counted_once_a_finding(findings: list[Finding]) -> None:
    assert sum(count for _, count in evidence_counts(findings)) == len(findings)


@pytest.mark.parametrize(
    ("training", "found", "head"),
    [
        ("none", [], f"{NO_STEP}: nothing is known of a training"),
        ("none", [finding()], "Two runs of this step can differ; no optimizer step was recorded"),
        (
            "elsewhere",
            [],
            f"{NO_STEP}, and processes were started that were not followed: nothing is known of a training",
        ),
        ("recorded", [], f"No risk found in 100 calls{NOT_JUDGED}"),
        ("inference", [], f"No risk found in 100 calls{NOT_JUDGED}"),
        ("inference", [finding()], "Two runs of this inference can differ"),
        ("unknown", [], f"No risk found in 100 calls{NOT_JUDGED}"),
    ],
)
def test_a_recording_without_an_optimizer_step_says_so_first(training: str, found: list[Finding], head: str) -> None:
    made = report(*found, training=Training(training))
    assert headline(made)[1] == head
    says_so = training in ("none", "elsewhere")
    assert ("no optimizer step was recorded" in answers(made)[0].sentence.lower()) is says_so


@pytest.mark.parametrize(
    ("gradients", "said"),
    [
        (Gradients.NONE, "Inference without gradients. Judged for "),
        (Gradients.EVALUATING, "Inference in evaluation mode, with gradients left on. Judged for "),
    ],
)
def test_an_inference_is_called_one_in_every_sentence(gradients: Gradients, said: str) -> None:
    recorded = trace(call(), sources=(TraceSource(gradients=gradients, calls=1),))
    assert recorded.training is Training.INFERENCE
    made = judge(recorded, backend="cuda")
    head = head_of(made)
    assert head.judged.startswith(said)
    assert "inference" in head.traced
    words = [head.headline, *(f"{card.question} {card.sentence}" for card in answers(made))]
    assert "inference" in head.headline
    assert not [line for line in words if "optimizer" in line or re.search(r"\bstep\b", line)]
    assert '"training":"inference"' in made.to_json().replace(" ", "")
    for form in (made.to_html(), to_text(made, width=200, color=False, limit=None)):
        assert said.partition(".")[0].casefold() in form.casefold()
        assert "nothing is known of a training" not in form


def test_where_no_risk_was_found_the_headline_names_what_was_not_seen() -> None:
    kinds = ("COMPILED", "COMPILE_FELL_BACK", "OTHER_THREAD", "NO_FORWARD_LINK")
    spots = tuple(BlindSpot(kind=BlindSpotKind[kind], detail="d") for kind in kinds)
    made = report(blind_spots=spots, watched_from_start=False)
    assert headline(made)[1] == (
        "No risk found in 100 calls; not seen: what ran before recording, other threads, compiled code; "
        "not judged: files and clocks that Python reads; `tracer repeat` judges both"
    )
    assert headline(report(watched_from_start=True))[1] == f"No risk found in 100 calls{NOT_JUDGED}"
    assert headline(report(finding(), blind_spots=spots))[1] == "Two runs of this step can differ"


def test_reads_of_memory_that_could_not_be_followed_are_in_the_headline() -> None:
    add = call("aten.add.Tensor", facts={"device": "cpu"}, phase=Phase.OPTIMIZER, count=4)
    assert headline(judge(trace(add, watched_from_start=True)))[1] == f"No risk found in 4 calls{NOT_JUDGED}"
    given = Allocation(op="aten.empty.memory_format", count=3, bytes=12, unfollowed=2)
    line = headline(judge(trace(add, watched_from_start=True, allocations=(given,))))[1]
    assert "whether memory that 2 calls left unwritten is read before it is written, files and clocks" in line


@pytest.mark.parametrize("found", [[], [finding()]])
def test_parameters_that_processes_share_lead_with_the_lines_that_share_and_write_them(found: list[Finding]) -> None:
    spot = BlindSpot(kind=BlindSpotKind.SHARED_MEMORY, detail="d", location="main.py:89")
    steps = call("aten.add_.Tensor", phase=Phase.OPTIMIZER, location="train.py:33")
    first, *_ = head_of(report(*found, blind_spots=(spot,), calls=(steps,))).caveats
    assert first.startswith("parameters lie in memory that processes share (main.py:89): if several of them write")
    assert "(optimizer steps at train.py:33)" in first
    assert not [line for line in head_of(report(*found)).caveats if "share" in line]


def test_what_the_mode_would_do_counts_calls_and_places() -> None:
    facts = {"device": "cuda", "dtype": "float32", "layout": "strided", "ndim": 2, "arg.reduction": "mean"}
    made = judge(
        trace(
            call("aten.index_add_.default", count=3, facts=facts),
            call("aten.index_add_.default", count=2, location="train.py:11", facts=facts),
            call("aten.nll_loss2d_forward.default", count=5, facts=facts),
        ),
        backend="cuda",
        settings="default",
    )
    effect = made.mode_effect
    assert [(calls_behind(findings), sites_of(findings)) for findings in effect] == [(5, 2), (5, 1), (0, 0)]


def test_settings_by_name_are_judged_again_in_python() -> None:
    facts = {"device": "cpu", "dtype": "float32", "layout": "strided", "ndim": 2}
    recorded = trace(call("aten.index_add_.default", count=3, facts=facts), call("aten.cumsum.default", facts=facts))
    made = judge(recorded, backend="cuda", settings={"deterministic_mode": "on"})
    again = command(made)
    assert again.startswith("judge(Trace.load('trace.json'), backend='cuda'")
    names = {"judge": judge, "Trace": type("Loaded", (), {"load": staticmethod(lambda path: recorded)})}
    assert eval(again, names).judgement == made.judgement
