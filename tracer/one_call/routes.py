"""How a call is replayed: by the op itself, or by the public function that leads to it.

An op that takes what only another op writes (a fused attention's statistics), or that the finding's device lacks, is
not called directly: torch's function that runs both is, and autograd leads to the backward.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tracer.errors import UsageError
from tracer.findings import Finding
from tracer.one_call.data import Tensor, has_unknown
from tracer.ops import Route, row_of
from tracer.plain import literal

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
