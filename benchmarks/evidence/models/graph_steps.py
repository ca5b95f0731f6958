"""Networks of `torch_geometric` on one graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from benchmarks.evidence.models.step import Built, Step, of_call

NODES, EDGES, WIDTH = 20, 60, 8


def graph() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(NODES, WIDTH), torch.randint(0, NODES, (2, EDGES))


class Stacked(nn.Module):
    """Two layers and a pooling of each graph's nodes."""

    def __init__(self, first: nn.Module, second: nn.Module, pool: Any) -> None:
        super().__init__()
        self.first, self.second, self.pool = first, second, pool

    def forward(self, nodes: torch.Tensor, *edges: torch.Tensor) -> torch.Tensor:
        hidden = self.second(self.first(nodes, *edges).relu(), *edges)
        batch = torch.arange(NODES, device=nodes.device) // (NODES // 2)
        pooled: torch.Tensor = self.pool(hidden, batch)
        return pooled


def steps() -> Iterator[Step]:
    """One step of each."""
    layers: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("GCNConv", {}, "global_mean_pool"),
        ("SAGEConv", {}, "global_max_pool"),
        ("GATv2Conv", {}, "global_add_pool"),
        ("TransformerConv", {}, "global_mean_pool"),
        ("GraphConv", {"aggr": "max"}, "global_mean_pool"),
        ("ChebConv", {"K": 3}, "global_mean_pool"),
        ("ARMAConv", {}, "global_mean_pool"),
        (
            "PNAConv",
            {
                "aggregators": ["mean", "min", "max", "std"],
                "scalers": ["identity", "amplification"],
                "deg": torch.ones(10, dtype=torch.long),
            },
            "global_mean_pool",
        ),
        ("GENConv", {}, "global_mean_pool"),
        ("LEConv", {}, "global_add_pool"),
        ("EGConv", {"num_heads": 2}, "global_mean_pool"),
        ("SAGEConv", {"aggr": "median"}, "global_mean_pool"),
    )
    for name, options, pool in layers:

        def build(name: str = name, options: dict[str, Any] = options, pool: str = pool) -> Built:
            from torch_geometric import nn as layers

            first, second = (getattr(layers, name)(WIDTH, WIDTH, **options) for _ in range(2))
            return Stacked(first, second, getattr(layers, pool)), graph()

        told = "".join(f" {key}={value}" for key, value in options.items() if isinstance(value, str))
        yield Step(f"torch_geometric {name}{told}", build, of_call)

    def pointed() -> Built:
        from torch_geometric.nn import PointNetConv

        class Points(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = PointNetConv(nn.Linear(WIDTH + 3, 16), nn.Linear(16, 16))

            def forward(self, nodes: torch.Tensor, places: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
                out: torch.Tensor = self.layer(nodes, places, edges)
                return out

        nodes, edges = graph()
        return Points(), (nodes, torch.randn(NODES, 3), edges)

    yield Step("torch_geometric PointNetConv", pointed, of_call)

    def molecules() -> Built:
        from torch_geometric.nn.models import SchNet

        class Molecules(SchNet):  # type: ignore[misc]
            """Its own search for neighbours asks for a compiled extension."""

            def __init__(self) -> None:
                super().__init__(16, 16, 2, 8, interaction_graph=lambda places, batch: self.near(places))

            @staticmethod
            def near(places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                edges = torch.combinations(torch.arange(len(places), device=places.device)).t()
                return edges, (places[edges[0]] - places[edges[1]]).norm(dim=-1)

        return Molecules(), (torch.randint(1, 9, (10,)), torch.randn(10, 3), torch.arange(10) // 5)

    yield Step("torch_geometric SchNet", molecules, of_call)

    def relations() -> Built:
        from torch_geometric.nn import RGCNConv

        nodes, edges = graph()
        pool = lambda hidden, batch: hidden  # noqa: E731
        model = Stacked(RGCNConv(WIDTH, WIDTH, 3), RGCNConv(WIDTH, WIDTH, 3), pool)
        return model, (nodes, edges, torch.randint(0, 3, (EDGES,)))

    yield Step("torch_geometric RGCNConv", relations, of_call)

    def ranked() -> Built:
        from torch_geometric.nn import LightGCN

        return LightGCN(NODES, WIDTH, 2), (torch.randint(0, NODES, (2, EDGES)),)

    yield Step("torch_geometric LightGCN", ranked, of_call)
