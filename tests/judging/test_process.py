"""What no op shows is judged by its row, with the calls that make it matter, and silent where nothing depends on it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.build import call, environment, event, generator, loader, read, trace
from tracer import judge
from tracer.errors import TargetError
from tracer.findings import Finding
from tracer.names import About, DeterministicMode, GeneratorKind, Overlap, Phase, SeedOrigin, Verdict
from tracer.report import Report
from tracer.trace.file import Trace
from tracer.trace.records import Allocation, Generator, OverlapWrite, OwnGenerator

CUDA = {"device": "cuda", "dtype": "float32", "layout": "strided", "ndim": 2}
CPU = {**CUDA, "device": "cpu"}
CONVOLUTION = call("aten.convolution.default", facts=CUDA, count=3)
PRODUCT = call("aten.mm.default", facts=CUDA)
ADDITION = call("aten.add.Tensor", facts=CPU)
VARYING = call("aten.index_add.default", facts={**CPU, "device": "cuda"})


def process(**made: Any) -> Any:
    flags = {"cudnn_enabled": True, "cudnn_benchmark": False, "cudnn_deterministic": False}
    return environment(**{**flags, "fill_uninitialized_memory": True} | made)


def about_the_process(report: Report) -> dict[str, Finding]:
    return {one.rule: one for one in report.findings if one.about is not About.CALL}


def found(recorded: Trace, rule: str, **target: Any) -> Finding:
    findings = about_the_process(judge(recorded, **target))
    assert rule in findings, sorted(findings)
    return findings[rule]


def is_found(recorded: Trace, rule: str, **target: Any) -> bool:
    return rule in about_the_process(judge(recorded, **target))


# ------------------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("op", "device", "backend", "is_noted"),
    [
        ("aten.randn.default", "cuda", "recorded", True),
        ("aten.bernoulli_.float", "cpu", "cuda", True),
        ("aten.normal_.default", "cpu", "rocm", True),
        ("aten.randn.default", "cpu", "recorded", False),
        ("aten.randn.default", "cuda", "cpu", False),
        ("aten.add.Tensor", "cuda", "recorded", False),
    ],
)
def test_draws_on_a_gpu_are_said_to_differ_between_its_models(
    op: str, device: str, backend: str, is_noted: bool
) -> None:
    draws = {} if op == "aten.add.Tensor" else {"rng.generator": device, "rng.origin": "program"}
    report = judge(trace(call(op, facts={"device": device, "dtype": "float32", **draws})), backend=backend)
    ops = [note.ops for note in report.judgement.notes if note.rule == "environment-gpu-draws"]
    assert ops == ([{op: 1}] if is_noted else [])


def test_a_setting_is_a_finding_with_the_ops_that_make_it_matter() -> None:
    recorded = trace(CONVOLUTION, PRODUCT, environment=process(cudnn_benchmark=True))
    finding = found(recorded, "environment-cudnn-benchmark")
    assert finding.subject == "torch.backends.cudnn.benchmark = True"
    assert (finding.ops, finding.count, finding.op) == ({"aten.convolution.default": 3}, 3, "")
    assert finding.about is About.SETTING
    assert finding.verdict is Verdict.NONDETERMINISTIC
    assert finding.evidence
    assert finding.code
    assert finding.sets == {"deterministic_mode": "on"} or finding.sets == {"cudnn_benchmark": False}


def test_the_line_that_made_a_setting_is_where_the_finding_is() -> None:
    made = event("setting", "torch.backends.cudnn.benchmark", before="False", value="True", location="train.py:4")
    recorded = trace(CONVOLUTION, environment=process(cudnn_benchmark=True), events=(made,))
    assert found(recorded, "environment-cudnn-benchmark").location == "train.py:4"


def test_what_differs_between_machines_is_a_note() -> None:
    report = judge(trace(CONVOLUTION, environment=process(cudnn_allow_tf32=True)), backend="cuda")
    (note,) = [one for one in report.judgement.notes if one.rule == "environment-cudnn-tf32"]
    assert note.ops == {"aten.convolution.default": 3}
    strict = judge(trace(CONVOLUTION, environment=process(cudnn_allow_tf32=False)), backend="cuda")
    assert "environment-cudnn-tf32" not in {one.rule for one in strict.judgement.notes}


def test_findings_about_the_process_stand_among_those_of_calls_and_are_no_calls() -> None:
    report = judge(trace(CONVOLUTION, ADDITION, environment=process(cudnn_benchmark=True)))
    assert {one.about for one in report.findings} == {About.CALL, About.SETTING}
    assert report.tally.total == 4


OFF, ON = {"cudnn_enabled": False}, {"cudnn_enabled": True}
OFF_IN_FORWARD = {"cudnn_enabled": True, "forward.cudnn_enabled": False}
ON_IN_FORWARD = {"cudnn_enabled": False, "forward.cudnn_enabled": True}


@pytest.mark.parametrize(
    ("is_on", "forward", "backward", "found"),
    [
        (True, OFF, OFF_IN_FORWARD, 0),
        (True, {}, {}, 5),
        (True, {}, OFF, 2),
        (True, OFF, {}, 3),
        (False, {}, {}, 0),
        (False, ON, ON_IN_FORWARD, 5),
        (False, {}, ON, 3),
    ],
)
def test_cudnns_recurrent_layers_are_judged_by_the_settings_of_their_own_forward(
    is_on: bool, forward: dict[str, Any], backward: dict[str, Any], found: int
) -> None:
    facts = {"device": "cuda", "dtype": "float32", "module.recurrent": True}
    calls = (
        call("aten.addmm.default", phase="forward", facts=facts, count=2, settings=forward),
        call("aten.mm.default", phase="backward", facts=facts, count=3, settings=backward),
    )
    report = judge(trace(*calls, environment=process(cudnn_enabled=is_on)), backend="cuda")
    accused = [one for one in report.findings if one.rule == "environment-recurrent-cublas-workspace"]
    assert sum(one.count for one in accused) == found
    assert len(accused) <= 1


# ----------------------------------------------------------------------------------- too late, in the middle

LATE = "environment-set-too-late"
VARIABLE = event(value=":4096:8", first=5, location="train.py:9")


def with_products(*events: Any) -> Trace:
    """A step with matrix products on CUDA, in a process that holds cuBLAS's variable by the time it records."""
    held = process(torch="2.6.0", variables={"CUBLAS_WORKSPACE_CONFIG": ":4096:8"})
    return trace(PRODUCT, environment=held, events=events)


def used(name: str, first: int) -> Any:
    return event("first-use", name, first=first, location="train.py:2")


def test_a_variable_made_after_its_reader_read_it_is_too_late() -> None:
    finding = found(with_products(used("cublas", 3), VARIABLE), LATE)
    assert finding.verdict is Verdict.NONDETERMINISTIC
    assert finding.location == "train.py:9"
    assert finding.subject == "CUBLAS_WORKSPACE_CONFIG = :4096:8, after cuBLAS had read it at train.py:2"


def test_one_made_after_cuda_started_may_be_too_late() -> None:
    finding = found(with_products(used("cuda", 3), VARIABLE), LATE)
    assert finding.verdict is Verdict.CONDITIONAL
    assert "may have read it" in finding.subject


def test_a_late_variable_is_mended_by_moving_its_line() -> None:
    recorded = with_products(used("cublas", 3), VARIABLE)
    (change,) = judge(recorded).plan
    assert "Move the line" in change.title
    assert change.code == 'import os\n\nos.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"'
    assert "train.py:9" in change.where
    assert not is_found(recorded, LATE, settings=change.sets)
    assert not is_found(recorded, LATE, settings="default"), "only the program's own settings can be late"


def toggled(**fields: Any) -> Any:
    spelt = {"before": "off", "value": "on", "while_recording": True, "after_calls": True, "phase": Phase.OTHER}
    return event("setting", "torch.use_deterministic_algorithms", **{**spelt, **fields})


def test_deterministic_mode_that_differs_between_forward_and_backward_is_found_at_its_line() -> None:
    finding = found(trace(VARYING, events=(toggled(parts_phases=True),)), "environment-mode-changed")
    assert (finding.verdict, finding.location) == (Verdict.NONDETERMINISTIC, "train.py:3")
    within = found(trace(VARYING, events=(toggled(),)), "environment-mode-changed")
    assert within.verdict is Verdict.CONDITIONAL


@pytest.mark.parametrize("settings", [{}, {"deterministic_mode": "on"}])
def test_a_mode_that_no_varying_call_depends_on_may_change(settings: dict[str, Any]) -> None:
    calls = (call("aten.index_add.default", facts=VARYING.facts, settings=settings),) if settings else (ADDITION,)
    assert not judge(trace(*calls, events=(toggled(parts_phases=True),))).findings


# ---------------------------------------------------------------------------------------------- generators


def drawing(origin: str, name: str = "cpu", **fields: Any) -> Any:
    facts = {**CPU, "rng.generator": name, "rng.origin": origin}
    return call("aten.bernoulli_.float", facts=facts, **fields)


def test_a_generator_left_to_the_machine_is_one_finding_for_all_its_draws() -> None:
    recorded = trace(drawing("machine"), drawing("machine", location="train.py:20", count=2))
    finding = found(recorded, "environment-torch-generator")
    assert finding.subject == "generator cpu, never seeded"
    assert finding.ops == {"aten.bernoulli_.float": 3}
    assert finding.location == "train.py:10"


def test_a_passed_generator_is_seeded_by_hand() -> None:
    report = judge(trace(drawing("machine", "passed (cpu)")))
    assert "environment-passed-generator" in about_the_process(report)
    assert report.planned_settings == {}
    assert any(change.title.startswith("Seed ") for change in report.plan)


def test_python_and_numpy_that_drew_unseeded_are_found() -> None:
    drew = [Generator(name=name, origin=SeedOrigin.MACHINE, drew=True) for name in ("python", "numpy")]
    report = judge(trace(ADDITION, generators=tuple(drew)))
    python, numpy = (about_the_process(report)[f"environment-{name}-generator"] for name in ("python", "numpy"))
    assert (python.verdict, numpy.verdict) == (Verdict.CONDITIONAL, Verdict.NONDETERMINISTIC)
    assert report.planned_settings == {"seed.python": True, "seed.numpy": True}
    (change,) = report.plan
    assert change.code == "import random\nimport numpy\n\nrandom.seed(0)\nnumpy.random.seed(0)"


@pytest.mark.parametrize("made", [{"count": 64}, {"function": "Pairs.__getitem__"}])
def test_a_generator_made_for_each_sample_is_given_no_constant_seed(made: dict[str, Any]) -> None:
    made_there = OwnGenerator(kind=GeneratorKind.NUMPY_OBJECTS, location="train.py:3", **made)
    report = judge(trace(ADDITION, own_generators=(made_there,)))
    (change,) = report.plan
    assert change.code == ""
    assert "default_rng([0, index])" in change.remedy


def test_the_hash_seed_is_exported_and_never_set_by_a_line_of_the_script() -> None:
    late = event("variable", "PYTHONHASHSEED", value="0")
    first = event("first-use", "python")
    report = judge(trace(ADDITION, events=(first, late), watched_from_start=True))
    codes = [change.code for change in report.plan]
    assert "export PYTHONHASHSEED=0" in codes
    assert not any("os.environ" in code for code in codes)


def test_a_numpy_generator_made_without_a_seed_is_found_where_it_was_made() -> None:
    made = OwnGenerator(kind=GeneratorKind.NUMPY_OBJECTS, location="train.py:3")
    report = judge(trace(ADDITION, own_generators=(made,)))
    finding = about_the_process(report)["environment-numpy-generator-objects"]
    assert (finding.verdict, finding.location, finding.count) == (Verdict.NONDETERMINISTIC, "train.py:3", 1)
    assert "cannot be seen" in finding.why
    assert report.planned_settings == {}
    (change,) = report.plan
    assert "default_rng(0)" in change.code


def test_a_region_that_drew_where_no_call_was_seen_is_found_without_a_line() -> None:
    finding = found(trace(ADDITION, generators=(generator("python", drew=True),)), "environment-python-generator")
    assert finding.location == ""


# ------------------------------------------------------------------------------- memory, overlaps, loading


def test_memory_read_before_it_was_written_names_both_lines() -> None:
    recorded = trace(ADDITION, unwritten_reads=(read(count=2),), environment=process())
    finding = found(recorded, "environment-unwritten-memory")
    assert (finding.op, finding.location, finding.count) == ("aten.add.Tensor", "train.py:8", 2)
    assert "train.py:7" in finding.subject
    assert finding.deterministic_mode is Verdict.DETERMINISTIC


def test_memory_that_was_read_before_the_mode_was_on_is_found_whatever_mode_the_process_ended_in() -> None:
    on = process(deterministic_mode=DeterministicMode.ON, fill_uninitialized_memory=True)
    recorded = trace(ADDITION, unwritten_reads=(read(),), environment=on)
    assert is_found(recorded, "environment-unwritten-memory")
    assert judge(recorded).plan[0].where == "train.py:8"


def test_the_fill_that_was_switched_off_is_found_with_what_it_leaves() -> None:
    unfilled = process(deterministic_mode=DeterministicMode.ON, fill_uninitialized_memory=False)
    recorded = trace(ADDITION, unwritten_reads=(read(),), environment=unfilled)
    assert is_found(recorded, "environment-unwritten-memory")
    assert is_found(recorded, "environment-fill-uninitialized-memory")
    assert judge(recorded).planned_settings == {"fill_uninitialized_memory": True}


@pytest.mark.parametrize(("kind", "verdict"), [("itself", "nondeterministic"), ("source", "conditional")])
def test_an_overlapping_write_is_found_whatever_the_mode(kind: str, verdict: str) -> None:
    write = OverlapWrite(op="aten.add_.Tensor", kind=Overlap(kind), location="train.py:6", device="cpu")
    finding = found(trace(ADDITION, overlaps=(write,)), "environment-overlapping-write")
    assert (finding.location, finding.verdict.value) == ("train.py:6", verdict)
    assert finding.deterministic_mode is finding.verdict


def test_what_filling_costs_is_counted() -> None:
    given_memory = Allocation(op="aten.empty.memory_format", count=3, bytes=300, unfollowed=1)
    fill = judge(trace(ADDITION, allocations=(given_memory,))).judgement.fill
    assert fill is not None
    assert (fill.calls, fill.bytes, fill.reads, fill.unfollowed, fill.is_on) == (3, 300, 0, 1, False)
    assert judge(trace(ADDITION)).judgement.fill is None


def test_an_order_drawn_from_an_unseeded_generator_is_found_where_the_loader_is_made() -> None:
    recorded = trace(ADDITION, loaders=(loader(shuffles=True, sampler="RandomSampler", origin=SeedOrigin.MACHINE),))
    finding = found(recorded, "environment-loader-shuffle")
    assert (finding.subject, finding.location) == ("DataLoader(shuffle=True)", "train.py:5")
    (change,) = judge(recorded).plan
    assert change.code
    assert change.sets == {"seed.torch": True}


def test_a_loader_that_keeps_its_order_or_was_seeded_needs_no_change() -> None:
    seeded = loader(shuffles=True, sampler="RandomSampler", origin=SeedOrigin.PROGRAM)
    assert judge(trace(ADDITION, loaders=(loader(origin=SeedOrigin.MACHINE),))).findings == ()
    report = judge(trace(ADDITION, loaders=(seeded,)))
    assert {one.verdict for one in report.findings} <= {Verdict.SEEDED}
    assert report.plan == ()


@pytest.mark.parametrize(
    ("workers", "origin", "verdicts"),
    [
        (2, SeedOrigin.MACHINE, [Verdict.CONDITIONAL]),
        (2, SeedOrigin.PROGRAM, [Verdict.SEEDED]),
        (0, SeedOrigin.MACHINE, []),
    ],
)
def test_workers_are_as_seeded_as_their_base_seed(workers: int, origin: SeedOrigin, verdicts: list[Verdict]) -> None:
    recorded = trace(ADDITION, loaders=(loader(workers=workers, origin=origin, start_method="fork"),))
    found = judge(recorded).findings
    assert [each.verdict for each in found if each.rule == "environment-loader-workers"] == verdicts


def test_each_note_on_a_loader_says_what_of_it_matters() -> None:
    spawned = loader(workers=2, persistent_workers=True, start_method="spawn", epoch_set=False)
    subjects = [note.subject for note in judge(trace(ADDITION, loaders=(spawned,))).judgement.notes]
    said = ("persistent workers", "workers started by spawn", "set_epoch was never called", "the number of workers")
    assert sorted(one.rpartition(": ")[2] for one in subjects if "DataLoader" in one) == sorted(said)
    plain = judge(trace(ADDITION, loaders=(loader(),))).judgement.notes
    assert not any("DataLoader" in note.subject for note in plain)


# ------------------------------------------------------------------------------- what is found, and its twins

BENCHMARKED = {"environment": process(cudnn_benchmark=True)}
BENCHMARK, MODE, TORCHS = (
    f"environment-{name}" for name in ("cudnn-benchmark", "deterministic-mode", "torch-generator")
)
MEMORY, CHANGED, PYTHONS = (f"environment-{name}" for name in ("unwritten-memory", "mode-changed", "python-generator"))
ON_CPU = call("aten.convolution.default", facts=CPU)
UNCOMPUTED = call("aten.convolution.default", facts={**CUDA, "device": "meta"})
MODE_ON = process(deterministic_mode=DeterministicMode.ON)
READS = {"unwritten_reads": (read(),)}
FILLED = {"deterministic_mode": "on", "fill_uninitialized_memory": True}


@pytest.mark.parametrize(
    ("recorded", "rule", "target", "expected"),
    [
        # A setting matters where a call with data depends on it.
        (trace(PRODUCT, **BENCHMARKED), BENCHMARK, {}, False),
        (trace(ON_CPU, **BENCHMARKED), BENCHMARK, {}, False),
        (trace(ON_CPU, **BENCHMARKED), BENCHMARK, {"backend": "cuda"}, True),
        (trace(UNCOMPUTED, **BENCHMARKED), BENCHMARK, {"backend": "cuda"}, False),
        # Deterministic mode is asked for where it makes something deterministic.
        (trace(CONVOLUTION, environment=process()), MODE, {}, True),
        (trace(ADDITION, environment=process()), MODE, {}, False),
        (trace(CONVOLUTION, environment=MODE_ON), MODE, {}, False),
        # A variable that was made in time, or that nothing reads once.
        (with_products(VARIABLE), LATE, {}, False),
        (with_products(VARIABLE, used("cuda", 6)), LATE, {}, False),
        (with_products(used("cuda", 3), VARIABLE, used("cublas", 8)), LATE, {}, False),
        (with_products(used("cublas", 3), event(before=":4096:8", value=":4096:8", first=5)), LATE, {}, False),
        (with_products(used("cublas", 3), event(name="MY_OWN", value="1", first=5)), LATE, {}, False),
        # A mode that was made before any call.
        (trace(VARYING, events=(toggled(),)), CHANGED, {}, True),
        (trace(VARYING, events=(toggled(while_recording=False),)), CHANGED, {}, False),
        (trace(VARYING, events=(toggled(after_calls=False),)), CHANGED, {}, False),
        (trace(VARYING, events=(toggled(value="off"),)), CHANGED, {}, False),
        # Generators that somebody seeded, or that drew nothing.
        *((trace(drawing(one)), TORCHS, {}, False) for one in ("program", "restored", "fixed", "unseen")),
        (trace(ADDITION, generators=(generator("python", drew=True),)), PYTHONS, {}, True),
        (trace(ADDITION, generators=(generator("python", drew=False),)), PYTHONS, {}, False),
        (trace(ADDITION, generators=(generator("python", "program", drew=True),)), PYTHONS, {}, False),
        (trace(ADDITION, generators=(generator("python", "restored", drew=True),)), PYTHONS, {}, False),
        # Memory that deterministic mode would fill.
        (trace(ADDITION, **READS), MEMORY, {}, True),
        (trace(ADDITION, **READS), MEMORY, {"settings": "deterministic"}, False),
        (trace(ADDITION, **READS), MEMORY, {"settings": FILLED}, False),
    ],
)
def test_a_row_is_found_where_it_matters_and_not_at_its_twin(
    recorded: Trace, rule: str, target: dict[str, Any], expected: bool
) -> None:
    assert is_found(recorded, rule, **target) is expected


# ------------------------------------------------------------------------------------------ targets, banners


def test_settings_replace_the_recorded_ones_by_name() -> None:
    recorded = trace(CONVOLUTION, environment=process(cudnn_benchmark=True))
    report = judge(recorded, settings={"cudnn_benchmark": False, "deterministic_mode": "on"})
    assert report.findings == ()
    assert report.target.sets == {"cudnn_benchmark": False, "deterministic_mode": "on"}
    assert report.target.settings.value == "recorded"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"cudnn_benchmrk": True}, "did you mean cudnn_benchmark"),
        ({"cudnn_benchmark": "no"}, "it is True or False"),
        ({"deterministic_mode": "strict"}, "one of off, warn, on"),
        ({"seed.torch": 0}, "it is True"),
        ({"CUBLAS_WORKSPACE_CONFIG": 4096}, "it is text"),
        ({"python": "3.12"}, "unknown setting 'python'"),
    ],
)
def test_a_setting_that_does_not_exist_or_cannot_be_is_refused_in_one_line(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(TargetError) as error:
        judge(trace(ADDITION), settings=asked)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_torchs_defaults_forget_what_the_program_made() -> None:
    made = process(cudnn_benchmark=True, variables={"CUBLAS_WORKSPACE_CONFIG": ":4096:8"})
    rules = about_the_process(judge(trace(CONVOLUTION, PRODUCT, environment=made), torch="2.6", settings="default"))
    assert "environment-cudnn-benchmark" not in rules
    assert "environment-cublas-workspace" in rules


def test_seeds_that_may_have_gone_unseen_are_said_to() -> None:
    told = [judge(trace(drawing(origin))).banners for origin in ("unseen", "program")]
    assert [any("Seeds were not recorded" in banner for banner in banners) for banners in told] == [True, False]


@pytest.mark.parametrize(("torch", "says"), [("1.9", "were not judged"), ("3.1", "extrapolated")])
def test_a_torch_that_the_table_was_not_reviewed_for_is_said_to_be_one(torch: str, says: str) -> None:
    report = judge(trace(CONVOLUTION, environment=process(cudnn_benchmark=True)), torch=torch)
    assert any("table of settings" in banner and says in banner for banner in report.banners)
    assert bool(about_the_process(report)) is (says == "extrapolated")
    assert all(one.extrapolated for one in about_the_process(report).values())


def test_an_order_from_a_line_that_seeds_at_random_is_closed_at_that_line() -> None:
    drawn = {"shuffles": True, "sampler": "RandomSampler", "origin": SeedOrigin.MACHINE, "seeded_at": "main.py:49"}
    report = judge(trace(ADDITION, loaders=(loader(**drawn),)), backend="cuda", settings="default")
    assert [change.where for change in report.plan] == ["main.py:49"]
    assert "seed.torch" not in report.planned_settings
