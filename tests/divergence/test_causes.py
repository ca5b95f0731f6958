"""The cause of each root; under other settings the setting is told, not the call's kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.divergence.recorded import Recorder, Run
from tests.support.build import call, environment, finding, trace
from tracer import DeterminismTracer
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Divergence, Root, read_recording
from tracer.errors import TraceError
from tracer.names import BlindSpotKind, Cause, EventKind, RegionOrigin, SeedOrigin, Verdict
from tracer.trace.records import BlindSpot, Event, Generator, Region, Tried
from tracer.trace.values import Mark, ValueKind


@pytest.fixture
def record(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path)


def compared(record: Recorder, first: dict[str, Any] | None = None, **bend: Any) -> Divergence:
    return compare_recordings(record(**(first or {})), record(**bend))


def only(divergence: Divergence) -> Root:
    (root,) = divergence.roots
    assert not divergence.agrees
    assert divergence.first is root
    return root


def seen(root: Root) -> tuple[str, str, int, str]:
    return root.cause.value, root.op, root.step, root.location


SAME: list[dict[str, Any]] = [
    {},
    {"empty": "same bytes"},
    {"host": True, "lr_from_loss": True},
    {"marks": {1: Mark.COLLECTIVE}},
    {"extra_draw": 1},
    {"extra_call": 1},
    {"states": {(ValueKind.SCHEDULER, "StepLR"): 1}},
]


@pytest.mark.parametrize("bend", SAME, ids=str)
def test_two_runs_that_are_the_same_have_no_root(record: Recorder, bend: dict[str, Any]) -> None:
    found = compared(record, bend, **bend)
    assert found.agrees
    assert (found.roots, found.follows, found.only) == ((), 0, (0, 0))
    assert found.calls_compared == found.calls[0] == found.calls[1] > 20


FROM_LOSS = {"host": True, "lr_from_loss": True}
READ = {"marks": {2: Mark.READ_UNWRITTEN}}
JOINED = {"marks": {2: Mark.COLLECTIVE}}
PUT = ("aten.index_put_.default", 2, "train.py:14")
#: How each run is bent, the root: its cause, op, step and line, and words of why.
ROOTS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, str, int, str], str]] = {
    "a kernel": ({}, {"kernel": 2}, ("kernel", *PUT), "everything that it read agrees"),
    "a collective": (JOINED, {**JOINED, "kernel": 2}, ("collective", *PUT), ""),
    "a read that is marked": (READ, {**READ, "kernel": 2}, ("unwritten-memory", *PUT), ""),
    "memory that nobody wrote": (
        *({"empty": "55"}, {"empty": "aa"}, ("unwritten-memory", "aten.mul.Tensor", 1, "train.py:17")),
        "train.py:16",
    ),
    "a generator that something unseen moved": (
        *({}, {"moved": 2}, ("draw", "aten.native_dropout.default", 2, "train.py:12")),
        "aten.rand.default at train.py:11",
    ),
    "a draw of another size": (
        *({}, {"draw_size": {1: 6}}, ("draw", "aten.rand.default", 1, "train.py:11")),
        "it draws different numbers of values: size=[5] and size=[6], so the generator cpu",
    ),
    "a draw of another of two sizes": (
        *({"draw_size": {1: "5, 4"}}, {"draw_size": {1: "6, 4"}}, ("draw", "aten.rand.default", 1, "train.py:11")),
        "numbers of values: size=[5, 4] and size=[6, 4], so",
    ),
    "a batch": ({}, {"batches": {2: "another"}}, ("input-data", "aten.mm.default", 2, "train.py:10"), "position 2"),
    "batches in another order": (
        *({}, {"batches": {1: ("batch", 3), 3: ("batch", 1)}}, ("input-data", "aten.mm.default", 1, "train.py:10")),
        "order",
    ),
    "a parameter": (
        *({}, {"weight": "other"}, ("initial-state", "aten.mm.default", 0, "train.py:10")),
        "before the first step",
    ),
    "a number among the arguments": (
        *({"alpha": {2: "alpha=1, dim=0"}}, {"alpha": {2: "alpha=1.5, dim=0"}}),
        *(("argument", "aten.add.Tensor", 2, "train.py:15"), "alpha=1 and alpha=1.5"),
    ),
    "a number that nothing read explains": (
        *({"lr": "0.1"}, {"lr": "0.2"}, ("argument", "aten.add_.Tensor", 0, "train.py:20")),
        "",
    ),
    "a number that Python made of what differed": (FROM_LOSS, {**FROM_LOSS, "kernel": 2}, ("kernel", *PUT), ""),
    "bytes that no op wrote": (
        *({"seen": {2: "1"}}, {"seen": {2: "2"}}, ("outside-change", "aten.add.Tensor", 2, "train.py:15")),
        "",
    ),
    "an earlier end": ({}, {"steps": 3}, ("structure", "aten.mm.default", 3, "train.py:10"), "the second ends"),
}


@pytest.mark.parametrize("case", ROOTS)
def test_what_differs_is_one_root_with_its_cause_and_line(record: Recorder, case: str) -> None:
    first, second, expected, words = ROOTS[case]
    root = only(compared(record, first, **second))
    assert seen(root) == expected
    assert words in root.why or words == (root.earlier and root.earlier.location)


def test_what_follows_from_a_root_is_counted_and_the_root_says_what_came_before(record: Recorder) -> None:
    assert only(found := compared(record, kernel=2)).follows == found.follows == 3 + 6  # that step's rest, and the next
    earlier = only(compared(record, moved=2)).earlier
    assert earlier is not None
    assert (earlier.op, earlier.location, earlier.step) == ("aten.rand.default", "train.py:11", 2)
    batch = only(compared(record, batches={2: "another"}))
    assert (batch.kind, batch.name, batch.first) == (ValueKind.BATCH, "DataLoader at train.py:5", "2")
    moved = only(compared(record, batches={1: ("batch", 3), 3: ("batch", 1)}))
    assert (moved.first, moved.second, moved.same_cause) == ("1", "3", 1)
    weight = only(compared(record, weight="other"))
    assert (weight.kind, weight.name) == (ValueKind.PARAMETER, "fc.weight")


def test_what_was_not_digested_is_counted_and_no_root(record: Recorder) -> None:
    marks = {2: Mark.OUTPUT_NOT_DIGESTED}
    found = compared(record, {"marks": marks}, marks=marks)
    assert (found.agrees, found.not_digested) == (True, 1)


def test_a_kernel_that_races_in_each_step_is_told_once(record: Recorder) -> None:
    def race(run: Run, noise: str) -> None:
        for _ in range(5):
            batch = run.enter(ValueKind.BATCH, "loader", 1)
            run.call("index_add_.default", batch, line=3, noise=noise)
            run.writer.step(1)

    root = only(compare_recordings(record(race, noise="a"), record(race, noise="b")))
    assert (root.cause, root.call, root.same_cause) == (RootCause.KERNEL, 0, 4)


def test_what_the_tables_say_stands_beside_a_kernel(record: Recorder) -> None:
    where = {"op": "aten.index_put_.default", "location": "train.py:14", "module": "", "function": "step"}
    recorded = trace(call(**where))
    known = finding("cpu-index-put", **where)
    first = record(trace=recorded)
    agreed = only(compare_recordings(first, record(kernel=2, trace=recorded), findings=[known]))
    assert (agreed.rule, agreed.verdict, agreed.contradicts) == ("cpu-index-put", Verdict.NONDETERMINISTIC, False)
    assert "expects it" in agreed.why
    unasked = only(compare_recordings(first, record(kernel=2)))
    assert (unasked.verdict, unasked.contradicts) == (None, False)


@pytest.mark.parametrize(
    ("varied", "cause", "says"),
    [
        (None, RootCause.UNKNOWN, "not replayed"),
        (0, RootCause.UNKNOWN, "replayed on the spot it gave the same"),
        (3, RootCause.KERNEL, "is wrong here: it varied when it was replayed"),
    ],
)
def test_a_kernel_that_the_tables_call_deterministic_is_blamed_where_a_replay_varied(
    record: Recorder, varied: int | None, cause: RootCause, says: str
) -> None:
    where = {"op": "aten.index_put_.default", "location": "train.py:14", "module": "", "function": "step"}
    tried = None if varied is None else Tried(calls=1, trials=10, varied=varied)
    runs = (record(trace=trace(call(**where))), record(kernel=2, trace=trace(call(**where))))
    root = only(compare_recordings(*runs, findings=[], replayed=trace(call(**where, tried=tried))))
    assert (root.cause, root.verdict, root.contradicts) == (cause, Verdict.DETERMINISTIC, bool(varied))
    assert says in root.why


@pytest.mark.parametrize("varied", [0, 3])
def test_a_kernel_is_not_blamed_beside_a_thread_that_may_have_written_its_inputs(record: Recorder, varied: int) -> None:
    where = {"op": "aten.index_put_.default", "location": "train.py:14", "module": "", "function": "step"}
    spot = BlindSpot(kind=BlindSpotKind.OTHER_THREAD, detail="a Python thread was started", location="train.py:3")
    first = record(trace=trace(call(**where), blind_spots=(spot,)))
    replayed = trace(call(**where, tried=Tried(calls=1, trials=10, varied=varied)))
    root = only(compare_recordings(first, record(kernel=2), findings=[], replayed=replayed))
    assert (root.cause, root.contradicts) == (RootCause.UNKNOWN, False)
    assert "a thread that the program started at train.py:3 may have written it" in root.why


def test_an_op_that_only_writes_to_another_tensor_is_no_kernel(record: Recorder) -> None:
    def fills(run: Run, shape: object) -> None:
        run.call("normal_.default", line=3, noise=shape, generator=("cpu", 1))

    root = only(compare_recordings(record(fills, shape=(3, 4)), record(fills, shape=(5,))))
    assert (root.cause, root.op) == (RootCause.INPUT_DATA, "aten.normal_.default")
    assert "different tensors" in root.why


@pytest.mark.parametrize(
    ("first", "second", "cause"),
    [
        ({"code": "1"}, {"code": "2"}, RootCause.STRUCTURE),
        ({"graph": "1"}, {"graph": "2"}, RootCause.STRUCTURE),
        ({"code": "1"}, {"code": "1"}, RootCause.KERNEL),
        ({"code": "1"}, {"code": ""}, RootCause.KERNEL),
        ({"graph": "1"}, {"graph": "2", "origin": RegionOrigin.CACHE}, RootCause.KERNEL),
    ],
    ids=["code", "graph", "same", "not-seen", "graph-from-the-cache"],
)
def test_a_region_that_was_compiled_to_other_code_is_no_kernel(
    record: Recorder, first: dict[str, Any], second: dict[str, Any], cause: RootCause
) -> None:
    def run(run: Run, noise: str) -> None:
        read = run.enter(ValueKind.BATCH, "loader", 1)
        run.call("compiled", read, line=3, noise=noise, marks=Mark.COMPILED, region="0/0 forward")

    runs = [
        record(run, noise=noise, trace=trace(regions=(Region(id="0/0 forward", **fields),)))
        for noise, fields in (("a", first), ("b", second))
    ]
    root = only(compare_recordings(*runs))
    assert root.cause is cause
    assert ("compiled to different code" in root.why) == (cause is RootCause.STRUCTURE)


@pytest.mark.parametrize("varied", [0, 4])
def test_an_op_of_the_programs_own_may_have_drawn_where_nobody_looks(record: Recorder, varied: int) -> None:
    def run(run: Run, noise: str) -> None:
        run.call("noise.default", run.enter(ValueKind.BATCH, "loader", 1), line=14, noise=noise)

    where = {"op": "aten.noise.default", "location": "train.py:14", "module": ""}
    tried = Tried(calls=1, trials=10, varied=varied)
    opaque = finding("cpu-opaque", cause=Cause.OPAQUE, **where)
    runs = (record(run, noise=noise, trace=trace()) for noise in "ab")
    root = only(compare_recordings(*runs, findings=[opaque], replayed=trace(call(**where, tried=tried))))
    assert root.cause is RootCause.UNKNOWN
    assert "a custom op" in root.why


def test_settings_that_differ_come_before_the_kernel(record: Recorder) -> None:
    one, two = (trace(environment=environment(num_threads=n)) for n in (1, 8))
    root = only(compare_recordings(record(trace=one), record(trace=two, kernel=2)))
    assert seen(root) == ("setting", "aten.index_put_.default", 2, "train.py:14")
    assert (root.name, root.first, root.second) == ("num_threads", "1", "8")


def test_settings_that_no_kernel_reads_do_not(record: Recorder) -> None:
    one, two = (trace(environment=environment(variables={"PYTHONHASHSEED": n}, torch_seed=int(n))) for n in "12")
    found = compare_recordings(record(trace=one), record(trace=two, kernel=2))
    assert only(found).cause is RootCause.KERNEL
    assert [one.name for one in found.settings] == ["PYTHONHASHSEED"]


def test_a_setting_that_one_side_could_not_read_is_not_known_to_differ(record: Recorder) -> None:
    one = trace(environment=environment(num_threads=None, settings={"torch.backends.x": True, "a": 1}))
    two = trace(environment=environment(num_threads=8, settings={"a": 2}))
    found = compare_recordings(record(trace=one), record(trace=two))
    assert found.agrees  # a setting alone is no root
    assert [one.name for one in found.settings] == ["a"]


def test_a_generator_that_nobody_seeded(record: Recorder) -> None:
    unseeded = Generator(name="cpu", origin=SeedOrigin.MACHINE)
    root = only(compare_recordings(record(trace=trace(generators=(unseeded,))), record(seed=7)))
    assert seen(root) == ("draw", "aten.rand.default", 0, "train.py:11")
    assert (root.name, root.earlier) == ("cpu", None)
    assert "never seeded" in root.why


def test_a_draw_too_many_is_told_as_the_draw_that_ran_ahead_and_the_draws_after_it_follow(record: Recorder) -> None:
    found = compared(record, extra_draw=1)
    root = only(found)
    assert seen(root) == ("draw", "aten.rand.default", 1, "train.py:8")
    assert root.only_second
    assert root.why == (
        "only the second run draws here, so the generator cpu is in a different state before the next common draw,"
        " aten.rand.default at train.py:11"
    )
    assert found.only == (0, 1)
    assert root.follows > 10


def test_a_generator_that_is_seeded_again_in_each_step_parts_once(record: Recorder) -> None:
    def seeded(run: Run, seeds: list[int]) -> None:
        for seed in seeds:
            run.call("rand.default", line=3, generator=("cpu", seed))
            run.call("rand.default", line=4, generator=("cpu", (seed, "rand")))

    root = only(compare_recordings(record(seeded, seeds=[1, 2, 3]), record(seeded, seeds=[7, 2, 9])))
    assert (root.cause, root.call) == (RootCause.DRAW, 0)


@pytest.mark.parametrize(("name", "is_one"), [("cpu", True), ("cuda:0", True), ("passed (cpu)", False)])
def test_an_earlier_draw_is_named_where_it_was_surely_of_the_same_generator(
    record: Recorder, name: str, is_one: bool
) -> None:
    def drawn(run: Run, seed: int) -> None:
        run.call("rand.default", line=3, generator=(name, 0))
        run.call("rand.default", line=4, generator=(name, seed))

    root = only(compare_recordings(record(drawn, seed=1), record(drawn, seed=2)))
    assert (root.cause, root.call, root.earlier is not None) == (RootCause.DRAW, 1, is_one)
    assert ("aten.rand.default at train.py:3" in root.why, "first recorded draw" in root.why) == (is_one, False)


def test_memory_of_which_a_part_was_never_written(record: Recorder) -> None:
    def partly(run: Run, bytes_there: str) -> None:
        fresh = run.call("empty.memory_format", line=2, marks=Mark.UNWRITTEN)
        written = run.call("fill_.Scalar", line=3, keeps=fresh)
        run.call("sum.default", written, line=4, seen=bytes_there)

    root = only(compare_recordings(record(partly, bytes_there="55"), record(partly, bytes_there="aa")))
    assert seen(root) == ("unwritten-memory", "aten.sum.default", 0, "train.py:4")
    assert root.earlier is not None
    assert root.earlier.location == "train.py:2"


def test_a_generator_that_was_seeded_again_with_another_number_names_the_line(record: Recorder) -> None:
    one, two = (
        trace(events=(Event(kind=EventKind.SEED, name="torch", location="train.py:2", value="program", seed=seed),))
        for seed in "12"
    )
    root = only(compare_recordings(record(trace=one), record(trace=two, moved=2)))
    assert root.cause is RootCause.DRAW
    assert root.why.endswith("it was seeded at train.py:2 with 1, in the second run with 2")


@pytest.mark.parametrize("where", [(0, 1), (1,), (0,)], ids=["both", "second alone", "first alone"])
def test_a_change_from_outside_that_was_noticed(record: Recorder, where: tuple[int, ...]) -> None:
    def written(run: Run, side: int) -> None:
        made = run.call("ones.default", line=2)
        if side in where:
            made = run.enter(ValueKind.OUTSIDE_CHANGE, "", ("numpy", side))
        run.call("sum.default", made, line=4)

    root = only(compare_recordings(record(written, side=0), record(written, side=1)))
    assert seen(root) == ("outside-change", "aten.sum.default", 0, "train.py:4")


def test_a_change_from_outside_that_is_the_same_in_both_is_none(record: Recorder) -> None:
    def written(run: Run) -> None:
        run.call("ones.default", line=2)
        run.call("sum.default", run.enter(ValueKind.OUTSIDE_CHANGE, "", "numpy"), line=4)

    assert compare_recordings(record(written), record(written)).agrees


@pytest.mark.parametrize("side", ["first", "second"])
def test_a_call_that_only_one_run_makes(record: Recorder, side: str) -> None:
    bends = ({"extra_call": 1}, {}) if side == "first" else ({}, {"extra_call": 1})
    found = compare_recordings(record(**bends[0]), record(**bends[1]))
    root = only(found)
    assert seen(root) == ("structure", "aten.relu.default", 1, "train.py:9")
    assert (root.only_second, found.only) == (side == "second", (1, 0) if side == "first" else (0, 1))
    assert root.earlier is not None
    assert root.earlier.op == "aten.add_.Tensor"
    assert {root.first, root.second} == {"aten.relu.default at train.py:9", "aten.mm.default at train.py:10"}


@pytest.mark.parametrize("others", [("b", "d"), ("b", "")])
def test_calls_of_one_line_that_are_of_other_modules_name_these(record: Recorder, others: tuple[str, str]) -> None:
    def tables(run: Run, module: str) -> None:
        x = run.enter(ValueKind.PARAMETER, "x", 1)
        for name in ("a", module, "c"):
            x = run.call("embedding", x, line=21, module=name)

    found = compare_recordings(*(record(tables, module=module) for module in others))
    continues = [f"continues with aten.embedding at train.py:21 in {module or 'no module'}" for module in others]
    assert f"the first run {continues[0]}, the second {continues[1]}" in found.roots[0].why


def test_a_run_that_was_cut_off_is_compared_as_far_as_it_goes(record: Recorder, tmp_path: Path) -> None:
    whole, cut = record(), record(steps=2)
    data = (tmp_path / "run2.values").read_bytes()
    (tmp_path / "run2.values").write_bytes(data[:-5])
    cut = read_recording(tmp_path / "run2.values")
    found = compare_recordings(whole, cut)
    assert found.agrees
    assert found.partial[1]
    assert found.calls_compared == len(cut.values)
    assert compare_recordings(cut, whole).agrees


def test_what_may_come_from_something_not_digested_is_unknown(record: Recorder) -> None:
    def sparse(run: Run, value: int) -> None:
        made = run.call("to_sparse.default", line=2, marks=Mark.OUTPUT_NOT_DIGESTED)
        run.call("sum.default", made, line=4, seen=value)

    root = only(compare_recordings(record(sparse, value=1), record(sparse, value=2)))
    assert seen(root) == ("unknown", "aten.sum.default", 0, "train.py:4")


def test_two_causes_are_two_roots_in_order(record: Recorder) -> None:
    found = compared(record, kernel=2, batches={1: "other"})
    assert [one.cause for one in found.roots] == [RootCause.INPUT_DATA]  # the put of step 2 reads what differs
    found = compared(record, kernel=0, draw_size={2: 6})
    assert [one.cause for one in found.roots] == [RootCause.KERNEL, RootCause.DRAW]


def test_two_kinds_of_digests_are_refused(record: Recorder) -> None:
    with pytest.raises(TraceError, match="two ways"):
        compare_recordings(record(), record(header={"digest": "mix-64"}))


mkldnn: Any = torch.backends.mkldnn


@pytest.mark.skipif(not mkldnn.is_available(), reason="this build of torch has no oneDNN to switch off")
@pytest.mark.parametrize("second", [(False, False), (True, False)], ids=["from the start", "while recording"])
def test_onednn_that_one_run_switched_off_is_the_cause(tmp_path: Path, second: tuple[bool, bool]) -> None:
    recordings = []
    for number, (before, within) in enumerate(((True, True), second)):
        torch.manual_seed(0)
        image, weights = torch.randn(2, 64, 24, 24), torch.randn(64, 64, 3, 3)
        mkldnn.enabled = before
        with DeterminismTracer(values=tmp_path / f"{number}.values") as tracer:
            mkldnn.enabled = within
            torch.nn.functional.conv2d(image, weights).sum()
        mkldnn.enabled = True
        tracer.trace.save(tmp_path / f"{number}.json")
        recordings.append(read_recording(tmp_path / f"{number}.json"))
    first = compare_recordings(*recordings).first
    assert first is not None
    assert (first.op, first.cause) == ("aten.convolution.default", RootCause.SETTING)
    assert (first.name, first.second) == ("torch.backends.mkldnn.enabled", "False")
    assert "torch.backends.mkldnn.enabled" in first.why
