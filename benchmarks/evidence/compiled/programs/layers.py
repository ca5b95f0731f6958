"""Third list: layers of models of words, images, graphs and experts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.compiled.making import ROWS, SLOTS, WIDE, accused_as_a_whole, program, rows, slots, table


@program
def tied_words_varies() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(SLOTS, WIDE)

        def forward(self, index: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            hidden = self.words(index).tanh()  # varies: cpu cuda
            return hidden * self.words.weight[target]  # varies: cpu cuda

    torch.compile(Tied())(slots(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def tied_words_clean() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(SLOTS, WIDE).requires_grad_(False)
            self.scale = nn.Parameter(torch.ones(ROWS, WIDE))

        def forward(self, index: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            hidden = (self.words(index) * self.scale).tanh()
            return hidden * self.words.weight[target]

    torch.compile(Tied())(slots(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def learned_positions_varies() -> None:
    class Lookup(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions = nn.Embedding(8192, WIDE)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            batch, length, _ = words.shape
            places = torch.arange(length).expand(batch, length)
            return (words + self.positions(places)).sin()  # varies: cpu cuda

    torch.compile(Lookup())(rows(4, 8000, WIDE)).backward(torch.ones(4, 8000, WIDE))


@program
def learned_positions_clean() -> None:
    class Slice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions = nn.Parameter(torch.zeros(8192, WIDE))

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            return (words + self.positions[: words.shape[1]]).sin()

    torch.compile(Slice())(rows(4, 8000, WIDE)).backward(torch.ones(4, 8000, WIDE))


@program
def score_bias_varies() -> None:
    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Embedding(32, 8)

        def forward(self, scores: torch.Tensor) -> torch.Tensor:
            place = torch.arange(scores.shape[-1])
            distance = (place[None, :] - place[:, None]).abs().clamp(max=31)
            bias = self.bias(distance)  # varies: cuda
            return scores + bias.permute(2, 0, 1)

    torch.compile(Biased(), fullgraph=True)(rows(1, 8, 256, 256)).backward(torch.ones(1, 8, 256, 256))


@program
def score_bias_clean() -> None:
    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("slopes", 2.0 ** -torch.arange(1.0, 9.0))

        def forward(self, scores: torch.Tensor) -> torch.Tensor:
            place = torch.arange(scores.shape[-1])
            distance = (place[None, :] - place[:, None]).abs()
            return scores.sin() - self.slopes[:, None, None] * distance

    values = rows(1, 8, 256, 256).requires_grad_()
    torch.compile(Linear(), fullgraph=True)(values).backward(torch.ones(1, 8, 256, 256))


@program
def windows_of_image_varies() -> None:
    places = (torch.arange(31)[:, None] + torch.arange(4)).flatten()

    @torch.compile
    def step(image: torch.Tensor) -> torch.Tensor:
        parts = image.index_select(1, places)  # varies: cuda
        return parts.relu()

    step(rows(64, 64, 64).requires_grad_()).backward(torch.ones(64, 124, 64))


@program
def windows_of_image_clean() -> None:
    @torch.compile
    def step(image: torch.Tensor) -> torch.Tensor:
        rolled = torch.roll(image, shifts=(-4, -4), dims=(1, 2))
        parts = rolled.view(64, 8, 8, 8, 8).permute(0, 1, 3, 2, 4).relu()
        return torch.roll(parts.permute(0, 1, 3, 2, 4).reshape(64, 64, 64), shifts=(4, 4), dims=(1, 2))

    step(rows(64, 64, 64).requires_grad_()).backward(torch.ones(64, 64, 64))


@program
def rotations_varies() -> None:
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.angle = nn.Parameter(torch.ones(512, WIDE // 2))

        def forward(self, query: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
            angle = self.angle[position]  # varies: cpu cuda
            left, right = query.chunk(2, dim=-1)
            return torch.cat([left * angle.cos() - right * angle.sin(), left * angle.sin() + right * angle.cos()], -1)

    rotary = torch.compile(Rotary())
    rotary(rows(40, 500, WIDE), torch.arange(500).repeat(40, 1)).backward(torch.ones(40, 500, WIDE))


@program
def rotations_clean() -> None:
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("angle", torch.ones(512, WIDE // 2))

        def forward(self, query: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
            angle = self.angle[position]
            left, right = query.chunk(2, dim=-1)
            return torch.cat([left * angle.cos() - right * angle.sin(), left * angle.sin() + right * angle.cos()], -1)

    query = rows(40, 500, WIDE).requires_grad_()
    torch.compile(Rotary())(query, torch.arange(500).repeat(40, 1)).backward(torch.ones(40, 500, WIDE))


@program
def paged_cache_varies() -> None:
    @torch.compile
    def store(cache: torch.Tensor, slot: torch.Tensor, keys: torch.Tensor) -> None:
        cache[slot] = keys.to(cache.dtype) * 0.5  # varies: cpu cuda

    # padding goes to slot 0, which is read like any other
    store(rows(), torch.arange(ROWS) * (torch.arange(ROWS) % 3 > 0), rows())


@program
def paged_cache_clean() -> None:
    @torch.compile
    def store(cache: torch.Tensor, keys: torch.Tensor, start: int) -> None:
        cache[:, start : start + keys.shape[1]] = keys * 0.5

    store(rows(8, 2048, WIDE), rows(8, 512, WIDE), 128)


@program
def expert_outputs_varies() -> None:
    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3 * ROWS, WIDE))

        def forward(self, tokens: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
            copies = tokens.repeat_interleave(3, dim=0)[order] * self.scale
            return torch.zeros_like(tokens).index_add(0, order // 3, copies)  # varies: cpu cuda

    torch.compile(Mixture())(rows(), torch.randperm(3 * ROWS)).backward(torch.ones(ROWS, WIDE))


@program
def expert_outputs_clean() -> None:
    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3 * ROWS, WIDE))

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            copies = tokens.repeat_interleave(3, dim=0) * self.scale
            return copies.view(-1, 3, WIDE).sum(1)

    torch.compile(Mixture())(rows()).backward(torch.ones(ROWS, WIDE))


@program
def expert_loop_varies() -> None:
    @torch.compile
    def step(out: torch.Tensor, tokens: torch.Tensor, chosen: torch.Tensor, expert: int) -> torch.Tensor:
        row, _ = torch.where(chosen == expert)  # a token may have chosen an expert several times
        return out.index_add(0, row, tokens[row] * (expert + 1))  # varies: cpu cuda

    out, tokens, chosen = torch.zeros(ROWS, WIDE), rows(), torch.randint(0, 2, (ROWS, 4))
    for expert in range(2):
        out = step(out, tokens, chosen, expert)


@program
def expert_loop_clean() -> None:
    @torch.compile
    def step(out: torch.Tensor, tokens: torch.Tensor, chosen: torch.Tensor, expert: int) -> torch.Tensor:
        (row,) = torch.where(chosen == expert)
        return out.index_add(0, row, tokens[row] * (expert + 1))

    out, tokens, chosen = torch.zeros(ROWS, WIDE), rows(), torch.randint(0, 2, (ROWS,))
    for expert in range(2):
        out = step(out, tokens, chosen, expert)


@program
def running_share_varies() -> None:
    @torch.compile
    def step(gates: torch.Tensor) -> torch.Tensor:
        return gates.sigmoid().cumsum(0) * 0.1  # varies: cuda

    step(rows(2**18))


@program
def running_share_clean() -> None:
    @torch.compile
    def step(expert: torch.Tensor) -> torch.Tensor:
        place = F.one_hot(expert, 8).cumsum(0) - 1
        return place.gather(1, expert[:, None])

    step(torch.randint(0, 8, (ROWS,)))


@program
def messages_varies() -> None:
    class Convolution(nn.Module):
        def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            messages = nodes[edges[0]].relu()  # varies: cpu cuda
            target = edges[1][:, None].expand(-1, WIDE)
            return torch.zeros_like(nodes).scatter_add(0, target, messages)  # varies: cuda

    torch.compile(Convolution())(table().requires_grad_(), torch.randint(0, SLOTS, (2, ROWS))).backward(table())


@program
def messages_clean() -> None:
    class Sums(nn.Module):
        def forward(self, edges: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
            return torch.segment_reduce(edges.relu(), "sum", lengths=counts, axis=0)

    torch.compile(Sums())(rows(), torch.full((SLOTS,), ROWS // SLOTS))


@program
def pooled_nodes_varies() -> None:
    @torch.compile
    def step(nodes: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        into = torch.zeros(SLOTS, WIDE)
        return into.scatter_reduce(0, graph, nodes.tanh(), "mean", include_self=False)  # varies: cuda

    step(rows().requires_grad_(), slots()[:, None].expand(ROWS, WIDE)).backward(table())


@program
def pooled_nodes_clean() -> None:
    @torch.compile
    def step(nodes: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        into = torch.zeros(SLOTS, WIDE)
        return into.scatter_reduce(0, graph, nodes.tanh(), "amax", include_self=False)

    # the gradient counts which rows are the largest: a sum of ones and zeros
    step(rows().requires_grad_(), slots()[:, None].expand(ROWS, WIDE)).backward(table())


@program
def degrees_varies() -> None:
    @torch.compile
    def step(target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        degree = torch.zeros(SLOTS).scatter_add_(0, target, weight.exp())  # varies: cuda
        return degree.clamp(min=1).rsqrt()

    step(slots(), rows(ROWS))


@program
def degrees_clean() -> None:
    @torch.compile
    def step(target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        degree = torch.zeros(SLOTS).scatter_add_(0, target, torch.ones_like(weight))
        return degree.clamp(min=1).rsqrt()

    step(slots(), rows(ROWS))


@program
def sampled_volume_varies() -> None:
    @torch.compile
    def step(volume: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(volume, grid, align_corners=False).relu()  # varies: cuda

    step(rows(2, 3, 8, 8, 8).requires_grad_(), rows(2, 6, 6, 6, 3)).backward(torch.ones(2, 3, 6, 6, 6))


@program
def sampled_volume_clean() -> None:
    @torch.compile
    def step(volume: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return F.grid_sample(volume, grid, align_corners=False).relu()

    step(rows(2, 3, 8, 8, 8).requires_grad_(), rows(2, 6, 6, 6, 3))


@program
def decoder_varies() -> None:
    class Grows(nn.Module):
        def forward(self, volume: torch.Tensor) -> torch.Tensor:
            return F.interpolate(volume, size=(11, 11, 11), mode="trilinear").sin()  # varies: cuda

    torch.compile(Grows())(rows(2, 3, 8, 8, 8).requires_grad_()).backward(torch.ones(2, 3, 11, 11, 11))


@program
def decoder_clean() -> None:
    class Grows(nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return F.pixel_shuffle(image, 4).sin()

    torch.compile(Grows())(rows(2, 48, 16, 16).requires_grad_()).backward(torch.ones(2, 3, 64, 64))


@program
def crops_varies() -> None:
    @torch.compile
    def step(image: torch.Tensor, top: torch.Tensor, left: torch.Tensor) -> torch.Tensor:
        across = torch.arange(24)
        down = (top[:, None] + across)[:, :, None]
        return image[:, down, (left[:, None] + across)[:, None, :]].sin()  # varies: cpu cuda

    corners = torch.randint(0, 8, (2, 32))
    step(rows(3, 32, 32).requires_grad_(), corners[0], corners[1]).backward(torch.ones(3, 32, 24, 24))


@program
def crops_clean() -> None:
    @torch.compile
    def step(image: torch.Tensor) -> torch.Tensor:
        return torch.stack([image[:, top : top + 24, 4:28] for top in range(0, 8, 2)], 1).sin()

    step(rows(3, 32, 32).requires_grad_()).backward(torch.ones(3, 4, 24, 24))


@accused_as_a_whole("cuda")  # four configurations of a persistent reduction, which Triton times
def norm_of_rows_varies() -> None:
    norm = torch.compile(nn.LayerNorm(64))
    norm(rows(ROWS, 64))


@program
def norm_of_rows_clean() -> None:
    norm = torch.compile(nn.LayerNorm(512))  # long rows, few of them: one configuration
    with torch.no_grad():
        norm(rows(64, 512))


@program
def attended_varies() -> None:
    class Attention(nn.Module):
        def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            out = F.scaled_dot_product_attention(query, key, value, is_causal=True)  # varies: cuda
            return out.transpose(1, 2).flatten(2)

    query, key, value = (rows(2, 4, 256, 64).bfloat16().requires_grad_() for _ in range(3))
    torch.compile(Attention())(query, key, value).backward(torch.ones(2, 256, 256, dtype=torch.bfloat16))


@program
def attended_clean() -> None:
    class Attention(nn.Module):
        def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            return out.transpose(1, 2).flatten(2)

    query, key, value = (rows(2, 4, 256, 64).bfloat16() for _ in range(3))
    torch.compile(Attention())(query, key, value)


@program
def image_tokens_varies() -> None:
    @torch.compile
    def step(words: torch.Tensor, features: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        return words + features[image].sin()  # varies: cpu cuda

    step(rows(), rows(SLOTS, WIDE).requires_grad_(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def image_tokens_clean() -> None:
    @torch.compile
    def step(words: torch.Tensor, features: torch.Tensor, is_image: torch.Tensor) -> torch.Tensor:
        return words.masked_scatter(is_image, features.sin())

    step(rows(), rows().requires_grad_(), (slots() > 25)[:, None].expand(ROWS, WIDE)).backward(torch.ones(ROWS, WIDE))


@program
def mobile_block_varies() -> None:
    @torch.compile
    def step(image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(image, weight, padding=1).relu()  # varies: cuda

    step(rows(2, 8, 16, 16).requires_grad_(), rows(8, 8, 3, 3).requires_grad_()).backward(torch.ones(2, 8, 16, 16))


@program
def mobile_block_clean() -> None:
    @torch.compile
    def step(image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(image, weight, padding=1, groups=8).relu()

    step(rows(2, 8, 16, 16).requires_grad_(), rows(8, 1, 3, 3).requires_grad_()).backward(torch.ones(2, 8, 16, 16))


@program
def recurrent_memory_varies() -> None:
    @torch.compile
    def step(memory: torch.Tensor, hidden: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
        for time in range(3):
            hidden = (memory[slot[time]] + hidden).tanh()  # varies: cpu cuda
        return hidden

    step(table().requires_grad_(), rows(), slots(3 * ROWS).view(3, ROWS)).backward(torch.ones(ROWS, WIDE))


@program
def recurrent_memory_clean() -> None:
    @torch.compile
    def step(weight: torch.Tensor, hidden: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        for time in range(3):
            hidden = (weight * hidden + inputs[time]).tanh()
        return hidden

    step(rows().requires_grad_(), rows(), rows(3, ROWS, WIDE)).backward(torch.ones(ROWS, WIDE))
