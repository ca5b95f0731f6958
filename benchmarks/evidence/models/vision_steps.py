"""Networks of `torchvision`, `timm` and `diffusers`, made small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from benchmarks.evidence.models.step import Built, Step, classified, of_call
from benchmarks.evidence.record_steps import LABELS


def pictures(size: int = 64) -> torch.Tensor:
    return torch.rand(2, 3, size, size)


def torchvision_classifiers() -> Iterator[Step]:
    for name, options, size in (
        ("shufflenet_v2_x0_5", {}, 64),
        ("squeezenet1_1", {}, 64),
        ("mnasnet0_5", {}, 64),
        ("mobilenet_v3_small", {}, 64),
        ("efficientnet_b0", {}, 64),
        ("regnet_x_400mf", {}, 64),
        ("swin_v2_t", {}, 64),
        ("maxvit_t", {"input_size": (64, 64), "partition_size": 2}, 64),
        ("googlenet", {"aux_logits": False, "init_weights": False}, 64),
        ("alexnet", {}, 96),
    ):

        def build(name: str = name, options: dict[str, Any] = options, size: int = size) -> Built:
            import torchvision

            return torchvision.models.get_model(name, num_classes=10, **options), (pictures(size), LABELS)

        yield Step(f"torchvision {name}", build, classified)


def segmented(model: nn.Module, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    picture, classes = inputs
    losses = [nn.functional.cross_entropy(part, classes, ignore_index=255) for part in model(picture).values()]
    return torch.stack(losses).sum()


def torchvision_segmenters() -> Iterator[Step]:
    for name, options in (
        ("lraspp_mobilenet_v3_large", {}),
        ("deeplabv3_mobilenet_v3_large", {"aux_loss": True}),
        ("fcn_resnet50", {}),
    ):

        def build(name: str = name, options: dict[str, Any] = options) -> Built:
            import torchvision

            model = torchvision.models.get_model(name, num_classes=5, weights_backbone=None, **options)
            return model, (pictures(), torch.randint(0, 5, (2, 64, 64)))

        yield Step(f"torchvision {name}", build, segmented)


def detected(model: nn.Module, inputs: tuple[list[torch.Tensor], list[dict[str, torch.Tensor]]]) -> torch.Tensor:
    return torch.stack([*model(*inputs).values()]).sum()


def scene() -> dict[str, torch.Tensor]:
    corners = torch.rand(3, 2) * 40
    return {
        "boxes": torch.cat([corners, corners + 20 + torch.rand(3, 2) * 20], 1),
        "labels": torch.tensor([1, 2, 1]),
        "masks": torch.randint(0, 2, (3, 96, 96), dtype=torch.uint8),
        "keypoints": torch.cat([torch.rand(3, 17, 2) * 60, torch.ones(3, 17, 1)], 2),
    }


def torchvision_detectors() -> Iterator[Step]:
    small = {"min_size": 96, "max_size": 96}
    for name, options in (
        ("fasterrcnn_mobilenet_v3_large_320_fpn", small),
        ("ssdlite320_mobilenet_v3_large", {}),
        ("retinanet_resnet50_fpn", small),
        ("fcos_resnet50_fpn", small),
        ("maskrcnn_resnet50_fpn", small),
        ("keypointrcnn_resnet50_fpn", small),
    ):

        def build(name: str = name, options: dict[str, Any] = options) -> Built:
            import torchvision

            classes = 2 if name.startswith("keypoint") else 4
            options = {**options, "num_classes": classes, "weights": None, "weights_backbone": None}
            scenes = [scene() for _ in range(2)]
            for one in scenes:
                one["labels"] = one["labels"].clamp(max=classes - 1)
            return torchvision.models.get_model(name, **options), ([torch.rand(3, 96, 96) for _ in range(2)], scenes)

        yield Step(f"torchvision {name}", build, detected)


class Deformed(nn.Module):
    """Convolutions whose grid is learnt, pooled by boxes."""

    def __init__(self) -> None:
        from torchvision.ops import DeformConv2d, PSRoIPool, RoIPool

        super().__init__()
        self.offsets = nn.Conv2d(3, 18, 3, padding=1)
        self.masks = nn.Conv2d(3, 9, 3, padding=1)
        self.deformed = DeformConv2d(3, 16, 3, padding=1)
        self.pooled = RoIPool((2, 2), 0.5)
        self.by_part = PSRoIPool((2, 2), 0.5)

    def forward(self, picture: torch.Tensor, boxes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        there = self.deformed(picture, self.offsets(picture), self.masks(picture).sigmoid())
        return self.pooled(there, boxes), self.by_part(there, boxes)


def torchvision_others() -> Iterator[Step]:
    clip = {"video/mc3_18": (2, 3, 4, 32, 32), "video/s3d": (2, 3, 16, 64, 64)}
    for name, shape in clip.items():

        def build(name: str = name, shape: tuple[int, ...] = shape) -> Built:
            import torchvision

            return torchvision.models.get_model(name.partition("/")[2], num_classes=4), (torch.rand(shape), LABELS)

        yield Step(f"torchvision {name}", build, classified)

    def mvit() -> Built:
        from torchvision.models.video.mvit import MSBlockConfig, MViT

        block = {"num_heads": 1, "input_channels": 16, "output_channels": 32, "kernel_q": [3, 3, 3]}
        blocks = [
            MSBlockConfig(**block, kernel_kv=[3, 3, 3], stride_q=[1, 1, 1], stride_kv=[1, 2, 2]),
            MSBlockConfig(
                **{**block, "input_channels": 32}, kernel_kv=[3, 3, 3], stride_q=[1, 2, 2], stride_kv=[1, 1, 1]
            ),
        ]
        model = MViT((32, 32), 4, blocks, True, False, 0.0, 0.5, 0.1, 0.0, 4)
        return model, (torch.rand(2, 3, 4, 32, 32), LABELS)

    yield Step("torchvision video/mvit", mvit, classified)

    def raft() -> Built:
        import torchvision

        return torchvision.models.optical_flow.raft_small(), (torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128))

    yield Step(
        "torchvision raft_small",
        raft,
        lambda model, inputs: torch.stack(model(*inputs, num_flow_updates=2)).abs().mean(),
    )

    def deformed() -> Built:
        boxes = torch.tensor([[0, 0.0, 0, 20, 20], [1, 4, 4, 30, 24], [0, 2, 2, 12, 12]])
        return Deformed(), (torch.rand(2, 3, 16, 16), boxes)

    yield Step("torchvision ops", deformed, of_call)


#: Small ones by name, and what they are made with.
TIMM: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("convnext_atto", {}, 64),
    ("efficientformer_l1", {}, 224),
    ("ghostnet_050", {}, 64),
    ("mixer_s32_224", {"img_size": 64}, 64),
    ("resmlp_12_224", {"img_size": 64, "patch_size": 16}, 64),
    ("coat_lite_tiny", {"img_size": 64}, 64),
    ("crossvit_tiny_240", {}, 240),
    ("xcit_nano_12_p16_224", {"img_size": 64}, 64),
    (
        "volo_d1_224",
        {"img_size": 64, "embed_dims": (32, 64, 64, 64), "num_heads": (2, 4, 4, 4), "layers": (1, 1, 1, 1)},
        64,
    ),
    ("mobileone_s0", {}, 64),
    ("repvgg_a0", {}, 64),
    ("nfnet_l0", {}, 64),
    ("resnest14d", {}, 64),
    ("res2net50_14w_8s", {}, 64),
    ("skresnet18", {}, 64),
    ("dla34", {}, 64),
    ("hrnet_w18_small", {}, 64),
    ("lambda_resnet26t", {}, 64),
    ("botnet26t_256", {}, 256),
    ("eva02_tiny_patch14_224", {"img_size": 56}, 56),
    ("tiny_vit_5m_224", {}, 64),
    ("fastvit_t8", {}, 64),
    ("gcvit_xxtiny", {}, 224),
    ("tresnet_m", {}, 64),
    ("rexnet_100", {}, 64),
    ("pit_ti_224", {}, 224),
    ("vit_relpos_small_patch16_224", {"img_size": 64, "depth": 2}, 64),
    ("visformer_tiny", {}, 224),
    ("edgenext_xx_small", {}, 64),
    ("inception_next_atto", {}, 64),
)


def timm_models() -> Iterator[Step]:
    for name, options, size in TIMM:

        def build(name: str = name, options: dict[str, Any] = options, size: int = size) -> Built:
            import timm

            return timm.create_model(name, num_classes=10, **options), (pictures(size), LABELS)

        yield Step(f"timm {name}", build, classified)


def denoised(model: nn.Module, inputs: tuple[Any, ...]) -> torch.Tensor:
    """The mean square error of the noise that a model sees in what it is fed; a time leads where it takes one."""
    out: torch.Tensor = model(*inputs[:-1], **inputs[-1]).sample
    return (out - torch.randn_like(out)).pow(2).mean()


def diffusers_models() -> Iterator[Step]:
    when = torch.tensor([3, 500])
    words = torch.randn(2, 6, 32)
    narrow = {"block_out_channels": (16, 32), "norm_num_groups": 8, "layers_per_block": 1, "sample_size": 16}
    latent = torch.randn(2, 4, 16, 16)
    named: tuple[tuple[str, dict[str, Any], tuple[Any, ...]], ...] = (
        (
            "UNet2DModel",
            {
                **narrow,
                "attention_head_dim": 8,
                "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
                "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
            },
            (torch.randn(2, 3, 16, 16), when, {}),
        ),
        (
            "UNet2DConditionModel",
            {
                **narrow,
                "cross_attention_dim": 32,
                "attention_head_dim": 4,
                "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
                "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
            },
            (latent, when, words, {}),
        ),
        (
            "UNet3DConditionModel",
            {
                **narrow,
                "cross_attention_dim": 32,
                "attention_head_dim": 4,
                "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
                "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"),
            },
            (torch.randn(1, 4, 2, 16, 16), when[:1], words[:1], {}),
        ),
        (
            "UNet1DModel",
            {
                "sample_size": 32,
                "in_channels": 14,
                "out_channels": 14,
                "block_out_channels": (16, 16, 32),
                "time_embedding_type": "positional",
                "down_block_types": ("DownResnetBlock1D",) * 3,
                "up_block_types": ("UpResnetBlock1D",) * 2,
                "mid_block_type": "MidResTemporalBlock1D",
                "out_block_type": "OutConv1DBlock",
                "flip_sin_to_cos": False,
                "freq_shift": 1,
                "use_timestep_embedding": True,
                "norm_num_groups": 8,
                "layers_per_block": 1,
                "act_fn": "swish",
            },
            (torch.randn(2, 14, 32), when, {}),
        ),
        (
            "DiTTransformer2DModel",
            {
                "num_attention_heads": 2,
                "attention_head_dim": 8,
                "in_channels": 4,
                "out_channels": 4,
                "num_layers": 2,
                "norm_num_groups": 4,
                "sample_size": 16,
                "num_embeds_ada_norm": 10,
            },
            (latent, {"timestep": when, "class_labels": LABELS}),
        ),
        (
            "PixArtTransformer2DModel",
            {
                "num_attention_heads": 2,
                "attention_head_dim": 8,
                "in_channels": 4,
                "out_channels": 4,
                "num_layers": 2,
                "cross_attention_dim": 16,
                "sample_size": 16,
                "caption_channels": 32,
                "norm_num_groups": 4,
            },
            (
                latent,
                {
                    "encoder_hidden_states": words,
                    "timestep": when,
                    "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
                },
            ),
        ),
        (
            "SD3Transformer2DModel",
            {
                "sample_size": 16,
                "patch_size": 2,
                "in_channels": 4,
                "num_layers": 2,
                "attention_head_dim": 8,
                "num_attention_heads": 4,
                "joint_attention_dim": 32,
                "caption_projection_dim": 32,
                "pooled_projection_dim": 32,
                "out_channels": 4,
            },
            (latent, words, words.mean(1), when, {}),
        ),
        (
            "AutoencoderKL",
            {
                "block_out_channels": (16, 32),
                "norm_num_groups": 8,
                "latent_channels": 4,
                "down_block_types": ("DownEncoderBlock2D",) * 2,
                "up_block_types": ("UpDecoderBlock2D",) * 2,
            },
            (torch.randn(2, 3, 32, 32), {}),
        ),
        (
            "VQModel",
            {
                "block_out_channels": (16, 32),
                "norm_num_groups": 8,
                "num_vq_embeddings": 16,
                "down_block_types": ("DownEncoderBlock2D",) * 2,
                "up_block_types": ("UpDecoderBlock2D",) * 2,
            },
            (torch.randn(2, 3, 32, 32), {}),
        ),
        (
            "AutoencoderTiny",
            {
                "encoder_block_out_channels": (16, 16),
                "decoder_block_out_channels": (16, 16),
                "num_encoder_blocks": (1, 1),
                "num_decoder_blocks": (1, 1),
                "latent_channels": 4,
            },
            (torch.randn(2, 3, 32, 32), {}),
        ),
    )
    for name, options, inputs in named:

        def build(name: str = name, options: dict[str, Any] = options, inputs: tuple[Any, ...] = inputs) -> Built:
            import diffusers

            return getattr(diffusers, name)(**options), inputs

        yield Step(f"diffusers {name}", build, denoised)


def steps() -> Iterator[Step]:
    """One step of each."""
    sources: tuple[Callable[[], Iterator[Step]], ...] = (
        torchvision_classifiers,
        torchvision_segmenters,
        torchvision_detectors,
        torchvision_others,
        timm_models,
        diffusers_models,
    )
    for source in sources:
        yield from source()
