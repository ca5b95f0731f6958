"""One finding's call as a program of its own, one file that makes it again and counts its results."""

from __future__ import annotations

import ast
import keyword
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from tracer import __version__
from tracer.errors import ReportError, UsageError, reason_of
from tracer.files import open_plain, write_whole
from tracer.findings import Finding
from tracer.names import About, Backend, Cause
from tracer.one_call.data import (
    DEVICES,
    SIZED,
    UNFIXED,
    DataKind,
    Sizes,
    Tensor,
    data_of,
    has_unknown,
    program_arguments,
    tensors_in,
)
from tracer.ops import Route, row_of
from tracer.plain import literal, one_line
from tracer.report import Report
from tracer.report.render.page import template_folder
from tracer.tables.settings import DECLARED, MODE, held
from tracer.trace.file import inputs_path
from tracer.trace.records import CallGroup, DeviceType, TorchWord, spelled

#: Calls in each mode: an op that varies in one of ten calls is missed once in 40,000 times.
RUNS = 100
_WIDTH = 116
_DEVICES = {Backend.ROCM: "cuda", Backend.RECORDED: "cpu"}


class GeneratedProgram(NamedTuple):
    text: str
    op: str
    notes: tuple[str, ...]
    """Its assumptions about the call."""
    group: CallGroup
    """The calls that it stands for."""
    tensors: tuple[str, ...] = ()
    """Names of the tensors that it reads from a file; empty if it draws them."""


def program_of(
    report: Report, finding: Finding, *, file: str = "repro.py", values: str = "", imports: tuple[str, ...] = ()
) -> GeneratedProgram:
    """The program that makes the call of ``finding`` again.

    It runs nothing from the trace: torch's names are from closed lists, and everything else is a literal
    (``tracer.plain.literal``) or part of the program's description. ``values``: a safetensors file beside it with the
    recorded data; ``imports``: modules that register the op. Raises ``UsageError`` in one line for a finding that is
    about no call, or whose call cannot be replayed.
    """
    if finding.about is not About.CALL:
        raise UsageError(f"{finding.rule} is about the process, not about a call", hint="choose another finding")
    calls = calls_of(report, finding)
    group = next((call for call in calls if (call.inputs if values else call.given)), None)
    if group is None and values:
        hint = f"record it with `tracer run --keep-inputs '{finding.op.rpartition('.')[0]}'`"
        raise UsageError("the recording holds no data of this call", hint=hint)
    if group is None:
        unseen = "op runs functions or" if finding.op.startswith("higher_order") else "recording"
        raise UsageError(
            f"the trace does not hold what {finding.op} was called with: the {unseen} is older or saw no arguments",
            hint="record it again with `tracer run`",
        )
    if group.op.count(".") != 2 or not all(map(_is_name, group.op.split("."))):
        raise UsageError(f"{group.op} is no op of one overload", hint="choose another finding")
    for module in imports:
        if not all(map(_is_name, module.split("."))):
            raise UsageError(f"--import: {module!r} is no module's name", hint="write it as in an import")
    try:
        return _Writer(report, finding, group, len(calls), file, values, imports).program()
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as problem:
        said = problem if type(problem) is ValueError else "they are not those that the op takes"
        raise UsageError(f"the arguments of {group.op} in the trace: {said}", hint="record it again") from problem


def _is_name(text: str) -> bool:
    return text.isascii() and text.isidentifier() and not keyword.iskeyword(text)


@dataclass
class _Writer:
    report: Report
    finding: Finding
    group: CallGroup
    groups: int
    """The number of groups of calls that the finding has."""
    file: str
    values: str
    imports: tuple[str, ...]

    def __post_init__(self) -> None:
        self._arguments = program_arguments(self.group.given)
        self._route = route_of(self.finding, self.group.op, self._arguments)
        self._sizes = Sizes(() if self.values else tensors_in(self._route.arguments))  # recorded data fix the sizes
        self._makers: set[str] = set()
        self._tensors: list[str] = []

    def program(self) -> GeneratedProgram:
        lines: list[dict[str, str]] = []
        for name, value in self._route.arguments.items():
            told: list[str] = []
            expression = self._expression(name, value, told)
            note = _plain("; ".join(dict.fromkeys(told)))
            lines.append({"name": name, "key": literal(name), "expression": expression, "note": note})
        group, route, environment = self.group, self._route, self.report.judgement.trace.environment
        if route.wanted:
            self._makers.add("floats")
        assumed = tuple(dict.fromkeys(f"{line['name']}: {line['note']}" for line in lines if line["note"]))
        if any(tensor.is_unfixed for tensor in tensors_in(route.arguments)):
            assumed += (f"a size that the compiler did not fix is {UNFIXED} here",)
        device, sources = self._device(), _sources()
        needs = ["torch", *([f"safetensors, {_plain(self.values)} beside it"] if self.values else [])]
        needs += [*self.imports, *route.imports]
        if route.namespace and not self.imports:
            needs.append(f"whatever registers the ops of {route.namespace}")
        needs += ["a compiler that torch.compile can use"] if group.region else []
        needs += [f"a {device} device"] if device != "cpu" else []
        values = [(setting, held(setting.key, environment)) for setting in DECLARED]
        variables = [
            f"os.environ.setdefault({literal(setting.key)}, {literal(str(value))})"
            for setting, value in values
            if setting.is_variable and value is not None
        ]
        settings = [
            setting.line(value)
            for setting, value in ((setting, group.settings.get(setting.key, value)) for setting, value in values)
            if setting.made_by and setting.key != MODE and value not in (None, setting.default)
            if setting.default is not None and not setting.fault(value)
        ]
        recorded = {
            "torch": f"torch {environment.torch}",
            "device": str(next((each.name for each in environment.devices), group.facts.get("device", "cpu"))),
            "arguments": spelled(group.given),
            "at": group.location or "no known line",
        }
        # The functions that the program needs, with those that they call, in the order of their file.
        needed = self._makers.union(other for other in sources for name in self._makers if f"{other}(" in sources[name])
        text = _template().render(
            op=group.op,
            intro=tuple(self._intro(assumed)),
            needs=", ".join(needs),
            file=_plain(self.file),
            is_registered_elsewhere=bool(route.namespace) and not self.imports,
            around=route.around,
            is_with_values=bool(self.values),
            values=literal(self.values),
            variables=variables,
            settings=settings,
            device=literal(device),
            recorded="".join(f"    {literal(name)}: {literal(one_line(text))},\n" for name, text in recorded.items()),
            threads=max(environment.num_threads or 0, 0) if group.facts.get("device") == "cpu" else 0,
            parameters=self._sizes.parameters,
            given=lines,
            writes=route.writes,
            setup=route.setup,
            wanted=route.wanted,
            call=route.call,
            is_compiled=bool(group.region),
            makers=tuple(name for name in sources if name in needed),
            sources=sources,
            stirs=self.finding.cause is Cause.UNINITIALIZED_MEMORY,
            imports=(*self.imports, *route.imports),
            runs=RUNS,
        )
        return GeneratedProgram(text, group.op, (*route.notes, *assumed), group, tuple(self._tensors))

    # --- the call ---

    def _expression(self, name: str, value: Any, notes: list[str], place: int | None = None) -> str:
        if isinstance(value, Tensor):
            return self._tensor(name, value, notes, place)
        if isinstance(value, list):
            return f"[{', '.join(self._expression(name, item, notes, at) for at, item in enumerate(value))}]"
        if isinstance(value, DeviceType | TorchWord):
            return "DEVICE" if isinstance(value, DeviceType) else str(value)
        if name in SIZED and type(value) is int and value in self._sizes.letters:
            return self._sizes.name(value)
        return literal(value)

    def _tensor(self, name: str, form: Tensor, notes: list[str], place: int | None) -> str:
        if self.values:
            self._makers.add("kept")
            key = name if place is None else f"{name}.{place}"
            self._tensors.append(key)
            stride = "" if form.stride is None else f", strides={list(form.stride)}"
            text = f"kept(file, {literal(key)}{stride})"
        else:
            packet = self.group.op.split(".")[1].removesuffix("_")
            kind = DataKind(self.group.facts, frozenset(self.group.data))
            data = data_of(packet, name, form, self._arguments, kind, self._sizes, place or 0)
            self._makers.update(data.makers)
            notes += [data.note] if data.note else []
            text = data.expression
        stays = form.device == "cpu" and self.group.facts.get("device") not in ("cpu", "meta")
        return f"{text}.cpu()" if stays else text

    # --- the description ---

    def _intro(self, assumed: tuple[str, ...]) -> Iterator[str]:
        finding, group = self.finding, self.group
        place = finding.location or "no known line"
        module = f" ({finding.module})" if finding.module else ""
        recorded = (
            f"determinism-tracer {__version__} recorded it with torch {self.report.judgement.trace.environment.torch}"
        )
        yield from _wrapped(f"One call of {place}{module}, {finding.phase}, as {recorded}:")
        yield ""
        yield from _wrapped(f"{group.op}({spelled(group.given)})", "    ")
        yield ""
        verdicts = f"{finding.verdict}; under deterministic mode {finding.deterministic_mode}"
        yield from _wrapped(f"The table's word for {finding.backend} ({finding.rule}): {verdicts}. {finding.why}")
        notes = list(self._route.notes)
        if self.groups > 1:
            notes.append(f"the finding has {self.groups} groups of such calls; this is the one with most elements")
        if group.region:
            notes.append("the op is compiled by itself here; in the recorded run it was compiled together with others")
        data = "those of the recorded run." if self.values else "drawn: the recording keeps none."
        yield ""
        yield from _wrapped(" ".join((f"The data are {data}", *map(_sentence, (*notes, *assumed)))))

    def _device(self) -> str:
        backend = self.finding.backend
        if backend is not Backend.RECORDED:
            return str(_DEVICES.get(backend, backend.value))
        device = self.group.facts.get("device", "cpu")
        if device not in DEVICES and device != "none":
            what = f"the trace says that {self.group.op} ran on {device!r}, which is no device that torch names"
            raise UsageError(what, hint="judge it for another --backend")
        return str(device) if device != "none" else "cpu"


def _wrapped(text: str, indent: str = "") -> Iterator[str]:
    yield from textwrap.wrap(_plain(text), _WIDTH, initial_indent=indent, subsequent_indent=indent)


def _plain(text: str) -> str:
    """``text`` for a docstring or a comment: on one line, without quotes or escapes that could end it."""
    return one_line(text).replace("\\", "/").replace('"', "'")


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}." if " " in note.split(":")[0] else f"{note}."


@lru_cache(maxsize=1)
def _sources() -> Mapping[str, str]:
    text = (template_folder() / "repro_data.py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    return {function.name: ast.get_source_segment(text, function) or "" for function in functions}


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    # The result is Python, not a page: everything from the trace goes through `literal` or `_plain`.
    loader = jinja2.FileSystemLoader(template_folder())
    environment = jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True
    )
    return environment.get_template("repro.py.jinja")


# --- the finding that is meant, the call that stands for it, and its data ----------------------------------

_SHARED = ("op", "phase", "module", "location", "function", "called_from")
#: Names of arguments of functions that the op has under another name.
_ALSO = {"attn_mask": "attn_bias"}


def chosen_finding(findings: Sequence[Finding], name: str) -> tuple[int, int]:
    """Position of the first finding that ``name`` names, and how many it names.

    A name is a number, from 1 in the report's order, a rule or a glob of rules, an op, a line (``train.py:31``), or a
    rule or an op at a line: ``cuda-index-add@train.py:31``. A finding about a call comes before one about the process.
    Raises ``UsageError`` in one line if no finding has that name.
    """
    if not findings:
        raise UsageError("there is no finding", hint="another --backend may have some")
    if name.isdecimal():
        if not 1 <= int(name) <= len(findings):
            raise UsageError(f"there is no finding {name}", hint=f"they are numbered from 1 to {len(findings)}")
        return int(name) - 1, 1
    named = [place for place, finding in enumerate(findings) if _is_named(finding, name)]
    if not named:
        some = ", ".join(dict.fromkeys(finding.rule for finding in findings))
        raise UsageError(f"no finding is named {name!r}", hint=f"name a number, a line or one of {some}")
    return min(named, key=lambda place: findings[place].about is not About.CALL), len(named)


def _is_named(finding: Finding, name: str) -> bool:
    what, _, line = name.rpartition("@")
    packet, lines = finding.op.rpartition(".")[0], (finding.location, finding.called_from)
    names = (finding.op, packet, packet.partition(".")[2])
    is_named = (what or name) in names or fnmatchcase(finding.rule, what or name)
    return (is_named and line in lines) if what else (is_named or name in lines)


def calls_of(report: Report, finding: Finding) -> tuple[CallGroup, ...]:
    """The recorded groups behind a finding, the one with most elements first: it shows most."""
    groups = [
        judged.group
        for judged in report.calls
        if judged.ruling.rule == finding.rule
        and judged.ruling.verdict is finding.verdict
        and judged.ruling.deterministic_mode is finding.deterministic_mode
        and (judged.group.region is None) == (not finding.regions)
        and all(getattr(judged.group, name) == getattr(finding, name) for name in _SHARED)
    ]

    def elements(group: CallGroup) -> int:
        try:
            return sum(tensor.numel for tensor in tensors_in(program_arguments(group.given)))
        except ValueError:
            return -1

    return tuple(sorted(groups, key=elements, reverse=True))


def copy_data(trace: str | os.PathLike[str], group: CallGroup, names: Iterable[str], path: Path) -> None:
    """Write the recorded tensors of ``group`` with these ``names`` to ``path``, from the file beside the trace."""
    source = inputs_path(trace)
    try:
        from safetensors.torch import load_file, save
    except ImportError as problem:
        raise UsageError(
            f"--with-values needs safetensors and torch ({problem})", hint="pip install safetensors"
        ) from problem
    try:
        open_plain(source).close()
        tensors = load_file(source)
    except Exception as problem:  # safetensors raises errors of its own
        raise UsageError(f"cannot read {source}: {reason_of(problem)}", hint="it belongs beside the trace") from problem
    copied = {}
    for name in names:
        stem, dot, place = name.partition(".")
        keys = (f"{group.inputs}/{name}", f"{group.inputs}/{_ALSO.get(stem, stem)}{dot}{place}")
        key = next((key for key in keys if key in tensors), None)
        if key is None:
            raise UsageError(f"{source} lacks {name} of {group.op}", hint="record it again with --keep-inputs")
        copied[name] = tensors[key]
    write_whole(path, save(copied, {"format": "pt"}), error=ReportError)


# --- how a call is replayed: by the op itself, or, where it takes what only another op writes (a fused attention's
# --- statistics) or the finding's device lacks it, by the public function that runs both, backward included


#: Arguments that do not affect the result, or that each process has of its own.
_LEFT_OUT = frozenset({"pin_memory", "generator", "non_blocking"})
#: Arguments that name a file.
_FILES = frozenset({"filename", "file_name", "file", "path"})
_CUDNN_MODES = {0: "RNN", 1: "RNN", 2: "LSTM", 3: "GRU"}
_COLLECTIVES = ("c10d", "_c10d_functional", "c10d_functional", "_c10d_functional_autograd")
#: Namespaces whose calls cannot be replayed in one process, or are not calls of an op.
_NOT_ALONE = {
    "higher_order": "runs functions of the program, which a trace does not hold",
    "triton": "is a kernel of the program's own, whose source a trace does not hold",
    **dict.fromkeys(_COLLECTIVES, "is a collective, which one process alone cannot make"),
    "profiler": "computes nothing",
}
_SAME_NAME = (
    *("torchvision", "torchaudio", "torchao", "flash_attn", "torch_scatter", "torch_sparse", "torch_cluster"),
    *("bitsandbytes", "mamba_ssm"),
)
#: The module that registers the ops of a namespace.
_REGISTERED_BY = {
    **{name: name for name in _SAME_NAME},
    "fbgemm": "fbgemm_gpu",
    "pyg": "pyg_lib",
    "npu": "torch_npu",
    **dict.fromkeys(("xformers", "xformers_flash"), "xformers.ops"),
}
_TORCHS_OWN = frozenset({"aten", "prims", "mkldnn", "quantized", "inductor", "torch"})


class Way(NamedTuple):
    """A program's way to make one call again."""

    call: str
    """An expression in which ``given`` holds the arguments."""
    arguments: dict[str, Any]
    setup: tuple[str, ...] = ()
    """Statements that run once, before the call."""
    wanted: str = ""
    """A list of tensors whose gradients are taken; then the backward of ``call`` is repeated."""
    writes: bool = False
    """Whether it writes to its arguments, so that each call needs copies."""
    notes: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    """Modules that register the op."""
    namespace: str = ""
    """The op's namespace, if no module is known to register it."""
    around: str = ""
    """A context for the call on CUDA."""


def route_of(finding: Finding, op: str, recorded: Mapping[str, Any]) -> Way:
    """The way to ``op``, or to the op that it runs as. Raises ``UsageError`` if there is none."""
    space, _, rest = op.partition(".")
    packet = rest.partition(".")[0]
    if space in _NOT_ALONE:
        raise UsageError(f"{op} {_NOT_ALONE[space]}", hint="choose another finding")
    forward = packet.removesuffix("_backward")
    runs_as = finding.runs_as.partition(".")[2].partition(".")[0]
    by = row_of(forward).route if space == "aten" else None
    if by is Route.ATTENTION:
        return _attention(recorded, packet != forward, runs_as or packet)
    if by is Route.RECURRENT:
        return _recurrent(recorded, packet != forward)
    is_norm = by is Route.BATCH_NORM or (space == "aten" and runs_as.startswith(("cudnn_batch", "miopen_b")))
    if is_norm and "input" in recorded:
        return _batch_norm(recorded, packet != forward)
    if by is Route.CTC:
        return _ctc(recorded, packet != forward)
    return _own(finding, op, packet, space, recorded)


def _own(finding: Finding, op: str, packet: str, space: str, recorded: Mapping[str, Any]) -> Way:
    if _FILES & recorded.keys():
        raise UsageError(f"{op} opens a file, which a program of a trace does not", hint="choose another finding")
    notes = []
    arguments: dict[str, Any] = {}
    for name, value in recorded.items():
        if name in _LEFT_OUT:
            continue
        if isinstance(value, list) and value and has_unknown(value[-1]):
            value = value[:-1]
            notes.append(f"{name} was longer: its first {len(value)} stand for it")
        if has_unknown(value):
            notes.append(f"{name} was not kept, and is left out")
        else:
            arguments[name] = value
    if finding.runs_as:
        notes.append(f"on {finding.backend} the op may run as {finding.runs_as}; this program makes the recorded call")
    return Way(
        f"torch.ops.{op}(**given)",
        arguments,
        writes=packet.endswith("_") or "out" in recorded or space not in _TORCHS_OWN,
        notes=tuple(notes),
        imports=(_REGISTERED_BY[space],) if space in _REGISTERED_BY else (),
        namespace="" if space in _REGISTERED_BY or space in _TORCHS_OWN else space,
    )


def _attention(recorded: Mapping[str, Any], is_backward: bool, packet: str) -> Way:
    mask = next((recorded[name] for name in ("attn_mask", "attn_bias") if isinstance(recorded.get(name), Tensor)), None)
    arguments = {name: recorded[name] for name in ("query", "key", "value")}
    arguments |= {"attn_mask": mask} if mask is not None else {}
    options = ("dropout_p", "is_causal", "scale")
    arguments |= {name: recorded[name] for name in options if recorded.get(name) is not None}
    if recorded["query"].shape[1:2] != recorded["key"].shape[1:2]:
        arguments["enable_gqa"] = True
    kernel = row_of(packet.removesuffix("_backward")).kernel
    return Way(
        "torch.nn.functional.scaled_dot_product_attention(**given)",
        arguments,
        wanted='[given["query"], given["key"], given["value"]]' if is_backward else "",
        notes=("the call is made through torch.nn.functional.scaled_dot_product_attention",),
        around=f"torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.{kernel})" if kernel else "",
    )


def _recurrent(recorded: Mapping[str, Any], is_backward: bool) -> Way:
    kind = _CUDNN_MODES.get(recorded.get("mode", 2), "LSTM")
    is_whole = "weight_stride0" in recorded
    options: dict[str, Any] = {}
    if is_whole:
        asked = {name: recorded[name] for name in ("batch_first", "dropout", "bidirectional") if recorded.get(name)}
        options = {"num_layers": recorded.get("num_layers", 1), **asked}
    if recorded.get("mode") == 0:
        options["nonlinearity"] = "relu"
    if recorded.get("weight_stride0") == 2 or recorded.get("has_biases") is False:
        options["bias"] = False
    words = [literal(int(recorded["hidden_size"])), *(f"{name}={literal(value)}" for name, value in options.items())]
    layer = f'torch.nn.{kind}(given["input"].shape[-1], {", ".join(words)})'
    part = "" if is_whole else ", for one layer and one direction of it"
    return Way(
        'layer(given["input"])[0]',
        {"input": recorded["input"]},
        setup=("torch.manual_seed(0)", f'layer = {layer}.to(DEVICE, given["input"].dtype)'),
        wanted='[given["input"], *layer.parameters()]' if is_backward else "",
        notes=(f"the call is made through torch.nn.{kind}, from states of zero{part}",),
    )


def _batch_norm(recorded: Mapping[str, Any], is_backward: bool) -> Way:
    trains = recorded.get("training", recorded.get("train", True)) is not False
    arguments = {name: recorded[name] for name in ("input", "weight", "bias") if isinstance(recorded.get(name), Tensor)}
    if not trains:
        arguments |= {name: recorded[name] for name in ("running_mean", "running_var")}
    eps = recorded.get("eps", recorded.get("epsilon", 1e-5))
    empty = "running_mean=None, running_var=None, " if trains else ""
    learnt = ', given["weight"]' if "weight" in arguments else ""
    return Way(
        f"torch.nn.functional.batch_norm(**given, {empty}training={trains}, eps={literal(float(eps))})",
        arguments,
        wanted=f'[given["input"]{learnt}]' if is_backward else "",
        notes=("the call is made through torch.nn.functional.batch_norm",),
    )


def _ctc(recorded: Mapping[str, Any], is_backward: bool) -> Way:
    scores, targets = recorded["log_probs"], recorded["targets"]
    steps, batch = scores.shape[0], scores.shape[1] if len(scores.shape) > 2 else 1
    longest = targets.shape[-1] if len(targets.shape) > 1 else targets.numel // max(batch, 1)
    longest_of_each = {"input_lengths": [steps] * batch, "target_lengths": [longest] * batch}
    lengths = {name: recorded[name] for name in longest_of_each if isinstance(recorded.get(name), list)}
    return Way(
        'torch.nn.functional.ctc_loss(torch.log_softmax(given["log_probs"], -1), given["targets"], '
        'given["input_lengths"], given["target_lengths"], '
        f'blank={literal(int(recorded.get("blank", 0)))}, reduction="none", zero_infinity=True)',
        {"log_probs": scores, "targets": targets, **longest_of_each, **lengths},
        wanted='[given["log_probs"]]' if is_backward else "",
        notes=(
            "the call is made through torch.nn.functional.ctc_loss",
            *(() if "input_lengths" in lengths else ("all lengths are the longest: what they were is not recorded",)),
        ),
    )
