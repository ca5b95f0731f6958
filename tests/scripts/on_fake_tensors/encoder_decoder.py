# needs: transformers
import torch
from transformers import T5Config, T5ForConditionalGeneration

torch.manual_seed(0)
sizes = {"vocab_size": 100, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
model = T5ForConditionalGeneration(T5Config(decoder_start_token_id=0, **sizes))
optimizer = torch.optim.Adafactor(model.parameters())
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
for _ in range(2):
    words = torch.randint(0, 100, (4, 12))
    model(input_ids=words, labels=words).loss.backward()
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
