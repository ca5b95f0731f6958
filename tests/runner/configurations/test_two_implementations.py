"""Two implementations of one model are compared place by place, whatever they name, join and turn otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.support.configurations import ALIKE, Step, begins, compared
from tracer.divergence.magnitudes import CompareVerdict, Lack
from tracer.names import PlaceKind

WIDTH, HEADS, TOKENS = 16, 2, 20


class Attention(nn.Module):
    """Causal attention with a projection each for ``q``, ``k`` and ``v``."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.q, self.k, self.v))
        return self.o(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.attention, self.between = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 40), nn.GELU(), nn.Linear(40, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before(x))
        return x + self.mlp(self.between(x))


class Apart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.layers = nn.Embedding(TOKENS, WIDTH), nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Fused(nn.Module):
    """The same in other words: ``layout`` says how ``q``, ``k`` and ``v`` lie in one projection, and how it is read."""

    def __init__(self, layout: str, fault: str = "") -> None:
        super().__init__()
        self.wte, self.h = nn.Embedding(TOKENS, WIDTH), nn.ModuleList([FusedBlock(layout), FusedBlock(layout, fault)])
        self.ln_f, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class FusedBlock(nn.Module):
    def __init__(self, layout: str, fault: str = "") -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = FusedAttention(layout, fault)
        self.up, self.down = nn.Linear(WIDTH, 40), nn.Linear(40, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.down(functional.gelu(self.up(self.ln_2(x))))


class FusedAttention(nn.Module):
    def __init__(self, layout: str, fault: str) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.layout, self.fault = layout, fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.qkv(x)
        if self.layout == "by head":
            q, k, v = made.unflatten(-1, (HEADS, 3, -1)).unbind(-2)
        else:
            q, k, v = made.unflatten(-1, (3, HEADS, -1)).unbind(-3)
        v = v.flip(-2) if self.fault == "order of heads" else v
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        scale = 1.0 if self.fault == "scale" else None
        made = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        return self.out(made.transpose(1, 2).flatten(2))


def apart() -> Apart:
    torch.manual_seed(0)
    return Apart()


def fused(layout: str = "one after another", fault: str = "") -> Fused:
    """``Fused`` with the parameters of ``apart()``."""
    theirs, model = apart(), Fused(layout, fault)
    pairs = [(model.wte, theirs.tokens), (model.ln_f, theirs.norm), (model.lm_head, theirs.head)]
    for own, other in zip(model.h, theirs.layers, strict=True):
        pairs += [(own.ln_1, other.before), (own.ln_2, other.between), (own.attn.out, other.attention.o)]
        pairs += [(own.up, other.mlp[0]), (own.down, other.mlp[2])]
        parts = other.attention.q, other.attention.k, other.attention.v
        for name in ("weight", "bias"):
            rows = [getattr(part, name).detach() for part in parts]
            if layout == "by head":
                rows = [torch.stack([one.unflatten(0, (HEADS, -1)) for one in rows], 1).flatten(0, 2)]
            getattr(own.attn.qkv, name).data = torch.cat(rows)
    for own, other in pairs:
        own.load_state_dict(other.state_dict())
    return model


def training(
    model: nn.Module, dtype: torch.dtype = torch.float32, loss: Callable[..., torch.Tensor] = functional.cross_entropy
) -> Step:
    model.to(dtype)

    def step() -> None:
        ids = torch.arange(12).view(2, 6) % 7
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        loss(model(ids).float().flatten(0, 1), ids.roll(-1, 1).flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def test_parts_of_one_name_in_modules_of_their_own_are_told_apart() -> None:
    second = apart()
    for layer in second.layers:
        for name in "qkv":
            setattr(layer.attention, name, nn.Sequential(getattr(layer.attention, name)))
    comparison = compared(training(fused()), training(second))
    assert comparison.verdict in ALIKE
    assert comparison.names["h.0.attn.qkv.1"] == "layers.0.attention.k.0"


@pytest.mark.parametrize(
    ("layout", "is_first"), [("one after another", True), ("one after another", False), ("by head", False)]
)
def test_an_implementation_with_other_names_and_a_fused_projection_is_rounding(layout: str, is_first: bool) -> None:
    steps = training(apart()), training(fused(layout))
    comparison = compared(*(steps[::-1] if is_first else steps))
    assert comparison.verdict in ALIKE
    if is_first:
        assert comparison.names["h.0.attn.qkv.q"] == "layers.0.attention.q"
        assert comparison.names["h.1.up"] == "layers.1.mlp.0"
    else:
        assert comparison.names["layers.0.attention.q"] == comparison.names["layers.0.attention.v"] == "h.0.attn.qkv"
        assert comparison.names["layers.1"] == "h.1"
    # Not ``mlp`` and its activation, of which the other has none: an output each in two layers.
    assert comparison.compared[1] - comparison.compared[0] == 4


@pytest.mark.parametrize(("layout", "fault"), [("one after another", "scale"), ("by head", "order of heads")])
def test_a_fault_of_another_implementation_is_found_in_its_code(layout: str, fault: str) -> None:
    comparison = compared(training(apart()), training(fused(layout, fault)))
    assert (begins(comparison).module, begins(comparison).is_own_code) == ("Apart.layers.1.attention", True)
    assert comparison.call is None  # two implementations make other calls


@pytest.mark.parametrize(("second", "is_first"), [(apart, False), (fused, True)])
def test_a_loss_that_is_a_module_on_one_side_alone_hides_no_name(second: Any, is_first: bool) -> None:
    steps = training(apart(), loss=nn.CrossEntropyLoss()), training(second())
    comparison = compared(*(steps[::-1] if is_first else steps))
    assert comparison.verdict in ALIKE
    assert comparison.compared[1] - comparison.compared[0] == (1 if second is apart else 5)  # the module's own result


def test_a_part_that_was_loaded_wrongly_is_the_answer() -> None:
    model = fused()
    model.h[1].attn.out.weight.data *= 1.5
    comparison = compared(training(apart()), training(model))
    assert comparison.is_given
    assert (begins(comparison).place, begins(comparison).kind) == (
        "Apart.layers.1.attention.o.weight",
        PlaceKind.INITIAL,
    )
    assert comparison.names["layers.1.attention.o"] == "h.1.attn.out"


class Turned(nn.Module):
    """A linear layer whose weight is kept the other way round."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(linear.weight.detach().t().clone()), linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias


@pytest.mark.parametrize("is_fused", [False, True])
def test_a_matrix_that_is_kept_turned_is_the_same(is_fused: bool) -> None:
    first = fused() if is_fused else apart()
    second = fused("by head")
    for block in second.h:
        block.attn.qkv, block.attn.out, block.up = (Turned(one) for one in (block.attn.qkv, block.attn.out, block.up))
    if is_fused:  # one name for both
        for block in second.h:
            block.attn.layout, block.attn.qkv = (
                "one after another",
                Turned(fused().h[list(second.h).index(block)].attn.qkv),
            )
    comparison = compared(training(first), training(second))
    assert comparison.verdict in ALIKE
    assert not any(one.lack is Lack.OTHER_SHAPE for one in comparison.only)


class Packed(nn.Module):
    """Attention whose projections are one parameter of torch's own module."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mha, self.out = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), nn.Linear(WIDTH, 3)
        nn.init.normal_(self.mha.in_proj_bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.mha(x, x, x, need_weights=False)[0])


class Unpacked(nn.Module):
    def __init__(self, packed: Packed, factor: float) -> None:
        super().__init__()
        self.attention, self.last, self.factor = Attention(), packed.out, factor
        self.attention.o.load_state_dict(packed.mha.out_proj.state_dict())
        parts = self.attention.q, self.attention.k, self.attention.v
        for name in ("weight", "bias"):
            for part, own in zip(parts, getattr(packed.mha, f"in_proj_{name}").detach().chunk(3), strict=True):
                getattr(part, name).data = own.clone()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        own = self.attention
        q, k, v = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (own.q, own.k, own.v))
        made = functional.scaled_dot_product_attention(q * self.factor, k, v)
        return self.last(own.o(made.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("factor", [1.0, 1.05])
def test_a_parameter_that_is_fused_alone_is_compared_part_by_part(factor: float) -> None:
    packed = Packed()
    x = torch.randn(2, 5, WIDTH, generator=torch.Generator().manual_seed(2))
    training_of = lambda model: lambda: (model.zero_grad(), model(x).square().mean().backward())  # noqa: E731
    comparison = compared(training_of(packed), training_of(Unpacked(packed, factor)))
    parts = ", ".join(f"attention.{part}.bias" for part in "qkv")
    assert comparison.names["mha.in_proj_bias"] == parts
    is_gradient = [one.kind is PlaceKind.GRADIENT for one in comparison.only]
    assert not any(is_gradient)
    assert comparison.verdict is (CompareVerdict.SIGNIFICANT if factor > 1 else CompareVerdict.ROUNDING)


class Convolutions(nn.Module):
    """``names`` of its parts; ``factor`` of what the second convolution returns."""

    def __init__(self, names: str, factor: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.order, self.factor = names.split(), factor
        layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 5)
        for name, layer in zip(self.order, layers, strict=True):
            self.add_module(name, layer)
        setattr(self, f"{self.order[0]}_scale", nn.Parameter(torch.tensor(0.5)))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        one, norm, two, other_norm, last = map(self.get_submodule, self.order)
        x = torch.randn(ids.numel(), 3, 8, 8, generator=torch.Generator().manual_seed(1))
        x = functional.gelu(norm(one(x))) * getattr(self, f"{self.order[0]}_scale")
        return last(functional.gelu(other_norm(two(x) * self.factor)).mean((2, 3))).unflatten(0, ids.shape)


@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_convolutions_norms_and_scalars_are_paired_too(factor: float) -> None:
    names = "conv1 bn1 conv2 bn2 fc", "stem stem_norm body body_norm head"
    ids = torch.arange(4).view(2, 2)
    first, second = Convolutions(names[0]), Convolutions(names[1], factor)
    training_of = lambda model: lambda: functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()  # noqa: E731
    comparison = compared(training_of(first), training_of(second))
    assert (comparison.names["conv2"], comparison.names["bn2"]) == ("body", "body_norm")
    assert comparison.names["conv1_scale"] == "stem_scale"
    assert comparison.compared[0] == comparison.compared[1]
    if factor == 1:
        assert comparison.verdict in ALIKE
    else:
        assert (begins(comparison).place, begins(comparison).is_own_code) == ("Convolutions.bn2", True)


class Twice(nn.Module):
    """Two layers with the same parameters."""

    def __init__(self, names: str) -> None:
        super().__init__()
        self.order = names.split()
        for name in self.order:
            torch.manual_seed(0)
            self.add_module(name, nn.Linear(WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in self.order:
            x = self.get_submodule(name)(x)
        return self.head(x)


def evaluation(model: nn.Module) -> Step:
    return torch.no_grad()(lambda: model(torch.ones(2, WIDTH)))  # type: ignore[no-any-return]


def test_of_two_that_fit_alike_none_is_taken() -> None:
    comparison = compared(evaluation(Twice("one")), evaluation(Twice("left right")))
    assert comparison.names == {}
    assert {one.place for one in comparison.only if one.kind is PlaceKind.OUTPUT} >= {"Twice.one", "Twice.left"}
    assert comparison.verdict is CompareVerdict.SIGNIFICANT


def test_as_many_that_fit_alike_are_taken_in_their_order() -> None:
    comparison = compared(evaluation(Twice("one two")), evaluation(Twice("left right")))
    assert comparison.verdict is CompareVerdict.EQUAL
    assert comparison.names == {"one": "left", "two": "right"}


def test_implementations_that_name_alike_run_no_further_time() -> None:
    runs = []
    step = evaluation(Twice("one two"))
    comparison = compared(lambda: runs.append(step()), lambda: runs.append(step()))
    assert (comparison.verdict, len(runs), comparison.names) == (CompareVerdict.EQUAL, 2, {})


# --- training's forward against an engine that decodes with a cache ---


class EngineLayer(nn.Module):
    def __init__(self, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.heads, self.groups = heads, groups
        size = WIDTH // heads
        self.wqkv = nn.Linear(WIDTH, (heads + 2 * groups) * size, bias=False)
        self.wo = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate_up, self.down = nn.Linear(WIDTH, 2 * inner, bias=False), nn.Linear(inner, WIDTH, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH, eps=1e-6) for _ in range(2))

    def forward(self, x: torch.Tensor, positions: torch.Tensor, cache: list[torch.Tensor]) -> torch.Tensor:
        size = WIDTH // self.heads
        made = self.wqkv(self.norms[0](x)).unflatten(-1, (-1, size)).transpose(1, 2)
        q, k, v = made.split([self.heads, self.groups, self.groups], 1)
        angles = positions[:, None] / 10_000 ** (torch.arange(0, size, 2) / size)
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        q, k = (one * cos + torch.cat([-one[..., size // 2 :], one[..., : size // 2]], -1) * sin for one in (q, k))
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        cache[:] = k, v
        allowed = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        k, v = (one.repeat_interleave(self.heads // self.groups, 1) for one in (k, v))
        made = functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        x = x + self.wo(made.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


class Engine(nn.Module):
    """A Llama as an engine for inference has it, from the parameters of one of ``transformers``."""

    def __init__(self, llama: Any) -> None:
        super().__init__()
        config, state = llama.config, llama.state_dict()
        heads, groups, inner = config.num_attention_heads, config.num_key_value_heads, config.intermediate_size
        self.embed, self.out = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)
        self.blocks = nn.ModuleList(EngineLayer(heads, groups, inner) for _ in llama.model.layers)
        self.last = nn.RMSNorm(WIDTH, eps=1e-6)
        self.embed.weight.data, self.out.weight.data = state["model.embed_tokens.weight"], state["lm_head.weight"]
        for number, block in enumerate(self.blocks):
            own = {
                name.removeprefix(f"model.layers.{number}."): value
                for name, value in state.items()
                if name.startswith(f"model.layers.{number}.")
            }
            block.wqkv.weight.data = torch.cat([own[f"self_attn.{one}_proj.weight"] for one in "qkv"])
            block.gate_up.weight.data = torch.cat([own["mlp.gate_proj.weight"], own["mlp.up_proj.weight"]])
            block.wo.weight.data, block.down.weight.data = own["self_attn.o_proj.weight"], own["mlp.down_proj.weight"]

    def forward(self, ids: torch.Tensor, positions: torch.Tensor, caches: list[list[torch.Tensor]]) -> torch.Tensor:
        x = self.embed(ids)
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, positions, cache)
        return self.out(self.last(x))


IDS = torch.arange(20).view(2, 10) * 7 % TOKENS


def llama() -> Any:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": TOKENS, "hidden_size": WIDTH, "intermediate_size": 24, "num_hidden_layers": 2}
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32)
    return transformers.LlamaForCausalLM(config).eval()


def prefill(model: nn.Module) -> Step:
    return torch.no_grad()(lambda: model(IDS))  # type: ignore[no-any-return]


def engine_decode(engine: Engine, late: int = 0) -> Step:
    """A prompt of four tokens, and one at a time; positions of tokens from the seventh on are too low by ``late``."""

    def run() -> None:
        caches: list[list[torch.Tensor]] = [[] for _ in engine.blocks]
        begin = 0
        for part in IDS.split([4, 1, 1, 1, 1, 1, 1], 1):
            positions = torch.arange(begin, begin + part.shape[1])
            engine(part, positions - (late if begin >= 6 else 0), caches)
            begin += part.shape[1]

    return torch.no_grad()(run)  # type: ignore[no-any-return]


def test_decoding_with_a_cache_is_rounding_against_one_forward() -> None:
    model = llama()
    comparison = compared(prefill(model), engine_decode(Engine(model)))
    assert comparison.verdict in ALIKE
    assert comparison.rows == (20, 20)
    assert not comparison.lacks_ends
    assert comparison.names["model.layers.1.self_attn.k_proj"] == "blocks.1.wqkv"
    assert comparison.names["model.layers.0.mlp.up_proj"] == "blocks.0.gate_up"


def test_a_position_that_is_wrong_in_decoding_is_found_where_it_begins() -> None:
    model = llama()
    first = begins(compared(prefill(model), engine_decode(Engine(model), late=1)))
    assert first.position == 6
    assert "layers.0" in first.place


def test_a_fault_in_one_module_of_an_engine_is_found_there() -> None:
    engine = Engine(model := llama())
    engine.blocks[1].norms[1].register_forward_hook(lambda module, inputs, out: out * 1.01)
    comparison = compared(prefill(model), engine_decode(engine))
    assert begins(comparison).module == "LlamaForCausalLM.model.layers.1.post_attention_layernorm"
    assert (begins(comparison).position, begins(comparison).kind) == (0, PlaceKind.OUTPUT)
