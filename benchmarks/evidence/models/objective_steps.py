"""Small networks under the objectives of reinforcement learning, retrieval and generation, second list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.evidence.models.step import SECOND, Built, Loss, Step
from benchmarks.evidence.record_steps import small, tokens


def policy() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 5))


def clipped(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """PPO's."""
    seen, acted, before, gained = inputs
    *_, scores = model(seen).split([1, 4], -1)
    chosen = torch.distributions.Categorical(logits=scores)
    ratio = (chosen.log_prob(acted) - before).exp()
    least = torch.minimum(ratio * gained, ratio.clamp(0.8, 1.2) * gained)
    loss: torch.Tensor = (
        -least.mean() + functional.smooth_l1_loss(model(seen)[:, 0], gained) - 0.01 * chosen.entropy().mean()
    )
    return loss


def temporal(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """DQN's, with the greatest value of the next state."""
    seen, acted, _, gained = inputs
    with torch.no_grad():
        target = gained + 0.9 * model(seen.flip(0)).max(-1).values
    return functional.huber_loss(model(seen).gather(-1, acted[:, None]).squeeze(-1), target)


def soft(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """SAC's: a squashed Gaussian, drawn with gradients."""
    mean, spread = model(inputs[0])[:, :4].chunk(2, -1)
    drawn = torch.distributions.Normal(mean, spread.clamp(-5, 2).exp())
    squashed = torch.distributions.TransformedDistribution(drawn, torch.distributions.TanhTransform(cache_size=1))
    acted = squashed.rsample()
    loss: torch.Tensor = (0.2 * squashed.log_prob(acted).sum(-1) - acted.pow(2).sum(-1)).mean()
    return loss


def played() -> tuple[torch.Tensor, ...]:
    return torch.randn(16, 6), torch.randint(0, 4, (16,)), -torch.rand(16), torch.randn(16)


def writer() -> nn.Module:
    import transformers

    config = small(transformers.Qwen2Config)
    config.use_cache = False
    model: nn.Module = transformers.Qwen2ForCausalLM(config)
    return model


def likelihood(model: Any, words: torch.Tensor) -> torch.Tensor:
    scores: torch.Tensor = model(input_ids=words).logits[:, :-1].log_softmax(-1)
    return scores.gather(-1, words[:, 1:, None]).squeeze(-1)


def preferred(model: nn.Module, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """DPO's."""
    better, worse = (likelihood(model, words).sum(-1) for words in inputs)
    return -functional.logsigmoid(0.1 * (better - worse)).mean()


def grouped(model: nn.Module, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """GRPO's: rewards against those of the same group."""
    words, rewards = inputs
    gained = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    said = likelihood(model, words)
    ratio = (said - said.detach()).exp()
    return -(ratio * gained[:, None]).mean() + 0.04 * (ratio - 1 - ratio.log()).mean()


def encoder() -> nn.Module:
    return nn.Sequential(nn.EmbeddingBag(128, 32, mode="mean"), nn.Linear(32, 16))


def contrasted(model: nn.Module, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """InfoNCE over the batch."""
    asked, answered = (functional.normalize(model(words), dim=-1) for words in inputs)
    scores = asked @ answered.t() / 0.07
    return functional.cross_entropy(scores, torch.arange(len(scores), device=scores.device))


def hardest(model: nn.Module, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """A triplet's, with the hardest of the batch."""
    asked, answered = (model(words) for words in inputs)
    distances = torch.cdist(asked, answered)
    own = distances.diagonal()
    other = (distances + 1e3 * torch.eye(len(distances), device=distances.device)).min(-1).values
    return functional.relu(own - other + 0.5).mean() + functional.triplet_margin_loss(asked, answered, asked.flip(0))


def latest(model: nn.Module, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """ColBERT's: the best match of each word."""
    asked, answered = (functional.normalize(model(words), dim=-1) for words in inputs)
    scores = torch.einsum("qid,pjd->qpij", asked, answered).amax(-1).sum(-1)
    return functional.cross_entropy(scores, torch.arange(len(scores), device=scores.device))


def sparse_words(model: nn.Module, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """SPLADE's: logits saturated and pooled by their maximum."""
    asked, answered = (torch.log1p(model(words).relu()).max(1).values for words in inputs)
    scores = asked @ answered.t()
    truth = torch.arange(len(scores), device=scores.device)
    return functional.cross_entropy(scores, truth) + 1e-3 * asked.mean(0).pow(2).sum()


def two_texts() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, 128, (6, 12)), torch.randint(0, 128, (6, 12))


class Adapted(nn.Module):
    """Words by how often they come."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(128, 16, padding_idx=0, max_norm=1.0)
        self.mixed = nn.Linear(16, 16)
        self.classes = nn.AdaptiveLogSoftmaxWithLoss(16, 128, [16, 64])


def adapted(model: Any, words: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = model.classes(
        model.mixed(model.words(words[:, :-1])).flatten(0, 1), words[:, 1:].flatten()
    ).loss
    return loss


class Critic(nn.Module):
    """Judges pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 8, 4, 2, 1), nn.Flatten(), nn.Linear(128, 1)
        )

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(picture)
        return out


def penalised(model: nn.Module, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """WGAN's, with a penalty on gradients."""
    real, drawn = inputs
    between = (real + drawn).div(2).requires_grad_()
    (slope,) = torch.autograd.grad(model(between).sum(), between, create_graph=True)
    loss: torch.Tensor = (
        model(drawn).mean() - model(real).mean() + 10 * (slope.flatten(1).norm(dim=1) - 1).pow(2).mean()
    )
    return loss


def coded(model: Any, picture: torch.Tensor) -> torch.Tensor:
    """A variational autoencoder's."""
    mean, spread = model[0](picture).chunk(2, -1)
    drawn = torch.distributions.Normal(mean, spread.exp())
    prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    again = model[1](drawn.rsample()).view_as(picture)
    return (
        functional.binary_cross_entropy_with_logits(again, picture)
        + 1e-2 * torch.distributions.kl_divergence(drawn, prior).mean()
    )


def autoencoder() -> nn.Module:
    return nn.ModuleList(
        [
            nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 16)),
            nn.Sequential(nn.Linear(8, 512), nn.Unflatten(1, (8, 8, 8)), nn.ConvTranspose2d(8, 3, 4, 2, 1)),
        ]
    )


def rendered(model: nn.Module, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """A radiance field's: coarse samples, then samples where they were dense."""
    origins, wanted = inputs
    near = torch.linspace(0.1, 1, 12, device=origins.device).expand(len(origins), -1)

    def along(steps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        places = origins[:, None] * steps[..., None]
        waves = torch.cat([places * 2**power for power in range(3)], -1)
        colour, density = model(torch.cat([waves.sin(), waves.cos()], -1)).split([3, 1], -1)
        alpha = 1 - torch.exp(-functional.softplus(density.squeeze(-1)) * 0.1)
        weight = alpha * torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], -1), -1)
        return (weight[..., None] * colour.sigmoid()).sum(1), weight

    coarse, weight = along(near)
    total = torch.cumsum(weight.detach() / weight.detach().sum(-1, keepdim=True).clamp_min(1e-6), -1)
    places = torch.searchsorted(total.contiguous(), torch.rand(len(origins), 8, device=origins.device)).clamp_max(11)
    fine, _ = along(torch.cat([near, near.gather(1, places)], -1).sort(-1).values)
    return functional.mse_loss(coarse, wanted) + functional.mse_loss(fine, wanted)


def quantised(model: nn.Module, picture: torch.Tensor) -> torch.Tensor:
    """A discrete autoencoder's, by Gumbel's straight choice."""
    scores: torch.Tensor = model(picture).flatten(2).transpose(1, 2)
    hard = functional.gumbel_softmax(scores, tau=0.7, hard=True)
    share = scores.softmax(-1).mean((0, 1))
    return hard.cumsum(1).var(-1).mean() + (share * share.clamp_min(1e-8).log()).sum()


def coupled(model: Any, drawn: torch.Tensor) -> torch.Tensor:
    """A flow's: two couplings and the density of what comes out."""
    log: torch.Tensor = torch.zeros(len(drawn), device=drawn.device)
    for layer in model:
        still, moved = drawn.chunk(2, -1)
        scale, shift = layer(still).chunk(2, -1)
        drawn = torch.cat([moved * scale.tanh().exp() + shift, still], -1)[:, torch.arange(drawn.shape[1]).flip(0)]
        log = log + scale.tanh().sum(-1)
    base = torch.distributions.MultivariateNormal(
        torch.zeros(drawn.shape[1], device=drawn.device), torch.eye(drawn.shape[1], device=drawn.device)
    )
    loss: torch.Tensor = -(base.log_prob(drawn) + log).mean()
    return loss


def decorrelated(model: nn.Module, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Barlow Twins' and VICReg's together."""
    first: torch.Tensor = model(inputs[0])
    second: torch.Tensor = model(inputs[1])
    crossed = functional.batch_norm(first, None, None, training=True).t() @ second / len(first)
    off = crossed - torch.diag(crossed.diagonal())
    spread = functional.relu(1 - first.var(0).add(1e-4).sqrt()).mean()
    return (
        (crossed.diagonal() - 1).pow(2).sum() + 5e-3 * off.pow(2).sum() + spread + torch.cov(second.t()).pow(2).mean()
    )


def transported(model: nn.Module, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Sinkhorn's distance of two clouds."""
    first, second = (model(points) for points in inputs)
    cost = torch.cdist(first, second, p=2.0).pow(2)
    left = right = torch.zeros(len(cost), device=cost.device)
    for _ in range(4):
        left = -torch.logsumexp((right[None] - cost) / 0.1, 1) * 0.1
        right = -torch.logsumexp((left[:, None] - cost) / 0.1, 0) * 0.1
    return (torch.exp((left[:, None] + right[None] - cost) / 0.1) * cost).sum()


def heard_device(model: nn.Module, heard: torch.Tensor) -> torch.Tensor:
    """CTC's, with lengths where the scores lie."""
    scores = model(heard).permute(2, 0, 1).log_softmax(-1)
    said = torch.randint(1, 12, (2, 5), device=heard.device)
    widths, lengths = (torch.tensor(counts, device=heard.device) for counts in ([28, 20], [5, 3]))
    return functional.ctc_loss(scores, said, widths, lengths, zero_infinity=True)


def segmented(model: nn.Module, picture: torch.Tensor) -> torch.Tensor:
    """Focal and Dice's, on masks resized three ways."""
    scores = model(picture)
    wanted = torch.randint(0, 2, (2, 1, 32, 32), device=picture.device).float()
    wide = functional.interpolate(scores, size=(32, 32), mode="bilinear", antialias=True)
    near = functional.interpolate(scores, scale_factor=2, mode="nearest-exact")
    probability = wide.sigmoid()
    focal = functional.binary_cross_entropy_with_logits(near, wanted, reduction="none") * (1 - probability) ** 2
    dice = 1 - 2 * (probability * wanted).sum() / (probability.sum() + wanted.sum() + 1)
    return focal.mean() + dice


def masker() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.PReLU(), nn.Conv2d(8, 1, 1))


def steps() -> Iterator[Step]:
    """One step of each."""
    named: tuple[tuple[str, Callable[[], Built], Loss], ...] = (
        ("PPO", lambda: (policy(), played()), clipped),
        ("DQN", lambda: (policy(), played()), temporal),
        ("SAC", lambda: (policy(), played()), soft),
        ("DPO", lambda: (writer(), (tokens(), tokens())), preferred),
        ("GRPO", lambda: (writer(), (torch.randint(3, 100, (4, 16)), torch.rand(4))), grouped),
        ("InfoNCE", lambda: (encoder(), two_texts()), contrasted),
        ("hardest triplet", lambda: (encoder(), two_texts()), hardest),
        ("late interaction", lambda: (nn.Sequential(nn.Embedding(128, 16), nn.Linear(16, 8)), two_texts()), latest),
        ("SPLADE", lambda: (nn.Sequential(nn.Embedding(128, 16), nn.Linear(16, 128)), two_texts()), sparse_words),
        ("adaptive softmax", lambda: (Adapted(), torch.randint(1, 128, (4, 12))), adapted),
        ("gradient penalty", lambda: (Critic(), (torch.rand(4, 3, 16, 16), torch.rand(4, 3, 16, 16))), penalised),
        ("variational", lambda: (autoencoder(), torch.rand(4, 3, 16, 16)), coded),
        (
            "radiance field",
            lambda: (
                nn.Sequential(nn.Linear(18, 32), nn.ReLU(), nn.Linear(32, 4)),
                (torch.randn(20, 3), torch.rand(20, 3)),
            ),
            rendered,
        ),
        ("Gumbel", lambda: (nn.Conv2d(3, 12, 4, 4), torch.rand(2, 3, 16, 16)), quantised),
        ("flow", lambda: (nn.ModuleList([nn.Linear(4, 8), nn.Linear(4, 8)]), torch.randn(16, 8)), coupled),
        ("decorrelated", lambda: (nn.Linear(8, 16), (torch.randn(12, 8), torch.randn(12, 8))), decorrelated),
        ("Sinkhorn", lambda: (nn.Linear(3, 3), (torch.randn(10, 3), torch.randn(10, 3))), transported),
        (
            "CTC on the device",
            lambda: (nn.Sequential(nn.Conv1d(4, 16, 5), nn.ReLU(), nn.Conv1d(16, 12, 1)), torch.randn(2, 4, 32)),
            heard_device,
        ),
        ("masks", lambda: (masker(), torch.rand(2, 3, 16, 16)), segmented),
    )
    for name, build, loss in named:
        yield Step(f"objective {name}", build, loss, SECOND)
