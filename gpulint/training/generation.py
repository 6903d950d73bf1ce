"""Calls that run a model once per token: each takes seconds, beside which a wait or an emptied cache costs little."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.workspace.module_index import last_name

_DECODES = regex.compile(r"^(beam|greedy)_(search|decode)(_|$)|_beam_search$")
_OPTIONS = frozenset(
    (
        "max_new_tokens max_length min_new_tokens do_sample num_beams num_return_sequences generation_config top_p "
        "sampling_params"
    ).split()
)


def generates(call: ast.Call) -> bool:
    """``model.generate(**inputs, max_new_tokens=256)``, ``llm.generate(prompts, SamplingParams(n=8))``,
    ``decoder.beam_search(memory)``"""
    name = last_name(call.func)
    return _DECODES.search(name) is not None or (
        name in ("generate", "chat")
        and (any(word.arg in _OPTIONS for word in call.keywords) or any(map(_is_sampling, call.args[1:2])))
    )


def _is_sampling(node: ast.expr) -> bool:
    """Return whether an argument holds options of vLLM and the like (``SamplingParams(...)``, ``sampling_params``)."""
    return (
        last_name(node.func if isinstance(node, ast.Call) else node)
        .lower()
        .endswith(("samplingparams", "sampling_params"))
    )
