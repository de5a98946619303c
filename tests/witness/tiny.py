"""A tiny random Llama, its tokenizer and its calibration texts, for the scripts beside this one.

Everything is made on the spot, so that nothing has to be downloaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

if TYPE_CHECKING:
    from pathlib import Path

VOCAB, LENGTH = 512, 64


def llama() -> LlamaForCausalLM:
    """Two layers of a Llama with random weights, in bfloat16."""
    torch.manual_seed(0)
    config = LlamaConfig(
        architectures=["LlamaForCausalLM"],
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCAB,
        max_position_embeddings=512,
        bos_token_id=1,
        eos_token_id=2,
        dtype="bfloat16",
    )
    return LlamaForCausalLM(config).to(torch.bfloat16).eval()


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer whose words are the numbers of the vocabulary."""
    words = {"<unk>": 0, "<s>": 1, "</s>": 2} | {str(i): i for i in range(3, VOCAB)}
    inner = Tokenizer(WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
    )


def texts(count: int = 16) -> list[str]:
    """Random sentences of LENGTH words of the tokenizer."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(3, VOCAB, (count, LENGTH), generator=generator)
    return [" ".join(map(str, row)) for row in ids.tolist()]


def saved(folder: Path) -> str:
    """Write the model and its tokenizer, and return where, for tools that want a path."""
    path = str(folder)
    llama().save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path
