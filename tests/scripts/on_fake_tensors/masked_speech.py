# needs: transformers
import numpy
import torch
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

torch.manual_seed(0)
numpy.random.seed(0)
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
convolutions = {"conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 8), "num_feat_extract_layers": 2}
model = Wav2Vec2ForCTC(Wav2Vec2Config(vocab_size=20, mask_time_length=2, **sizes, **convolutions))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    model(torch.randn(2, 800), labels=torch.randint(1, 20, (2, 6))).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
