"""Networks of `torchvision`, `timm`, `diffusers`, `torch_geometric` and `torchaudio`, second list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from benchmarks.evidence.models.graph_steps import EDGES, NODES, WIDTH, Stacked, graph
from benchmarks.evidence.models.step import SECOND, Built, Step, classified, of_call
from benchmarks.evidence.models.vision_steps import detected, pictures, scene
from benchmarks.evidence.record_steps import LABELS

#: Name, what it is made with, and the side of its pictures.
TIMM: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("densenet121", {}, 64),
    ("dpn48b", {}, 64),
    ("ese_vovnet19b_dw", {}, 64),
    ("tf_efficientnetv2_b0", {}, 64),
    ("mobilenetv4_hybrid_medium", {}, 64),
    ("mobilevitv2_050", {}, 64),
    ("halonet26t", {}, 256),
    ("gmlp_s16_224", {"img_size": 64}, 64),
    ("twins_svt_small", {}, 64),
    ("nest_tiny", {"img_size": 64}, 64),
    ("focalnet_tiny_srf", {}, 64),
    ("coatnet_nano_rw_224", {"img_size": 64}, 64),
    ("mvitv2_tiny", {}, 64),
    ("swiftformer_xs", {}, 64),
    ("mambaout_femto", {}, 64),
    ("starnet_s1", {}, 64),
    ("pvt_v2_b0", {}, 64),
    ("convit_tiny", {"img_size": 64}, 64),
    ("efficientvit_b0", {}, 64),
    ("hiera_tiny_224", {"img_size": 64}, 64),
)


def timm_models() -> Iterator[Step]:
    for name, options, size in TIMM:

        def build(name: str = name, options: dict[str, Any] = options, size: int = size) -> Built:
            import timm

            return timm.create_model(name, num_classes=10, **options), (pictures(size), LABELS)

        yield Step(f"timm {name}", build, classified, SECOND)


class Regions(nn.Module):
    """Features of two pictures, pooled by boxes."""

    def __init__(self, pooling: str, **options: Any) -> None:
        import torchvision

        super().__init__()
        self.features = nn.Conv2d(3, 8, 3, padding=1)
        self.pooling = getattr(torchvision.ops, pooling)((2, 2), 0.5, **options)

    def forward(self, picture: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        pooled: torch.Tensor = self.pooling(self.features(picture), places)
        return pooled


def torchvision_models() -> Iterator[Step]:
    for name, shape in (
        ("resnet18", (2, 3, 64, 64)),
        ("mobilenet_v2", (2, 3, 64, 64)),
        ("efficientnet_v2_s", (2, 3, 64, 64)),
        ("densenet121", (2, 3, 64, 64)),
        ("r2plus1d_18", (2, 3, 4, 32, 32)),
        ("swin3d_t", (2, 3, 4, 32, 32)),
    ):

        def build(name: str = name, shape: tuple[int, ...] = shape) -> Built:
            import torchvision

            return torchvision.models.get_model(name, num_classes=4), (torch.rand(shape), LABELS)

        yield Step(f"torchvision {name}", build, classified, SECOND)

    def detector() -> Built:
        import torchvision

        make = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_fpn
        model = make(num_classes=4, weights=None, weights_backbone=None, min_size=96, max_size=96)
        return model, ([torch.rand(3, 96, 96) for _ in range(2)], [scene() for _ in range(2)])

    yield Step("torchvision fasterrcnn_mobilenet_v3_large_fpn", detector, detected, SECOND)
    for pooling in ("RoIAlign", "PSRoIAlign"):

        def build_regions(pooling: str = pooling) -> Built:
            places = torch.tensor([[0, 0.0, 0, 20, 20], [1, 4, 4, 30, 24], [0, 2, 2, 12, 12]])
            return Regions(pooling, sampling_ratio=2), (torch.rand(2, 3, 16, 16), places)

        yield Step(f"torchvision {pooling}", build_regions, of_call, SECOND)


def diffusers_models() -> Iterator[Step]:
    when = torch.tensor([3, 500])
    words = torch.randn(2, 6, 32)
    latent = torch.randn(2, 4, 16, 16)
    named: tuple[tuple[str, dict[str, Any], tuple[Any, ...]], ...] = (
        (
            "Transformer2DModel",
            {
                "num_attention_heads": 2,
                "attention_head_dim": 8,
                "in_channels": 4,
                "num_layers": 2,
                "norm_num_groups": 4,
                "cross_attention_dim": 32,
            },
            (latent, {"encoder_hidden_states": words}),
        ),
        (
            "AuraFlowTransformer2DModel",
            {
                "sample_size": 16,
                "num_mmdit_layers": 1,
                "num_single_dit_layers": 1,
                "attention_head_dim": 8,
                "num_attention_heads": 4,
                "joint_attention_dim": 32,
                "caption_projection_dim": 32,
                "pos_embed_max_size": 64,
            },
            (latent, words, when.float(), {}),
        ),
        (
            "LTXVideoTransformer3DModel",
            {
                "in_channels": 8,
                "out_channels": 8,
                "num_attention_heads": 2,
                "attention_head_dim": 16,
                "cross_attention_dim": 32,
                "num_layers": 2,
                "caption_channels": 32,
            },
            (
                torch.randn(2, 16, 8),
                words,
                when,
                torch.ones(2, 6),
                {"num_frames": 1, "height": 4, "width": 4},
            ),
        ),
        (
            "SanaTransformer2DModel",
            {
                "in_channels": 4,
                "out_channels": 4,
                "num_attention_heads": 2,
                "attention_head_dim": 8,
                "num_layers": 2,
                "num_cross_attention_heads": 2,
                "cross_attention_head_dim": 8,
                "cross_attention_dim": 16,
                "caption_channels": 32,
                "sample_size": 16,
            },
            (latent, words, when, {}),
        ),
        (
            "AutoencoderKLTemporalDecoder",
            {
                "block_out_channels": (32, 64),
                "latent_channels": 4,
                "down_block_types": ("DownEncoderBlock2D",) * 2,
            },
            (torch.randn(2, 3, 32, 32), {"num_frames": 2}),
        ),
    )
    for name, options, inputs in named:

        def build(name: str = name, options: dict[str, Any] = options, inputs: tuple[Any, ...] = inputs) -> Built:
            import diffusers

            return getattr(diffusers, name)(**options), inputs

        yield Step(f"diffusers {name}", build, sampled, SECOND)


def sampled(model: nn.Module, inputs: tuple[Any, ...]) -> torch.Tensor:
    """As ``denoised``, of models that return a tensor under ``return_dict=False`` as well."""
    *rest, options = inputs
    out: torch.Tensor = model(*rest, **options, return_dict=False)[0]
    return (out - torch.randn_like(out)).pow(2).mean()


def graph_layers() -> Iterator[Step]:
    features = torch.randn(EDGES, 4)
    layers: tuple[tuple[str, Callable[[Any], nn.Module], tuple[torch.Tensor, ...], str], ...] = (
        ("ResGatedGraphConv", lambda layers: layers.ResGatedGraphConv(WIDTH, WIDTH), (), "global_mean_pool"),
        ("GINConv", lambda layers: layers.GINConv(nn.Linear(WIDTH, WIDTH)), (), "global_add_pool"),
        (
            "GINEConv",
            lambda layers: layers.GINEConv(nn.Linear(WIDTH, WIDTH), edge_dim=4),
            (features,),
            "global_add_pool",
        ),
        ("GATConv", lambda layers: layers.GATConv(WIDTH, WIDTH, heads=2, concat=False), (), "global_max_pool"),
        ("TAGConv", lambda layers: layers.TAGConv(WIDTH, WIDTH), (), "global_mean_pool"),
        ("CGConv", lambda layers: layers.CGConv(WIDTH, 4, batch_norm=True), (features,), "global_mean_pool"),
        (
            "NNConv",
            lambda layers: layers.NNConv(WIDTH, WIDTH, nn.Linear(4, WIDTH * WIDTH)),
            (features,),
            "global_mean_pool",
        ),
        ("EdgeConv", lambda layers: layers.EdgeConv(nn.Linear(2 * WIDTH, WIDTH)), (), "global_max_pool"),
        ("HypergraphConv", lambda layers: layers.HypergraphConv(WIDTH, WIDTH), (), "global_mean_pool"),
        (
            "SuperGATConv",
            lambda layers: layers.SuperGATConv(WIDTH, WIDTH, heads=2, concat=False),
            (),
            "global_mean_pool",
        ),
        ("FiLMConv", lambda layers: layers.FiLMConv(WIDTH, WIDTH), (), "global_mean_pool"),
        ("GatedGraphConv", lambda layers: layers.GatedGraphConv(WIDTH, 2), (), "global_mean_pool"),
        ("FeaStConv", lambda layers: layers.FeaStConv(WIDTH, WIDTH, heads=2), (), "global_mean_pool"),
        ("GMMConv", lambda layers: layers.GMMConv(WIDTH, WIDTH, 4, kernel_size=3), (features,), "global_mean_pool"),
        ("ClusterGCNConv", lambda layers: layers.ClusterGCNConv(WIDTH, WIDTH), (), "global_mean_pool"),
        ("GeneralConv", lambda layers: layers.GeneralConv(WIDTH, WIDTH, attention=True), (), "global_mean_pool"),
    )
    for name, layer, more, pool in layers:

        def build(
            layer: Callable[[Any], nn.Module] = layer, more: tuple[torch.Tensor, ...] = more, pool: str = pool
        ) -> Built:
            from torch_geometric import nn as layers

            return Stacked(layer(layers), layer(layers), getattr(layers, pool)), (*graph(), *more)

        yield Step(f"torch_geometric {name}", build, of_call, SECOND)


class Pooled(nn.Module):
    """A convolution whose nodes are dropped by score, then read out."""

    def __init__(self, pooling: str, readout: str, **options: Any) -> None:
        from torch_geometric import nn as layers

        super().__init__()
        self.first = layers.GCNConv(WIDTH, WIDTH)
        self.pooling = getattr(layers, pooling)(WIDTH, ratio=0.5)
        self.readout = getattr(layers, readout)(**options)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        batch = torch.arange(NODES, device=nodes.device) // (NODES // 2)
        hidden, _, _, batch, *_ = self.pooling(self.first(nodes, edges).relu(), edges, None, batch)
        read: torch.Tensor = self.readout(hidden, batch)
        return read


def graph_models() -> Iterator[Step]:
    for pooling, readout, options in (
        ("TopKPooling", "SumAggregation", {}),
        ("SAGPooling", "SortAggregation", {"k": 3}),
        ("TopKPooling", "SoftmaxAggregation", {"learn": True}),
    ):

        def build(pooling: str = pooling, readout: str = readout, options: dict[str, Any] = options) -> Built:
            return Pooled(pooling, readout, **options), graph()

        yield Step(f"torch_geometric {pooling} {readout}", build, of_call, SECOND)

    def attentive() -> Built:
        from torch_geometric.nn.models import AttentiveFP

        model = AttentiveFP(WIDTH, 16, 1, edge_dim=4, num_layers=2, num_timesteps=2)
        return model, (*graph(), torch.randn(EDGES, 4), torch.arange(NODES) // (NODES // 2))

    yield Step("torch_geometric AttentiveFP", attentive, of_call, SECOND)

    def coder() -> Built:
        from torch_geometric.nn import GAE, GCNConv

        return GAE(GCNConv(WIDTH, 16)), graph()

    def links(model: Any, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        loss: torch.Tensor = model.recon_loss(model.encode(*inputs), inputs[1], inputs[1].flip(0))
        return loss

    yield Step("torch_geometric GAE", coder, links, SECOND)

    def facts() -> Built:
        from torch_geometric.nn.kge import RotatE

        return RotatE(NODES, 3, 8), (
            torch.randint(0, NODES, (EDGES,)),
            torch.randint(0, 3, (EDGES,)),
            torch.randint(0, NODES, (EDGES,)),
        )

    def likely(model: Any, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        loss: torch.Tensor = model.loss(*inputs)
        return loss

    yield Step("torch_geometric RotatE", facts, likely, SECOND)


def torchaudio_models() -> Iterator[Step]:
    lengths = torch.tensor([40, 30])
    named: tuple[tuple[str, Callable[[Any], nn.Module], Callable[[], tuple[Any, ...]]], ...] = (
        ("Wav2Letter", lambda models: models.Wav2Letter(num_classes=12), lambda: (torch.randn(2, 1, 3200),)),
        ("DeepSpeech", lambda models: models.DeepSpeech(16, n_hidden=32, n_class=12), lambda: (spectrum(),)),
        (
            "Conformer",
            lambda models: models.Conformer(16, 4, 32, 2, 7),
            lambda: (torch.randn(2, 40, 16), lengths),
        ),
        (
            "Emformer",
            lambda models: models.Emformer(16, 4, 32, 2, segment_length=8, right_context_length=2),
            lambda: (torch.randn(2, 42, 16), lengths),
        ),
        (
            "ConvTasNet",
            lambda models: models.ConvTasNet(
                enc_num_feats=16, msk_num_feats=8, msk_num_hidden_feats=16, msk_num_layers=3, msk_num_stacks=2
            ),
            lambda: (torch.randn(2, 1, 800),),
        ),
        (
            "WaveRNN",
            lambda models: models.WaveRNN([2, 2, 2], 16, 8, n_rnn=16, n_fc=16, n_freq=8, n_hidden=8, n_output=8),
            lambda: (torch.randn(1, 1, 8 * 6), torch.randn(1, 1, 8, 10)),
        ),
    )
    for name, layer, inputs in named:

        def build(layer: Callable[[Any], nn.Module] = layer, inputs: Callable[[], tuple[Any, ...]] = inputs) -> Built:
            import torchaudio

            return layer(torchaudio.models), inputs()

        yield Step(f"torchaudio {name}", build, of_call, SECOND)

    def front() -> Built:
        import torchaudio

        sound = torchaudio.transforms
        model = nn.Sequential(
            sound.MelSpectrogram(n_fft=256, n_mels=16),
            sound.AmplitudeToDB(),
            sound.FrequencyMasking(4),
            nn.LazyLinear(8),
        )
        model(torch.randn(2, 3200))
        return model, (torch.randn(2, 3200),)

    yield Step("torchaudio MelSpectrogram", front, of_call, SECOND)

    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heard, self.said = nn.Linear(16, 12), nn.Embedding(12, 12)

    def joined(model: Any, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        import torchaudio

        heard, said = inputs
        begun = torch.nn.functional.pad(said, (1, 0))
        scores = model.heard(heard)[:, :, None] + model.said(begun)[:, None]
        counts = [torch.full((2,), count, dtype=torch.int32, device=heard.device) for count in (10, 4)]
        loss: torch.Tensor = torchaudio.functional.rnnt_loss(scores, said.int(), *counts, blank=0)
        return loss

    yield Step(
        "torchaudio rnnt_loss",
        lambda: (Joined(), (torch.randn(2, 10, 16), torch.randint(1, 12, (2, 4)))),
        joined,
        SECOND,
    )


def spectrum() -> torch.Tensor:
    return torch.randn(2, 1, 40, 16)


def steps() -> Iterator[Step]:
    """One step of each."""
    for source in (
        timm_models,
        torchvision_models,
        diffusers_models,
        graph_layers,
        graph_models,
        torchaudio_models,
    ):
        yield from source()
