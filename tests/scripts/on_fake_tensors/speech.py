# needs: transformers
import numpy
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

torch.manual_seed(0)
numpy.random.seed(0)
sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2}
more = {"decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 100}
tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
model = WhisperForConditionalGeneration(
    WhisperConfig(num_mel_bins=16, max_source_positions=50, max_target_positions=20, **sizes, **more, **tokens)
)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    sounds, words = torch.randn(2, 16, 100), torch.randint(0, 100, (2, 8))
    model(input_features=sounds, labels=words).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
