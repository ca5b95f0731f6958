"""A tiny GPT-2 under transformers' Trainer, its weights drawn, its data synthetic."""

import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainingArguments, set_seed


class Tokens(Dataset):
    def __init__(self, count: int) -> None:
        self.rows = torch.randint(0, 64, (count, 16), generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict:
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def main() -> None:
    set_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=3, n_head=2))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=3,
            per_device_train_batch_size=4,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
            seed=0,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=Tokens(32))
        trainer.remove_callback(PrinterCallback)  # it prints how long the training took
        trainer.train()
    for entry in trainer.state.log_history:
        if "loss" in entry:
            print(entry["loss"], entry["grad_norm"])
    print(sum(parameter.double().sum().item() for parameter in model.parameters()).hex())


if __name__ == "__main__":
    main()
