"""The pytest plugin: a fixture, a marker and a report. Imports nothing of this package until one of them is used.

``docs/integrations.md`` shows them.
"""

from __future__ import annotations

import datetime
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tracer.report import Report
    from tracer.session import DeterminismTracer

_MARKER = (
    "determinism(model=None, backend='recorded', torch='recorded', settings='recorded', fail_on=..., select=(),"
    " ignore=(), baseline=None, repeat=1, hold=None, equal_to=None): record the test's ops, fail it for findings of"
    " these verdicts;"
    " with repeat=N, run it N times from the same state, and fail it if the runs diverge; circumstances are then held,"
    " those of hold=NAMES or all that can be, to find the one that explains it; with equal_to=OTHER, call OTHER with"
    " the test's fixtures too, and fail it where the two differ by more than rounding"
)
_TARGET = ("backend", "torch", "settings")
_ALLOWED = frozenset({"model", "fail_on", "select", "ignore", "baseline", "repeat", "hold", "equal_to", *_TARGET})
#: Keywords that ask for a gate besides the comparison of a repeated test.
_GATES = frozenset({"fail_on", "select", "ignore", "baseline", *_TARGET})
#: Failing findings that a test's failure lists.
_SHOWN = 20
_traces: pytest.StashKey[list[bytes]] = pytest.StashKey()


class Determinism:
    """The fixture's value: call it for a tracer, to be used in ``with``; ``report`` judges all such blocks."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.tracers: list[DeterminismTracer] = []

    def __call__(self, model: Any = None) -> DeterminismTracer:
        """A new tracer; ``model`` spells module paths."""
        from tracer.session import DeterminismTracer

        tracer = DeterminismTracer(model, name=self._name)
        self.tracers.append(tracer)
        return tracer

    def report(self, **target: Any) -> Report:
        """Judge what was recorded so far; keywords as for ``tracer.judge``."""
        from tracer.errors import UsageError
        from tracer.session import judge_job

        if not self.tracers:
            raise UsageError("nothing was recorded", hint="run the step in a block: with determinism(model): ...")
        return judge_job([tracer.trace for tracer in self.tracers], **target)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("determinism")
    record_all = "Record every test, marked or not, and say what was found."
    report = "Write a determinism report on what marked tests and the fixture recorded; the suffix picks the format."
    backend = "Judge that report for this backend."
    group.addoption("--determinism", action="store_true", help=record_all)
    parser.addini("determinism", record_all, type="bool", default=False)
    group.addoption("--determinism-report", metavar="PATH", help=report)
    group.addoption("--determinism-backend", metavar="B", default="recorded", help=backend)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse a report that could not be written, before any test runs."""
    config.addinivalue_line("markers", _MARKER)
    config.stash[_traces] = []
    path = config.getoption("--determinism-report")
    if path:
        from tracer.errors import TracerError
        from tracer.report import format_of

        try:
            format_of(path)
        except TracerError as problem:
            raise pytest.UsageError(f"--determinism-report: {problem}") from problem


@pytest.fixture
def determinism(request: pytest.FixtureRequest) -> Iterator[Determinism]:
    """Records what runs inside ``with determinism(model):`` blocks of the test."""
    value = Determinism(request.node.nodeid)
    yield value
    for tracer in value.tracers:
        _keep(request.config, tracer)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Record a marked test's call, and apply its gate."""
    marker = item.get_closest_marker("determinism")
    if marker is None:
        if not _records_all(item.config) or "determinism" in getattr(item, "fixturenames", ()):
            return (yield)
        tracer = Determinism(item.nodeid)()
        try:
            with tracer:
                return (yield)
        finally:  # no gate, and a test that fails or skips is kept too
            if tracer.trace.call_count:
                _keep(item.config, tracer)
    wanted = dict(marker.kwargs)
    if marker.args or not wanted.keys() <= _ALLOWED:
        keywords = ", ".join(sorted(_ALLOWED))
        pytest.fail(f"@pytest.mark.determinism takes keywords only, of {keywords}", pytrace=False)
    if "repeat" in wanted:
        return (yield from _repeated(item, wanted))
    if "equal_to" in wanted:
        return (yield from _compared(item, wanted))
    root = Path.cwd()  # locations are relative to it, even if the test changes directory
    with Determinism(item.nodeid)(wanted.get("model")) as tracer:
        result = yield
    _keep(item.config, tracer)
    _check(tracer, wanted, item, root)
    return result


def _repeated(item: pytest.Item, wanted: dict[str, Any]) -> Generator[None, object, object]:
    """Run a test several times from the same state, and fail it if the runs diverge, or if it started processes, which
    are not followed. Gates apply to the first run.

    Fixtures are made once; their state is restored before each run. Errors of the test's own come through.
    """
    import tempfile

    from tracer.divergence.model import read_recording
    from tracer.runner.repeated.function import FunctionCalls, compared_with
    from tracer.runner.repeated.state import SavedState, objects_of
    from tracer.session import DeterminismTracer

    runs = wanted["repeat"]
    if not isinstance(runs, int) or isinstance(runs, bool) or runs < 2:
        pytest.fail("@pytest.mark.determinism(repeat=N): two runs or more can be compared", pytrace=False)
    root = Path.cwd()
    held = [*getattr(item, "funcargs", {}).values(), *objects_of(getattr(item, "obj", item.runtest))]
    saved_state = SavedState({id(obj): obj for obj in held}.values())
    with tempfile.TemporaryDirectory(prefix="tracer-") as folder:
        path = Path(folder, "run-1.json")
        tracer = DeterminismTracer(wanted.get("model"), name=item.nodeid, values=path.with_suffix(".values"))
        with tracer:
            result = yield
        tracer.save(path)
        _keep(item.config, tracer)
        calls = FunctionCalls(item.runtest, saved_state, Path(folder), wanted.get("model"))
        hold = bool(wanted.get("hold", True))
        repeated = compared_with(read_recording(path), calls, item.nodeid, runs, hold=hold)
    if not repeated.agrees or repeated.not_followed:
        from tracer.report.render.terminal import READER
        from tracer.report.sections.runs import repeated_blocks

        _fail_with(repeated_blocks(repeated, READER))
    if wanted.keys() & _GATES:
        _check(tracer, wanted, item, root)
    return result


def _compared(item: pytest.Item, wanted: dict[str, Any]) -> Generator[None, object, object]:
    """Run a test and ``equal_to`` from the same state, and fail it where they differ by more than rounding.

    The test is called again, then ``equal_to`` with those of the test's fixtures that it names. Errors of the test's
    own come through.
    """
    import inspect

    from tracer.divergence.magnitudes import CompareVerdict
    from tracer.errors import TracerError
    from tracer.runner.configurations import compare
    from tracer.runner.repeated.state import SavedState, objects_of

    other = wanted["equal_to"]
    fixtures: dict[str, Any] = getattr(item, "funcargs", {})
    if not callable(other) or wanted.keys() - {"equal_to", "model"}:
        pytest.fail("@pytest.mark.determinism(equal_to=OTHER) takes a function, and model= besides", pytrace=False)
    taken = {name: fixtures[name] for name in inspect.signature(other).parameters if name in fixtures}
    reached = [*fixtures.values(), *objects_of(getattr(item, "obj", item.runtest)), *objects_of(other)]
    saved = SavedState({id(held): held for held in reached}.values())
    result = yield
    saved.restore()
    try:
        comparison = compare(item.runtest, lambda: other(**taken), state=reached, model=wanted.get("model"))
    except TracerError as problem:
        pytest.fail(f"@pytest.mark.determinism: {problem}", pytrace=False)
    if comparison.verdict is CompareVerdict.SIGNIFICANT:
        from tracer.report.render.terminal import READER
        from tracer.report.sections.configurations import configuration_blocks

        _fail_with(configuration_blocks(comparison, READER))
    return result


def _fail_with(blocks: Any) -> None:
    from tracer.report.render.terminal import drawn, printed

    pytest.fail(printed(drawn(blocks), color=False), pytrace=False)


def _records_all(config: pytest.Config) -> bool:
    return bool(config.getoption("--determinism") or config.getini("determinism"))


def _check(tracer: DeterminismTracer, wanted: dict[str, Any], item: pytest.Item, root: Path) -> None:
    """Fail the test if its findings do not pass the gate; a mistake in the marker is one line."""
    from tracer.errors import TracerError
    from tracer.gate import DEFAULT_FAIL_ON, Gate, Suppressions, decide, parse_fail_on, read_baseline

    try:
        verdicts, new = parse_fail_on(",".join(_words(wanted.get("fail_on", DEFAULT_FAIL_ON))))
        baseline = wanted.get("baseline")
        report = tracer.report(**{key: wanted[key] for key in _TARGET if key in wanted})
        decision = decide(
            report.findings,
            Gate(verdicts, new, _words(wanted.get("select", ())), _words(wanted.get("ignore", ()))),
            accepted=read_baseline(item.config.rootpath / baseline) if baseline else (),
            reason_for=Suppressions(root).reason_for,
            today=datetime.date.today(),
        )
    except TracerError as problem:
        pytest.fail(f"@pytest.mark.determinism: {problem}", pytrace=False)
    if failing := decision.failing:
        from tracer.report.words import plural, said_of

        lines = [f"  {said_of(finding)}: {finding.remedy}" for finding in failing[:_SHOWN]]
        more = [f"  and {len(failing) - _SHOWN:,} more"] if len(failing) > _SHOWN else []
        pytest.fail("\n".join([f"{plural(len(failing), 'determinism finding')}:", *lines, *more]), pytrace=False)


def _words(words: Any) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(map(str, words))


def _keep(config: pytest.Config, tracer: DeterminismTracer) -> None:
    """Keep the trace, encoded, for the report: a worker of pytest-xdist sends it to its controller."""
    if config.getoption("--determinism-report") or _records_all(config):
        import msgspec

        config.stash[_traces].append(msgspec.json.encode(tracer.trace))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's traces to its controller; there, write the report or print its summary."""
    config = session.config
    path = config.getoption("--determinism-report")
    if not path and not _records_all(config):
        return
    if hasattr(config, "workeroutput"):
        config.workeroutput["determinism_traces"] = [trace.decode() for trace in config.stash[_traces]]
    else:
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        line = _report(config, path)
        if terminal is not None:
            terminal.ensure_newline()
            terminal.write_line(line)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker of pytest-xdist ended: take its traces."""
    sent = getattr(node, "workeroutput", {}).get("determinism_traces", ())
    node.config.stash[_traces] += [trace.encode() for trace in sent]


def _report(config: pytest.Config, path: str | None) -> str:
    """Write the report to ``path``, if there is one; returns what to tell the user."""
    import msgspec

    from tracer.errors import TracerError
    from tracer.session import judge
    from tracer.trace import Trace
    from tracer.trace.merging import merge_traces

    traces = [msgspec.json.decode(trace, type=Trace) for trace in config.stash[_traces]]
    if not traces:
        lost = f"-report: no test recorded anything, so {path} was not written" if path else ": no test called torch"
        return f"--determinism{lost}"
    try:
        report = judge(merge_traces(traces), backend=config.getoption("--determinism-backend"))
        if path:
            report.write(path)
    except TracerError as problem:
        return f"--determinism{'-report' if path else ''}: {problem}"
    recordings = f"{len(traces):,} recording{'s' * (len(traces) != 1)}"
    if path:
        return f"determinism report on {recordings}: {path}"
    from tracer.names import Detail
    from tracer.report.render.terminal import to_text

    summary = to_text(report, width=None, color=False, limit=0, detail=Detail.BRIEF).rstrip()
    return f"determinism of {recordings}: {summary}\n--determinism-report report.html has it all"
