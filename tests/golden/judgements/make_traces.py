"""Records the traces beside this file: one training step each of twelve small models, on a CPU.

    python tests/golden/judgements/make_traces.py [NAME...]

Run it when the tables ask for facts that the traces lack, or when a model is added; then
`pytest tests/judging/test_golden_judgements.py --update-golden`, and read the diff. Needs transformers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tracer import DeterminismTracer

HERE = Path(__file__).parent

#: What every transformer here has, under the names that its configuration uses.
SMALL: dict[str, Any] = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48}
DEPTH: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 4}


def tokens(length: int = 12) -> torch.Tensor:
    """Two sequences in which tokens repeat, as they do in text."""
    return torch.randint(3, 60, (2, length))


def gpt2() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=96, n_positions=32, n_embd=32, n_layer=2, n_head=4))
    ids = tokens()
    return model, lambda m: m(input_ids=ids, labels=ids).loss


def llama_bfloat16() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    """Half precision, without dropout and without a mask: the case in which flash attention is taken."""
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**SMALL, **DEPTH, num_key_value_heads=2)).bfloat16()
    ids = tokens()
    return model, lambda m: m(input_ids=ids, labels=ids).loss


def mixtral() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        **SMALL, **DEPTH, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, output_router_logits=True
    )
    model = MixtralForCausalLM(config)
    ids = tokens()
    return model, lambda m: m(input_ids=ids, labels=ids).loss


def bert() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    """Dropout in attention, and a padding mask."""
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(BertConfig(**SMALL, **DEPTH, max_position_embeddings=32))
    ids, mask = tokens(), torch.ones(2, 12, dtype=torch.long)
    mask[1, 8:] = 0
    return model, lambda m: m(input_ids=ids, attention_mask=mask, labels=ids).loss


def distilbert() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    config = DistilBertConfig(vocab_size=96, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=32)
    model = DistilBertForSequenceClassification(config)
    ids, labels = tokens(), torch.tensor([0, 1])
    return model, lambda m: m(input_ids=ids, labels=labels).loss


def t5() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    from transformers import T5Config, T5ForConditionalGeneration

    shape: dict[str, Any] = {
        "vocab_size": 96,
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 0,
    }
    model = T5ForConditionalGeneration(T5Config(**shape))
    ids, labels = tokens(), tokens(7)
    return model, lambda m: m(input_ids=ids, labels=labels).loss


def vit() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(hidden_size=32, intermediate_size=48, image_size=32, patch_size=8, **DEPTH)
    config.num_labels = 5
    model = ViTForImageClassification(config)
    pixels, labels = torch.randn(2, 3, 32, 32), torch.tensor([1, 4])
    return model, lambda m: m(pixel_values=pixels, labels=labels).loss


def clip() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    from transformers import CLIPConfig, CLIPModel

    text: dict[str, Any] = {**SMALL, **DEPTH, "max_position_embeddings": 32, "eos_token_id": 2, "projection_dim": 16}
    vision: dict[str, Any] = {
        "hidden_size": 32, "intermediate_size": 48, "image_size": 32, "patch_size": 8, "projection_dim": 16, **DEPTH
    }  # fmt: skip
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    ids, pixels = tokens(), torch.randn(2, 3, 32, 32)
    return model, lambda m: m(input_ids=ids, pixel_values=pixels, return_loss=True).loss


def whisper() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=96, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=20,
        max_target_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config)
    features, labels = torch.randn(2, 8, 40), tokens(7)
    return model, lambda m: m(input_features=features, labels=labels).loss


def wav2vec2_ctc() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    """Convolutions, group norm, weight norm, and the CTC loss."""
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    config = Wav2Vec2Config(
        **SMALL, **DEPTH, conv_dim=(16, 16), conv_stride=(5, 4), conv_kernel=(10, 4), num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2, mask_time_prob=0.3, mask_time_length=2, pad_token_id=0,
    )  # fmt: skip
    model = Wav2Vec2ForCTC(config)
    audio, labels = torch.randn(2, 800), tokens(5)
    return model, lambda m: m(input_values=audio, labels=labels).loss


class ConvNet(nn.Module):
    """A segmentation net in miniature: batch norm, poolings, paddings, resizing, a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.ReflectionPad2d(1))
        self.down = nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 12, 3, padding=1, padding_mode="replicate"))
        self.middle = nn.Sequential(nn.InstanceNorm2d(12, affine=True), nn.GELU(), nn.AvgPool2d(2))
        self.up = nn.ConvTranspose2d(12, 8, 2, stride=2)
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.Sigmoid())
        self.uneven = nn.AdaptiveAvgPool2d(5)
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = x.shape[-2:]
        x = self.up(self.middle(self.down(self.stem(x))))
        x = x * self.gate(x) + F.interpolate(self.uneven(x), size=x.shape[-2:], mode="bicubic")
        x = F.dropout2d(x, 0.1, self.training) + F.interpolate(x, scale_factor=1.0, mode="nearest")
        out: torch.Tensor = F.interpolate(self.head(x), size=size, mode="bilinear")
        return out


def convnet() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    images, labels = torch.randn(2, 3, 16, 16), torch.randint(0, 4, (2, 16, 16))
    return ConvNet(), lambda m: F.cross_entropy(m(images), labels)


class LstmNet(nn.Module):
    """A tagger: embedding, a stacked bidirectional LSTM, a GRU, a cell in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(96, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, 16, 2, batch_first=True, bidirectional=True, dropout=0.1)
        self.gru = nn.GRU(32, 16, batch_first=True)
        self.cell = nn.LSTMCell(16, 16)
        self.tags = nn.Linear(16, 7)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.gru(self.lstm(self.words(ids))[0])[0]
        state = None
        for step in x.unbind(1):
            state = self.cell(step, state)
        assert state is not None
        out: torch.Tensor = self.tags(x + state[0].unsqueeze(1))
        return out


def lstm() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    ids, tags = tokens(9), torch.randint(0, 7, (2, 9))
    return LstmNet(), lambda m: F.cross_entropy(m(ids).flatten(0, 1), tags.flatten())


MODELS = (
    gpt2, llama_bfloat16, mixtral, bert, distilbert, t5, vit, clip, whisper, wav2vec2_ctc, convnet, lstm
)  # fmt: skip


def record(make: Callable[[], tuple[nn.Module, Callable[[nn.Module], Any]]]) -> Path:
    """One step: forward, backward, clipping, AdamW."""
    torch.manual_seed(0)
    model, loss_of = make()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with DeterminismTracer(model, name=make.__name__) as tracer:
        loss_of(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    path = HERE / f"{make.__name__}.json.gz"
    tracer.trace.save(path)
    return path


def main(names: list[str]) -> None:
    for make in MODELS:
        if not names or make.__name__ in names:
            path = record(make)
            print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
