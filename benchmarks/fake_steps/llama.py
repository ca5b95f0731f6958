"""One step of a Llama of 70 billion parameters, in bfloat16 on 2,048 tokens."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.set_default_dtype(torch.bfloat16)
config = LlamaConfig(
    vocab_size=128_256,
    hidden_size=8192,
    intermediate_size=28_672,
    num_hidden_layers=80,
    num_attention_heads=64,
    num_key_value_heads=8,
)
model = LlamaForCausalLM(config).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
words = torch.randint(0, 128_256, (1, 2048), device="cuda")
loss = model(input_ids=words, labels=words, use_cache=False).loss
loss.backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
optimizer.zero_grad()
print(sum(parameter.numel() for parameter in model.parameters()))
