"""A tiny T5 under transformers' Trainer with gradient accumulation."""

import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch.utils.data import Dataset
from transformers import PrinterCallback, T5Config, T5ForConditionalGeneration, Trainer, TrainingArguments, set_seed


class Pairs(Dataset):
    def __init__(self, count: int) -> None:
        draw = torch.Generator().manual_seed(1)
        self.questions = torch.randint(2, 64, (count, 12), generator=draw)
        self.answers = torch.randint(2, 64, (count, 8), generator=draw)

    def __len__(self) -> int:
        return len(self.questions)

    def __getitem__(self, index: int) -> dict:
        return {"input_ids": self.questions[index], "labels": self.answers[index]}


def main() -> None:
    set_seed(0)
    config = T5Config(
        vocab_size=64, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, decoder_start_token_id=0, pad_token_id=0
    )
    model = T5ForConditionalGeneration(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=2,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
            seed=0,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=Pairs(32))
        trainer.remove_callback(PrinterCallback)  # it prints how long the training took
        trainer.train()
    for entry in trainer.state.log_history:
        if "loss" in entry:
            print(entry["loss"], entry["grad_norm"])
    print(sum(parameter.double().sum().item() for parameter in model.parameters()).hex())


if __name__ == "__main__":
    main()
