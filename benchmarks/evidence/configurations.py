"""Does ``tracer.compare`` tell rounding from a fault, on models and changes that no threshold was fitted to?

Seven models (text, vision, recurrent, mixture of experts, convolution with batch norm, graph), each in float32 and
bfloat16. A *twin* computes the same in another way; a *fault* is planted in one module. Printed: each pair with its
verdict and place, then how many twins are called significant, and how many faults are found at their module.

Which faults a dtype can show is decided before the comparison, by arithmetic. The yardstick is half a unit in the last
place, ``u``, at least (2**-24 in float32, 2**-8 in bfloat16), and significant is more than 10 times the yardstick. So a
fault that changes its place by less than ``10 u`` of its norm (0.039 in bfloat16), in every one of the 16 stretches,
cannot be significant there, however exact the rest: the dtype cannot show it, and rounding is the right answer. By how
much a fault changes its place is computed in float32, without the tracer's verdict. A larger fault that is not found
counts as missed, though rounding upstream may hide it.

    python -m benchmarks.evidence.configurations [--only NAME ...] [--dtype float32] [--second] [--sizes]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

import tracer
from tracer.divergence.joined_ranks import SIGNIFICANT
from tracer.divergence.magnitudes import CompareVerdict, Comparison
from tracer.trace.values.places import SUMS, rows_of

#: When the pairs were written, and that it was before the limits were looked at on them.
MADE = "2026-11-23"
UNSEEN = True

Model = Any
"""A module, whose parts have types of their own."""
Change = Callable[[Model], Any]


class Subject(NamedTuple):
    """A model and what it is trained on."""

    make: Callable[[], Model]
    loss: Callable[[Model], Any]


class Pair(NamedTuple):
    """A change of one model, and where it is a fault."""

    subject: str
    name: str
    change: Change
    module: str = ""
    """Where the fault is; empty for a twin."""


def _numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7))


def _integers(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(8))


def _dtype(model: Model) -> Any:
    return next(model.parameters()).dtype


# --- models -----------------------------------------------------------------------------------------------


def _llama(**options: Any) -> Model:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=200, num_key_value_heads=2, **sizes, **options))


def _bert() -> Model:
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertForSequenceClassification(BertConfig(vocab_size=200, **sizes, **off))


def _swin() -> Model:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    return ConvNextForImageClassification(
        ConvNextConfig(
            image_size=32, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1], num_labels=5, drop_path_rate=0.0
        )
    )


def _experts() -> Model:
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    return Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            vocab_size=200,
            hidden_size=64,
            intermediate_size=96,
            moe_intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            num_experts=8,
            num_experts_per_tok=2,
        )
    )


class Recurrent(nn.Module):
    """A two-layer GRU over characters."""

    def __init__(self) -> None:
        super().__init__()
        self.emb, self.rnn, self.out = nn.Embedding(50, 24), nn.GRU(24, 48, 2, batch_first=True), nn.Linear(48, 50)

    def forward(self, x: torch.Tensor) -> Any:
        return self.out(self.rnn(self.emb(x))[0])


class Stage(nn.Module):
    """Two convolutions with batch norm, and what skips them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.na = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.b, self.nb = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> Any:
        return torch.relu(x + self.nb(self.b(torch.relu(self.na(self.a(x))))))


class Residual(nn.Module):
    """A small residual net."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, padding=1)
        self.stages = nn.ModuleList(Stage(12) for _ in range(3))
        self.head = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean((2, 3)))


class GraphLayer(nn.Module):
    """A graph convolution by a sparse adjacency as indices."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(width, width), nn.Linear(width, width)
        self.backwards = False

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> Any:
        edges = edges.flip(1) if self.backwards else edges  # another order of addition
        gathered = torch.zeros_like(x).index_add(0, edges[1], self.others(x)[edges[0]])
        return torch.tanh(self.own(x) + gathered / 4)


class Graph(nn.Module):
    """Three graph layers and a readout."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head = nn.ModuleList(GraphLayer(24) for _ in range(3)), nn.Linear(24, 4)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> Any:
        for layer in self.layers:
            x = layer(x, edges)
        return self.head(x)


def _of_tokens(model: Model) -> Any:
    ids = _integers(200, 4, 24)
    return model(input_ids=ids, labels=ids).loss


def _of_images(model: Model) -> Any:
    images = _numbers(8, 3, 16, 16).to(_dtype(model))
    return nn.functional.cross_entropy(model(images).float(), _integers(5, 8))


def _of_characters(model: Model) -> Any:
    ids = _integers(50, 6, 21)
    return nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1).float(), ids[:, 1:].flatten())


SUBJECTS = {
    "llama": Subject(_llama, _of_tokens),
    "bert": Subject(_bert, lambda model: model(input_ids=_integers(200, 4, 24), labels=_integers(2, 4)).loss),
    "convnext": Subject(
        _swin,
        lambda model: model(pixel_values=_numbers(4, 3, 32, 32).to(_dtype(model)), labels=_integers(5, 4)).loss,
    ),
    "experts": Subject(_experts, _of_tokens),
    "gru": Subject(Recurrent, _of_characters),
    "residual": Subject(Residual, _of_images),
    "graph": Subject(
        Graph,
        lambda model: nn.functional.cross_entropy(
            model(_numbers(60, 24).to(_dtype(model)), _integers(60, 2, 240)).float(), _integers(4, 60)
        ),
    ),
}


# --- changes ----------------------------------------------------------------------------------------------


def _hook(module: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    def replace(_: Model, __: Any, out: Any) -> Any:
        return (change(out[0]), *out[1:]) if isinstance(out, tuple) else change(out)

    return lambda model: model.get_submodule(module).register_forward_hook(replace)


def _set(module: str, **fields: Any) -> Change:
    def change(model: Model) -> None:
        for name, value in fields.items():
            setattr(model.get_submodule(module), name, value)

    return change


def _layers(model: Model) -> list[Any]:
    return list(model.modules())


def _in_parts(model: Model) -> None:
    """Linear layers add four partial products."""
    for layer in _layers(model):
        if type(layer) is nn.Linear and layer.in_features % 4 == 0:

            def forward(x: torch.Tensor, layer: Any = layer) -> Any:
                parts = zip(x.chunk(4, -1), layer.weight.chunk(4, -1), strict=True)
                total = sum(part @ weight.t() for part, weight in parts)
                return total if layer.bias is None else total + layer.bias

            vars(layer)["forward"] = forward


def _by_unfolding(model: Model) -> None:
    """Convolutions as matrix products over unfolded patches."""
    for layer in _layers(model):
        if type(layer) is nn.Conv2d and layer.groups == 1:

            def forward(x: torch.Tensor, layer: Any = layer) -> Any:
                height = (x.shape[2] + 2 * layer.padding[0] - layer.kernel_size[0]) // layer.stride[0] + 1
                patches = nn.functional.unfold(x, layer.kernel_size, padding=layer.padding, stride=layer.stride)
                out = layer.weight.flatten(1) @ patches
                out = out if layer.bias is None else out + layer.bias[:, None]
                return out.view(x.shape[0], -1, height, height)

            vars(layer)["forward"] = forward


def _channels_last(model: Model) -> None:
    model.to(memory_format=torch.channels_last)


def _attention(kind: str) -> Change:
    return lambda model: model.set_attn_implementation(kind)


def _norms_by_hand(model: Model) -> None:
    """Layer norm by its formula."""
    for layer in _layers(model):
        if type(layer) is nn.LayerNorm:

            def forward(x: torch.Tensor, layer: Any = layer) -> Any:
                middle = x - x.mean(-1, keepdim=True)
                return middle * (middle.square().mean(-1, keepdim=True) + layer.eps).rsqrt() * layer.weight + layer.bias

            vars(layer)["forward"] = forward


def _gelu_by_hand(model: Model) -> None:
    """GELU by its formula."""

    def forward(x: torch.Tensor) -> Any:
        return x * 0.5 * (1 + torch.erf(x * 2**-0.5))

    for layer in model.bert.encoder.layer:
        layer.intermediate.intermediate_act_fn.forward = forward


def _without_onednn(model: Model) -> None:
    """Convolutions by torch's own kernels."""
    for layer in _layers(model):
        if type(layer) is nn.Conv2d:

            def forward(x: torch.Tensor, layer: Any = layer) -> Any:
                with torch.backends.mkldnn.flags(enabled=False):
                    return nn.Conv2d.forward(layer, x)

            vars(layer)["forward"] = forward


def _step_by_step(model: Model) -> None:
    """The GRU by its formula, one time step after the other."""
    rnn = model.rnn

    def forward(x: torch.Tensor) -> Any:
        for layer in range(rnn.num_layers):
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            of_input, of_state, input_bias, state_bias = (getattr(rnn, f"{name}_l{layer}") for name in names)
            state, states = x.new_zeros(x.shape[0], rnn.hidden_size), []
            for at in range(x.shape[1]):
                from_input = (x[:, at] @ of_input.t() + input_bias).chunk(3, -1)
                from_state = (state @ of_state.t() + state_bias).chunk(3, -1)
                reset, update = (
                    torch.sigmoid(from_input[0] + from_state[0]),
                    torch.sigmoid(from_input[1] + from_state[1]),
                )
                new = torch.tanh(from_input[2] + reset * from_state[2])
                state = new + update * (state - new)
                states.append(state)
            x = torch.stack(states, 1)
        return x, None

    vars(rnn)["forward"] = forward


def _densely(model: Model) -> None:
    """Graph layers multiply by the adjacency as a dense matrix."""
    for layer in model.layers:

        def forward(x: torch.Tensor, edges: torch.Tensor, layer: Any = layer) -> Any:
            counts = torch.zeros(len(x), len(x)).index_put((edges[1], edges[0]), torch.ones(()), accumulate=True)
            return torch.tanh(layer.own(x) + counts.to(x.dtype) @ layer.others(x) / 4)

        vars(layer)["forward"] = forward


def _backwards(model: Model) -> None:
    for layer in model.layers:
        layer.backwards = True


def _none(model: Model) -> None:
    """Nothing: the run must agree with itself by rounding at most."""


TWINS = [
    Pair("llama", "products in parts", _in_parts),
    Pair("llama", "eager attention", _attention("eager")),
    Pair("llama", "itself", _none),
    Pair("bert", "products in parts", _in_parts),
    Pair("bert", "eager attention", _attention("eager")),
    Pair("bert", "layer norm by hand", _norms_by_hand),
    Pair("convnext", "channels last", _channels_last),
    Pair("convnext", "products in parts", _in_parts),
    Pair("experts", "eager attention", _attention("eager")),
    Pair("experts", "products in parts", _in_parts),
    Pair("gru", "products in parts", _in_parts),
    Pair("residual", "unfolded", _by_unfolding),
    Pair("residual", "channels last", _channels_last),
    Pair("graph", "edges backwards", _backwards),
    Pair("graph", "products in parts", _in_parts),
    # Written after the fifteen above had been run on gru, residual and graph, and before any was run on the others.
    Pair("bert", "activation by formula", _gelu_by_hand),
    Pair("experts", "experts in one product", lambda model: model.set_experts_implementation("batched_mm")),
    Pair("gru", "step by step", _step_by_step),
    Pair("residual", "without oneDNN", _without_onednn),
    Pair("graph", "dense adjacency", _densely),
]

_LLAMA, _BERT = "model.layers.1", "bert.encoder.layer.1"
FAULTS = [
    Pair(
        "llama",
        "value projection rotated",
        _hook(f"{_LLAMA}.self_attn.v_proj", lambda out: out.roll(1, -1)),
        f"{_LLAMA}.self_attn.v_proj",
    ),
    Pair(
        "llama",
        "up projection times 1.001",
        _hook(f"{_LLAMA}.mlp.up_proj", lambda out: out * 1.001),
        f"{_LLAMA}.mlp.up_proj",
    ),
    Pair(
        "llama",
        "epsilon",
        _set("model.layers.2.input_layernorm", variance_epsilon=1e-2),
        "model.layers.2.input_layernorm",
    ),
    Pair(
        "llama",
        "last token lost",
        _hook(f"{_LLAMA}.mlp", lambda out: torch.cat((out[:, :-1], out[:, -1:] * 0), 1)),
        f"{_LLAMA}.mlp",
    ),
    Pair("llama", "activation", _set(f"{_LLAMA}.mlp", act_fn=nn.GELU()), f"{_LLAMA}.mlp.act_fn"),
    Pair(
        "bert",
        "tanh for erf",
        lambda model: setattr(model.bert.encoder.layer[1].intermediate, "intermediate_act_fn", nn.GELU("tanh")),
        f"{_BERT}.intermediate.intermediate_act_fn",
    ),
    Pair(
        "bert",
        "a head off",
        _hook(f"{_BERT}.attention.self", lambda out: torch.cat((out[..., :-16], out[..., -16:] * 0), -1)),
        f"{_BERT}.attention.self",
    ),
    Pair(
        "bert",
        "float16 in the middle",
        _hook(f"{_BERT}.output.dense", lambda out: out.half().to(out.dtype)),
        f"{_BERT}.output.dense",
    ),
    Pair(
        "bert",
        "norm without bias",
        lambda model: model.bert.embeddings.LayerNorm.register_forward_hook(lambda m, i, o: o + 0.01),
        "bert.embeddings.LayerNorm",
    ),
    Pair(
        "convnext",
        "norm's epsilon",
        lambda model: setattr(
            next(m for n, m in model.named_modules() if n.endswith("stages.2.layers.0.layernorm")), "eps", 0.1
        ),
        "stages.2.layers.0.layernorm",
    ),
    Pair(
        "convnext",
        "a row shifted",
        lambda model: next(
            m for n, m in model.named_modules() if n.endswith("stages.1.layers.0.dwconv")
        ).register_forward_hook(lambda m, i, o: o.roll(1, 2)),
        "stages.1.layers.0.dwconv",
    ),
    Pair(
        "experts",
        "attention scaled",
        _hook("model.layers.0.self_attn", lambda out: out * 1.01),
        "model.layers.0.self_attn",
    ),
    Pair(
        "experts",
        "norm doubled",
        _hook("model.layers.1.input_layernorm", lambda out: out * 2),
        "model.layers.1.input_layernorm",
    ),
    Pair("gru", "embedding shifted", _hook("emb", lambda out: out.roll(1, 1)), "emb"),
    Pair("gru", "hidden times 1.01", _hook("rnn", lambda out: out * 1.01), "rnn"),
    Pair("residual", "batch norm in eval", lambda model: model.stages[1].na.eval(), "stages.1.na"),
    Pair(
        "residual",
        "another padding",
        _set("stages.2.a", padding_mode="circular", _reversed_padding_repeated_twice=[1, 1, 1, 1]),
        "stages.2.a",
    ),
    Pair(
        "residual",
        "ten bits of mantissa",
        _hook("stages.0.b", lambda out: (out.float().view(torch.int32) & ~0x1FFF).view(torch.float32).to(out.dtype)),
        "stages.0.b",
    ),
    Pair(
        "graph",
        "an edge lost",
        lambda model: model.layers[1].register_forward_hook(lambda m, i, o: torch.cat((o[:1] * 0.9, o[1:]))),
        "layers.1",
    ),
    Pair("graph", "own part halved", _hook("layers.2.own", lambda out: out * 0.5), "layers.2.own"),
]


# --- a second set -----------------------------------------------------------------------------------------
# Written after the tracer shook single modules and compared means, and before any of them was run.


def _rms_by_hand(model: Model) -> None:
    """Root mean square norms by their formula, in the dtype of their input."""
    for layer in _layers(model):
        if type(layer).__name__.endswith("RMSNorm"):

            def forward(x: torch.Tensor, layer: Any = layer) -> Any:
                wide = x.float()
                size = torch.linalg.vector_norm(wide, dim=-1, keepdim=True) * wide.shape[-1] ** -0.5
                return layer.weight * (wide / (size.square() + layer.variance_epsilon).sqrt()).to(x.dtype)

            vars(layer)["forward"] = forward


def _silu_by_formula(model: Model) -> None:
    for layer in model.model.layers:
        layer.mlp.act_fn.forward = lambda x: x / (1 + torch.exp(-x))


def _batch_norm_by_formula(model: Model) -> None:
    for layer in _layers(model):
        if type(layer) is nn.BatchNorm2d:

            def forward(x: torch.Tensor, layer: Any = layer) -> Any:
                mean = x.float().mean((0, 2, 3), keepdim=True)
                variance = x.float().var((0, 2, 3), keepdim=True, correction=0)
                scaled = (x.float() - mean) / (variance + layer.eps).sqrt()
                return (scaled * layer.weight.view(1, -1, 1, 1) + layer.bias.view(1, -1, 1, 1)).to(x.dtype)

            vars(layer)["forward"] = forward


def _in_halves(path: str) -> Change:
    """A module called with each half of the batch."""

    def change(model: Model) -> None:
        layer = model.get_submodule(path)
        forward = layer.forward

        def by_halves(x: torch.Tensor) -> Any:
            outs = [forward(half) for half in x.chunk(2)]
            return (torch.cat([out[0] for out in outs]), None) if isinstance(outs[0], tuple) else torch.cat(outs)

        layer.forward = by_halves

    return change


def _edges_shuffled(model: Model) -> None:
    for layer in model.layers:

        def forward(x: torch.Tensor, edges: torch.Tensor, layer: Any = layer) -> Any:
            order = torch.randperm(edges.shape[1], generator=torch.Generator().manual_seed(5))
            return GraphLayer.forward(layer, x, edges[:, order])

        vars(layer)["forward"] = forward


def _first_scaled(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda out: torch.cat((out[:, :1] * factor, out[:, 1:]), 1)


SECOND_TWINS = [
    Pair("llama", "norms by formula", _rms_by_hand),
    Pair("llama", "activation by formula", _silu_by_formula),
    Pair("experts", "norms by formula", _rms_by_hand),
    Pair("bert", "halves of the batch", _in_halves("bert.encoder.layer.0.attention.self.query")),
    Pair("convnext", "unfolded", _by_unfolding),
    Pair("gru", "halves of the batch", _in_halves("rnn")),
    Pair("residual", "batch norm by formula", _batch_norm_by_formula),
    Pair("graph", "edges shuffled", _edges_shuffled),
]
SECOND_FAULTS = [
    Pair(
        "llama",
        "heads exchanged",
        _hook(f"{_LLAMA}.self_attn.k_proj", lambda out: torch.cat(out.chunk(2, -1)[::-1], -1)),
        f"{_LLAMA}.self_attn.k_proj",
    ),
    Pair("llama", "positions off by one", _hook("model.rotary_emb", lambda out: out.roll(1, 1)), "model.rotary_emb"),
    Pair("llama", "first token scaled", _hook("model.layers.2.mlp", _first_scaled(1.3)), "model.layers.2.mlp"),
    Pair("bert", "pooler's activation", _set("bert.pooler", activation=nn.Softsign()), "bert.pooler.activation"),
    Pair(
        "bert",
        "query scaled",
        _hook(f"{_BERT}.attention.self.query", lambda out: out * 1.05),
        f"{_BERT}.attention.self.query",
    ),
    Pair("bert", "last layer scaled", _hook("bert.encoder.layer.2.output", lambda out: out * 1.08), "layer.2.output"),
    Pair(
        "convnext",
        "projection scaled",
        lambda model: next(
            m for n, m in model.named_modules() if n.endswith("stages.3.layers.0.pwconv2")
        ).register_forward_hook(lambda m, i, o: o * 1.06),
        "stages.3.layers.0.pwconv2",
    ),
    Pair("experts", "experts scaled", _hook("model.layers.1.mlp", lambda out: out * 1.1), "model.layers.1.mlp"),
    Pair("gru", "last state scaled", _hook("rnn", lambda out: torch.cat((out[:, :-1], out[:, -1:] * 0.7), 1)), "rnn"),
    Pair(
        "residual",
        "bias lost",
        lambda model: model.stem.register_forward_hook(lambda m, i, o: o - m.bias.view(1, -1, 1, 1)),
        "stem",
    ),
    Pair(
        "residual",
        "a channel scaled",
        _hook("stages.2.b", lambda out: torch.cat((out[:, :1] * 2, out[:, 1:]), 1)),
        "stages.2.b",
    ),
    Pair("graph", "neighbours shifted", _hook("layers.1.others", lambda out: out.roll(1, 0)), "layers.1.others"),
]


def _models(pair: Pair, dtype: torch.dtype) -> list[Model]:
    """One without the change and one with it, of the same parameters."""
    models = []
    for change in (None, pair.change):
        torch.manual_seed(0)
        model = SUBJECTS[pair.subject].make().to(dtype).train()
        if change is not None:
            change(model)
        models.append(model)
    return models


def size_of(pair: Pair) -> float:
    """By how much a fault changes its place, as a part of its norm, in the stretch that shows most: by float32.

    Each stretch is measured against the norm that a stretch has on average, as the tracer does.
    """
    outputs: list[torch.Tensor] = []
    for model in _models(pair, torch.float32):
        # some models have a class of the library around: the place ends with the path
        module = next(module for path, module in model.named_modules() if path.endswith(pair.module))
        module.register_forward_hook(
            lambda _, __, out: outputs.append((out[0] if isinstance(out, tuple) else out).detach())
        )
        with torch.no_grad():
            SUBJECTS[pair.subject].loss(model)
    one, other = (out.flatten() for out in outputs)
    apart, norm = one - other, max(float(one.norm()), float(other.norm()))
    stretches = apart.split(rows_of(len(apart)) * SUMS)
    largest = max(float(stretch.norm()) for stretch in stretches) * len(stretches) ** 0.5
    return float(max(float(apart.norm()), largest) / norm)


def shows(pair: Pair, dtype: torch.dtype) -> bool:
    """Can the dtype show the fault at its place? See above."""
    return size_of(pair) >= SIGNIFICANT * torch.finfo(dtype).eps / 2


def answered(pair: Pair, dtype: torch.dtype) -> Comparison:
    """Compare a model with and without the change."""
    subject = SUBJECTS[pair.subject]
    models = _models(pair, dtype)

    def step(model: Model) -> Callable[[], None]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def run() -> None:
            subject.loss(model).backward()
            optimizer.step()
            optimizer.zero_grad()

        return run

    steps = [step(model) for model in models]
    return tracer.compare(*steps)


def main() -> int:
    """Print every pair, then the figures; 1 where a twin is accused, or fewer than 19 of 20 that show are found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=SUBJECTS)
    parser.add_argument("--dtype", nargs="+", choices=("float32", "bfloat16"), default=("float32", "bfloat16"))
    parser.add_argument(
        "--sizes", action="store_true", help="by how much each fault changes its place, and nothing else"
    )
    parser.add_argument("--second", action="store_true", help="the set that was written after the first was looked at")
    asked = parser.parse_args()
    pairs = (*SECOND_TWINS, *SECOND_FAULTS) if asked.second else (*TWINS, *FAULTS)
    if asked.sizes:
        for pair in (pair for pair in pairs if pair.module):
            in_bfloat16 = "" if shows(pair, torch.bfloat16) else "bfloat16 cannot show it"
            print(f"{pair.subject:9} {pair.name:26} {size_of(pair):10.2g} of its place {in_bfloat16}")
        return 0
    accused = twins = found = misplaced = missed = hidden = 0
    for pair, dtype in _pairs(pairs, asked.only, asked.dtype):
        comparison = answered(pair, getattr(torch, dtype))
        first, largest = comparison.first, comparison.largest
        is_significant = comparison.verdict is CompareVerdict.SIGNIFICANT
        place = "" if first is None else f"{first.place} ({first.kind})"
        ratio = 0.0 if largest is None or largest.ratio is None else largest.ratio
        note = ""
        if not pair.module:
            twins += 1
            accused += is_significant
            note = "ACCUSED" if is_significant else ""
        elif is_significant:
            right = first is not None and first.module.endswith(pair.module)
            found += right
            misplaced += not right
            note = "" if right else f"MISPLACED, meant {pair.module}"
        elif not shows(pair, getattr(torch, dtype)):
            hidden += 1
            note = f"{size_of(pair):.1g} of its place: no {dtype} shows it"
        else:
            missed += 1
            note = "MISSED"
        kind = "fault" if pair.module else "twin"
        print(
            f"{kind:6}{pair.subject:9} {dtype:9} {pair.name:26} {comparison.verdict:12} {ratio:12.1f} {place} {note}",
            flush=True,
        )
    print(f"made {MADE}: {twins} twins, significant {accused}")
    print(f"faults found {found}, at another place {misplaced}, missed {missed}; that the dtype cannot show {hidden}")
    return int(bool(accused) or misplaced + missed > (found + misplaced + missed) // 20)


def _pairs(pairs: Iterable[Pair], only: list[str] | None, dtypes: list[str]) -> Iterator[tuple[Pair, str]]:
    for pair in pairs:
        if not only or pair.subject in only:
            for dtype in dtypes:
                yield pair, dtype


if __name__ == "__main__":
    sys.exit(main())
