"""The face: ``DeterminismTracer`` and ``judge``."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.lines import one
from tracer import DeterminismTracer, Keep, Trace, Trials, judge
from tracer.errors import TargetError, UsageError
from tracer.names import Verdict


def test_entering_again_adds_to_the_same_trace_and_entering_while_inside_counts_once() -> None:
    tracer = DeterminismTracer(name="twice")
    for _ in range(2):
        with tracer, tracer:
            torch.ones(1).sin()
    assert one(tracer, "aten.sin").count == 2
    assert tracer.trace.sources[0].name == "twice"


def test_two_tracers_nest_and_see_the_same() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    outer, inner = DeterminismTracer(net), DeterminismTracer(net)
    with outer:
        net(torch.ones(1, 2)).sum().backward()
        with inner:
            net(torch.ones(1, 2)).sum().backward()
    for op in ("aten.tanh", "aten.tanh_backward", "aten.addmm"):
        assert one(inner, op).count == 1
        assert sum(g.count for g in outer.trace.calls if g.op.startswith(f"{op}.")) == 2
    seen = {(g.op, g.phase, g.module, g.location, g.node) for g in inner.trace.calls}
    assert seen <= {(g.op, g.phase, g.module, g.location, g.node) for g in outer.trace.calls}


def test_it_decorates_a_function() -> None:
    tracer = DeterminismTracer()

    @tracer
    def step(x: float) -> torch.Tensor:
        """The step."""
        return torch.tensor(x).sin()

    assert step.__name__ == "step"
    assert step(0.0).item() == 0.0
    assert one(tracer, "aten.sin").count == 1


def test_the_trace_can_be_read_while_recording() -> None:
    tracer = DeterminismTracer()
    with tracer:
        torch.ones(1).sin()
        assert one(tracer, "aten.sin").count == 1
        torch.ones(1).sin()
    assert sum(group.count for group in tracer.trace.calls if "sin" in group.op) == 2


def test_leaving_more_often_than_entering_is_one_line() -> None:
    with pytest.raises(UsageError, match="left more often"):
        DeterminismTracer().__exit__(None, None, None)


def test_an_exception_passes_through_and_marks_the_trace() -> None:
    tracer = DeterminismTracer()
    with pytest.raises(KeyError), tracer:
        raise KeyError("planted")
    assert tracer.trace.partial == "KeyError"
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("model", "train"), ("name", 5), ("library", 5), ("values", 5), ("data_facts", "yes"), ("on_step", 5)),
        *(("trials", "5"), ("trials", True), ("trials", -1), ("trials", None), ("keep", 5), ("keep", ["index_*", 5])),
    ],
)
def test_an_option_of_the_wrong_type_is_one_line_that_names_it(option: str, value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        DeterminismTracer(**{option: value})
    assert str(caught.value).startswith(f"{option}=")
    assert caught.value.hint
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("made", "fields"), [(Trials, {"all": 1}), (Trials, {"memory": -1}), (Keep, {"bytes": "1 GB"})]
)
def test_an_option_object_refuses_what_its_fields_do_not_hold(made: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        made(5 if made is Trials else "a", **fields)


@pytest.mark.parametrize("globs", ["sin*", ["sin*"], ("sin*", "cos*"), iter(["sin*"]), Keep("sin*"), Keep(["sin*"])])
def test_inputs_are_kept_by_one_glob_or_several(globs: Any, tmp_path: Path) -> None:
    recorder = DeterminismTracer(keep=globs)
    with recorder:
        torch.ones(2).sin()
    assert one(recorder, "aten.sin").inputs == "0"
    recorder.save(tmp_path / "step.trace.json")
    assert (tmp_path / "step.inputs.safetensors").is_file()


@pytest.mark.parametrize("trials", [3, Trials(3), Trials(3, all=True)])
def test_a_call_is_repeated_as_often_as_trials_says(trials: Any) -> None:
    x, index = torch.zeros(3), (torch.randint(3, (200_000,)),)
    with DeterminismTracer(trials=trials) as recorder:
        x.index_put_(index, torch.rand(200_000), accumulate=True)
    tried = one(recorder, "aten.index_put_").tried
    assert tried is not None
    assert tried.trials == 3


def test_optimizer_steps_are_counted_and_told() -> None:
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    told: list[int] = []
    tracer = DeterminismTracer(on_step=told.append)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.step()
    with tracer:
        optimizer.step()
        optimizer.step()
    assert told == [1, 2]
    assert tracer.optimizer_steps == 2


def test_no_tensor_is_kept_alive() -> None:
    tracer = DeterminismTracer()
    kept: list[weakref.ref[torch.Tensor]] = []
    with tracer:
        x = torch.ones(3, requires_grad=True)
        y = (x * 2).index_select(0, torch.tensor([0, 0]))
        kept += [weakref.ref(x), weakref.ref(y)]
        y.sum().backward()
        kept.append(weakref.ref(x.grad))  # type: ignore[arg-type]
        del x, y
        gc.collect()
        assert [ref() for ref in kept] == [None, None, None]


def test_groups_do_not_grow_with_steps_nor_with_generated_code() -> None:
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    tracer = DeterminismTracer(net)
    sizes = []
    for _ in range(12):
        with tracer:
            body: dict[str, object] = {"torch": torch}
            exec(compile("y = torch.ones(2).sin()", "<generated>", "exec"), body)
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        sizes.append(sum(len(info.counters) for info in tracer._session.recorder.mode.infos.values()))
    assert sizes[2] == sizes[-1]
    assert sum(len(g) for g in tracer._session.recorder.attribution.links._older) <= 8 * 10


def test_other_threads_run_untouched() -> None:
    with DeterminismTracer() as tracer, ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: torch.zeros(2).sin()).result().tolist() == [0, 0]
    assert not [group for group in tracer.trace.calls if "sin" in group.op]


def test_judging_speaks_of_the_target_and_refuses_what_does_not_exist(tmp_path: Path) -> None:
    tracer = DeterminismTracer()
    with tracer:
        torch.ones(4).index_add_(0, torch.tensor([0, 0]), torch.rand(2))
    report = tracer.report(backend="cuda", torch="2.13", settings="default")
    (finding,) = [found for found in report.findings if found.op.startswith("aten.index_add_")]
    assert finding.rule == "cuda-index-add"
    assert (finding.verdict, finding.deterministic_mode) == (Verdict.NONDETERMINISTIC, Verdict.DETERMINISTIC)
    assert report.tally.total == tracer.trace.call_count
    path = tmp_path / "step.trace.json.gz"
    tracer.trace.save(path)
    assert judge(Trace.load(path), backend="cuda", settings="default").findings == report.findings
    for wrong in ({"backend": "tpu"}, {"torch": "two"}, {"settings": "fast"}):
        with pytest.raises(TargetError):
            tracer.report(**wrong)  # type: ignore[arg-type]


def test_judging_needs_no_torch(tmp_path: Path) -> None:
    tracer = DeterminismTracer()
    with tracer:
        torch.ones(4).cumsum(0)
    tracer.trace.save(tmp_path / "t.json")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from tracer import Trace, judge\n"
        f"report = judge(Trace.load({str(tmp_path / 't.json')!r}), backend='cuda', torch='2.13')\n"
        "print(report.tally.total)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stderr


def test_an_interrupt_while_recording_begins_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    from tracer.recording.mode import RecordingMode
    from tracer.recording.storage.registry import ESCAPES

    def attributes() -> list[object]:
        places = ((torch.Tensor, "data_ptr"), (torch._C, "_set_cudnn_benchmark"), (random, "random"), (os, "putenv"))
        return [getattr(owner, name) for owner, name in places] + [torch._C.Generator.manual_seed]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = attributes()
    for owner, name in ((ESCAPES, "add"), (RecordingMode, "__enter__")):
        tracer = DeterminismTracer()
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                tracer.__enter__()
        assert all(now is then for now, then in zip(attributes(), before, strict=True))
