"""``tracer compare``: one script in two configurations, and the runs that an answer on them needs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tracer.divergence.jobs import Job, check_job, compared_jobs, first_call_of_jobs, read_job
from tracer.divergence.magnitudes import CompareVerdict, Comparison, Side, unrepeated
from tracer.divergence.renamed import renamed
from tracer.divergence.roots import changed_settings
from tracer.errors import EndedEarly, TraceError, UsageError
from tracer.names import BACKWARD_OF, OWN_CODE, Phase, PlaceKind, Training
from tracer.plain import one_line, say
from tracer.recording.options import UNSHAKEN, PlaceOptions, RecordOptions
from tracer.runner.repeated import launching
from tracer.runner.repeated.folder import recordings_in, remove_run, scratch_of
from tracer.runner.repeated.launching import COULD_NOT_BEGIN, Order
from tracer.runner.repeated.state import SavedState, objects_of
from tracer.runner.script import Task
from tracer.session import Session
from tracer.trace.file import Trace, values_path
from tracer.trace.values import read_magnitudes
from tracer.trace.values.places import decisions_beside, follow_the_others, joined_parts

#: Seconds that another interpreter has to say what it has.
_PATIENCE = 120
_ASK = "import torch, tracer; print(torch.__version__, tracer.__version__)"


class SideOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one side that the other lacks."""

    args: tuple[str, ...] = ()
    """Before the arguments that both have."""
    variables: dict[str, str] = {}
    python: str = sys.executable


class AskedConfigurations(msgspec.Struct, frozen=True):
    """A script, and its two configurations."""

    task: Task
    """With the arguments that both have."""
    first: SideOptions
    second: SideOptions
    folder: Path
    yardstick_runs: int = 3
    children: bool | None = None
    """Compare child processes too; ``None``: if the first run started some, and trained nothing itself."""


def compare_script(asked: AskedConfigurations) -> Comparison:
    """Run both configurations, and the shaken ones that the answer needs.

    Raises ``UsageError`` where a side cannot begin, ``TraceError`` where nothing was recorded, and ``EndedEarly`` where
    a signal ended it.
    """
    for name, python in (("a", asked.first.python), ("b", asked.second.python)):
        if python == sys.executable:
            continue
        try:
            answer = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=_PATIENCE)
        except (OSError, subprocess.TimeoutExpired) as problem:
            hint = "name a Python interpreter"
            raise UsageError(f"--python-{name} {python} cannot be run: {problem}", hint=hint) from None
        if answer.returncode:
            missing = answer.stderr.strip().rpartition("\n")[2]
            hint = f"install both there: {python} -m pip install torch determinism-tracer"
            raise UsageError(f"--python-{name} {python} cannot import torch and tracer ({missing})", hint=hint)
    runs = asked.yardstick_runs
    say(f"tracer: {asked.task.target} runs twice and, where that differs, about {runs + 5} times more")
    for left in (asked.folder / "compare.json", asked.folder / "compare.html", *asked.folder.glob("*-shaken-*")):
        left.unlink(missing_ok=True)  # would be taken for this one's, if it is killed
    for name in ("a", "a-again", "a-decided", "b", "b-again"):
        remove_run(asked.folder / f"{name}.json")
        remove_run(asked.folder / f"{name[0]}-named{name[1:]}.json")
    with scratch_of(asked.folder) as scratch:
        comparison = answered(_SideRuns(asked, scratch).record, asked.yardstick_runs)
        with suppress(TraceError):  # a run that was killed leaves no trace
            traces = [Trace.load(recordings_in(scratch) / f"{name}.json") for name in ("a", "b")]
            settings = changed_settings([trace.environment for trace in traces], traces)
            comparison = replace(comparison, settings=settings)
        return comparison


class _SideRuns:
    """Runs of both configurations, each a process of its own that leaves a file in the folder."""

    def __init__(self, asked: AskedConfigurations, scratch: Path) -> None:
        self._asked = asked
        self._scratch = scratch
        self._runs = 0
        self._children = asked.children
        self._names: set[str] = set()

    def record(self, side: Side, places: PlaceOptions) -> Job:
        """Make one run: a ``RecordSide``."""
        job = read_job(self._run(side, places))
        if self._children is None:
            self._children = job.training is Training.ELSEWHERE
            if self._children and not launching.ENDING.by:
                self._names.clear()
                say("tracer: a trained nothing itself, and started processes: once more, recording them too")
                return self.record(side, places)
        return job

    def _run(self, letter: Side, places: PlaceOptions) -> Path:
        if launching.ENDING.by:
            raise EndedEarly(f"{launching.ENDING.by} before all runs were made", hint="run it again")
        name, words = _named(letter, places)
        if name in self._names:
            name, words = f"{name}-again", f"{words}, once more"
        self._names.add(name)
        output = recordings_in(self._scratch) / f"{name}.json"
        remove_run(output)
        side = self._asked.first if letter == "a" else self._asked.second
        order = Order(
            task=replace(self._asked.task, args=(*side.args, *self._asked.task.args)),
            output=os.path.abspath(output),
            magnitudes=True,
            places=places,
            children=bool(self._children),
            scratch=str(self._scratch),
        )
        say(f"tracer: {words}")
        printed = self._asked.folder / f"{name}.log"
        printed.parent.mkdir(parents=True, exist_ok=True)
        begun = time.monotonic()
        code, _ = launching.run(order, side.variables, self._runs, python=side.python, prints=printed)
        if not self._runs and not code:
            took = time.monotonic() - begun
            longer = f"else about {took * (self._asked.yardstick_runs + 6):,.0f} s"
            say(f"tracer: {took:,.0f} s more if both are equal, {longer}; runs print to {printed.parent}/*.log")
        if launching.ENDING.by:
            raise EndedEarly(f"{launching.ENDING.by} before all runs were made", hint="run it again")
        if code == COULD_NOT_BEGIN:
            raise UsageError(f"{name} could not begin: {_last_line(printed)}", hint=f"{printed} has what it printed")
        if code:
            say(f"tracer: {name} {_how_it_ended(code)}: {_last_line(printed)}")
        self._runs += 1
        is_recorded = values_path(output).exists()
        if not is_recorded or (code and all(own.places.is_empty for own in read_job(output).processes.values())):
            if not code:
                raise TraceError(
                    f"{name} ended before --steps {order.task.steps} began", hint="choose steps that it makes"
                )
            raise TraceError(
                f"{name} {_how_it_ended(code)} before anything was recorded: {_last_line(printed)}",
                hint=f"{printed} has what it printed",
            )
        return output


def _last_line(printed: Path) -> str:
    """The last words of a run; what the tracer says of it stands behind them."""
    lines = [line for line in printed.read_text("utf-8", "replace").splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith("tracer: ")]
    return one_line((own or lines or ["it printed nothing"])[-1], 200)


def _how_it_ended(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was ended by {names.get(-code, f'signal {-code}')}"


def _named(side: Side, places: PlaceOptions) -> tuple[str, str]:
    name: str = f"{side}-named" if places.names_of else side
    words: str = f"{side}, under the names of the other" if places.names_of else side
    if places.shake is not None:
        inside = places.shake_in and not places.calls_of
        name += f"-shaken{'-inside' if inside else ''}{'' if places.calls_of else f'-{places.shake}'}"
        words += f", shaken{f' inside {places.shake_in} alone' if places.shake_in else ''} ({places.shake})"
    elif places.decides_as and side == "a" and not places.calls_of:
        name, words = f"{name}-decided", f"{words}, deciding as the second does"
    if places.calls_of:
        return f"{name}-calls", f"{words}, call by call"
    return (f"{name}-rows", f"{words}, its batches as rows of the whole") if places.rows_of else (name, words)


#: Further shaken runs where the answer is undecided.
FURTHER = 3

#: Places whose module's calls are held against each other.
_WITH_CALLS = (PlaceKind.OUTPUT, PlaceKind.OUTPUT_GRADIENT, PlaceKind.GRADIENT)


RecordSide = Callable[[Side, PlaceOptions], Job]
"""Runs one configuration and gives the magnitudes of its processes."""


def answered(record: RecordSide, yardstick_runs: int) -> Comparison:
    """Compare the two configurations by ``yardstick_runs`` shaken runs, and by further ones where that does not decide.

    Where all agrees bit for bit up to one module, runs of both that are shaken inside it alone judge what it returns.
    What is undecided then is decided by more runs, and by the means of shaken runs of both. Where they differ the first
    runs twice: shaken runs of a configuration that does not repeat are no yardstick. Where calls of the second (a ReLU,
    a top-k) decide otherwise, a run of the first that decides as they do is compared. Shaken runs decide as the run
    that they shake. Where the second calls modules otherwise it runs once more under the names of the first, which has
    them from then on.
    """
    first = record("a", UNSHAKEN)
    check_job(first, "a", is_first=True)
    second = record("b", UNSHAKEN)
    check_job(second, "b", is_first=False)
    found = renamed(first.processes[""], second.processes[""]) if _are_single(first, second) else None
    if found is None:
        return _answered(record, first, second, yardstick_runs)
    names: dict[Side, dict[str, Any]] = {"a": {}, "b": {"names_of": _file_of(first), "names": found.second}}

    def named(side: Side, places: PlaceOptions) -> Job:
        return record(side, replace(places, **names[side]))

    second = named("b", UNSHAKEN)
    if found.first:
        names["a"] = {"names_of": _file_of(second), "names": found.first}
        first = named("a", UNSHAKEN)
    return replace(_answered(named, first, second, yardstick_runs, of_one_code=False), names=found.told)


def _file_of(job: Job) -> str:
    return str(next(iter(job.processes.values())).places.path)


def _answered(
    record: RecordSide, first: Job, second: Job, yardstick_runs: int, *, of_one_code: bool = True
) -> Comparison:
    """``answered`` from the first run of each on. ``of_one_code``: whether both run the same modules, call by call."""
    comparison = compared_jobs(first, second)
    options = _rows(first, second)
    has_same_rows = options["a"] is options["b"]
    if not has_same_rows:
        first = first if options["a"] is UNSHAKEN else record("a", options["a"])
        second = second if options["b"] is UNSHAKEN else record("b", options["b"])
        comparison = compared_jobs(first, second)
    if comparison.verdict is CompareVerdict.EQUAL:
        return comparison
    # One can decide as the other does in single processes that run eagerly.
    is_eager = _are_single(first, second) and not _runs_compiled((first, second), "")
    follows = has_same_rows and is_eager and comparison.draws is None
    again = record("a", replace(options["a"], keeps_decisions=follows))
    kept = [decisions_beside(_file_of(again))]
    try:
        alone = compared_jobs(first, again)
        if (place := unrepeated(alone)) is not None:
            return replace(comparison, verdict=CompareVerdict.UNDECIDED, unrepeated=place, draws=alone.draws)
        if follows:
            second = record("b", PlaceOptions(keeps_decisions=True))
            kept.append(decisions_beside(_file_of(second)))
            options = {"a": PlaceOptions(decides_as=str(kept[0])), "b": PlaceOptions(decides_as=str(kept[1]))}
            if follow_the_others(*kept):
                first = record("a", options["a"])
                comparison = compared_jobs(first, second)
        comparison = _judged(record, comparison, first, second, options, yardstick_runs)
        return _with_call(record, comparison, first, second, options) if of_one_code else comparison
    finally:
        for path in kept:
            path.unlink(missing_ok=True)


def _judged(
    record: RecordSide,
    comparison: Comparison,
    first: Job,
    second: Job,
    options: Mapping[Side, PlaceOptions],
    yardstick_runs: int,
) -> Comparison:
    shaken: list[Job] = []
    of_second: list[Job] = []

    def shake(side: Side, seeds: Iterable[int], module: str = "") -> list[Job]:
        inside = {"shake_in": module, "shake_not": comparison.agreeing if module else ()}
        return [record(side, replace(options[side], shake=seed, **inside)) for seed in seeds]

    second_is_narrower = comparison.second_is_narrower
    needed = yardstick_runs if comparison.verdict is CompareVerdict.NOT_JUDGED else 0
    runs = 0
    while needed:
        seeds = range(runs + 1, runs + needed + 1)
        runs += needed
        shaken += shake("a", seeds)
        of_second += shake("b", seeds if second_is_narrower else ())
        comparison = compared_jobs(first, second, shaken, of_second)
        if comparison.parts_in:
            shaken += shake("a", seeds, comparison.parts_in)
            if not comparison.parts_in.startswith(BACKWARD_OF):
                of_second += shake("b", seeds, comparison.parts_in)
            comparison = compared_jobs(first, second, shaken, of_second)
        needed = FURTHER if comparison.is_open and runs < yardstick_runs + FURTHER else 0
    if comparison.is_open:
        of_second += shake("b", () if second_is_narrower else range(1, runs + 1))
        comparison = compared_jobs(first, second, shaken, of_second, by_means=True)
    return comparison


def _with_call(
    record: RecordSide, comparison: Comparison, first: Job, second: Job, options: Mapping[Side, PlaceOptions]
) -> Comparison:
    """The answer with the first call inside the first faulty module that differs."""
    place = comparison.first
    if place is None or comparison.is_given or comparison.verdict is not CompareVerdict.SIGNIFICANT:
        return comparison
    if not (place.is_own_code or place.kind in _WITH_CALLS) or _runs_compiled((first, second), place.module):
        return comparison
    if place.phase is Phase.OPTIMIZER or place.step in comparison.split_steps:  # a part's calls are not the whole's
        return comparison
    inside = {"shake_in": comparison.parts_in, "shake_not": comparison.agreeing} if place.is_alone else {}
    own = f"{place.module}{OWN_CODE}" if place.is_own_code else place.module
    of_a, of_b = (replace(options[side], calls_of=own) for side in ("a", "b"))
    try:
        call = first_call_of_jobs(
            record("a", of_a), record("b", of_b), record("a", replace(of_a, shake=1, **inside)), place
        )
    except TraceError:  # a side that fails now and then; the answer stands
        return comparison
    if call is None or not place.is_own_code:
        return replace(comparison, call=call)
    at_call = replace(place, location=call.location, called_from=call.called_from)
    significant = tuple(at_call if one is place else one for one in comparison.significant)
    return replace(comparison, call=call, first=at_call, significant=significant)


def _rows(first: Job, second: Job) -> dict[Side, PlaceOptions]:
    """How both are recorded once more, where one has rows of the other's batch in calls of other shapes."""
    options: dict[Side, PlaceOptions] = {"a": UNSHAKEN, "b": UNSHAKEN}
    places = [job.processes[""].places for job in (first, second)] if _are_single(first, second) else []
    part = joined_parts(*places) if places else None
    if part is not None:
        whole = PlaceOptions(rows_of=str(places[1 - part[0]].path), rows_in=str(places[part[0]].path), is_whole=True)
        options["b" if part[0] else "a"] = replace(whole, is_whole=False)
        if not part[1]:
            options["a" if part[0] else "b"] = whole
    return options


def _are_single(*jobs: Job) -> bool:
    return all(list(job.processes) == [""] and not job.processes[""].other_ranks for job in jobs)


def _runs_compiled(jobs: Iterable[Job], module: str) -> bool:
    """Return whether compiled code runs in ``module`` (empty: anywhere) or around it: its calls are made nowhere."""
    names = (name for job in jobs for own in job.processes.values() for name in own.places.names)
    regions = {f"{name.module}." for name in names if name.kind is PlaceKind.REGION}
    return any(not module or region.startswith(f"{module}.") or f"{module}.".startswith(region) for region in regions)


# --- two steps called in this process, from the same state ---


def compare(
    step_a: Callable[[], Any],
    step_b: Callable[[], Any],
    *,
    yardstick_runs: int = 3,
    state: Iterable[Any] | None = None,
    model: Any = None,
) -> Comparison:
    """Call two steps from the same state, and say whether they differ by rounding alone, and where if not.

    ``step_a`` is called ``yardstick_runs`` times more, with each result that depends on parameters changed by up to
    half a unit in the last place; how far each place of the step moves then is what rounding does to it. Before each
    call the state is restored, as ``tracer.repeat`` does; at the end it is as the last call leaves it.

    Parameters
    ----------
    step_a, step_b
        Called without arguments; ``functools.partial`` or a ``lambda`` binds them.
    yardstick_runs
        Shaken calls, one or more. Where they leave the answer open, further ones are made, of ``step_b`` too.
    state
        What to put back, as for ``tracer.repeat``; by default what both steps can reach.
    model
        Spells module paths, as for ``DeterminismTracer``. Two models are aligned by their module paths.

    Returns
    -------
    Comparison
        ``verdict`` (``equal``, ``rounding``, ``undecided``, ``significant``); ``first``: the first place whose
        difference is larger than rounding explains, with its line, ``ratio`` and ``relative``; ``significant``,
        ``only``.

    Raises
    ------
    UsageError
        A step that cannot be called, or no shaken call.
    TraceError
        The steps have no place in common.

    Examples
    --------
    ```python
    found = tracer.compare(lambda: step(eager_model), lambda: step(fused_model))
    assert found.verdict != "significant", found.first
    ```
    """
    for step in (step_a, step_b):
        if not callable(step):
            raise UsageError(f"a {type(step).__name__} cannot be called", hint="write compare(lambda: step(...), ...)")
    if not isinstance(yardstick_runs, int) or yardstick_runs < 1:
        raise UsageError("without a shaken call there is no yardstick", hint="ask for one or more")
    reached = [*objects_of(step_a), *objects_of(step_b)] if state is None else state
    saved = SavedState({id(held): held for held in reached}.values())
    with tempfile.TemporaryDirectory(prefix="tracer-") as folder:
        return answered(_Calls({"a": step_a, "b": step_b}, saved, Path(folder), model).record, yardstick_runs)


class _Calls:
    """Calls of two steps, each from the same state and recorded into a file of its own."""

    def __init__(self, steps: Mapping[Side, Callable[[], Any]], state: SavedState, folder: Path, model: Any) -> None:
        self._steps = steps
        self._state = state
        self._folder = folder
        self._model = model
        self._count = 0

    def record(self, side: Side, places: PlaceOptions) -> Job:
        """Call a step once from the state that everything had at first: a ``RecordSide``."""
        if self._count:
            self._state.restore()
        self._count += 1
        path = self._folder / f"{self._count}.values"
        with ExitStack() as during:
            during.enter_context(
                Session(self._model, RecordOptions(name=path.stem, magnitudes=str(path), places=places))
            )
            if places.shake is not None and "torch._dynamo" in sys.modules:  # compiled functions run op by op
                import torch

                during.enter_context(torch.compiler.set_stance("force_eager"))
            self._steps[side]()
        return Job({"": read_magnitudes(path)})
