# needs: transformers
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

torch.manual_seed(0)
sizes = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
model = Qwen2ForCausalLM(Qwen2Config(num_attention_heads=4, num_key_value_heads=2, attention_dropout=0.1, **sizes))
model.gradient_checkpointing_enable()
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    for _ in range(2):
        words = torch.randint(0, 100, (2, 16))
        (model(input_ids=words, labels=words, use_cache=False).loss / 2).backward()
    optimizer.step()
    optimizer.zero_grad()
