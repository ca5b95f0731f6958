# needs: transformers accelerate
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

set_seed(0)
sizes = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
model = LlamaForCausalLM(LlamaConfig(num_attention_heads=4, num_key_value_heads=2, **sizes))
words = [torch.randint(0, 100, (16,)) for _ in range(8)]
data = [{"input_ids": line, "labels": line} for line in words]
arguments = TrainingArguments(
    "out", max_steps=2, per_device_train_batch_size=4, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True
)
Trainer(model, arguments, train_dataset=data).train()
