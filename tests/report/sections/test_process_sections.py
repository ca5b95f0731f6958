"""What no op shows, and hints of one recording: a place on page and terminal, none where there is nothing to say."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import Any

import msgspec
import pytest

from tests.report.samples import SEED_WORKER, process_report, with_plan
from tests.support.build import call, draw, environment, finding, loader, process_finding, report, trace
from tracer import judge
from tracer.findings import FillCost, Note, PlannedChange
from tracer.names import Detail, HintKind, SeedOrigin
from tracer.report import Report
from tracer.report.render.terminal import to_text
from tracer.report.sections.process import fill_words, generator_rows, hint_words
from tracer.report.words import size
from tracer.trace.differences import RankComparison, SettingDifference
from tracer.trace.records import Allocation, CodeHint, Draw, Generator, Loader

SECTIONS = ("settings", "draws", "memory", "loading")


def section(made: Report, name: str) -> str:
    """The text of one section of the page; empty where it does not stand."""
    found = re.search(rf'<section id="{name}".*?</section>', made.to_html(), re.DOTALL)
    text = re.sub(r'<span class="whole">|</span>|<wbr>', "", found.group() if found else "")
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def text_of(made: Report, width: int = 100) -> str:
    return to_text(made, width=width, color=False, limit=None, detail=Detail.WHOLE)


# --- the plan ---------------------------------------------------------------------------------------------
def test_the_plan_stands_right_under_the_verdict() -> None:
    page, text = process_report().to_html(), text_of(process_report())
    places = [page.index(mark) for mark in ("<h1>", 'id="plan"', 'id="answers"', 'id="calls"', 'id="findings"')]
    assert places == sorted(places)
    lines = [text.index(mark) for mark in ("Two runs of this step can differ", "What to change", "Can two runs of my")]
    assert lines == sorted(lines)


def test_code_of_several_lines_is_shown_as_it_must_be_pasted() -> None:
    made = process_report()
    blocks = [unescape(code) for code in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", made.to_html(), re.DOTALL)]
    assert SEED_WORKER in blocks
    assert "       def seed_worker(worker_id):\n           seed = torch.initial_seed() % 2**32\n" in text_of(made)


def test_a_change_that_closes_nothing_is_a_suggestion_and_a_setting_that_only_helps_others_is_none() -> None:
    made = process_report()
    for text in (section(made, "plan"), text_of(made)):
        assert "a suggestion: it closes no finding" in text
    assert "closes 0" not in made.to_html()
    assert "fewest changes" in made.to_html()
    made = report(finding())
    made = with_plan(made, (*made.plan, PlannedChange(number=2, title="Set it", code="a = 1", sets={"a": 1})))
    assert "needed with the others" in section(made, "plan")
    assert "suggestion" not in text_of(made)


def test_a_plan_of_one_suggestion_is_no_change_that_helps() -> None:
    made = with_plan(report(), (PlannedChange(number=1, title="Turn the fill off", code="off = True"),))
    for text in (text_of(made), made.to_html()):
        assert "Nothing that was recorded asks for a change; what follows is a suggestion." in text


# --- findings ---------------------------------------------------------------------------------------------
def test_a_finding_without_an_op_is_called_by_its_subject_and_place() -> None:
    made = report(process_finding())
    text = text_of(made)
    assert "torch.backends.cudnn.benchmark = True" in text
    assert "whole process" in text
    assert "for aten.convolution 24" in text
    assert made.to_html().count("whole process") >= 2
    header, row = made.to_csv().splitlines()
    cells = dict(zip(header.split(","), row.split(","), strict=False))
    assert (cells["rule"], cells["op"], cells["count"]) == ("environment-cudnn-benchmark", "", "24")


def test_only_a_report_on_more_than_calls_filters_by_what_findings_speak_of() -> None:
    assert 'id="by-about"' in process_report().to_html()
    assert 'id="by-about"' not in report(finding()).to_html()


# --- sections ---------------------------------------------------------------------------------------------
def test_sections_without_a_word_to_say_do_not_stand() -> None:
    for made in (report(), report(finding())):
        page, text = made.to_html(), text_of(made)
        assert not any(f'id="{name}"' in page or f'href="#{name}"' in page for name in SECTIONS)
        assert not any(name in text for name in ("Random draws", "Memory", "Data loading", "Between machines"))


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_stands_and_is_linked(name: str) -> None:
    made = process_report()
    assert section(made, name)
    assert f'href="#{name}"' in made.to_html()


def test_settings_say_which_calls_make_them_matter() -> None:
    said = section(process_report(), "settings")
    assert "Matters for these calls: aten.mm 1,200, aten.bmm 300, aten.addmm 8" in said
    assert "set too late · train.py:14" in said
    assert "1 setting that differs between machines only" in said


def test_notes_are_folded_and_no_findings() -> None:
    made = report(notes=(Note(rule="environment-tf32", subject="tf32 = True", why="Rounded."),))
    assert "<details>" in made.to_html().split('id="settings"')[1].split("</section>")[0]
    assert "No risk found" in text_of(made)
    assert "tf32 = True" in text_of(made)


def test_the_ledger_names_each_generator_its_seed_and_its_draws() -> None:
    said = section(process_report(), "draws")
    assert "cpu #seeded seeded by the program train.py:9 24 calls" in said
    assert "python ≠not seeded left to the machine: another state in every process 2 calls" in said
    assert "aten.native_dropout forward net.drop net.py:31 cpu" in said


def test_draws_at_one_place_that_differ_in_their_facts_alone_are_one_row() -> None:
    made = report(draws=tuple(Draw(generator="cpu", op="aten.uniform_.default", location="a.py:1") for _ in range(3)))
    assert section(made, "draws").count("aten.uniform_ other a.py:1 cpu") == 1
    assert section(made, "draws").endswith("3")


#: A generator with two starts.
TWO_STARTS = (
    Draw(generator="cpu", op="aten.rand.default", count=3, origin=SeedOrigin.MACHINE),
    Draw(generator="cpu", op="aten.rand.default", count=2, origin=SeedOrigin.MACHINE, location="b.py:1"),
    Draw(generator="cpu", op="aten.rand.default", origin=SeedOrigin.PROGRAM, seeded_at="a.py:3"),
)
#: A generator that was seeded, and of whose draws nobody can tell.
UNSEEN = Generator(name="numpy", origin=SeedOrigin.PROGRAM, drew=None)


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ({"draws": TWO_STARTS}, [("cpu", "5 calls", "", "nondeterministic"), ("cpu", "1 call", "a.py:3", "seeded")]),
        ({"generators": (UNSEEN,)}, [("numpy", "an unknown number of calls", "", "unknown")]),
        ({"generators": (Generator(name="cuda:0", origin=SeedOrigin.MACHINE, drew=False),)}, []),
    ],
)
def test_each_start_of_a_generator_that_was_drawn_from_is_a_row(
    fields: dict[str, Any], rows: list[tuple[str, ...]]
) -> None:
    made = report(**fields)
    shown = generator_rows(made.judgement)
    assert [(row.name, row.draws, row.seeded_at, row.verdict.value) for row in shown] == rows
    assert bool(section(made, "draws")) is ("Random draws" in text_of(made)) is bool(rows)


def test_generators_that_nobody_seeded_come_first() -> None:
    rows = generator_rows(process_report().judgement)
    assert [row.name for row in rows] == ["python", "numpy", "cpu", "passed (cpu)"]


@pytest.mark.parametrize(
    ("fill", "words", "not_said"),
    [
        (FillCost(calls=4, bytes=2**21, reads=0, unfollowed=0, is_on=True), "turning the fill off looks safe", "would"),
        (FillCost(calls=4, bytes=2**21, reads=0, unfollowed=0, is_on=False), "looks as if it needs no fill", "off"),
        (FillCost(calls=4, bytes=2**21, reads=1, unfollowed=0, is_on=True), "leave the fill on", "safe"),
        (FillCost(calls=4, bytes=2**21, reads=2, unfollowed=9, is_on=False), "can be anything", "safe"),
        (FillCost(calls=4, bytes=2**21, reads=0, unfollowed=1, is_on=True), "is not known", "safe"),
    ],
)
def test_memory_is_said_with_its_cost_and_how_far_it_is_known(fill: FillCost, words: str, not_said: str) -> None:
    said = fill_words(fill)
    assert words in said
    assert not_said not in said
    assert "4 calls, 2.0 MiB" in said
    assert ("evidence, not proof" in said) is (not fill.reads and not fill.unfollowed)
    assert said in section(report(fill=fill), "memory")
    assert said.split()[-1] in text_of(report(fill=fill))


@pytest.mark.parametrize(
    ("count", "words"),
    [(1, "1 byte"), (512, "512 bytes"), (9_728, "9.5 KiB"), (2**20, "1.0 MiB"), (3 * 2**30, "3,072.0 MiB")],
)
def test_bytes_are_said_in_the_unit_that_fits(count: int, words: str) -> None:
    assert size(count) == words


def test_allocations_stand_by_site_the_largest_first() -> None:
    made = report(
        allocations=(
            Allocation(op="aten.empty.memory_format", location="a.py:1", count=9, bytes=2**20),
            Allocation(op="aten.empty_like.default", location="b.py:2", count=2, bytes=2**25, unfollowed=1),
        )
    )
    said = section(made, "memory")
    assert said.index("b.py:2 2 1 32.0 MiB") < said.index("a.py:1 9 9 1.0 MiB")


def test_a_loader_is_told_by_its_line_workers_order_and_generator() -> None:
    shown = section(process_report(), "loading")
    assert "4, started by fork, without worker_init_fn" in shown
    assert "shuffled (RandomSampler) ≠not seeded the default generator, left to the machine" in shown
    assert "none in a fixed order (SequentialSampler) nothing 1 time" in shown
    on_a_rank = Loader(shuffles=True, sampler="DistributedSampler", epoch_set=False, origin=SeedOrigin.FIXED)
    assert "its sampler's own generator, never seeded" in section(report(loaders=(on_a_rank,)), "loading")
    text = text_of(process_report(), 200)
    assert "train.py:30: workers 4, started by fork, without worker_init_fn" in text


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        (Loader(location="a.py:1", sampler="SequentialSampler"), "a.py:1, in a fixed order"),
        (Loader(location="a.py:1", sampler="SeedableRandomSampler"), "a.py:1, in the order of SeedableRandomSampler"),
        (Loader(location="a.py:1", sampler="mine.DistributedSampler"), "in the order of mine.DistributedSampler"),
        (Loader(location="a.py:1"), "a.py:1, in the order of its data set"),
        (Loader(location="lib/x.py:9", called_from="a.py:3", sampler="SequentialSampler"), "a.py:3, in a fixed order"),
        (
            Loader(location="a.py:1", sampler="SequentialSampler", workers=2, origin=SeedOrigin.MACHINE),
            "seeds of its workers ≠ not seeded",
        ),
    ],
)
def test_an_order_is_called_fixed_only_where_torchs_own_sampler_fixes_it(loader: Loader, said: str) -> None:
    (line,) = [line for line in report(loaders=(loader,)).to_text(width=200).splitlines() if "Data loading" in line]
    assert line.endswith(said)


def test_what_else_a_loader_hangs_on_is_said() -> None:
    seeded = {"has_worker_init": True, "has_generator": True, "origin": SeedOrigin.PROGRAM, "seeded_at": "a.py:1"}
    odd = Loader(workers=1, in_order=False, persistent_workers=True, epoch_set=False, **seeded)  # type: ignore[arg-type]
    shown = section(report(loaders=(odd,)), "loading")
    assert "its own generator, seeded by the program, at a.py:1" in shown
    assert "with worker_init_fn" in shown
    assert "batches as they come (in_order=False); persistent workers; set_epoch was never called" in shown


# --- sizes ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_terminal_of_any_width_shows_what_no_op_shows_and_one_screen_a_line_each(width: int) -> None:
    whole, screen = text_of(process_report(), width), process_report().to_text(width=width, color=False)
    for text in (whole, screen):
        prose = [line for line in text.splitlines() if "tracer report trace.json" not in line]  # code is never broken
        assert max(map(len, prose)) <= width
    squeezed = "".join(whole.split())
    for part in ("Randomdraws", "drawnby2calls", "45.2MiB", "train.py:30", "random.seed(seed)", "wholeprocess"):
        assert part in squeezed, part
    squeezed = "".join(screen.partition("What else was recorded")[2].split())
    for part in (
        "Randomdraws:≠notseededpython,2calls;?notknownnumpy,anunknownnumberofcalls;2moregenerators",
        "Dataloading:train.py:30,4workers,shuffled≠notseeded;train.py:34,inafixedorder",
    ):
        assert part in squeezed, part


def test_ten_thousand_rows_are_folded_and_counted() -> None:
    many = report(
        draws=tuple(Draw(generator="cpu", op="aten.rand.default", location=f"a.py:{line}") for line in range(10_000)),
        allocations=tuple(Allocation(op="aten.empty.memory_format", location=f"b.py:{line}") for line in range(10_000)),
        loaders=tuple(Loader(location=f"c.py:{line}") for line in range(10_000)),
        generators=tuple(Generator(name=f"cuda:{n}", origin=SeedOrigin.MACHINE, drew=True) for n in range(100)),
        notes=tuple(Note(rule="environment-a", subject=f"s{n} = 1", why="") for n in range(1_000)),
    )
    page, text = many.to_html(), many.to_text(width=100, color=False)
    assert len(page) < 1_000_000
    assert page.count("9,800 more; the JSON report has them all.") == 3
    assert len(text.splitlines()) < 60
    assert "10,000" not in text or "more" in text


@pytest.mark.parametrize("origin", SeedOrigin)
def test_draws_of_every_origin_have_their_row(origin: SeedOrigin) -> None:
    made = report(draws=(draw(origin=origin),))
    assert [row.origin for row in generator_rows(made.judgement)] == [origin]
    assert text_of(made)


OWN = CodeHint(kind=HintKind.OWN_GENERATOR, location="data.py:7", name="Photos")

SET = CodeHint(kind=HintKind.HASH_ORDER, location="text.py:3", name="a set")

FETCHES = {"fetched_by": "Photos.__getitem__", "workers": 2, "location": "train.py:9"}


def hinted(**fields: Any) -> tuple[str, ...]:
    return hint_words(judge(trace(call("aten.add.Tensor"), **fields), backend="cuda"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"hints": (OWN,), "loaders": (loader(**FETCHES),)},
            "data.py:7: each of 2 workers of the DataLoader at train.py:9",
        ),
        ({"hints": (OWN,), "loaders": (loader(**FETCHES | {"workers": 0}),)}, ""),
        ({"hints": (OWN,), "loaders": (loader(**FETCHES, has_worker_init=True),)}, ""),
        ({"hints": (OWN,), "loaders": (loader(**FETCHES | {"fetched_by": "Others.__getitem__"}),)}, ""),
        ({"loaders": (loader(location="train.py:9", epoch_set=False, iterations=2),)}, "train.py:9: `set_epoch`"),
        ({"loaders": (loader(location="train.py:9", epoch_set=False, iterations=1),)}, ""),
        ({"loaders": (loader(location="train.py:9", epoch_set=True, iterations=2),)}, ""),
        ({"hints": (SET,)}, "text.py:3: put the set in `sorted(...)`"),
        ({"hints": (msgspec.structs.replace(SET, name="hash"),)}, "text.py:3: `hash` of a string"),
        ({"hints": (SET,), "environment": environment(variables={"PYTHONHASHSEED": "0"})}, ""),
    ],
)
def test_a_hint_needs_its_line_and_what_makes_it_matter(fields: dict[str, Any], words: str) -> None:
    told = hinted(**fields)
    assert len(told) == bool(words)
    assert not words or told[0].startswith(words)


@pytest.mark.parametrize(
    ("generator", "module", "is_told"), [("cuda:0", "", True), ("cuda:0", "net", False), ("cpu", "", False)]
)
def test_data_drawn_on_a_gpu_are_another_gpus_others(generator: str, module: str, is_told: bool) -> None:
    facts = {"device": generator, "rng.generator": generator}
    group = call("aten.randn.default", facts=facts, location="train.py:5", module=module)
    assert bool(hint_words(judge(trace(group), backend="recorded"))) is is_told


def test_ranks_with_one_seed_draw_the_same_numbers() -> None:
    facts = {"device": "cpu", "rng.generator": "cpu", "rng.origin": SeedOrigin.PROGRAM.value}
    group = call("aten.native_dropout.default", facts=facts, module="drop", location="net.py:4")
    made = judge(trace(group), backend="recorded")
    ranks = RankComparison(ranks=(0, 1), alike=((0, 1),), settings=(), calls=())
    assert hint_words(replace(made, ranks=ranks))[0].startswith("net.py:4: all ranks draw the same numbers")
    seeds = SettingDifference(name="torch_seed", values=("0", "1"))
    assert hint_words(replace(made, ranks=msgspec.structs.replace(ranks, settings=(seeds,)))) == ()
