"""A batch that is split, padded, packed or decoded otherwise is compared row by row, and faults are found in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.configurations import ALIKE, Step, begins, compared
from tracer.divergence.magnitudes import CompareVerdict, Lack
from tracer.names import PlaceKind

PROMPTS = [torch.tensor(one) for one in ([5, 9, 3], [7, 2, 8, 4, 6], [3, 3, 11, 9])]


class Decoder(nn.Module):
    """Two layers of causal attention. ``positions``: ``learned`` of each token, or ``rotary``, by distances alone."""

    def __init__(self, positions: str = "learned") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.angles = nn.Embedding(16, 16), Angles()
        self.learned = nn.Embedding(16, 16) if positions == "learned" else None
        self.layers, self.head = nn.ModuleList([Layer(), Layer()]), nn.Linear(16, 16)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        sequence_ids: torch.Tensor | None = None,
        past: Any = None,
        last_alone: bool = False,
    ) -> dict[str, Any]:
        before = 0 if past is None else past[0][0].shape[1]
        if position_ids is None:
            position_ids = torch.arange(before, before + input_ids.shape[1])[None]
        allowed = torch.ones(input_ids.shape[1], before + input_ids.shape[1], dtype=torch.bool).tril(before)[None]
        if attention_mask is not None:
            allowed = allowed & (
                attention_mask[:, None].bool() | torch.eye(allowed.shape[-1], dtype=torch.bool)[before:]
            )
        if sequence_ids is not None:
            allowed = allowed & (sequence_ids[:, None] == sequence_ids[..., None])
        x, angles = self.tokens(input_ids), None
        if self.learned is not None:
            x = x + self.learned(position_ids)
        else:
            angles = self.angles(position_ids)
        before_by_layer, past = past or [None, None], []
        for layer, own in zip(self.layers, before_by_layer, strict=True):
            x, own = layer(x, allowed, angles, own)
            past.append(own)
        return {"logits": self.head(x[:, -1:] if last_alone else x), "past": past, "loss": x.mean()}


class Angles(nn.Module):
    def forward(self, positions: torch.Tensor) -> torch.Tensor:
        return positions[..., None] * torch.logspace(0, -2, 8)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, allowed: torch.Tensor, angles: Any, past: Any) -> Any:
        q, k, v = self.qkv(x).chunk(3, -1)
        if angles is not None:
            q, k = (
                torch.view_as_real(
                    torch.view_as_complex(one.unflatten(-1, (8, 2))) * torch.polar(torch.ones(()), angles)
                ).flatten(-2)
                for one in (q, k)
            )
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        weights = (q @ k.mT / 4).masked_fill(~allowed, -1e9).softmax(-1)
        return x + self.out(weights @ v), None if angles is not None else (k, v)


def faulty(model: nn.Module, path: str = "layers.1.out", factor: float = 1.01) -> nn.Module:
    model.get_submodule(path).register_forward_hook(lambda module, inputs, out: out * factor)
    return model


def inference(run: Step) -> Step:
    return torch.no_grad()(run)  # type: ignore[no-any-return]


def one_by_one(model: nn.Module) -> Step:
    return inference(lambda: [model(prompt[None]) for prompt in PROMPTS])


def batched(model: nn.Module, side: str, *, is_masked: bool = True, has_positions: bool = True) -> Step:
    ids, mask = torch.zeros(3, 6, dtype=torch.long), torch.zeros(3, 6, dtype=torch.long)
    for row, prompt in enumerate(PROMPTS):
        own = slice(6 - len(prompt), 6) if side == "left" else slice(len(prompt))
        ids[row, own], mask[row, own] = prompt, 1
    options: dict[str, Any] = {"attention_mask": mask} if is_masked else {}
    if has_positions:
        options["position_ids"] = (mask.cumsum(1) - 1).clamp_min(0)
    return inference(lambda: model(ids, **options))


def packed(model: nn.Module, *, is_apart: bool = True) -> Step:
    numbers = torch.cat([torch.full((len(prompt),), row) for row, prompt in enumerate(PROMPTS)])[None]
    positions = torch.cat([torch.arange(len(prompt)) for prompt in PROMPTS])[None]
    ids = torch.cat(PROMPTS)[None]
    sequences = {"sequence_ids": numbers} if is_apart else {}
    return inference(lambda: model(ids, position_ids=positions, **sequences))


def decoded(model: nn.Module, *, has_cache: bool, steps: int = 4) -> Step:
    def run() -> None:
        ids = torch.tensor([[5, 9, 3], [7, 2, 8]])
        given, past = ids, None
        for _ in range(steps):
            result = model(given, past=past, last_alone=True)
            given = result["logits"][:, -1:].argmax(-1)
            ids = torch.cat([ids, given], 1)
            past = result["past"] if has_cache else None
            given = given if has_cache else ids

    return inference(run)


def all_at_once(model: nn.Module) -> Step:
    return inference(lambda: model(torch.stack([PROMPTS[1], PROMPTS[1].flip(0)])))


def token_by_token(model: nn.Module) -> Step:
    def run() -> None:
        past = None
        for token in torch.stack([PROMPTS[1], PROMPTS[1].flip(0)]).split(1, 1):
            past = model(token, past=past)["past"]

    return inference(run)


PAIRS: dict[str, Callable[[Callable[[], nn.Module]], tuple[Step, Step]]] = {
    "left": lambda other: (one_by_one(Decoder()), batched(other(), "left")),
    "right": lambda other: (one_by_one(Decoder()), batched(other(), "right")),
    "right, without a mask": lambda other: (one_by_one(Decoder()), batched(other(), "right", is_masked=False)),
    "batch first": lambda other: (batched(Decoder(), "left"), one_by_one(other())),
    "left and right": lambda other: (batched(Decoder(), "left"), batched(other(), "right")),
    "packed": lambda other: (one_by_one(Decoder()), packed(other())),
    "packed and padded": lambda other: (batched(Decoder(), "right"), packed(other())),
    "cache": lambda other: (decoded(Decoder(), has_cache=True), decoded(other(), has_cache=False)),
    "token by token": lambda other: (all_at_once(Decoder()), token_by_token(other())),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_another_layout_of_the_same_rows_is_rounding(pair: str) -> None:
    comparison = compared(*PAIRS[pair](Decoder))
    assert comparison.verdict in ALIKE
    assert comparison.row_steps == comparison.split_steps == (0,)
    assert comparison.compared[0] >= 5  # both embeddings, linear layers, and what they lie in
    assert not comparison.lacks_ends
    assert "Decoder['loss']" not in {one.place for one in comparison.significant}  # of all rows, padding included


@pytest.mark.parametrize("pair", PAIRS)
def test_a_fault_in_another_layout_is_found_at_its_module(pair: str) -> None:
    comparison = compared(*PAIRS[pair](lambda: faulty(Decoder())))
    assert (begins(comparison).module, begins(comparison).kind) == ("Decoder.layers.1.out", PlaceKind.OUTPUT)


@pytest.mark.parametrize(
    "second",
    [
        batched(Decoder(), "left", is_masked=False),
        batched(Decoder(), "left", has_positions=False),
        packed(Decoder(), is_apart=False),
    ],
    ids=["padding is attended to", "positions begin in the padding", "sequences see each other"],
)
def test_a_layout_that_changes_the_model_is_significant(second: Step) -> None:
    assert compared(one_by_one(Decoder()), second).verdict is CompareVerdict.SIGNIFICANT


def alone(model: nn.Module, padding: int) -> Step:
    ids = torch.cat([torch.zeros(padding, dtype=torch.long), PROMPTS[1]])[None]
    mask = torch.cat([torch.zeros(padding), torch.ones(5)])[None].long()
    return inference(lambda: model(ids, attention_mask=mask))


@pytest.mark.parametrize("is_faulty", [False, True])
def test_angles_that_padding_moves_are_no_fault(is_faulty: bool) -> None:
    second = Decoder("rotary")
    comparison = compared(alone(Decoder("rotary"), 0), alone(faulty(second) if is_faulty else second, 3))
    assert {one.place for one in comparison.only if one.lack == "other-position"} >= {"Decoder.angles"}
    assert comparison.verdict is (CompareVerdict.SIGNIFICANT if is_faulty else CompareVerdict.ROUNDING)
    assert [one.module for one in comparison.significant] == (["Decoder.layers.1.out"] if is_faulty else [])


def split(model: nn.Module, parts: int) -> Step:
    x = torch.randn(8, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    return inference(lambda: [model(part) for part in x.chunk(parts)])


def convolutions() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    return nn.Sequential(*layers).eval()


@pytest.mark.parametrize(("first", "second"), [(1, 8), (4, 2)])
def test_samples_of_a_batch_that_is_split_in_evaluation_are_compared(first: int, second: int) -> None:
    clean = compared(split(convolutions(), first), split(convolutions(), second))
    assert clean.verdict in ALIKE
    assert clean.compared[0] == clean.compared[1] == 6 * min(first, second)
    fault = compared(split(convolutions(), first), split(faulty(convolutions(), "1"), second))
    assert begins(fault).module == "Sequential.1"


def test_modules_that_the_program_calls_one_after_another_have_the_same_rows() -> None:
    def step(parts: int, factor: float = 1.0) -> Step:
        torch.manual_seed(0)
        body, head, criterion = nn.Linear(6, 8), nn.Linear(8, 3), nn.CrossEntropyLoss(reduction="none")
        x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
        return inference(
            lambda: [
                criterion(head(body(part).relu()) * factor, labels)
                for part, labels in zip(x.chunk(parts), y.chunk(parts), strict=True)
            ]
        )

    assert compared(step(1), step(4)).compared == (3, 3)
    assert compared(step(1), step(4, 1.1)).verdict is CompareVerdict.SIGNIFICANT


class Scored(nn.Module):
    """Returns the loss, and a number that is neither a sum nor a mean over the batch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.decoder = Decoder()
        self.smoothing = 0.0

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.decoder(ids)["logits"]
        loss = nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), label_smoothing=self.smoothing
        )
        return {"logits": logits, "loss": loss, "largest": logits.max()}


def accumulated(*sizes: int, weights: str = "rows", smoothing: float = 0.0, scales_gradients: bool = False) -> Step:
    model = Scored()
    model.smoothing = smoothing
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    ids = torch.randint(0, 16, (4, 6), generator=torch.Generator().manual_seed(2))

    def step() -> None:
        for part in ids.split(sizes):
            weight = {"rows": len(part) / 4, "parts": 1 / len(sizes), "none": 1.0}[weights]
            (model(part)["loss"] * weight).backward()
        if scales_gradients:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad /= len(sizes)
        optimizer.step()
        optimizer.zero_grad()

    return step


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (accumulated(4), accumulated(2, 2)),
        (accumulated(1, 3), accumulated(3, 1)),  # as many parts, of other sizes
        (accumulated(4), accumulated(2, 2, weights="none", scales_gradients=True)),  # divided after backward
    ],
    ids=["halves", "unequal", "divided later"],
)
def test_losses_of_honest_parts_agree_in_their_sum_or_mean(first: Step, second: Step) -> None:
    comparison = compared(first, second)
    assert comparison.verdict is CompareVerdict.ROUNDING
    assert PlaceKind.LOSS not in {one.kind for one in comparison.only}


def test_a_mean_over_equal_parts_is_compared_where_a_module_returns_it() -> None:
    comparison = compared(accumulated(4), accumulated(1, 1, 1, 1))
    assert {one.place for one in comparison.only if one.lack is Lack.OTHER_PARTS} == {"Scored['largest']"}
    assert comparison.compared[0] < comparison.compared[1]


@pytest.mark.parametrize(
    ("second", "kind"),
    [
        (accumulated(3, 1, weights="parts"), PlaceKind.LOSS),
        (accumulated(2, 2, smoothing=0.1), PlaceKind.LOSS),
        (accumulated(2, 2, weights="none"), PlaceKind.GRADIENT),
    ],
    ids=["unequal parts as if equal", "smoothed", "not divided"],
)
def test_losses_of_parts_that_weigh_otherwise_are_the_beginning(second: Step, kind: PlaceKind) -> None:
    comparison = compared(accumulated(4), second)
    assert begins(comparison).kind is kind


def test_a_loss_that_changes_no_gradient_is_left_out_where_batches_are_split() -> None:
    def step(parts: int, constant: float) -> Step:
        torch.manual_seed(0)
        net, x = nn.Linear(4, 2), torch.randn(8, 4)

        def run() -> None:
            net.zero_grad()
            for part in x.chunk(parts):
                (net(part).square().mean() / parts + constant).backward()

        return run

    comparison = compared(step(1, 0.0), step(2, 1.0))
    assert comparison.verdict is CompareVerdict.ROUNDING
    assert [one.kind for one in comparison.only if one.lack is Lack.OTHER_PARTS] == [PlaceKind.LOSS]


# --- the same rows in another order, and in calls of another mode ---


def in_order(order: list[int], *, is_faulty: bool = False, misses: bool = False) -> Step:
    model = convolutions().train()
    if is_faulty:
        faulty(model, "1")
    x, y = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 1, 0])

    def run() -> None:
        model.zero_grad()
        labels = y if misses else y[order]
        nn.functional.cross_entropy(model(x[order]), labels).backward()

    return run


def test_a_batch_in_another_order_is_compared_row_by_row_and_faults_are_found_in_it() -> None:
    order, other = [0, 1, 2, 3], [2, 0, 3, 1]
    comparison = compared(in_order(order), in_order(other))
    assert comparison.verdict is CompareVerdict.ROUNDING
    assert comparison.compared[0] == comparison.compared[1]
    fault = begins(compared(in_order(order), in_order(other, is_faulty=True)))
    assert (fault.module, fault.inputs_agree) == ("Sequential.1", True)
    labels_stay = begins(compared(in_order(order), in_order(other, misses=True)))
    assert (labels_stay.kind, labels_stay.is_in_model) == (PlaceKind.LOSS, False)


@pytest.mark.parametrize("is_faulty", [False, True])
def test_an_evaluation_of_the_same_rows_is_not_held_against_their_training(is_faulty: bool) -> None:
    def step(evaluates: bool) -> Step:
        model = convolutions().train()
        if is_faulty and evaluates:
            faulty(model, "1")
        x = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(1))

        def run() -> None:
            model.zero_grad()
            if evaluates:
                with torch.no_grad():
                    model.eval()(x)
                model.train()
            model(x).square().mean().backward()

        return run

    comparison = compared(step(False), step(True))
    if not is_faulty:
        assert comparison.verdict in ALIKE
        assert not comparison.lacks_ends
    else:
        assert begins(comparison).module == "Sequential.1"


def test_rows_that_one_side_lacks_are_said_and_other_rows_are_compared_with_nothing() -> None:
    torch.manual_seed(0)
    net, x = nn.Linear(4, 2), torch.randn(5, 4)
    whole = inference(lambda: net(x))
    part = compared(whole, inference(lambda: net(x[1:4])))
    assert (part.verdict, part.rows) == (CompareVerdict.EQUAL, (3, 5))
    other = compared(whole, inference(lambda: net(x[1:4] * 2)))
    assert (other.verdict, other.compared) == (CompareVerdict.UNDECIDED, (0, 1))


@pytest.mark.parametrize("is_faulty", [False, True])
def test_the_number_of_one_sample_is_a_row(is_faulty: bool) -> None:
    def step(rows: int, factor: float = 1.0) -> Step:
        torch.manual_seed(0)
        net, x = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)), torch.randn(3, 4)
        faulty(net, "1", factor)
        return inference(lambda: [net(row) for row in x[:rows].split(1)])

    comparison = compared(step(3), step(2, 1.01 if is_faulty else 1.0))
    assert comparison.rows == (2, 3)
    assert {one.module for one in comparison.significant} == ({"Sequential.1"} if is_faulty else set())
    assert comparison.verdict is (CompareVerdict.SIGNIFICANT if is_faulty else CompareVerdict.EQUAL)
