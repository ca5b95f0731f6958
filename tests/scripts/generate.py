"""Generates text with a tiny model of transformers: ``greedy``, ``sample``, or ``unseeded`` sampling."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
sizes = {"n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 64, "n_positions": 64}
model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=63)).eval()
if sys.argv[1] == "unseeded":
    torch.seed()
ids = torch.arange(1, 9).unsqueeze(0)
tokens = model.generate(ids, max_new_tokens=8, do_sample=sys.argv[1] != "greedy", pad_token_id=0)
print("tokens", tokens[0].tolist())
