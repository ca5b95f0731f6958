"""The program's text: one file that needs torch, and what the op itself needs."""

from __future__ import annotations

import ast
import keyword
import textwrap
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from tracer import __version__
from tracer.errors import UsageError
from tracer.findings import Finding
from tracer.literals import literal
from tracer.names import About, Backend, Cause
from tracer.one_call.arguments import DEVICES, SIZED, Sizes, Tensor, Word, given_by, tensors_in
from tracer.one_call.choosing import calls_of, group_with_data
from tracer.one_call.data import Kind, data_of
from tracer.one_call.routes import route_of
from tracer.plain import one_line
from tracer.report import Report
from tracer.report.render.assets import template_folder
from tracer.tables.settings.declared import DECLARED, MODE, held
from tracer.trace.arguments import spelled
from tracer.trace.records import CallGroup, Environment

#: Calls in each mode: an op that varies in one of ten calls is missed once in 40,000 times.
RUNS = 100
_WIDTH = 116
_DEVICES = {Backend.ROCM: "cuda", Backend.RECORDED: "cpu"}


class Program(NamedTuple):
    """A program, and what is to be said of it."""

    text: str
    op: str
    notes: tuple[str, ...]
    """What of the call it does not know, and assumes."""
    group: CallGroup
    """The calls that it stands for."""
    tensors: tuple[str, ...] = ()
    """Names of the tensors that it reads from a file; empty where it draws them."""


class _Line(NamedTuple):
    """One argument of the call, as the program makes it."""

    name: str
    expression: str
    note: str

    @property
    def key(self) -> str:
        """Its name as a literal."""
        return literal(self.name)


def program_of(
    report: Report, finding: Finding, *, file: str = "repro.py", values: str = "", imports: tuple[str, ...] = ()
) -> Program:
    """The program that makes the call of ``finding`` again.

    It runs nothing that the trace says: names of torch's are of closed lists, and whatever else comes from the trace is
    a literal (``tracer.literals``) or part of the program's own description.
    ``values``: a safetensors file beside it with the recorded data; ``imports``: modules that register the op. Raises
    ``UsageError`` in one line for a finding that is about no call, or whose call cannot be made again.
    """
    if finding.about is not About.CALL:
        raise UsageError(f"{finding.rule} is about the process, not about a call", hint="choose another finding")
    calls = calls_of(report, finding)
    group = group_with_data(calls) if values else next((one for one in calls if one.given), None)
    if group is None:
        unseen = "op runs functions or" if finding.op.startswith("higher_order") else "recording"
        raise UsageError(
            f"the trace does not hold what {finding.op} was called with: the {unseen} is older or saw no arguments",
            hint="record it again with `tracer run`",
        )
    if not _is_overload(group.op):
        raise UsageError(f"{group.op} is no op of one overload", hint="choose another finding")
    for module in imports:
        if not all(map(_is_name, module.split("."))):
            raise UsageError(f"--import: {module!r} is no module's name", hint="write it as in an import")
    try:
        return _Writer(report, finding, group, len(calls), file, values, imports).program()
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as problem:
        said = problem if type(problem) is ValueError else "they are not those that the op takes"
        raise UsageError(f"the arguments of {group.op} in the trace: {said}", hint="record it again") from problem


def _is_overload(op: str) -> bool:
    parts = op.split(".")
    return len(parts) == 3 and all(map(_is_name, parts))


def _is_name(text: str) -> bool:
    return text.isascii() and text.isidentifier() and not keyword.iskeyword(text)


class _Writer:
    """Writes one program."""

    def __init__(
        self,
        report: Report,
        finding: Finding,
        group: CallGroup,
        groups: int,
        file: str,
        values: str,
        imports: tuple[str, ...],
    ) -> None:
        self._report = report
        self._finding = finding
        self._group = group
        self._groups = groups
        self._file = file
        self._values = values
        self._imports = imports
        self._given = given_by(group.given)
        self._route = route_of(finding, group.op, self._given)
        self._sizes = Sizes(() if values else tensors_in(self._route.given))  # recorded data have the recorded sizes
        self._makers: set[str] = set()
        self._tensors: list[str] = []

    def program(self) -> Program:
        """Its text, and what it assumes."""
        lines = tuple(self._lines())
        route, environment = self._route, self._report.environment
        if route.wanted:
            self._makers.add("floats")
        assumed = tuple(dict.fromkeys(f"{line.name}: {line.note}" for line in lines if line.note))
        if any(tensor.is_unfixed for tensor in tensors_in(route.given)):
            assumed += ("a size that the compiler did not fix is 16 here",)
        device = self._device()
        text = _template().render(
            op=self._group.op,
            intro=tuple(self._intro(assumed)),
            needs=", ".join(self._needs(device)),
            file=_plain(self._file),
            is_registered_elsewhere=bool(route.namespace) and not self._imports,
            around=route.around,
            is_with_values=bool(self._values),
            values=literal(self._values),
            variables=tuple(self._variables(environment)),
            settings=tuple(self._settings(environment)),
            device=literal(device),
            recorded=self._recorded(),
            threads=max(environment.num_threads or 0, 0) if self._group.facts.get("device") == "cpu" else 0,
            parameters=self._sizes.parameters,
            given=lines,
            writes=route.writes,
            setup=route.setup,
            wanted=route.wanted,
            call=route.call,
            is_compiled=bool(self._group.region),
            makers=_in_order(self._makers),
            sources=_sources(),
            stirs=self._finding.cause is Cause.UNINITIALIZED_MEMORY,
            imports=(*self._imports, *route.imports),
            runs=RUNS,
        )
        return Program(text, self._group.op, (*route.notes, *assumed), self._group, tuple(self._tensors))

    # --- the call ---

    def _lines(self) -> Iterator[_Line]:
        for name, value in self._route.given.items():
            notes: list[str] = []
            expression = self._expression(name, value, notes)
            yield _Line(name, expression, _plain("; ".join(dict.fromkeys(notes))))

    def _expression(self, name: str, value: Any, notes: list[str], place: int | None = None) -> str:
        if isinstance(value, Tensor):
            return self._tensor(name, value, notes, place)
        if isinstance(value, list):
            parts = [self._expression(name, one, notes, number) for number, one in enumerate(value)]
            return f"[{', '.join(parts)}]"
        if isinstance(value, Word):
            return "DEVICE" if value.text.startswith("torch.device") else value.text
        if name in SIZED and type(value) is int and value in self._sizes.letters:
            return self._sizes.name(value)
        return literal(value)

    def _tensor(self, name: str, form: Tensor, notes: list[str], place: int | None) -> str:
        stays = form.device == "cpu" and self._group.facts.get("device") not in ("cpu", "meta")
        if self._values:
            self._makers.add("kept")
            key = name if place is None else f"{name}.{place}"
            self._tensors.append(key)
            stride = "" if form.stride is None else f", strides={list(form.stride)}"
            text = f"kept(file, {literal(key)}{stride})"
        else:
            packet = self._group.op.split(".")[1].removesuffix("_")
            kind = Kind(self._group.facts, frozenset(self._group.data))
            data = data_of(packet, name, form, self._given, kind, self._sizes, place or 0)
            self._makers.update(data.makers)
            text = data.expression
            if data.note:
                notes.append(data.note)
        return f"{text}.cpu()" if stays else text

    # --- what is said of it ---

    def _intro(self, assumed: tuple[str, ...]) -> Iterator[str]:
        finding, group = self._finding, self._group
        place = finding.location or "no known line"
        module = f" ({finding.module})" if finding.module else ""
        recorded = f"determinism-tracer {__version__} recorded it with torch {self._report.environment.torch}"
        yield from _wrapped(f"One call of {place}{module}, {finding.phase}, as {recorded}:")
        yield ""
        yield from _wrapped(f"{group.op}({spelled(group.given)})", "    ")
        yield ""
        verdicts = f"{finding.verdict}; under deterministic mode {finding.deterministic_mode}"
        yield from _wrapped(f"The table's word for {finding.backend} ({finding.rule}): {verdicts}. {finding.why}")
        notes = list(self._route.notes)
        if self._groups > 1:
            notes.append(f"the finding has {self._groups} groups of such calls; this is the one with most elements")
        if group.region:
            notes.append("the op is compiled by itself here; in the recorded run it was compiled together with others")
        data = (
            "The data are those of the recorded run."
            if self._values
            else "The data are drawn: the recording keeps none."
        )
        yield ""
        yield from _wrapped(" ".join((data, *(f"{_sentence(note)}" for note in (*notes, *assumed)))))

    def _needs(self, device: str) -> Iterator[str]:
        yield "torch"
        if self._values:
            yield f"safetensors, {_plain(self._values)} beside it"
        yield from (*self._imports, *self._route.imports)
        if self._route.namespace and not self._imports:
            yield f"whatever registers the ops of {self._route.namespace}"
        if self._group.region:
            yield "a compiler that torch.compile can use"
        if device != "cpu":
            yield f"a {device} device"

    def _device(self) -> str:
        backend = self._finding.backend
        if backend is not Backend.RECORDED:
            return str(_DEVICES.get(backend, backend.value))
        device = self._group.facts.get("device", "cpu")
        if device not in DEVICES and device != "none":
            raise UsageError(
                f"the trace says that {self._group.op} ran on {device!r}, which is no device that torch names",
                hint="judge it for another --backend",
            )
        return str(device) if device != "none" else "cpu"

    def _recorded(self) -> str:
        environment = self._report.environment
        device = environment.devices[0].name if environment.devices else str(self._group.facts.get("device", "cpu"))
        place = self._group.location or "no known line"
        given = spelled(self._group.given)
        said = {"torch": f"torch {environment.torch}", "device": device, "arguments": given, "at": place}
        return "".join(f"    {literal(name)}: {literal(one_line(value))},\n" for name, value in said.items())

    @staticmethod
    def _variables(environment: Environment) -> Iterator[str]:
        for setting in DECLARED:
            value = held(setting.key, environment)
            if setting.is_variable and value is not None:
                yield f"os.environ.setdefault({literal(setting.key)}, {literal(str(value))})"

    @staticmethod
    def _settings(environment: Environment) -> Iterator[str]:
        for setting in DECLARED:
            value = held(setting.key, environment)
            if setting.is_variable or setting.key == MODE or value is None or setting.default is None:
                continue
            if value != setting.default and setting.made_by and not setting.fault(value):
                yield setting.line(value)


def _wrapped(text: str, indent: str = "") -> Iterator[str]:
    """``text`` in lines of a docstring."""
    yield from textwrap.wrap(_plain(text), _WIDTH, initial_indent=indent, subsequent_indent=indent)


def _plain(text: str) -> str:
    """``text`` as it may stand in a docstring or a comment: on one line, it ends none, and escapes nothing."""
    return one_line(text).replace("\\", "/").replace('"', "'")


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}." if " " in note.split(":")[0] else f"{note}."


def _in_order(makers: set[str]) -> tuple[str, ...]:
    """The functions that the program needs, those that they call included, in the order in which they are written."""
    sources = _sources()
    needed = set(makers)
    for name in (*makers,):
        needed |= {other for other in sources if f"{other}(" in sources[name]}
    return tuple(name for name in sources if name in needed)


@lru_cache(maxsize=1)
def _sources() -> Mapping[str, str]:
    """The functions that make data, by name."""
    text = (template_folder() / "repro_data.py").read_text(encoding="utf-8")
    found = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.get_source_segment(text, node) or "" for node in found}


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    # It writes Python, not a page: what comes from the trace goes through repr or _plain.
    loader = jinja2.FileSystemLoader(Path(template_folder()))
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, autoescape=False)
    environment.trim_blocks = environment.lstrip_blocks = False
    environment.keep_trailing_newline = True
    return environment.get_template("repro.py.jinja")
