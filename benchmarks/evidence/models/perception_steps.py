"""Models of `transformers` that see, hear or forecast, second list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.evidence.models.step import SECOND, Step
from benchmarks.evidence.models.transformers_steps import (
    Inputs,
    Named,
    bare_images,
    captions,
    images,
    of_names,
    segments,
    text,
    waves,
)
from benchmarks.evidence.record_steps import LABELS, padded, pixels, series, tokens

#: The token that stands for a part of a picture; ``tokens`` draws none as high.
PICTURE = 110


def boxes(config: Any) -> dict[str, Any]:
    targets = [{"class_labels": torch.tensor([1, 0]), "boxes": torch.rand(2, 4) * 0.3 + 0.3} for _ in range(2)]
    return {"pixel_values": pixels(config), "labels": targets}


def hidden(patches: int) -> Inputs:
    """Pictures of which every third of ``patches`` is hidden."""
    return lambda config: {
        "pixel_values": pixels(config),
        "bool_masked_pos": torch.arange(patches).repeat(2, 1) % 3 == 0,
    }


def clips(config: Any) -> dict[str, Any]:
    places = (config.num_frames // config.tubelet_size) * (config.image_size // config.patch_size) ** 2
    return {
        "pixel_values": torch.randn(2, config.num_frames, 3, config.image_size, config.image_size),
        "bool_masked_pos": torch.arange(places).repeat(2, 1) % 2 == 0,
    }


def heard(config: Any) -> dict[str, Any]:
    return {"input_values": torch.randn(2, 3200), "labels": LABELS}


def mels(config: Any) -> dict[str, Any]:
    return {
        "input_features": torch.randn(2, 64, 16),
        "attention_mask": torch.ones(2, 64, dtype=torch.bool),
        "labels": tokens(4),
    }


def past(config: Any) -> dict[str, Any]:
    return {"past_values": torch.randn(2, config.context_length, config.num_input_channels)}


def speech(config: Any) -> dict[str, Any]:
    return {
        "input_ids": torch.randint(3, 60, (1, 6)),
        "attention_mask": torch.ones(1, 6, dtype=torch.long),
        "spectrogram_labels": torch.randn(1, 12, config.num_mel_bins),
        "duration_labels": torch.full((1, 6), 2),
        "pitch_labels": torch.randn(1, 6, 1),
        "energy_labels": torch.randn(1, 6, 1),
    }


def negatives(config: Any) -> dict[str, Any]:
    return {
        "input_values": torch.randn(2, 3200),
        "mask_time_indices": torch.arange(159).repeat(2, 1) % 2 == 0,
        "sampled_negative_indices": torch.randint(0, 70, (2, 159, 3)),
    }


def seeing(parts: int) -> Inputs:
    """A picture of ``parts`` tokens within words."""

    def inputs(config: Any) -> dict[str, Any]:
        words = torch.cat([tokens(4), torch.full((2, parts), PICTURE), tokens(8)], 1)
        return {"input_ids": words, "pixel_values": torch.randn(2, 3, 32, 32), "labels": words}

    return inputs


def gridded(config: Any) -> dict[str, Any]:
    words = torch.cat([tokens(4)[:1], torch.full((1, 4), PICTURE), tokens(8)[:1]], 1)
    width = 3 * config.vision_config.temporal_patch_size * config.vision_config.patch_size**2
    grid = torch.tensor([[1, 4, 4]])
    return {"input_ids": words, "labels": words, "pixel_values": torch.randn(16, width), "image_grid_thw": grid}


WORDS: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "pad_token_id": 0,
}
SIGHT: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
TOKEN = {"image_token_index": PICTURE, "image_token_id": PICTURE}
WINDOWED: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 4,
    "embed_dim": 16,
    "depths": [1, 1],
    "num_heads": [2, 4],
    "window_size": 4,
    "encoder_stride": 8,
}
PATCHED = {"context_length": 16, "patch_length": 4, "patch_stride": 4}
NAMED: Named = (
    # images
    (
        "ConvNextForImageClassification",
        images,
        {"image_size": 64, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]},
    ),
    ("DonutSwinForImageClassification", images, WINDOWED),
    ("TextNetForImageClassification", images, {}),
    ("ViTMSNForImageClassification", images, {}),
    ("SegformerForImageClassification", images, {}),
    ("DeiTForImageClassificationWithTeacher", images, {}),
    ("SwinForMaskedImageModeling", hidden(64), WINDOWED),
    ("Swinv2ForMaskedImageModeling", hidden(64), WINDOWED),
    ("ViTForMaskedImageModeling", hidden(16), {"encoder_stride": 8}),
    ("ImageGPTForCausalImageModeling", text, {}),
    ("DINOv3ViTModel", bare_images, {}),
    ("DINOv3ConvNextModel", bare_images, {}),
    ("VideoMAEForPreTraining", clips, {"decoder_num_attention_heads": 2, "decoder_hidden_size": 32}),
    # masks, boxes and points
    (
        "BeitForSemanticSegmentation",
        segments,
        {"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4], "pool_scales": [1, 2]},
    ),
    ("MobileNetV2ForSemanticSegmentation", segments, {}),
    ("MobileViTForSemanticSegmentation", segments, {}),
    ("TableTransformerForObjectDetection", boxes, {}),
    ("DabDetrForObjectDetection", boxes, {}),
    ("DFineForObjectDetection", boxes, {}),
    ("LightGlueForKeypointMatching", lambda config: {"pixel_values": torch.rand(1, 2, 3, 64, 64)}, {}),
    (
        "SamModel",
        lambda config: {"pixel_values": pixels(config), "input_points": torch.rand(2, 1, 2, 2) * 20},
        {
            "vision_config": {
                **SIGHT,
                "output_channels": 32,
                "window_size": 2,
                "global_attn_indexes": [1],
                "num_pos_feats": 16,
                "mlp_dim": 48,
            },
            "prompt_encoder_config": {"hidden_size": 32, "image_size": 32, "patch_size": 8, "mask_input_channels": 4},
            "mask_decoder_config": {
                "hidden_size": 32,
                "mlp_dim": 48,
                "num_attention_heads": 4,
                "iou_head_hidden_dim": 32,
            },
        },
    ),
    # sound
    ("WavLMForXVector", heard, {}),
    ("SEWForSequenceClassification", heard, {}),
    ("HubertForSequenceClassification", heard, {}),
    ("Wav2Vec2ConformerForCTC", waves, {}),
    ("SEWForCTC", waves, {}),
    ("Data2VecAudioForCTC", waves, {}),
    ("UniSpeechForCTC", waves, {}),
    ("ParakeetForCTC", mels, {}),
    ("LasrForCTC", mels, {}),
    (
        "Wav2Vec2ForPreTraining",
        negatives,
        {"num_negatives": 3, "num_codevectors_per_group": 8, "codevector_dim": 16, "proj_codevector_dim": 16},
    ),
    ("UniSpeechSatForAudioFrameClassification", lambda config: {"input_values": torch.randn(2, 3200)}, {}),
    (
        "WhisperForAudioClassification",
        lambda config: {
            "input_features": torch.randn(2, config.num_mel_bins, 2 * config.max_source_positions),
            "labels": LABELS,
        },
        {},
    ),
    ("FastSpeech2ConformerModel", speech, {"vocab_size": 78}),
    (
        "BarkFineModel",
        lambda config: {"codebook_idx": 1, "input_ids": torch.randint(0, 50, (2, 8, config.n_codes_total))},
        {},
    ),
    (
        "MusicgenForCausalLM",
        lambda config: {"input_ids": torch.randint(0, 50, (2 * config.num_codebooks, 8))},
        {},
    ),
    (
        "SeamlessM4TForSpeechToText",
        lambda config: {
            "input_features": torch.randn(2, 16, config.feature_projection_input_dim),
            "labels": tokens(5),
        },
        {},
    ),
    # time series
    ("PatchTSMixerForPrediction", series, {**PATCHED, "prediction_length": 8}),
    ("PatchTSMixerForPretraining", past, PATCHED),
    ("PatchTSTForPretraining", past, PATCHED),
    (
        "TimesFmModelForPrediction",
        lambda config: {
            "past_values": [torch.randn(32), torch.randn(32)],
            "freq": [0, 1],
            "future_values": torch.randn(2, config.horizon_length),
        },
        {"patch_length": 8, "context_length": 32, "horizon_length": 8},
    ),
    # several kinds of input
    (
        "LlavaForConditionalGeneration",
        seeing(16),
        {
            **TOKEN,
            "vision_config": {**SIGHT, "model_type": "clip_vision_model"},
            "text_config": {**WORDS, "model_type": "llama"},
        },
    ),
    (
        "PaliGemmaForConditionalGeneration",
        lambda config: {**seeing(16)(config), "token_type_ids": torch.zeros(2, 28, dtype=torch.long)},
        {
            **TOKEN,
            "vision_config": {**SIGHT, "model_type": "siglip_vision_model"},
            "text_config": {**WORDS, "model_type": "gemma", "head_dim": 8},
            "projection_dim": 32,
            "hidden_size": 32,
        },
    ),
    (
        "AyaVisionForConditionalGeneration",
        seeing(4),
        {
            **TOKEN,
            "vision_config": {**SIGHT, "model_type": "siglip_vision_model"},
            "text_config": {**WORDS, "model_type": "cohere2"},
            "vision_feature_layer": -1,
        },
    ),
    (
        "SmolVLMForConditionalGeneration",
        lambda config: {**seeing(4)(config), "pixel_values": torch.randn(2, 1, 3, 32, 32)},
        {
            **TOKEN,
            "vision_config": SIGHT,
            "text_config": {**WORDS, "model_type": "llama"},
            "scale_factor": 2,
        },
    ),
    (
        "InternVLForConditionalGeneration",
        seeing(4),
        {
            **TOKEN,
            "vision_config": {
                **SIGHT,
                "model_type": "internvl_vision",
                "image_size": [32, 32],
                "patch_size": [8, 8],
            },
            "text_config": {**WORDS, "model_type": "qwen2"},
        },
    ),
    (
        "Qwen2_5_VLForConditionalGeneration",
        gridded,
        {
            "image_token_id": PICTURE,
            "video_token_id": PICTURE + 1,
            "vision_start_token_id": PICTURE + 2,
            "text_config": {
                **WORDS,
                "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0},
            },
            "vision_config": {
                "hidden_size": 32,
                "out_hidden_size": 32,
                "intermediate_size": 48,
                "depth": 2,
                "num_heads": 4,
                "patch_size": 8,
                "window_size": 32,
                "fullatt_block_indexes": [1],
            },
        },
    ),
    (
        "Blip2ForConditionalGeneration",
        seeing(4),
        {
            **TOKEN,
            "vision_config": SIGHT,
            "qformer_config": {
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "encoder_hidden_size": 32,
                "vocab_size": 128,
            },
            "text_config": {
                "model_type": "opt",
                "hidden_size": 32,
                "ffn_dim": 48,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "vocab_size": 128,
                "word_embed_proj_dim": 32,
            },
            "num_query_tokens": 4,
        },
    ),
    (
        "Pix2StructForConditionalGeneration",
        lambda config: {
            "flattened_patches": torch.rand(2, 8, config.vision_config.patch_embed_hidden_size + 2),
            "labels": tokens(6),
        },
        {},
    ),
    ("BlipForQuestionAnswering", lambda config: {**captions(config), "labels": tokens()}, {}),
    ("BlipForImageTextRetrieval", captions, {}),
    (
        "ViltForImagesAndTextClassification",
        lambda config: {"input_ids": tokens(), "pixel_values": torch.randn(2, 2, 3, 32, 32), "labels": LABELS},
        {"num_images": 2, "modality_type_vocab_size": 3},
    ),
    (
        "VisualBertForQuestionAnswering",
        lambda config: {
            **padded(config),
            "labels": torch.rand(2, 2),
            "visual_embeds": torch.randn(2, 4, config.visual_embedding_dim),
            "visual_attention_mask": torch.ones(2, 4),
        },
        {"visual_embedding_dim": 16},
    ),
    ("CLIPModel", lambda config: {**captions(config), "return_loss": True}, {}),
    ("GroupViTModel", lambda config: {**captions(config), "return_loss": True}, {}),
    ("Owlv2ForObjectDetection", captions, {}),
)


def steps() -> Iterator[Step]:
    """One step of each."""
    return of_names(NAMED, SECOND)
