"""Tokenizers with a model's number of tokens and special tokens, one token for each word."""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import contextlib
import functools
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from gpulint_probe.estimator.script.hub.models import STYLE, Hub
from gpulint_probe.estimator.script.imports import Action

# Special tokens by role with their numbers, and what is put around one text and around two.
_STYLES: dict[str, tuple[dict[str, tuple[str, int]], str, str]] = {
    "bert": (
        {"pad": ("[PAD]", 0), "unk": ("[UNK]", 100), "cls": ("[CLS]", 101), "sep": ("[SEP]", 102),
         "mask": ("[MASK]", 103)},
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1",
    ),
    "roberta": (
        {"bos": ("<s>", 0), "cls": ("<s>", 0), "pad": ("<pad>", 1), "eos": ("</s>", 2), "sep": ("</s>", 2),
         "unk": ("<unk>", 3), "mask": ("<mask>", -1)},
        "<s> $A </s>", "<s> $A </s> </s> $B </s>",
    ),
    "gpt2": ({"bos": ("<|endoftext|>", -1), "eos": ("<|endoftext|>", -1), "unk": ("<|endoftext|>", -1)}, "", ""),
    "opt": ({"pad": ("<pad>", 1), "bos": ("</s>", 2), "eos": ("</s>", 2), "unk": ("</s>", 2)}, "</s> $A", "</s> $A $B"),
    "bloom": ({"unk": ("<unk>", 0), "bos": ("<s>", 1), "eos": ("</s>", 2), "pad": ("<pad>", 3)}, "", ""),
    "llama": ({"unk": ("<unk>", 0), "bos": ("<s>", 1), "eos": ("</s>", 2)}, "<s> $A", "<s> $A $B"),
    "gemma": (
        {"pad": ("<pad>", 0), "eos": ("<eos>", 1), "bos": ("<bos>", 2), "unk": ("<unk>", 3)}, "<bos> $A", "<bos> $A $B"
    ),
    "qwen": ({"pad": ("<|endoftext|>", 151643), "eos": ("<|im_end|>", 151645)}, "", ""),
    "t5": ({"pad": ("<pad>", 0), "eos": ("</s>", 1), "unk": ("<unk>", 2)}, "$A </s>", "$A </s> $B </s>"),
    "clip": (
        {"bos": ("<|startoftext|>", 49406), "eos": ("<|endoftext|>", 49407), "unk": ("<|endoftext|>", 49407),
         "pad": ("<|endoftext|>", 49407)},
        "<|startoftext|> $A <|endoftext|>", "<|startoftext|> $A $B <|endoftext|>",
    ),
}  # fmt: skip
_CHAT = (
    "{% for message in messages %}<|im_start|> {{ message['role'] }}\n{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] }} <|im_end|>{% endgeneration %}{% else %}"
    "{{ message['content'] }} <|im_end|>{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|> assistant\n{% endif %}"
)


def actions(hub: Hub, note: Callable[[str], None], stack: contextlib.ExitStack) -> dict[str, Action]:
    """Return what is to be done when transformers' tokenizers are imported: make up those that are not at hand."""

    def replaced(real: Any) -> Any:
        def from_pretrained(kind: Any, name: Any, *args: Any, **options: Any) -> Any:
            place = hub.place(name)
            if place == name or not Path(place, options.get("subfolder") or "", STYLE).is_file():
                return real.__func__(kind, name, *args, **options)
            note("tokenizers that are not at hand give one token for each word")
            return made_up(Path(place, options.get("subfolder") or ""), str(name), options)

        return classmethod(from_pretrained)

    def patch(owner: str) -> Action:
        def act(module: ModuleType) -> None:
            kind = getattr(module, owner)
            stack.enter_context(mock.patch.object(kind, "from_pretrained", replaced(kind.from_pretrained)))

        return act

    return {
        "transformers.tokenization_utils_base": patch("PreTrainedTokenizerBase"),
        "transformers.models.auto.tokenization_auto": patch("AutoTokenizer"),
    }


def made_up(folder: Path, name: str, options: dict[str, Any]) -> Any:
    """A fast tokenizer of transformers for the model whose files are in ``folder``."""
    transformers = importlib.import_module("transformers")

    config = json.loads((folder / "config.json").read_text())
    style = json.loads((folder / STYLE).read_text())
    known, single, pair = _STYLES[style["style"]]
    full = transformers.AutoConfig.for_model(**config)
    size = full.vocab_size
    special = {role: (token, number % size) for role, (token, number) in known.items()}
    longest = getattr(full, "max_position_embeddings", None) or 512
    longest -= 2 if style["style"] == "roberta" and longest % 2**6 == 2 else 0
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=_words(size, tuple(sorted(set(special.values()))), single, pair),
        model_max_length=options.get("model_max_length", longest),
        padding_side=options.get("padding_side", "right"),
        **{f"{role}_token": token for role, (token, _) in special.items() if role != "unk"},
    )
    if style.get("chats"):
        made.chat_template = _CHAT
    for role in ("pad", "eos", "bos"):
        if isinstance(options.get(f"{role}_token"), str):
            setattr(made, f"{role}_token", options[f"{role}_token"])
    made.name_or_path = name
    return made


@functools.cache
def _words(size: int, special: tuple[tuple[str, int], ...], single: str, pair: str) -> Any:
    """A tokenizer that splits at spaces and punctuation; words that it does not know are one usual token."""
    tokenizers = importlib.import_module("tokenizers")

    numbers = {number: token for token, number in special}
    if size > 151_700:
        numbers |= {151644: "<|im_start|>"}
    vocabulary = {numbers.get(number, f"w{number}"): number for number in range(size)}
    usual = f"w{min(1000, size - 1)}"
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=usual))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if single:
        used = [(token, number) for token, number in special if token in single.split()]
        made.post_processor = tokenizers.processors.TemplateProcessing(single=single, pair=pair, special_tokens=used)
    return made
