"""Fourth list: layers of recommenders, graphs, radiance fields, images, sound, experts, tags, diffusion and agents."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.compiled.making import ROWS, SLOTS, WIDE, program, rows, slots, table


@program
def two_towers_varies() -> None:
    class Factors(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.users = nn.Parameter(torch.ones(SLOTS, WIDE))
            self.items = nn.Embedding(SLOTS, WIDE)

        def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
            taste = self.users[user]  # varies: cpu cuda
            offer = self.items(item)  # varies: cpu cuda
            return taste * offer

    torch.compile(Factors())(slots(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def two_towers_clean() -> None:
    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.users = nn.Linear(64, WIDE, bias=False)
            self.items = nn.Linear(64, WIDE, bias=False)

        def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
            taste = self.users(F.one_hot(user, 64).float())
            offer = self.items(F.one_hot(item, 64).float())
            return taste * offer

    torch.compile(Towers())(slots(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def edge_softmax_varies() -> None:
    @torch.compile
    def step(score: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        wide = target[:, None].expand(-1, WIDE)
        largest = torch.full((SLOTS, WIDE), -1e9).scatter_reduce(0, wide, score, "amax")
        weight = (score - largest[target]).exp()
        total = torch.zeros(SLOTS, WIDE).index_add(0, target, weight)  # varies: cpu cuda
        return weight / total[target]

    step(rows(), slots())


@program
def edge_softmax_clean() -> None:
    @torch.compile
    def step(score: torch.Tensor, nodes: torch.Tensor, neighbour: torch.Tensor) -> torch.Tensor:
        weight = score.softmax(1)  # four neighbours to each node
        near = nodes[neighbour] * weight[:, :, None]
        return near[:, 0] + near[:, 1] + near[:, 2] + near[:, 3]

    step(rows(ROWS, 4), rows(), torch.randint(0, ROWS, (ROWS, 4)))


@program
def hash_grid_varies() -> None:
    class Grid(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Parameter(torch.ones(512, WIDE))

        def forward(self, points: torch.Tensor) -> torch.Tensor:
            cell = (points * 16).long()
            place = (cell[:, 0] ^ (cell[:, 1] * 2654435761) ^ (cell[:, 2] * 805459861)) % 512
            return self.features[place] * points[:, :1]  # varies: cpu cuda

    torch.compile(Grid())(torch.rand(ROWS, 3)).backward(torch.ones(ROWS, WIDE))


@program
def hash_grid_clean() -> None:
    class Waves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(48, WIDE, bias=False)

        def forward(self, points: torch.Tensor) -> torch.Tensor:
            angle = points[:, :, None] * 2.0 ** torch.arange(8)
            return self.layer(torch.cat([angle.sin(), angle.cos()], -1).flatten(1))

    torch.compile(Waves())(torch.rand(ROWS, 3)).backward(torch.ones(ROWS, WIDE))


@program
def window_bias_varies() -> None:
    class Window(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(15 * 15, 8))
            across = torch.arange(64)
            down, over = across // 8, across % 8
            place = (down[:, None] - down + 7) * 15 + over[:, None] - over + 7
            self.register_buffer("place", place.flatten())

        def forward(self, scores: torch.Tensor) -> torch.Tensor:
            bias = self.bias[self.place].view(64, 64, 8)  # varies: cpu cuda
            return (scores + bias).tanh()

    torch.compile(Window())(rows(64, 64, 8)).backward(torch.ones(64, 64, 8))


@program
def window_bias_clean() -> None:
    class Window(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(64, 64, 8))

        def forward(self, scores: torch.Tensor) -> torch.Tensor:
            return (scores + self.bias).tanh()

    torch.compile(Window())(rows(64, 64, 8)).backward(torch.ones(64, 64, 8))


@program
def flow_warp_varies() -> None:
    @torch.compile
    def step(image: torch.Tensor, flow: torch.Tensor) -> torch.Tensor:
        across = torch.arange(64 * 64)
        column = (across % 64 + flow[:, 0]).round().clamp(0, 63)
        row = (across // 64 + flow[:, 1]).round().clamp(0, 63)
        place = (row * 64 + column).long()[:, None].expand(-1, 3, -1)
        return image.flatten(2).gather(2, place).sin()  # varies: cuda

    step(rows(4, 3, 64, 64).requires_grad_(), rows(4, 2, 4096)).backward(torch.ones(4, 3, 4096))


@program
def flow_warp_clean() -> None:
    @torch.compile
    def step(image: torch.Tensor) -> torch.Tensor:
        earlier, later, still = image.chunk(3, dim=1)
        return torch.cat([earlier.roll(1, 0), later.roll(-1, 0), still], 1).sin()

    step(rows(8, 12, 32, 32).requires_grad_()).backward(torch.ones(8, 12, 32, 32))


@program
def overlap_add_varies() -> None:
    place = (torch.arange(500)[:, None] * 64 + torch.arange(256)).flatten()

    @torch.compile
    def step(frames: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
        windowed = (frames * window).flatten()
        return torch.zeros(499 * 64 + 256).index_add(0, place, windowed)  # varies: cpu cuda

    step(rows(500, 256), torch.hann_window(256))


@program
def overlap_add_clean() -> None:
    @torch.compile
    def step(frames: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
        windowed = frames * window
        early = F.pad(windowed[:, :128].flatten(), (0, 128))
        return early + F.pad(windowed[:, 128:].flatten(), (128, 0))

    step(rows(500, 256), torch.hann_window(256))


@program
def resampled_sound_varies() -> None:
    @torch.compile
    def step(sound: torch.Tensor) -> torch.Tensor:
        return F.interpolate(sound, size=16_000, mode="linear").tanh()  # varies: cuda

    step(rows(4, 2, 4000).requires_grad_()).backward(torch.ones(4, 2, 16_000))


@program
def resampled_sound_clean() -> None:
    @torch.compile
    def step(sound: torch.Tensor) -> torch.Tensor:
        return F.avg_pool1d(sound, 4).tanh()

    step(rows(4, 2, 4000).requires_grad_()).backward(torch.ones(4, 2, 1000))


@program
def expert_order_varies() -> None:
    @torch.compile
    def step(tokens: torch.Tensor, expert: torch.Tensor) -> torch.Tensor:
        order = expert.argsort(stable=True)
        done = tokens.repeat(2, 1)[order].relu() + order[:, None]
        out = torch.zeros_like(tokens)
        out[order % ROWS] = done  # varies: cpu cuda
        return out

    step(rows(), torch.randint(0, 8, (2 * ROWS,)))


@program
def expert_order_clean() -> None:
    @torch.compile
    def step(tokens: torch.Tensor, expert: torch.Tensor) -> torch.Tensor:
        order = expert.argsort(stable=True)
        done = tokens[order].relu() + order[:, None]
        out = torch.empty_like(tokens)
        out[order] = done
        return out * 2

    step(rows(), torch.randint(0, 8, (ROWS,)))


@program
def ring_cache_varies() -> None:
    class Ring(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("keys", torch.zeros(512, 64))

        def forward(self, keys: torch.Tensor) -> torch.Tensor:
            place = torch.arange(keys.shape[0]) % 512  # a prompt may be longer than the ring
            self.keys.index_copy_(0, place, keys.sin())  # varies: cpu cuda
            return self.keys * 0.125

    torch.compile(Ring())(rows(5000, 64))


@program
def ring_cache_clean() -> None:
    class Ring(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("keys", torch.zeros(512, 64))

        def forward(self, keys: torch.Tensor) -> torch.Tensor:
            self.keys.copy_(torch.cat([self.keys, keys.sin()])[-512:])
            return self.keys * 0.125

    torch.compile(Ring())(rows(5000, 64))


@program
def adapters_varies() -> None:
    class Adapters(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.Parameter(torch.ones(8, 64, 8))

        def forward(self, values: torch.Tensor, adapter: torch.Tensor) -> torch.Tensor:
            down = self.down[adapter]  # varies: cpu cuda
            return torch.bmm(values, down).tanh()

    torch.compile(Adapters())(rows(256, 32, 64), torch.randint(0, 8, (256,))).backward(torch.ones(256, 32, 8))


@program
def adapters_clean() -> None:
    class Adapters(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.Parameter(torch.ones(8, 64, 8), requires_grad=False)

        def forward(self, values: torch.Tensor, adapter: torch.Tensor) -> torch.Tensor:
            down = self.down[adapter]
            return torch.bmm(values, down).tanh()

    values = rows(256, 32, 64).requires_grad_()
    torch.compile(Adapters())(values, torch.randint(0, 8, (256,))).backward(torch.ones(256, 32, 8))


@program
def tag_transitions_varies() -> None:
    class Transitions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score = nn.Parameter(torch.zeros(8, 8))

        def forward(self, emission: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
            moves = self.score[tags[:, :-1], tags[:, 1:]]  # varies: cpu cuda
            return moves + emission[:, 1:]

    torch.compile(Transitions())(rows(400, 100), torch.randint(0, 8, (400, 100))).backward(torch.ones(400, 99))


@program
def tag_transitions_clean() -> None:
    @torch.compile
    def best(emission: torch.Tensor, score: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        reached, came = emission[:, 0], []
        for time in range(1, emission.shape[1]):
            reached, earlier = (reached[:, :, None] + score).max(1)
            reached = reached + emission[:, time]
            came.append(earlier)
        return reached, torch.stack(came, 1)

    best(rows(400, 5, 8), rows(8, 8))


@program
def noise_schedule_varies() -> None:
    class Schedule(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.signal = nn.Parameter(torch.linspace(0.99, 0.01, 100))

        def forward(self, image: torch.Tensor, noise: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
            signal = self.signal[time].view(-1, 1)  # varies: cpu cuda
            return image * signal + noise * (1 - signal)

    time = torch.randint(0, 100, (ROWS,))
    torch.compile(Schedule())(rows(ROWS, 1), rows(ROWS, 1), time).backward(torch.ones(ROWS, 1))


@program
def noise_schedule_clean() -> None:
    class Schedule(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("signal", torch.linspace(0.99, 0.01, 100))

        def forward(self, image: torch.Tensor, noise: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
            signal = self.signal[time].view(-1, 1)
            return image * signal.sqrt() + noise * (1 - signal).sqrt()

    image, time = rows().requires_grad_(), torch.randint(0, 100, (ROWS,))
    torch.compile(Schedule())(image, rows(), time).backward(torch.ones(ROWS, WIDE))


@program
def merged_tokens_varies() -> None:
    @torch.compile
    def step(tokens: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
        kept, merged = tokens[:, ::2], tokens[:, 1::2]
        place = near[:, :, None].expand(-1, -1, 64)
        return kept.scatter_reduce(1, place, merged.cos(), "mean")  # varies: cuda

    step(rows(8, 196, 64), torch.randint(0, 98, (8, 98)))


@program
def merged_tokens_clean() -> None:
    @torch.compile
    def step(tokens: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
        kept, merged = tokens[:, ::2], tokens[:, 1::2]
        place = near[:, :, None].expand(-1, -1, 64)
        return (kept + merged.gather(1, place).cos()) * 0.5

    step(rows(8, 196, 64), torch.randint(0, 98, (8, 98)))


@program
def atom_projection_varies() -> None:
    @torch.compile
    def step(share: torch.Tensor, reward: torch.Tensor) -> torch.Tensor:
        place = ((reward[:, None] + 0.3 * torch.linspace(-10, 10, 51)).clamp(-10, 10) + 10) / 0.4
        lower = place.floor()
        upper = place.ceil()
        target = torch.zeros_like(share)
        target = target.scatter_add(1, lower.long(), share * (upper - place))  # varies: cuda
        return target.scatter_add(1, upper.long(), share * (place - lower))  # varies: cuda

    step(torch.rand(400, 51), rows(400))


@program
def atom_projection_clean() -> None:
    @torch.compile
    def step(guess: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        error = target[:, None, :] - guess[:, :, None]
        share = (torch.arange(32) + 0.5) / 32
        return (share[:, None] - (error < 0).float()).abs() * F.huber_loss(error, error * 0, reduction="none")

    step(rows(100, 32), rows(100, 32))


@program
def sparse_product_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor, row: torch.Tensor, column: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        parts = values[:, None] * dense[column]
        return dense.new_zeros(SLOTS, WIDE).index_add_(0, row, parts)  # varies: cpu cuda

    step(rows(ROWS), slots(), slots(), rows(SLOTS, WIDE))


@program
def sparse_product_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor, column: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        return (values[:, :, None] * dense[column]).sum(1)  # four entries in each row

    step(rows(ROWS, 4), slots(4 * ROWS).view(ROWS, 4), table() + 1)
