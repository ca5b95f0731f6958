"""Which overloads whole training steps dispatch: the list that ``unknown --steps`` judges for each backend.

    python -m benchmarks.evidence.record_steps          # writes benchmarks/evidence/steps; twenty minutes

One step of every architecture of `transformers` that a small configuration builds: text, vision, audio, video, mixtures
of experts, state spaces, encoders with decoders. Each reads random inputs, its loss goes backward, and one of nine
optimizers steps; by turns in bfloat16, with clipped gradients, with a checkpointed forward. Then come the networks of
``calls/whole_steps.py``. What does not build, or takes more than half a minute, is left out and printed.

``steps.txt`` names the steps, ``overloads.csv`` says of each overload in how many steps and calls it was, and
``trace.json.gz`` holds the calls with the facts that rules ask for, without places: one recording for all steps.
"""

from __future__ import annotations

import contextlib
import gzip
import re
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
from msgspec.structs import replace
from torch import nn

from tests.support.samples import Sample
from tracer import DeterminismTracer
from tracer.trace.file import Trace
from tracer.trace.merging import merged
from tracer.trace.records import SEEDED_AT, CallGroup

FOLDER = Path(__file__).parent / "steps"
#: Seconds that one step may take, and parameters that one model may have.
PATIENCE, LARGEST = 30, 30_000_000

Inputs = Callable[[Any], dict[str, Any]]

#: What a configuration is made small by, under the names that architectures use.
SMALL: dict[str, Any] = {
    option: value
    for options, value in (
        ("hidden_size d_model n_embd dim embed_dim embedding_size d_inner projection_dim lm_head_dim d_embed", 32),
        ("encoder_hidden_size decoder_hidden_size image_size", 32),
        ("hidden_dim intermediate_size ffn_dim d_ff encoder_ffn_dim decoder_ffn_dim n_inner ffn_hidden_size", 48),
        ("num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_encoder_layers", 2),
        ("num_decoder_layers num_key_value_heads num_experts_per_tok num_frames eos_token_id", 2),
        ("num_conv_pos_embedding_groups", 2),
        ("num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads", 4),
        ("num_experts num_local_experts n_routed_experts rotary_dim", 4),
        ("head_dim patch_size d_kv qk_rope_head_dim qk_nope_head_dim v_head_dim state_size sliding_window", 8),
        ("kv_channels d_head num_queries attention_window num_conv_pos_embeddings prediction_length", 8),
        ("moe_intermediate_size q_lora_rank kv_lora_rank num_mel_bins context_length block_size", 16),
        ("n_group topk_group first_k_dense_replace tubelet_size bos_token_id", 1),
        ("max_position_embeddings n_positions max_source_positions max_target_positions", 64),
        ("vocab_size", 128),
        ("pad_token_id decoder_start_token_id", 0),
        ("conv_dim", (16, 16)),
        ("conv_stride", (5, 4)),
        ("conv_kernel", (10, 4)),
        ("cutoffs", [32, 64]),
    )
    for option in options.split()
}
#: The optimizers, one after another.
OPTIMIZERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("AdamW", {}),
    ("SGD", {"momentum": 0.9}),
    ("Adam", {"foreach": False}),
    ("AdamW", {"fused": True}),
    ("Adafactor", {}),
    ("RMSprop", {"centered": True}),
    ("Adam", {"foreach": True}),
    ("Adagrad", {}),
    ("NAdam", {}),
)


def tokens(length: int = 16) -> torch.Tensor:
    return torch.randint(3, 100, (2, length))


def pixels(config: Any) -> torch.Tensor:
    """Two images of the size that the configuration names."""
    for part in (config, getattr(config, "vision_config", None), getattr(config, "backbone_config", None)):
        size = getattr(part, "image_size", None)
        if size:
            height, width = size if isinstance(size, (list, tuple)) else (size, size)
            return torch.randn(2, getattr(part, "num_channels", 3) or 3, height, width)
    return torch.randn(2, getattr(config, "num_channels", 3) or 3, 64, 64)


def padded(config: Any) -> dict[str, Any]:
    mask = torch.ones(2, 16, dtype=torch.long)
    mask[1, 12:] = 0
    return {"input_ids": tokens(), "attention_mask": mask}


def series(config: Any) -> dict[str, Any]:
    channels = getattr(config, "num_input_channels", 1)
    return {
        "past_values": torch.randn(2, config.context_length, channels),
        "future_values": torch.randn(2, config.prediction_length, channels),
    }


def features(config: Any) -> dict[str, Any]:
    length = 2 * getattr(config, "max_source_positions", 32)
    return {"input_features": torch.randn(2, getattr(config, "num_mel_bins", 16), length), "labels": tokens(5)}


def masks(config: Any) -> dict[str, Any]:
    images = pixels(config)
    planes = [torch.randint(0, 2, (2, *images.shape[-2:])).float() for _ in range(2)]
    return {"pixel_values": images, "mask_labels": planes, "class_labels": [torch.tensor([0, 1])] * 2}


LABELS = torch.tensor([0, 1])
#: Kinds of model by the name of their mapping in `transformers`, how many are taken of each, and what they are fed.
KINDS: tuple[tuple[str, int, Inputs], ...] = (
    ("CAUSAL_LM", 44, lambda config: {"input_ids": tokens(), "labels": tokens()}),
    ("MASKED_LM", 14, lambda config: {**padded(config), "labels": tokens()}),
    ("SEQ_TO_SEQ_CAUSAL_LM", 10, lambda config: {"input_ids": tokens(), "labels": tokens(7)}),
    ("IMAGE_CLASSIFICATION", 20, lambda config: {"pixel_values": pixels(config), "labels": LABELS}),
    ("SEMANTIC_SEGMENTATION", 4, lambda config: {"pixel_values": pixels(config)}),
    ("UNIVERSAL_SEGMENTATION", 2, masks),
    ("DEPTH_ESTIMATION", 4, lambda config: {"pixel_values": pixels(config)}),
    ("OBJECT_DETECTION", 3, lambda config: {"pixel_values": pixels(config)}),
    ("CTC", 5, lambda config: {"input_values": torch.randn(2, 1600), "labels": tokens(4)}),
    ("AUDIO_CLASSIFICATION", 3, lambda config: {"input_values": torch.randn(2, 1600), "labels": LABELS}),
    ("SPEECH_SEQ_2_SEQ", 4, features),
    ("SPEECH_SEQ_2_SEQ", 4, lambda config: {"input_features": torch.randn(2, 64, 80), "labels": tokens(5)}),
    ("VIDEO_CLASSIFICATION", 3, lambda config: {"pixel_values": pixels(config)[:, None].repeat(1, 2, 1, 1, 1)}),
    ("ZERO_SHOT_IMAGE_CLASSIFICATION", 5, lambda config: {"input_ids": tokens(), "pixel_values": pixels(config)}),
    ("TIME_SERIES_PREDICTION", 2, series),
    ("TIME_SERIES_REGRESSION", 2, series),
    ("SEQUENCE_CLASSIFICATION", 5, lambda config: {**padded(config), "labels": LABELS}),
    (
        "QUESTION_ANSWERING",
        4,
        lambda config: {"input_ids": tokens(), "start_positions": LABELS, "end_positions": LABELS},
    ),
    ("IMAGE_TEXT_TO_TEXT", 4, lambda config: {"input_ids": tokens(), "pixel_values": pixels(config)}),
    ("BACKBONE", 4, lambda config: {"pixel_values": pixels(config)}),
)


def small(kind: Any, asked: Mapping[str, Any] | None = None, depth: int = 0) -> Any:
    """A small configuration of class ``kind`` with what is ``asked`` for; an option that it refuses keeps its value."""
    import inspect

    options = {name for parent in kind.__mro__ for name in vars(parent).get("__annotations__", {})}
    options.update(inspect.signature(kind.__init__).parameters)
    values = {name: value for name, value in SMALL.items() if name in options}
    for name, part in getattr(kind, "sub_configs", {}).items():
        if part.__name__ != "AutoConfig" and depth < 3:
            with contextlib.suppress(Exception):
                values[name] = small(part, depth=depth + 1)
    values |= asked or {}
    while True:
        try:
            return kind(**values)
        except Exception as error:
            refused = re.search(r"[Ff]ield '(\w+)'", str(error))
            if refused is None or values.pop(refused[1], None) is None:
                raise


def architectures() -> Iterator[tuple[str, int, str, Callable[[], tuple[nn.Module, dict[str, Any]]]]]:
    """Each kind, how many are taken of it, each of its models by name, and what makes it with its inputs."""
    import transformers
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    for kind, most, inputs in KINDS:
        for name, classes in getattr(modeling_auto, f"MODEL_FOR_{kind}_MAPPING_NAMES").items():
            architecture = classes if isinstance(classes, str) else classes[0]

            def made(name: str = name, architecture: str = architecture, inputs: Inputs = inputs) -> Any:
                config = small(CONFIG_MAPPING[name])
                config.use_cache = False
                build = getattr(transformers, architecture)
                with torch.device("meta"):
                    if (size := sum(weight.numel() for weight in build(config).parameters())) > LARGEST:
                        raise ValueError(f"{size:,} parameters")
                torch.manual_seed(0)
                return build(config).train(), inputs(config)

            yield kind, most, f"{name} {architecture}", made


def loss_of(model: nn.Module, inputs: Mapping[str, Any]) -> torch.Tensor:
    """The model's own loss, else the mean square of what it returns."""
    out = model(**inputs)
    if getattr(out, "loss", None) is not None:
        return out.loss.mean()  # type: ignore[no-any-return]
    floats = [value for value in out.values() if torch.is_tensor(value) and value.is_floating_point()]
    return torch.stack([value.float().pow(2).mean() for value in floats]).sum()


def train(
    model: nn.Module, inputs: Any, number: int, loss_of: Callable[[nn.Module, Any], torch.Tensor] = loss_of
) -> None:
    """One step, in the way that its number says, where the model lies."""
    name, options = OPTIMIZERS[number % len(OPTIMIZERS)]
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=1e-3, **options)
    if number % 7 == 3 and (checkpoint := getattr(model, "gradient_checkpointing_enable", None)) is not None:
        with contextlib.suppress(ValueError):
            checkpoint()
    device = next(model.parameters()).device.type
    with torch.autocast(device, torch.bfloat16, enabled=number % 4 == 1):
        loss = loss_of(model, inputs)
    loss.backward()
    if number % 3 == 0:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def samples() -> Iterator[tuple[str, Sample]]:
    """The networks that ``calls/whole_steps.py`` trains."""
    from benchmarks.evidence.calls import made_up, whole_steps
    from benchmarks.evidence.made import SETS

    for made in SETS:
        for sample in made_up(made):
            function = getattr(sample.function, "func", sample.function)
            if getattr(function, "__module__", "") == whole_steps.__name__:
                yield sample.name, sample


def recorded(run: Callable[[], Any]) -> tuple[CallGroup, ...]:
    """The calls of one step without their places; ``TimeoutError`` after half a minute."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"over {PATIENCE} seconds")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE)
    try:
        with DeterminismTracer() as tracer:
            run()
    finally:
        signal.alarm(0)
    return tuple(_without_place(group) for group in tracer.trace.calls)


def _without_place(group: CallGroup) -> CallGroup:
    facts = {name: value for name, value in group.facts.items() if name != SEEDED_AT}
    node = group.node.partition(":")[0]
    nowhere: dict[str, Any] = {
        "module": "",
        "location": "",
        "function": "",
        "called_from": "",
        "given": {},
        "region": None,
    }
    return replace(group, facts=facts, node=node, kernels=(), **nowhere)


def record() -> tuple[dict[str, Counter[str]], Trace]:
    """Each step's calls by overload, and all of them in one trace."""
    steps: dict[str, Counter[str]] = {}
    groups: list[CallGroup] = []

    def keep(name: str, prepare: Callable[[], Callable[[], Any]]) -> bool:
        try:
            calls = recorded(prepare())
        except Exception as error:
            print(f"left out: {name}: {type(error).__name__}: {str(error).partition(chr(10))[0][:90]}")
            return False
        steps[name] = Counter()
        for group in calls:
            steps[name][group.op] += group.count
        groups.extend(calls)
        return True

    with DeterminismTracer() as tracer:
        torch.zeros(1)
    built: set[str] = set()
    taken: Counter[str] = Counter()
    for kind, most, name, make in architectures():
        if name.split()[0] in built or taken[kind] == most:
            continue

        def prepare(make: Callable[[], Any] = make) -> Callable[[], None]:
            model, inputs = make()
            return lambda: train(model, inputs, len(built))

        if keep(name, prepare):
            built.add(name.split()[0])
            taken[kind] += 1
    for name, sample in samples():
        keep(name, sample.prepared)
    return steps, replace(tracer.trace, calls=merged(groups), events=(), generators=(), sources=())


def write(steps: Mapping[str, Counter[str]], trace: Trace) -> None:
    """The three files."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "steps.txt").write_text("".join(f"{name}\n" for name in steps))
    with gzip.GzipFile(FOLDER / "trace.json.gz", "wb", mtime=0) as file:
        file.write(msgspec.json.encode(trace))
    times, calls = Counter(op for step in steps.values() for op in step), sum(steps.values(), Counter[str]())
    rows = [f"{op},{times[op]},{calls[op]}\n" for op in sorted(times)]
    (FOLDER / "overloads.csv").write_text("".join(["overload,steps,calls\n", *rows]))


def main() -> int:
    """Record and write."""
    warnings.simplefilter("ignore")
    steps, trace = record()
    write(steps, trace)
    print(f"{len(steps)} steps, {len({group.op for group in trace.calls})} overloads, {trace.call_count:,} calls")
    return 0


if __name__ == "__main__":
    sys.exit(main())
