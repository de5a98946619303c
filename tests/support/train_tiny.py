"""Trains a tiny byte-level Llama on one text: `python train_tiny.py TEXT FOLDER`.

Runs under a Python with torch and transformers. After a minute the model knows the text nearly by
heart, so that whatever a quantization does to it shows in what it says.
"""

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models
from tokenizers.pre_tokenizers import ByteLevel
from transformers import LlamaConfig, LlamaForCausalLM

STEPS, BATCH, LENGTH = 200, 4, 192


def train(text: bytes, folder: Path) -> None:
    """Write config, weights (float16) and tokenizer."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=256,
            hidden_size=256,
            intermediate_size=512,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=64,
            max_position_embeddings=1024,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=None,
        )
    )
    ids = torch.tensor(list(text))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(STEPS):
        starts = torch.randint(0, len(ids) - LENGTH, (BATCH,)).tolist()
        # The first one always, as it is scored from its start.
        batch = torch.stack([ids[s : s + LENGTH] for s in [0, *starts[1:]]])
        optimizer.zero_grad()
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
    model.half().save_pretrained(folder)
    tokenizer(folder)


def tokenizer(folder: Path) -> None:
    """One token a byte, with the byte as its number."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    names = {b: chr(b) for b in shown} | {b: chr(256 + n) for n, b in enumerate(hidden)}
    made = Tokenizer(models.BPE(vocab={name: b for b, name in names.items()}, merges=[]))
    made.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(folder / "tokenizer.json"))
    text = '{"tokenizer_class": "PreTrainedTokenizerFast"}'
    (folder / "tokenizer_config.json").write_text(text)


if __name__ == "__main__":
    train(Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]))
