"""Models that pool, resize, pad, sample and rank: what deterministic mode still refuses from 2.10 on. Third list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.evidence.models.graph_steps import WIDTH, Stacked, graph
from benchmarks.evidence.models.network_steps import Regions, sampled
from benchmarks.evidence.models.perception_steps import SIGHT, boxes
from benchmarks.evidence.models.step import THIRD, Built, Loss, Step, classified, of_call
from benchmarks.evidence.models.transformers_steps import (
    Inputs,
    Named,
    bare_images,
    of_names,
    segments,
    waves,
)
from benchmarks.evidence.models.vision_steps import detected, pictures, scene, segmented
from benchmarks.evidence.record_steps import LABELS, masks, pixels, tokens

_FOUR = {"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4]}
_RESNET = {
    "model_type": "resnet",
    "hidden_sizes": [16, 16, 32, 32],
    "depths": [1, 1, 1, 1],
    "embedding_size": 8,
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}
_DINO = {
    **SIGHT,
    "model_type": "dinov2",
    "num_hidden_layers": 4,
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
    "reshape_hidden_states": False,
}


def _depths(side: int) -> Inputs:
    return lambda config: {"pixel_values": torch.randn(2, 3, side, side)}


NAMED: Named = (
    ("SegformerForSemanticSegmentation", segments, {}),
    ("Data2VecVisionForSemanticSegmentation", segments, {**_FOUR, "pool_scales": [1, 2]}),
    (
        "UperNetForSemanticSegmentation",
        lambda config: {"pixel_values": torch.randn(2, 3, 64, 64), "labels": torch.randint(0, 2, (2, 64, 64))},
        {"backbone_config": _RESNET, "hidden_size": 16, "auxiliary_in_channels": 32, "auxiliary_channels": 8},
    ),
    (
        "DPTForDepthEstimation",
        bare_images,
        {
            "is_hybrid": False,
            "num_hidden_layers": 4,
            "patch_size": 8,
            "image_size": 32,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [8, 8, 16, 16],
            "fusion_hidden_size": 16,
        },
    ),
    (
        "DepthAnythingForDepthEstimation",
        _depths(32),
        {
            "backbone_config": _DINO,
            "patch_size": 8,
            "reassemble_hidden_size": 32,
            "neck_hidden_sizes": [8, 8, 16, 16],
            "fusion_hidden_size": 16,
            "head_hidden_size": 8,
        },
    ),
    ("GLPNForDepthEstimation", _depths(64), {}),
    ("ZoeDepthForDepthEstimation", _depths(32), {}),
    ("VitMatteForImageMatting", lambda config: {"pixel_values": torch.randn(2, 4, 32, 32)}, {}),
    ("OneFormerForUniversalSegmentation", masks, {}),
    ("EomtForUniversalSegmentation", masks, {}),
    (
        "CLIPSegForImageSegmentation",
        lambda config: {"input_ids": tokens(), "pixel_values": pixels(config)},
        {},
    ),
    ("RTDetrV2ForObjectDetection", boxes, {}),
    ("LwDetrForObjectDetection", boxes, {}),
    ("RfDetrForObjectDetection", boxes, {}),
    ("SuperGlueForKeypointMatching", lambda config: {"pixel_values": torch.rand(1, 2, 3, 64, 64)}, {}),
    ("EfficientLoFTRForKeypointMatching", lambda config: {"pixel_values": torch.rand(1, 2, 3, 64, 64)}, {}),
    (
        "SegGptForImageSegmentation",
        lambda config: {
            "pixel_values": torch.randn(1, 3, 32, 32),
            "prompt_pixel_values": torch.randn(1, 3, 32, 32),
            "prompt_masks": torch.randn(1, 3, 32, 32),
            "labels": torch.randn(1, 3, 32, 32),
        },
        {
            "image_size": [64, 32],
            "patch_size": 8,
            "num_hidden_layers": 4,
            "hidden_size": 32,
            "merge_index": 1,
            "intermediate_hidden_state_indices": [1, 2, 3],
            "pretrain_image_size": 32,
            "mlp_dim": 48,
            "num_attention_heads": 4,
        },
    ),
    (
        "SpeechT5HifiGan",
        lambda config: {"spectrogram": torch.randn(2, 12, config.model_in_dim)},
        {"upsample_initial_channel": 16, "model_in_dim": 16},
    ),
    ("MimiModel", lambda config: {"input_values": torch.randn(1, 1, 3840)}, {}),
    ("Wav2Vec2ForCTC", waves, {}),
    ("HubertForCTC", waves, {}),
    ("UniSpeechSatForCTC", waves, {}),
    (
        "PoolFormerForImageClassification",
        lambda config: {"pixel_values": torch.randn(2, 3, 64, 64), "labels": LABELS},
        {},
    ),
    ("PvtForImageClassification", lambda config: {"pixel_values": pixels(config), "labels": LABELS}, {}),
    (
        "TimesformerForVideoClassification",
        lambda config: {"pixel_values": torch.randn(1, 4, 3, 32, 32), "labels": LABELS[:1]},
        {"num_frames": 4, "image_size": 32, "patch_size": 8},
    ),
)


def networks_of_libraries() -> Iterator[Step]:
    """Classifiers, segmenters and detectors of `timm` and `torchvision`."""
    for name, size in (
        ("resnetblur18", 64),
        ("resnetblur50", 64),
        ("vgg11", 64),
        ("inception_v3", 96),
        ("selecsls42", 64),
        ("convmixer_768_32", 32),
        ("sequencer2d_s", 64),
        ("hgnetv2_b0", 64),
        ("repvit_m0_9", 64),
        ("davit_tiny", 64),
    ):

        def build_timm(name: str = name, size: int = size) -> Built:
            import timm

            return timm.create_model(name, num_classes=10), (pictures(size), LABELS)

        yield Step(f"timm {name}", build_timm, classified, THIRD)
    for name, shape in (
        ("vgg11", (2, 3, 96, 96)),
        ("inception_v3", (2, 3, 96, 96)),
        ("resnext50_32x4d", (2, 3, 64, 64)),
        ("convnext_tiny", (2, 3, 64, 64)),
        ("r3d_18", (2, 3, 4, 32, 32)),
    ):

        def build_torchvision(name: str = name, shape: tuple[int, ...] = shape) -> Built:
            import torchvision

            options = {"aux_logits": False, "init_weights": False} if name == "inception_v3" else {}
            return torchvision.models.get_model(name, num_classes=4, **options), (torch.rand(shape), LABELS)

        yield Step(f"torchvision {name}", build_torchvision, classified, THIRD)
    for name in ("deeplabv3_resnet50", "fcn_resnet101"):

        def build_segmenter(name: str = name) -> Built:
            import torchvision

            model = torchvision.models.get_model(name, num_classes=5, weights_backbone=None, aux_loss=True)
            return model, (pictures(), torch.randint(0, 5, (2, 64, 64)))

        yield Step(f"torchvision {name}", build_segmenter, segmented, THIRD)
    for name in ("maskrcnn_resnet50_fpn_v2", "fasterrcnn_resnet50_fpn", "retinanet_resnet50_fpn_v2", "ssd300_vgg16"):

        def build_detector(name: str = name) -> Built:
            import torchvision

            sides = {} if name.startswith("ssd") else {"min_size": 96, "max_size": 96}
            make = getattr(torchvision.models.detection, name)
            model = make(num_classes=4, weights=None, weights_backbone=None, **sides)
            return model, ([torch.rand(3, 96, 96) for _ in range(2)], [scene() for _ in range(2)])

        yield Step(f"torchvision {name}", build_detector, detected, THIRD)
    for pooling in ("RoIPool", "PSRoIPool"):

        def build_regions(pooling: str = pooling) -> Built:
            places = torch.tensor([[0, 0.0, 0, 20, 20], [1, 4, 4, 30, 24]])
            return Regions(pooling), (torch.rand(2, 3, 16, 16), places)

        yield Step(f"torchvision {pooling}", build_regions, of_call, THIRD)

    class Deformed(nn.Module):
        def __init__(self) -> None:
            from torchvision.ops import DeformConv2d

            super().__init__()
            self.offset, self.deform = nn.Conv2d(3, 18, 3, padding=1), DeformConv2d(3, 8, 3, padding=1)

        def forward(self, picture: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.deform(picture, self.offset(picture))
            return out

    yield Step("torchvision DeformConv2d", lambda: (Deformed(), (torch.rand(2, 3, 16, 16),)), of_call, THIRD)


def coders() -> Iterator[Step]:
    """Autoencoders and denoisers of `diffusers`."""
    video = torch.randn(1, 3, 5, 32, 32)
    named: tuple[tuple[str, dict[str, Any], tuple[Any, ...]], ...] = (
        (
            "AutoencoderKLHunyuanVideo",
            {"block_out_channels": (8, 8, 8, 8), "layers_per_block": 1, "latent_channels": 4, "norm_num_groups": 4},
            (video, {}),
        ),
        (
            "AutoencoderKLCogVideoX",
            {"block_out_channels": (8, 8, 8, 8), "layers_per_block": 1, "latent_channels": 4, "norm_num_groups": 4},
            (video, {}),
        ),
        (
            "AutoencoderKLMochi",
            {
                "latent_channels": 4,
                "encoder_block_out_channels": (32, 32, 32, 32),
                "decoder_block_out_channels": (32, 32, 32, 32),
                "layers_per_block": (1, 1, 1, 1, 1),
                "out_channels": 3,
            },
            (torch.randn(1, 3, 7, 16, 16), {}),
        ),
        (
            "AutoencoderKLWan",
            {
                "base_dim": 4,
                "z_dim": 4,
                "dim_mult": [1, 1, 1, 1],
                "num_res_blocks": 1,
                "temperal_downsample": [False, True, True],
                "latents_mean": [0.0] * 4,
                "latents_std": [1.0] * 4,
            },
            (video, {}),
        ),
        (
            "AsymmetricAutoencoderKL",
            {"down_block_out_channels": (32,), "up_block_out_channels": (32,), "latent_channels": 4},
            (torch.randn(2, 3, 32, 32), {}),
        ),
        (
            "AutoencoderOobleck",
            {
                "encoder_hidden_size": 8,
                "downsampling_ratios": [2, 4],
                "decoder_channels": 8,
                "decoder_input_channels": 4,
                "channel_multiples": [1, 2],
            },
            (torch.randn(2, 2, 64), {}),
        ),
        (
            "UVit2DModel",
            {
                "hidden_size": 32,
                "cond_embed_dim": 32,
                "micro_cond_encode_dim": 8,
                "micro_cond_embed_dim": 40,
                "encoder_hidden_size": 32,
                "vocab_size": 33,
                "codebook_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 4,
                "in_channels": 32,
                "block_out_channels": 32,
                "intermediate_size": 48,
            },
            (torch.randint(0, 32, (2, 8, 8)), torch.randn(2, 6, 32), torch.randn(2, 32), torch.randn(2, 5), {}),
        ),
    )
    for name, options, inputs in named:

        def build(name: str = name, options: dict[str, Any] = options, inputs: tuple[Any, ...] = inputs) -> Built:
            import diffusers

            return getattr(diffusers, name)(**options), inputs

        def loss(model: nn.Module, inputs: tuple[Any, ...], name: str = name) -> torch.Tensor:
            if name != "UVit2DModel":
                return sampled(model, inputs)
            logits: torch.Tensor = model(*inputs[:-1])
            return functional.cross_entropy(logits, inputs[0])

        yield Step(f"diffusers {name}", build, loss, THIRD)


def graphs() -> Iterator[Step]:
    """Convolutions of `torch_geometric` with aggregations that rank, multiply or differ."""
    aggregations: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("MedianAggregation", lambda layers: layers.MedianAggregation()),
        ("MulAggregation", lambda layers: layers.MulAggregation()),
        ("StdAggregation", lambda layers: layers.StdAggregation()),
        ("PowerMeanAggregation", lambda layers: layers.PowerMeanAggregation(learn=True)),
        ("QuantileAggregation", lambda layers: layers.QuantileAggregation([0.25, 0.75])),
        ("LCMAggregation", lambda layers: layers.LCMAggregation(WIDTH, WIDTH)),
    )
    for name, aggregation in aggregations:

        def build(aggregation: Callable[[Any], Any] = aggregation) -> Built:
            from torch_geometric import nn as layers

            first, second = (layers.SAGEConv(WIDTH, WIDTH, aggr="mean") for _ in range(2))
            return Stacked(first, second, aggregation(layers)), graph()

        yield Step(f"torch_geometric {name}", build, of_call, THIRD)

    def unet() -> Built:
        from torch_geometric.nn import GraphUNet

        return GraphUNet(WIDTH, 16, 4, depth=2), graph()

    yield Step("torch_geometric GraphUNet", unet, of_call, THIRD)


class Pyramid(nn.Module):
    """Pooling at several scales, resized and joined, as PSPNet does."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(32, 5, 1)

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        hidden = self.body(picture).relu()
        scales = [functional.adaptive_avg_pool2d(hidden, scale) for scale in (1, 2, 3)]
        sides = hidden.shape[-2:]
        parts = [functional.interpolate(part, sides, mode="bilinear", align_corners=False) for part in scales]
        return functional.interpolate(self.head(torch.cat([hidden, *parts], 1)), scale_factor=2, mode="bilinear")


class Volume(nn.Module):
    """A U-Net of volumes."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle, self.up = nn.Conv3d(1, 8, 3, 1, 1), nn.Conv3d(8, 8, 3, 1, 1), nn.Conv3d(16, 3, 1)

    def forward(self, volume: torch.Tensor) -> torch.Tensor:
        hidden = self.down(volume).relu()
        deep = self.middle(functional.max_pool3d(hidden, 2)).relu()
        back = functional.interpolate(deep, scale_factor=2, mode="trilinear")
        return self.up(torch.cat([hidden, back], 1))  # type: ignore[no-any-return]


class Unpooled(nn.Module):
    """Pooling whose places the decoder takes up again, as SegNet does."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 5, 3, padding=1)

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        hidden, places = functional.max_pool2d(self.first(picture).relu(), 2, return_indices=True)
        return self.last(functional.max_unpool2d(hidden, places, [2, 2]))  # type: ignore[no-any-return]


class Style(nn.Module):
    """Reflected borders and enlargement, as in networks that transfer style."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.ReflectionPad2d(2), nn.Conv2d(3, 8, 5, 2), nn.InstanceNorm2d(8, affine=True), nn.ReLU()),
            *(nn.Upsample(scale_factor=2, mode=mode), nn.ReplicationPad2d(1), nn.Conv2d(8, 3, 3)),
        )

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        return self.body(picture)  # type: ignore[no-any-return]


class Spatial(nn.Module):
    """A network that turns its picture before it looks."""

    def __init__(self, padding: str) -> None:
        super().__init__()
        self.place, self.look, self.padding = nn.Linear(3 * 256, 6), nn.Conv2d(3, 8, 3), padding

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        turns = self.place(picture.flatten(1)).view(-1, 2, 3)
        grid = functional.affine_grid(turns, list(picture.shape), align_corners=False)
        turned = functional.grid_sample(picture, grid, align_corners=False, padding_mode=self.padding)
        return functional.adaptive_max_pool2d(self.look(turned), 2)


class Bags(nn.Module):
    """Categories in bags, as recommenders have them."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(50, 8, mode=mode), nn.Linear(8, 3)

    def forward(self, categories: torch.Tensor) -> torch.Tensor:
        return self.head(self.bag(categories))  # type: ignore[no-any-return]


class Points(nn.Module):
    """Distances of points, ranked."""

    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Linear(3, 16)

    def forward(self, points: torch.Tensor) -> tuple[torch.Tensor, ...]:
        lifted = self.lift(points)
        far = torch.cdist(lifted, lifted)
        return far.kthvalue(3, -1).values, lifted.median(1).values, lifted.sort(1).values.cumsum(1)


class Wave(nn.Module):
    """Sound, padded by reflection and resampled."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv1d(1, 8, 7), nn.Conv1d(8, 1, 7)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        hidden = self.first(functional.pad(sound, (3, 3), "reflect")).relu()
        hidden = functional.interpolate(functional.avg_pool1d(hidden, 2), scale_factor=2, mode="linear")
        return self.last(functional.pad(hidden, (3, 3), "replicate"))  # type: ignore[no-any-return]


class Memory(nn.Module):
    """Slots that are written by their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.write, self.read = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, rows: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        written = self.write(rows)
        memory = torch.zeros(6, 8, device=rows.device).index_copy(0, slots, written[:4])
        memory = memory.index_add(0, slots.flip(0), written[2:]).index_put((slots,), written[:4], accumulate=True)
        places = torch.arange(16, device=rows.device)
        return self.read(memory.put(places, written.flatten()[:16]))  # type: ignore[no-any-return]


class Fractions(nn.Module):
    """Pooling of every other kind."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, picture: torch.Tensor, volume: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = self.first(picture)
        lifted = volume * hidden.mean()
        return (
            functional.fractional_max_pool2d(hidden, 3, output_ratio=(0.5, 0.5)),
            functional.lp_pool2d(hidden, 2, 2),
            functional.adaptive_avg_pool3d(lifted, (2, 3, 2)),
            functional.avg_pool3d(lifted, 2),
        )


class Text(nn.Module):
    """A picture of a line of text, read from left to right."""

    def __init__(self) -> None:
        super().__init__()
        self.look, self.say = nn.Conv2d(1, 16, (8, 3), padding=(0, 1)), nn.Linear(16, 12)

    def forward(self, lines: torch.Tensor) -> torch.Tensor:
        hidden = self.look(lines).relu()[:, :, 0].permute(2, 0, 1)
        return self.say(hidden).log_softmax(-1)  # type: ignore[no-any-return]


def read(model: nn.Module, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    scores = model(inputs[0])
    lengths = torch.full((2,), scores.shape[0], device=scores.device), torch.full((2,), 5, device=scores.device)
    loss: torch.Tensor = functional.ctc_loss(scores, inputs[1], *lengths)
    return loss


def by_histogram(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    out = model(*inputs)
    weight = torch.histc(out.detach().float(), 8, -2, 2).softmax(0).max()
    classes = torch.zeros(out.shape[0], 4, dtype=torch.long, device=out.device)
    margin: torch.Tensor = functional.multilabel_margin_loss(out.flatten(1)[:, :4], classes)
    total: torch.Tensor = (out.pow(2) * weight).mean() + margin
    return total


def small_networks() -> Iterator[Step]:
    """Architectures from papers, a few layers each."""
    picture, classes = torch.rand(2, 3, 16, 16), torch.randint(0, 5, (2, 16, 16))
    networks: tuple[tuple[str, Callable[[], nn.Module], tuple[torch.Tensor, ...], Loss], ...] = (
        ("pyramid", Pyramid, (picture, classes), classified),
        ("volume", Volume, (torch.rand(1, 1, 8, 8, 8), torch.randint(0, 3, (1, 8, 8, 8))), classified),
        ("unpooled", Unpooled, (picture, classes), classified),
        ("style bilinear", lambda: Style("bilinear"), (picture,), of_call),
        ("style bicubic", lambda: Style("bicubic"), (picture,), by_histogram),
        ("spatial zeros", lambda: Spatial("zeros"), (picture,), of_call),
        ("spatial reflection", lambda: Spatial("reflection"), (picture,), of_call),
        ("bags max", lambda: Bags("max"), (torch.randint(0, 50, (4, 6)), torch.randint(0, 3, (4,))), classified),
        ("bags mean", lambda: Bags("mean"), (torch.randint(0, 50, (4, 6)), torch.randint(0, 3, (4,))), classified),
        ("points", Points, (torch.rand(2, 12, 3),), of_call),
        ("wave", Wave, (torch.rand(2, 1, 64),), of_call),
        ("memory", Memory, (torch.rand(6, 8), torch.tensor([1, 4, 0, 2])), of_call),
        ("fractions", Fractions, (picture, torch.rand(1, 2, 6, 6, 6)), of_call),
        ("text", Text, (torch.rand(2, 1, 8, 24), torch.randint(1, 12, (2, 5))), read),
    )
    for name, make, inputs, loss in networks:
        yield Step(f"network {name}", lambda make=make, inputs=inputs: (make(), inputs), loss, THIRD)  # type: ignore[misc]


def steps() -> Iterator[Step]:
    """One step of each."""
    yield from of_names(NAMED, THIRD)
    for source in (networks_of_libraries, coders, graphs, small_networks):
        yield from source()
