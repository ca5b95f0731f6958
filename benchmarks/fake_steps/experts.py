"""One step of a mixture of experts of 141 billion parameters (the shape of Mixtral 8x22B), on 2,048 tokens."""

import torch
from transformers import MixtralConfig, MixtralForCausalLM

torch.set_default_dtype(torch.bfloat16)
config = MixtralConfig(
    vocab_size=32_768,
    hidden_size=6144,
    intermediate_size=16_384,
    num_hidden_layers=56,
    num_attention_heads=48,
    num_key_value_heads=8,
    num_local_experts=8,
    output_router_logits=True,
)
model = MixtralForCausalLM(config).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
words = torch.randint(0, 32_768, (1, 2048), device="cuda")
model(input_ids=words, labels=words, use_cache=False).loss.backward()
optimizer.step()
optimizer.zero_grad()
print(sum(parameter.numel() for parameter in model.parameters()))
