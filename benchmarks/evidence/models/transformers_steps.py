"""Architectures of `transformers` of which ``record_steps.py`` trains none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from benchmarks.evidence.models.step import FIRST, Built, Chosen, Step
from benchmarks.evidence.record_steps import LABELS, masks, padded, pixels, series, small, tokens

Inputs = Callable[[Any], dict[str, Any]]
#: Class, its inputs, and what its small configuration has besides.
Named = tuple[tuple[str, Inputs, dict[str, Any]], ...]


def text(config: Any) -> dict[str, Any]:
    return {"input_ids": tokens(), "labels": tokens()}


def masked(config: Any) -> dict[str, Any]:
    return {**padded(config), "labels": tokens()}


def pairs(config: Any) -> dict[str, Any]:
    return {"input_ids": tokens(), "labels": tokens(7)}


def sequences(config: Any) -> dict[str, Any]:
    return {**padded(config), "labels": LABELS}


def images(config: Any) -> dict[str, Any]:
    return {"pixel_values": pixels(config), "labels": LABELS}


def bare_images(config: Any) -> dict[str, Any]:
    return {"pixel_values": pixels(config)}


def segments(config: Any) -> dict[str, Any]:
    picture = pixels(config)
    return {"pixel_values": picture, "labels": torch.randint(0, 2, (2, *picture.shape[-2:]))}


def boxes(config: Any) -> dict[str, Any]:
    targets = [{"class_labels": torch.tensor([1, 2]), "boxes": torch.rand(2, 4) * 0.3 + 0.3} for _ in range(2)]
    return {"pixel_values": pixels(config), "labels": targets}


def waves(config: Any) -> dict[str, Any]:
    return {"input_values": torch.randn(2, 3200), "labels": tokens(4)}


def tagged(config: Any) -> dict[str, Any]:
    return {**padded(config), "labels": torch.randint(0, 2, (2, 16))}


def captions(config: Any) -> dict[str, Any]:
    return {"input_ids": tokens(), "pixel_values": pixels(config)}


def spectra(config: Any) -> dict[str, Any]:
    return {"input_features": torch.randn(2, 64, 80), "labels": tokens(4)}


NAMED: Named = (
    # language models of one decoder
    ("GPTBigCodeForCausalLM", text, {}),
    ("GptOssForCausalLM", text, {}),
    ("GraniteMoeForCausalLM", text, {}),
    ("JambaForCausalLM", text, {}),
    ("JetMoeForCausalLM", text, {}),
    ("Lfm2ForCausalLM", text, {}),
    ("Llama4ForCausalLM", text, {}),
    ("MambaForCausalLM", text, {}),
    ("MiniMaxForCausalLM", text, {}),
    ("MistralForCausalLM", text, {}),
    ("MixtralForCausalLM", text, {}),
    ("ModernBertDecoderForCausalLM", text, {}),
    ("MptForCausalLM", text, {}),
    ("NemotronHForCausalLM", text, {}),
    ("Olmo2ForCausalLM", text, {}),
    ("OlmoeForCausalLM", text, {}),
    ("OPTForCausalLM", text, {}),
    ("PersimmonForCausalLM", text, {}),
    ("PhiForCausalLM", text, {}),
    ("PhimoeForCausalLM", text, {}),
    ("ProphetNetForCausalLM", text, {}),
    ("Qwen2MoeForCausalLM", text, {}),
    ("Qwen3ForCausalLM", text, {}),
    ("Qwen3NextForCausalLM", text, {}),
    ("RecurrentGemmaForCausalLM", text, {}),
    ("RwkvForCausalLM", text, {}),
    ("StableLmForCausalLM", text, {}),
    ("VaultGemmaForCausalLM", text, {}),
    ("XGLMForCausalLM", text, {}),
    ("XLNetLMHeadModel", text, {}),
    ("xLSTMForCausalLM", text, {}),
    ("Mamba2ForCausalLM", text, {"hidden_size": 32, "num_heads": 8, "head_dim": 8, "expand": 2, "n_groups": 2}),
    # encoders
    ("MobileBertForMaskedLM", masked, {}),
    ("ModernBertForMaskedLM", masked, {}),
    ("MPNetForMaskedLM", masked, {}),
    ("MraForMaskedLM", masked, {}),
    ("NystromformerForMaskedLM", masked, {}),
    ("RoFormerForMaskedLM", masked, {}),
    ("SqueezeBertForMaskedLM", masked, {}),
    ("TapasForMaskedLM", masked, {}),
    ("YosoForMaskedLM", masked, {}),
    (
        "SplinterForQuestionAnswering",
        lambda _: {"input_ids": tokens(), "start_positions": LABELS, "end_positions": LABELS},
        {},
    ),
    ("RemBertForSequenceClassification", sequences, {}),
    ("XLMRobertaXLForTokenClassification", tagged, {}),
    ("MegatronBertForSequenceClassification", sequences, {}),
    # encoders with decoders
    ("UMT5ForConditionalGeneration", pairs, {}),
    ("T5GemmaForConditionalGeneration", pairs, {}),
    ("SwitchTransformersForConditionalGeneration", pairs, {"decoder_start_token_id": 0}),
    ("LongT5ForConditionalGeneration", pairs, {"decoder_start_token_id": 0}),
    ("FSMTForConditionalGeneration", lambda _: {"input_ids": tokens(), "labels": tokens()}, {}),
    ("SeamlessM4TForTextToText", pairs, {}),
    # images and video
    ("SwiftFormerForImageClassification", images, {}),
    ("ViTForImageClassification", images, {}),
    (
        "ConvNextV2ForImageClassification",
        images,
        {"image_size": 64, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]},
    ),
    (
        "ResNetForImageClassification",
        images,
        {"hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1], "embedding_size": 8},
    ),
    (
        "RegNetForImageClassification",
        images,
        {"hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1], "groups_width": 8},
    ),
    (
        "SwinForImageClassification",
        images,
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4},
    ),
    (
        "Swinv2ForImageClassification",
        images,
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4},
    ),
    (
        "Swin2SRForImageSuperResolution",
        lambda _: {"pixel_values": torch.randn(1, 3, 16, 16)},
        {"image_size": 16, "embed_dim": 24, "depths": [1, 1], "num_heads": [2, 2], "window_size": 8},
    ),
    (
        "LevitForImageClassification",
        images,
        {"image_size": 64, "hidden_sizes": [16, 24, 32], "depths": [1, 1, 1], "num_attention_heads": [2, 2, 2]},
    ),
    (
        "ViTMAEForPreTraining",
        bare_images,
        {
            "decoder_num_attention_heads": 2,
            "decoder_hidden_size": 32,
            "decoder_num_hidden_layers": 1,
            "decoder_intermediate_size": 32,
        },
    ),
    (
        "DPTForSemanticSegmentation",
        segments,
        {
            "image_size": 32,
            "patch_size": 8,
            "num_hidden_layers": 4,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [8, 8, 16, 16],
            "fusion_hidden_size": 16,
            "is_hybrid": False,
        },
    ),
    (
        "MobileViTV2ForSemanticSegmentation",
        lambda _: {"pixel_values": torch.randn(2, 3, 64, 64), "labels": torch.randint(0, 2, (2, 64, 64))},
        {"image_size": 64, "patch_size": 2, "width_multiplier": 0.25, "aspp_out_channels": 16},
    ),
    (
        "VJEPA2ForVideoClassification",
        lambda config: {"pixel_values_videos": torch.randn(1, 4, 3, 32, 32), "labels": LABELS[:1]},
        {
            "crop_size": 32,
            "frames_per_clip": 4,
            "patch_size": 16,
            "pred_hidden_size": 24,
            "pred_num_attention_heads": 2,
            "pred_num_hidden_layers": 1,
            "num_pooler_layers": 1,
        },
    ),
    (
        "MgpstrForSceneTextRecognition",
        lambda config: {"pixel_values": torch.randn(1, 3, 32, 128)},
        {
            "image_size": [32, 128],
            "num_character_labels": 10,
            "num_bpe_labels": 10,
            "num_wordpiece_labels": 10,
            "patch_size": 4,
        },
    ),
    ("SuperPointForKeypointDetection", bare_images, {}),
    # detection and masks
    ("YolosForObjectDetection", boxes, {}),
    ("DetrForObjectDetection", boxes, {}),
    ("ConditionalDetrForObjectDetection", boxes, {}),
    ("DeformableDetrForObjectDetection", boxes, {}),
    ("RTDetrForObjectDetection", boxes, {}),
    ("MaskFormerForInstanceSegmentation", masks, {}),
    ("Mask2FormerForUniversalSegmentation", masks, {}),
    ("OwlViTForObjectDetection", captions, {}),
    # sound
    ("WavLMForCTC", waves, {}),
    (
        "Wav2Vec2BertForCTC",
        lambda config: {"input_features": torch.randn(2, 32, config.feature_projection_input_dim), "labels": tokens(4)},
        {"feature_projection_input_dim": 16},
    ),
    ("MoonshineForConditionalGeneration", waves, {}),
    ("SpeechT5ForSpeechToText", waves, {}),
    (
        "ASTForAudioClassification",
        lambda config: {"input_values": torch.randn(2, config.max_length, config.num_mel_bins), "labels": LABELS},
        {"max_length": 64},
    ),
    (
        "ClapModel",
        lambda config: {
            "input_ids": tokens(),
            "input_features": torch.randn(2, 1, 64, 64),
            "is_longer": torch.zeros(2, 1, dtype=torch.bool),
            "return_loss": True,
        },
        {},
    ),
    (
        "UnivNetModel",
        lambda config: {"input_features": torch.randn(2, 8, config.num_mel_bins)},
        {"model_hidden_channels": 8, "num_mel_bins": 16},
    ),
    ("VitsModel", lambda config: {"input_ids": tokens()}, {}),
    (
        "EncodecModel",
        lambda config: {"input_values": torch.randn(2, 1, 1600)},
        {"num_filters": 4, "hidden_size": 16, "codebook_dim": 16, "codebook_size": 16, "num_lstm_layers": 0},
    ),
    (
        "DacModel",
        lambda config: {"input_values": torch.randn(1, 1, 1600)},
        {
            "encoder_hidden_size": 8,
            "decoder_hidden_size": 32,
            "downsampling_ratios": [2, 4],
            "codebook_size": 16,
            "codebook_dim": 4,
            "n_codebooks": 2,
        },
    ),
    # several kinds of input, tables and time series
    ("FlavaForPreTraining", captions, {}),
    ("VisualBertForPreTraining", padded, {}),
    ("ViltForQuestionAnswering", lambda config: {"input_ids": tokens(), "pixel_values": torch.randn(2, 3, 32, 32)}, {}),
    (
        "LayoutLMv3ForTokenClassification",
        lambda config: {**tagged(config), "bbox": torch.randint(0, 64, (2, 16, 4)).sort(-1).values},
        {"visual_embed": False},
    ),
    (
        "LxmertForPreTraining",
        lambda config: {
            "input_ids": tokens(),
            "visual_feats": torch.randn(2, 4, config.visual_feat_dim),
            "visual_pos": torch.rand(2, 4, 4),
        },
        {"visual_feat_dim": 16},
    ),
    (
        "InformerForPrediction",
        lambda config: timed(config),
        {"prediction_length": 8, "context_length": 16, "lags_sequence": [1, 2], "num_time_features": 2, "d_model": 16},
    ),
    (
        "AutoformerForPrediction",
        lambda config: timed(config),
        {"prediction_length": 8, "context_length": 16, "lags_sequence": [1, 2], "num_time_features": 2, "d_model": 16},
    ),
    (
        "TimeSeriesTransformerForPrediction",
        lambda config: timed(config),
        {"prediction_length": 8, "context_length": 16, "lags_sequence": [1, 2], "num_time_features": 2, "d_model": 16},
    ),
    ("DecisionTransformerModel", lambda config: plays(config), {}),
    ("PatchTSTForPrediction", series, {"context_length": 16, "prediction_length": 8}),
)


def timed(config: Any) -> dict[str, Any]:
    past = config.context_length + max(config.lags_sequence)
    return {
        "past_values": torch.rand(2, past),
        "past_time_features": torch.rand(2, past, 2),
        "past_observed_mask": torch.ones(2, past),
        "future_values": torch.rand(2, config.prediction_length),
        "future_time_features": torch.rand(2, config.prediction_length, 2),
    }


def plays(config: Any) -> dict[str, Any]:
    return {
        "states": torch.randn(2, 8, config.state_dim),
        "actions": torch.randn(2, 8, config.act_dim),
        "rewards": torch.randn(2, 8, 1),
        "returns_to_go": torch.randn(2, 8, 1),
        "timesteps": torch.arange(8).repeat(2, 1),
        "attention_mask": torch.ones(2, 8),
    }


def of_names(named: Named, chosen: Chosen) -> Iterator[Step]:
    """One step of each class."""
    for name, inputs, options in named:

        def build(name: str = name, inputs: Inputs = inputs, options: dict[str, Any] = options) -> Built:
            import transformers

            kind = getattr(transformers, name)
            config = small(kind.config_class, options)
            config.use_cache = False
            return kind(config), inputs(config)

        yield Step(f"transformers {name}", build, chosen=chosen)


def steps() -> Iterator[Step]:
    """One step of each."""
    return of_names(NAMED, FIRST)
