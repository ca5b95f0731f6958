"""Language models of `transformers` and their heads, second list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.evidence.models.step import SECOND, Step
from benchmarks.evidence.models.transformers_steps import Named, masked, of_names, pairs, sequences, tagged, text
from benchmarks.evidence.record_steps import LABELS, padded, tokens


def choices(config: Any) -> dict[str, Any]:
    return {"input_ids": torch.randint(3, 100, (2, 3, 16)), "labels": LABELS}


def spans(config: Any) -> dict[str, Any]:
    return {"input_ids": tokens(), "start_positions": LABELS, "end_positions": LABELS}


def replaced(config: Any) -> dict[str, Any]:
    return {**padded(config), "labels": torch.randint(0, 2, (2, 16))}


def boxed(config: Any) -> dict[str, Any]:
    return {**tagged(config), "bbox": torch.randint(0, 64, (2, 16, 4)).sort(-1).values}


def cells(config: Any) -> dict[str, Any]:
    places = torch.arange(16)
    nothing = torch.zeros(16, dtype=torch.long)
    kinds = torch.stack([places % 2, places // 4, places % 4, *[nothing] * 4], -1).repeat(2, 1, 1)
    return {**padded(config), "token_type_ids": kinds, "labels": torch.randint(0, 2, (2, 16))}


CHUNKED = {
    "axial_pos_embds": False,
    "attn_layers": ["local", "lsh"],
    "num_buckets": 2,
    "local_attn_chunk_length": 8,
    "lsh_attn_chunk_length": 8,
    "feed_forward_size": 48,
}
NAMED: Named = (
    # one decoder
    ("GPTNeoForCausalLM", text, {"attention_types": [[["global", "local"], 1]], "num_layers": 2, "window_size": 8}),
    ("GPTNeoXJapaneseForCausalLM", text, {}),
    ("BambaForCausalLM", text, {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "attn_layer_indices": [1]}),
    (
        "GraniteMoeHybridForCausalLM",
        text,
        {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "layer_types": ["mamba", "attention"]},
    ),
    ("DeepseekV2ForCausalLM", text, {"num_key_value_heads": 4}),
    ("DeepseekV3ForCausalLM", text, {"num_key_value_heads": 4}),
    ("MiniCPM3ForCausalLM", text, {"num_key_value_heads": 4}),
    ("GlmMoeDsaForCausalLM", text, {"num_key_value_heads": 4}),
    (
        "Gemma3nForCausalLM",
        text,
        {
            "num_kv_shared_layers": 0,
            "vocab_size_per_layer_input": 128,
            "laurel_rank": 8,
            "hidden_size_per_layer_input": 8,
        },
    ),
    ("ReformerModelWithLMHead", text, {**CHUNKED, "is_decoder": True}),
    ("Glm4MoeForCausalLM", text, {}),
    ("GraniteForCausalLM", text, {}),
    ("OlmoHybridForCausalLM", text, {}),
    ("Olmo3ForCausalLM", text, {}),
    ("OpenAIGPTLMHeadModel", text, {}),
    ("Phi3ForCausalLM", text, {}),
    ("Qwen2ForCausalLM", text, {}),
    ("Qwen3MoeForCausalLM", text, {}),
    ("Qwen3_5ForCausalLM", text, {}),
    ("Qwen3_5MoeForCausalLM", text, {}),
    ("Starcoder2ForCausalLM", text, {}),
    ("MiMoV2FlashForCausalLM", text, {}),
    ("MiniMaxM2ForCausalLM", text, {}),
    ("HunYuanMoEV1ForCausalLM", text, {}),
    ("TrOCRForCausalLM", text, {}),
    ("NemotronForCausalLM", text, {}),
    # words that were masked or replaced
    ("NomicBertForMaskedLM", masked, {}),
    (
        "PerceiverForMaskedLM",
        masked,
        {
            "d_latents": 32,
            "num_latents": 8,
            "d_model": 32,
            "num_blocks": 1,
            "num_self_attends_per_block": 1,
            "num_self_attention_heads": 4,
            "num_cross_attention_heads": 4,
            "max_position_embeddings": 16,
            "qk_channels": 32,
            "v_channels": 32,
        },
    ),
    ("ReformerForMaskedLM", masked, {**CHUNKED, "is_decoder": False}),
    ("XLMWithLMHeadModel", masked, {"n_words": 128, "emb_dim": 32, "vocab_size": 128}),
    ("FlaubertWithLMHeadModel", masked, {"n_words": 128, "emb_dim": 32, "vocab_size": 128}),
    ("LukeForMaskedLM", masked, {"entity_vocab_size": 32, "entity_emb_size": 16}),
    ("XmodForMaskedLM", masked, {"languages": ["en_XX"], "default_language": "en_XX"}),
    ("RobertaPreLayerNormForMaskedLM", masked, {}),
    ("BertForPreTraining", lambda config: {**masked(config), "next_sentence_label": LABELS}, {}),
    ("AlbertForPreTraining", lambda config: {**masked(config), "sentence_order_label": LABELS}, {}),
    ("ElectraForPreTraining", replaced, {}),
    ("FunnelForPreTraining", replaced, {}),
    # answers, tags and classes
    ("BertForMultipleChoice", choices, {}),
    ("CanineForMultipleChoice", choices, {}),
    ("BigBirdForQuestionAnswering", spans, {}),
    ("XLNetForQuestionAnswering", spans, {}),
    ("TapasForQuestionAnswering", cells, {}),
    ("LayoutLMForTokenClassification", boxed, {}),
    ("FNetForTokenClassification", tagged, {}),
    ("DebertaForTokenClassification", tagged, {}),
    ("ConvBertForSequenceClassification", sequences, {}),
    ("MistralForSequenceClassification", sequences, {}),
    # encoders with decoders
    ("T5ForConditionalGeneration", pairs, {"decoder_start_token_id": 0}),
    ("BigBirdPegasusForConditionalGeneration", pairs, {}),
    ("ProphetNetForConditionalGeneration", pairs, {}),
    ("BartForConditionalGeneration", pairs, {}),
)


def steps() -> Iterator[Step]:
    """One step of each."""
    return of_names(NAMED, SECOND)
