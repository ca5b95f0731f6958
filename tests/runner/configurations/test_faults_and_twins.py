"""Changes that people make to a training step: faults are significant at their place, and twins are not accused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from tests.support.configurations import ALIKE, Step, begins, compared, line_in
from tests.support.slow import slow_unless
from tracer.divergence.magnitudes import CompareVerdict
from tracer.names import PlaceKind

OUTPUT, INPUT, LOSS = PlaceKind.OUTPUT, PlaceKind.INPUT, PlaceKind.LOSS
GRADIENT, PARAMETER, STATE = PlaceKind.GRADIENT, PlaceKind.PARAMETER, PlaceKind.STATE


class Attention(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.qkv, self.out, self.how = nn.Linear(16, 48), nn.Linear(16, 16), how

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if self.how == "by hand":
            mixed = (q @ k.mT / 8**0.5 + mask).softmax(-1) @ v
        else:
            with sdpa_kernel(SDPBackend.MATH if self.how == "math" else SDPBackend.FLASH_ATTENTION):
                mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class Block(nn.Module):
    def __init__(self, attention: str, narrow: torch.dtype | None, factor: float) -> None:
        super().__init__()
        self.norm, self.attention, self.up, self.down = (
            *(nn.LayerNorm(16), Attention(attention)),
            *(nn.Linear(16, 32), nn.Linear(32, 16)),
        )
        self.drop, self.narrow, self.factor, self.is_fused = nn.Dropout(0.0), narrow, factor, True

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x), mask)
        if self.narrow is not None:
            narrow = x.to(self.narrow)  # narrow
            h = F.linear(narrow, self.up.weight.to(self.narrow)).to(x.dtype) + self.up.bias
        else:
            h = self.up(x) if self.is_fused else x @ self.up.weight.t() + self.up.bias
        if self.factor != 1:
            h = h * self.factor  # by a factor
        return x + self.drop(self.down(F.gelu(h)))  # type: ignore[no-any-return]


class Model(nn.Module):
    def __init__(
        self,
        attention: str = "flash",
        narrow: torch.dtype | None = None,
        factor: float = 1.0,
        ties: bool = False,
        recomputes: str = "",
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.positions = nn.Embedding(24, 16), nn.Embedding(8, 16)
        self.blocks = nn.ModuleList([Block(attention, None, 1.0), Block(attention, narrow, factor)])
        self.head, self.recomputes = nn.Linear(16, 24, bias=False), recomputes
        if ties:
            self.head.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor, attends: torch.Tensor, numbers: Any = None) -> torch.Tensor:
        numbers = torch.arange(ids.shape[1])[None] if numbers is None else numbers
        allowed = torch.ones(6, 6, dtype=torch.bool).tril() & (attends[:, None].bool() | torch.eye(6).bool())
        mask = torch.zeros(allowed.shape, dtype=self.tokens.weight.dtype).masked_fill(~allowed, -1e9)[:, None]
        x = self.tokens(ids) + self.positions(numbers)
        for block in self.blocks:
            if self.recomputes:
                x = checkpoint(block, x, mask, use_reentrant=self.recomputes == "reentrant")
            else:
                x = block(x, mask)
        return self.head(x)  # type: ignore[no-any-return]


Prepares = Callable[[Model], object]


def step(
    prepares: Prepares = lambda model: None,
    *,
    optimizer: Callable[..., Any] = torch.optim.Adam,
    changes: Prepares = lambda model: None,
    dtype: torch.dtype = torch.float32,
    sizes: tuple[int, ...] = (4,),
    smoothing: float = 0.0,
    loss_factor: float = 1.0,
    pads: bool = False,
    has_positions: bool = True,
    compiles: bool = False,
    order: tuple[int, ...] = (0, 1, 2, 3),
    **options: Any,
) -> Step:
    def run() -> None:
        model = Model(**options).to(dtype)
        prepares(model)
        called: Any = torch.compile(model) if compiles else model
        stepping = optimizer([one for one in model.parameters() if one.requires_grad])
        numbers = torch.Generator().manual_seed(2)
        for _ in range(2):
            ids = torch.randint(0, 24, (4, 6), generator=numbers)
            attends = torch.ones_like(ids)
            if pads:
                attends[0, :2] = attends[2, :1] = 0
            ids, attends = ids[list(order)], attends[list(order)]
            for part, own in zip(ids.split(sizes), attends.split(sizes), strict=True):
                given = [(own.cumsum(1) - 1).clamp_min(0)] if pads and has_positions else []
                logits = called(part, own, *given)[:, :-1].flatten(0, 1).float()
                loss = F.cross_entropy(logits, part[:, 1:].flatten(), label_smoothing=smoothing)  # loss
                (loss * loss_factor * len(part) / 4).backward()
            changes(model)
            stepping.step()  # optimizer
            stepping.zero_grad()

    return run


def of_all(change: Callable[[torch.Tensor], object]) -> Prepares:
    def changed(model: Model) -> None:
        for parameter in model.parameters():
            assert parameter.grad is not None
            change(parameter.grad)

    return changed


def adam(**options: Any) -> Callable[..., Any]:
    return lambda parameters: torch.optim.Adam(parameters, **{"lr": 1e-3, "foreach": False, **options})


def decoupled(parameters: Any) -> Any:
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1, foreach=False)


def all_but_norms(parameters: Any) -> Any:
    return torch.optim.Adam([one for one in parameters if one.dim() > 1])


def clip(names: str = "") -> Prepares:
    return lambda model: nn.utils.clip_grad_norm_(
        [one for name, one in model.named_parameters() if names in name], 1e-2
    )


def set_in_block(name: str, **fields: Any) -> Prepares:
    def change(model: Model) -> None:
        for field, value in fields.items():
            setattr(model.get_submodule(f"blocks.1{name}"), field, value)

    return change


BFLOAT16 = torch.bfloat16
BLOCK = "Model.blocks.1"
#: The first configuration, the second one, the kind of the place, its module, and words of its line.
FAULTS: dict[str, tuple[Step, Step, PlaceKind, str, str]] = {
    "a layer in bfloat16": (step(), step(narrow=BFLOAT16), INPUT, BLOCK, "# narrow"),
    "a factor of 1.01": (step(), step(factor=1.01), INPUT, BLOCK, "# by a factor"),
    "a factor in what is recomputed": (step(), step(factor=1.01, recomputes="reentrant"), INPUT, BLOCK, "# by a"),
    "a factor of 1.1 in bfloat16": (step(dtype=BFLOAT16), step(dtype=BFLOAT16, factor=1.1), INPUT, BLOCK, "# by a"),
    "epsilon of a norm": (step(), step(set_in_block(".norm", eps=1e-3)), OUTPUT, f"{BLOCK}.norm", "self.norm(x), mask"),
    "dropout": (step(), step(set_in_block(".drop", p=0.1)), OUTPUT, f"{BLOCK}.drop", "self.drop(self.down"),
    "no position ids": (step(pads=True), step(pads=True, has_positions=False), INPUT, "Model", "s(numbers)"),
    "tied weights": (step(), step(ties=True), OUTPUT, "Model.head", "self.head(x)"),
    "label smoothing": (step(), step(smoothing=0.1), LOSS, "", "# loss"),
    "a loss of 1.01": (step(), step(loss_factor=1.01), LOSS, "", "loss_factor * len"),
    "a parameter that is not optimized": (step(), step(optimizer=all_but_norms), GRADIENT, "", ""),
    "gradients over the world's size": (step(), step(changes=of_all(lambda one: one.div_(2))), GRADIENT, "", "div_(2)"),
    "a part is clipped": (step(changes=clip()), step(changes=clip("blocks")), GRADIENT, "", "clip_grad_norm_("),
    "epsilon of Adam": (step(optimizer=adam()), step(optimizer=adam(eps=1e-5)), PARAMETER, "", "# optimizer"),
    "betas of Adam": (step(optimizer=adam()), step(optimizer=adam(betas=(0.9, 0.95))), STATE, "", "# optimizer"),
    "decay": (step(optimizer=adam(weight_decay=0.1)), step(optimizer=decoupled), PARAMETER, "", "# optimizer"),
}


#: Of each kind of place, and of what is easily missed, one in every run.
COMMON_FAULTS = {
    *("a factor of 1.01", "a layer in bfloat16", "epsilon of a norm", "dropout", "label smoothing", "betas of Adam"),
    *("a parameter that is not optimized", "gradients over the world's size", "a part is clipped"),
}


@pytest.mark.parametrize("fault", slow_unless(COMMON_FAULTS, FAULTS))
def test_a_fault_is_significant_at_its_place_and_line(fault: str) -> None:
    first, second, kind, module, words = FAULTS[fault]
    comparison = compared(first, second)
    place = begins(comparison)
    assert (place.kind, place.step) == (kind, 0)
    assert place.module == module or not module
    assert place.location.endswith(line_in(__file__, words)) or not words
    assert {one.kind for one in comparison.significant} == {kind}  # no second beginning


#: The first configuration and the second one.
TWINS: dict[str, tuple[Step, Step]] = {
    "accumulated": (step(), step(sizes=(2, 2))),
    "accumulated, weighed by rows": (step(), step(sizes=(3, 1))),
    "a batch in another order": (step(), step(order=(3, 1, 0, 2))),
    "a padded batch in another order": (step(pads=True), step(pads=True, order=(3, 1, 0, 2))),
    "recomputed": (step(), step(recomputes="anew")),
    "recomputed in a pass of its own": (step(), step(recomputes="reentrant")),
    "Adam over lists": (step(optimizer=adam()), step(optimizer=adam(foreach=True))),
    "Adam, fused": (step(optimizer=adam()), step(optimizer=adam(foreach=None, fused=True))),
    "a product and a sum": (step(), step(set_in_block("", is_fused=False))),
    "a product and a sum in bfloat16": (step(dtype=BFLOAT16), step(set_in_block("", is_fused=False), dtype=BFLOAT16)),
    "another kernel": (step(), step(attention="math")),
    "attention by hand": (step(pads=True), step(pads=True, attention="by hand")),
    "bfloat16": (step(), step(dtype=BFLOAT16)),
}


COMMON_TWINS = {
    *("accumulated", "a batch in another order", "recomputed", "Adam over lists", "a product and a sum"),
    *("another kernel", "bfloat16"),
}


@pytest.mark.parametrize("twin", slow_unless(COMMON_TWINS, TWINS))
def test_a_twin_is_equal_or_rounding(twin: str) -> None:
    comparison = compared(*TWINS[twin])
    assert comparison.verdict in ALIKE
    assert comparison.compared[0] > 0.9 * comparison.compared[1]
    assert comparison.second_is_narrower == (twin == "bfloat16")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_a_compiled_model_is_a_twin() -> None:
    assert compared(step(), step(compiles=True)).verdict is CompareVerdict.ROUNDING


# --- batch norm ---


def convolved(
    prepares: Callable[[nn.Sequential], object] = lambda model: None,
    *,
    dtype: torch.dtype = torch.float32,
    is_last: bool = False,
    evaluates: bool = True,
) -> Step:
    def run() -> None:
        torch.manual_seed(0)
        layers = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.GELU(), nn.Conv2d(6, 6, 3), nn.BatchNorm2d(6)
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4)).to(dtype)
        x, y = torch.randn(8, 3, 10, 10).to(dtype), torch.randint(0, 4, (8,))
        if is_last:
            model, x = (one.to(memory_format=torch.channels_last) for one in (model, x))
        prepares(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for _ in range(2):
            F.cross_entropy(model(x).float(), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        if evaluates:
            model.eval()
        with torch.no_grad():
            model(x)

    return run


@pytest.mark.parametrize(
    ("fault", "module", "number"),
    [
        ({"prepares": lambda model: model[4].eval()}, "4", 0),
        ({"prepares": lambda model: setattr(model[1], "momentum", 0.9)}, "1", 2),
        ({"evaluates": False}, "1", 2),
    ],
    ids=["a norm left in evaluation", "momentum", "eval() forgotten"],
)
def test_a_batch_norm_in_the_wrong_mode_is_where_they_diverge(fault: dict[str, Any], module: str, number: int) -> None:
    first = begins(compared(convolved(dtype=BFLOAT16), convolved(**fault, dtype=BFLOAT16)))
    assert (first.module, first.kind, first.step) == (f"Sequential.{module}", OUTPUT, number)


def test_another_memory_format_is_rounding() -> None:
    assert compared(convolved(), convolved(is_last=True)).verdict in ALIKE
