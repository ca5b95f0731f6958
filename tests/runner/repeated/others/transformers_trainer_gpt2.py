# needs: transformers accelerate
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

set_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=32, n_embd=32, n_layer=2, n_head=2))
data = [{"input_ids": torch.randint(0, 100, (16,))} for _ in range(8)]
data = [{**one, "labels": one["input_ids"]} for one in data]
arguments = TrainingArguments(
    "out", max_steps=2, per_device_train_batch_size=4, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True
)
Trainer(model, arguments, train_dataset=data).train()
