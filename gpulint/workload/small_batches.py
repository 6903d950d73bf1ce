"""Which batches are small, by their number and what stands beside it: options, keys, lengths of samples, comments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from gpulint import reasons, regex
from gpulint.numerals import whole
from gpulint.rule import Kind
from gpulint.source import Span
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.documents.base import Document

SMALL = 32
"""Largest batch that counts as small for models of usual size on a data-centre GPU."""
SMALL_MODEL = 64
"""The same for models of the size that fits MNIST."""
_SAMPLE_SIZE = regex.compile(
    r"(patch|crop|roi|vol(ume)?|window|block|spatial|im(a)?ge?|input)[_-]?(size|shape|dims?)?$"
)
_THREE_SIDES = regex.compile(r"[\[(\"']?\d{1,5}(?:[,x ]+\d{1,5}){2}[\])\"']?")
_SIDE = 16
"""Least length of a side, rather than a number of channels."""
MANY_TOKENS = 16384
"""Tokens per step from which on a transformer keeps a GPU busy, however few samples hold them."""
_BUSY = 500_000_000_000
"""Parameters of a transformer's layers times tokens per step from which on a step takes ten milliseconds and more: 3
TFLOP forward and backward."""
_LAYERS = regex.compile(r"(^|[-_.])(num[-_](hidden[-_])?layers?|n[-_]?layers?|(encoder[-_])?layers)$", re.IGNORECASE)
_WIDTH = regex.compile(
    r"(^|[-_.])(hidden[-_](size|dim)|d[-_]model|n[-_]embd|(encoder[-_])?embed[-_]dim)$", re.IGNORECASE
)
_PUBLISHED = regex.compile(
    r"copyright(?:[\s©\d,.-]|\(c\))*(?:present[,.]?\s)?(?:the\s)?(google|facebook|meta platforms|nvidia|microsoft"
    r"|openai|hugging ?face|deepmind|salesforce|amazon|baidu|alibaba|tencent|bytedance|tensorflow authors|ibm"
    r"|allen institute)\b",
    re.IGNORECASE,
)
"""The head of a script that a company or laboratory has published with its recipe."""
_HEAD = 1_500
LARGE_GLOBAL = 512
"""Batch over all processes from which on it is the optimizer that bounds it, not the GPU."""

_NAME = regex.compile(
    r"^-{0,2}(train(ing)?|per[-_]?device[-_]train|per[-_]?gpu[-_]train|local|input|infer(ence)?)?[-_]?"
    r"(batch[-_]?size|bsz|minibatch[-_]?size)([-_]?(per[-_]\w+|train(ing)?))?$",
    re.IGNORECASE,
)
_MICRO = regex.compile(r"micro[-_]?batch([-_]?size)?$", re.IGNORECASE)
_ACCUMULATES = regex.compile(r"accum|^\W*ga[-_]?steps?$", re.IGNORECASE)
_UPDATES = regex.compile(r"(^--|\.)update[-_]freq(\.0)?$")
"""What fairseq calls accumulation; elsewhere the name says how often logs or target networks are renewed."""
_LENGTH = regex.compile(
    r"(^|[-_.])(max[-_](len|length)|(seq|sequence|context|token|pack|cutoff)[-_]?(len|length)|model[-_]max[-_]length"
    r"|block[-_]size)$",
    re.IGNORECASE,
)
"""Names of the tokens in a sample."""
_PER_SAMPLE = regex.compile(r"^-{0,2}train[-_](group[-_]size|n[-_]passages)$")
"""How many texts retrievers and rerankers make one sample of."""
_FILLED = regex.compile(r"(^|_)((seq|sequence|context)_?(len|length)|block_size)$", re.IGNORECASE)
"""Those of samples that are cut to one length; a tokenizer's ``max_length`` bounds what may be far shorter."""
_LARGE = regex.compile(
    r"(?<![\w.])(?:[3-9]|\d{2,3})(?:\.\d+)?[bB](?![a-zA-Z])|[-_](?:[3-9]|\d{2,3})(?:\.\d+)?[bB](?![a-zA-Z])"
    r"|(?<=[a-z])\d{2,3}b(?![a-z0-9])|[-_]xx?l\b|llama|mi[sx]tral|falcon|qwen|deepseek|vicuna|chatglm|baichuan|internlm|(?<![a-z])phi[-_]?[34](?!\d)"
    r"|stable[-_]?diffusion|sdxl|flux[-._]?1|neox|gpt-?j\b",
    re.IGNORECASE,
)
_REASON = regex.compile(
    r"\b(paper|memory|v?ram|oom|(for|to) (test|debug)\w*|only (test|debug)\w*|smoke)\b", re.IGNORECASE
)
"""Words of a comment that gives a reason for a batch size."""
_BATCH = regex.compile("batch", re.IGNORECASE)
_REASON_IN_COMMENT = regex.compile(
    rf"^[^\S\n]*#(?=[^\n]*(?-i:batch))[^\n]*{_REASON.pattern}", re.IGNORECASE | re.MULTILINE
)
"""A whole line of a script that is such a comment."""
_TRAINING = regex.compile(r"train(ing)?$", re.IGNORECASE)
_TASK = regex.compile(r"(^|\.)dataset\.task$")
_ONE_GRAPH = ("node", "edge", "link_pred")
"""Tasks of GraphGym and its descendants on the parts of a graph, which is one sample."""
_GPUS = regex.compile(r"(^|\.)(num_?|n_?)gpus?$")
_TOY = regex.compile(r"mnist", re.IGNORECASE)
_NO_TRAINING = regex.compile(
    r"(^|_)(prepare|preprocess|extract|convert|download|export|eval|evaluate|evaluation|generate|predict)(_|$)",
    re.IGNORECASE,
)
"""Programs that make data or evaluate: their batches are no training's."""


_EVALUATES = regex.compile(
    r"eval(uate|uation)?|test(ing)?|val(id|idate|idation)?|infer(ence)?|predict(ion)?", re.IGNORECASE
)
"""What programs call the mode in which they train nothing."""
_MODE = regex.compile(r"(--?)?(run[-_]?)?(mode|phase|stage|job|task|action)", re.IGNORECASE)
_EVALUATES_ONLY = regex.compile(
    r"--?((eval|evaluate|test|infer|inference|predict)[-_]only|only[-_](eval|evaluate|test|infer|inference|predict))(=[Tt]rue)?",
    re.IGNORECASE,
)
_INFERS = regex.compile(
    r"^(?!.*train)(.*_)?(infer|inference|decode|decoding|transcribe|translate|test|testing|plot|visuali[sz]e|render)(_|$)",
    re.IGNORECASE,
)
"""Scripts that apply a model, often one sample at a time to tell how long that takes."""
_SAYS_TRAINING = regex.compile(
    r"train|tun(e|ing)|sft|dpo|epoch|learning[-_]?rate|(^|[-_.])lr\b|max[-_]?(steps|iters)|optim|weight[-_]decay",
    re.IGNORECASE,
)
"""Words of a command that trains; without one, what a program from elsewhere does with its batches is not known."""
_REINFORCES = regex.compile(r"(^|_)(ppo|grpo|rloo|reinforce|rlhf)(_|$)", re.IGNORECASE)
"""Programs whose batches are bound by what they sample themselves."""


def is_batch_size(name: str) -> bool:
    """Return whether it is the name of an option or key for the training (or only) batch size of a device."""
    return bool(_NAME.match(name))


def is_accumulation(name: str) -> bool:
    """Return whether it is the name of an option or key for gradient accumulation."""
    return bool(_ACCUMULATES.search(name))


def training_sizes(values: Mapping[str, tuple[object, Span]]) -> Iterable[tuple[str, int, Span]]:
    """(key, size, place) of the training batch sizes of one device in a configuration file under dotted keys.

    There are none where a size is shared by several devices, or for graphs that are trained on as a whole.
    """
    plain = {key.lower(): value for key, (value, _) in values.items()}
    if any(_TASK.search(key) and value in _ONE_GRAPH for key, value in plain.items()):
        return
    several = any(_GPUS.search(key) and type(value) is int and value > 1 for key, value in plain.items())
    for key, (value, span) in values.items():
        *parents, name = key.split(".")
        if not is_batch_size(name) or type(value) is not int:
            continue
        # `dali.context.train.batch_size`: deeper down it is something of a part's own.
        if parents and not ("train" in name.lower() or (len(parents) < 3 and _TRAINING.match(parents[-1]))):
            continue
        if not (parents and several and "per" not in name.lower()):
            yield key, value, span


@lru_cache(maxsize=16)
def names_large_model(text: str) -> bool:
    """Return whether a text names a model that fills a GPU by itself (``llama``, ``13b``)."""
    return bool(_LARGE.search(text))


def is_small(size: int, text: str) -> bool:
    """Return whether a batch is small for a program whose text is given."""
    return 0 < size <= (SMALL_MODEL if _TOY.search(text) else SMALL)


def accumulated_elsewhere(options: Mapping[str, str | None], size: int) -> bool:
    """Return whether a command's options (or a file's keys) make up for a small batch: by accumulating gradients, or by
    samples of several texts each.

    A global batch counts when it is more than eight devices can hold at once, and a batch made of micro-batches.
    """
    parts = any(map(_MICRO.search, options))
    for name, text in options.items():
        number = whole(text)
        if (is_accumulation(name) or _UPDATES.search(name)) and (number is None or (number > 1 and number * size > 4)):
            return True
        if _PER_SAMPLE.search(name) and (number is None or number * size > SMALL):
            return True
        if re.search(r"global[-_]batch", name) and (number is None or number > 8 * size):
            return True
        if _MICRO.search(name) and (number is None or number < size):
            return True
        if parts and is_batch_size(name) and (number or 0) > size:
            return True
    return False


def fills_by_length(options: Mapping[str, str | None], size: int) -> bool:
    """Return whether options, or what a file or module writes out, make the sequences so long that few of them fill a
    GPU, or the samples parts of volumes."""
    return _works_long(options, size) or any(
        (_LENGTH.search(name) and size * (whole(text) or 0) >= MANY_TOKENS) or _is_volume(name, text)
        for name, text in options.items()
    )


def _works_long(options: Mapping[str, str | None], size: int) -> bool:
    """Return whether the number and width of a transformer's layers, given beside the length of the sequences, make a
    step of few samples long (``--micro-batch-size 8 --seq-length 512 --num-layers 24 --hidden-size 1024``)."""
    layers, width, length = (
        max((whole(text) or 0 for name, text in options.items() if wanted.search(name)), default=0)
        for wanted in (_LAYERS, _WIDTH, _LENGTH)
    )
    return 12 * layers * width**2 * size * length >= _BUSY


def is_published(module: ModuleIndex) -> bool:
    """Return whether the head of a module says that a company or laboratory has published it: its defaults are those of
    a recipe that others compare with."""
    return _PUBLISHED.search(module.syntax.source.text[:_HEAD]) is not None


def _is_volume(name: str, text: str | None) -> bool:
    """``--patch_size=128,128,128``"""
    if not _SAMPLE_SIZE.search(name) or not _THREE_SIDES.fullmatch(text or ""):
        return False
    return min(int(side) for side in re.findall(r"\d+", text or "")) >= _SIDE


def written_lengths(module: ModuleIndex) -> dict[str, str | None]:
    """The lengths to which a module cuts its samples, as it writes them: in dictionaries, arguments and variables."""
    pairs: list[tuple[object, ast.expr | None]] = []
    for node in module.syntax.of(ast.Dict):
        pairs += [
            (key.value, value)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant)
        ]
    pairs += [(keyword.arg, keyword.value) for call in module.calls for keyword in call.keywords]
    pairs += [(name, binding.value) for name, bindings in module.top.bindings.items() for binding in bindings]
    return {
        name: str(value.value)
        for name, value in pairs
        if isinstance(name, str)
        and isinstance(value, ast.Constant)
        and type(value.value) is int
        and _FILLED.search(name)
    }


def is_explained(document: Document, number: Span) -> bool:
    """Return whether a comment says why the batch is small: beside the number, above it, or anywhere in a script."""
    if reasons.is_explained(document, number, more=_REASON, about=_BATCH):
        return True
    size = document.cell_source(number.cell).line(number.line)[number.column - 1 : number.end_column - 1]
    if size.isdigit() and reasons.is_changed(document, _BATCH, size, number):
        return True
    return document.kind is Kind.SHELL and document.matches(_REASON_IN_COMMENT)


def names_no_training(name: str, inference: bool = False) -> bool:
    """Return whether a program's name says that it makes data or evaluates, or (``inference``) applies a model."""
    return bool(_NO_TRAINING.search(name) or (inference and _INFERS.search(name)))


def says_no_training(words: Sequence[str]) -> bool:
    """Return whether a command's arguments say that the program only evaluates: ``main.py test``, ``--phase test``,
    ``--eval_only``."""
    first = words[0] if words else ""
    if _EVALUATES.fullmatch(first) or any(map(_EVALUATES_ONLY.fullmatch, words)):
        return True
    pairs = [*pairwise(words), *(tuple(word.split("=", 1)) for word in words if "=" in word)]
    return any(_MODE.fullmatch(name) and _EVALUATES.fullmatch(value) for name, value in pairs)


def names_reinforcement(name: str) -> bool:
    """Return whether a program's name says that it samples its batches itself, which bounds them."""
    return bool(_REINFORCES.search(name))


def names_training(word: str) -> bool:
    """Return whether a word of a command says that it trains."""
    return bool(_SAYS_TRAINING.search(word))
