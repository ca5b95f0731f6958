"""One step of a mixture of 160 experts a layer, of 480 billion parameters, with gradient checkpointing."""

import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

torch.set_default_dtype(torch.bfloat16)
config = Qwen3MoeConfig(
    vocab_size=151_936,
    hidden_size=6144,
    num_hidden_layers=62,
    num_attention_heads=96,
    num_key_value_heads=8,
    head_dim=128,
    num_experts=160,
    num_experts_per_tok=8,
    moe_intermediate_size=2560,
)
model = Qwen3MoeForCausalLM(config).to("cuda")
model.gradient_checkpointing_enable()
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
words = torch.randint(0, 151_936, (1, 4096), device="cuda")
model(input_ids=words, labels=words, use_cache=False).loss.backward()
optimizer.step()
optimizer.zero_grad()
print(sum(parameter.numel() for parameter in model.parameters()))
