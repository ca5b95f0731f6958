# needs: transformers
import torch
from transformers import MixtralConfig, MixtralForCausalLM

torch.manual_seed(0)
sizes = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
model = MixtralForCausalLM(
    MixtralConfig(num_local_experts=4, num_experts_per_tok=2, output_router_logits=True, **heads, **sizes)
)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    words = torch.randint(0, 100, (4, 16))
    model(input_ids=words, labels=words).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
