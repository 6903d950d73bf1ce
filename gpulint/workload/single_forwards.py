"""Models that a loop runs on one sample after the other, without a loader: ``model(image.unsqueeze(0))``, ``generate``
of one prompt."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.training.loop_roles import Role
from gpulint.values.constants import Constants
from gpulint.workload.folder_passes import LISTS
from gpulint.workload.list_sizes import is_unbounded
from gpulint.workload.single_samples import gives_one, loops_around, single_samples
from gpulint.workspace.module_index import BindingKind, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_STEPS = 5
"""Most expressions between what a model gets and the sample that it is made of."""
FEW = 64
"""Most samples that are a look at what a model does."""
_PIPE = "pass the whole data set (a list, a generator or `KeyDataset`) to the pipeline with `batch_size=8`"
_PROMPTS = "tokenise several prompts at once with `padding=True` (on the left), and generate for the whole batch"
_SERVED = "collect the prompts, and pass them all to one call: vLLM batches them itself"
_STACK = "read the samples with a DataLoader, and run the model on batches"
_MODEL = regex.compile(
    r"(^|_)(model|network|encoder|classifier|backbone|extractor)\d*$|(^|_|[a-z])net(_?\d+)?$", re.IGNORECASE
)
_TOKENIZER = regex.compile(r"tokenizer|processor", re.IGNORECASE)
_RESIZES = regex.compile(r"resize|CenterCrop|center_crop", re.IGNORECASE)
"""What gives images one size, so that they can be stacked."""
_MOVES = frozenset({"to", "cuda", "float", "half", "type", "contiguous"})
_MANY = regex.compile(
    r"(data|dataset|_set|samples|images|examples|questions|prompts|instances|files|paths|names|ids|df|rows|texts"
    r"|sentences|queries|annotations|records|problems)$",
    re.IGNORECASE,
)
"""Names of what holds many samples."""
_LOOKS = regex.compile(
    r"demo|visuali[sz]e|plot|interactive|chat|serve|stream|latency|speed|attack|debug", re.IGNORECASE
)
"""Names of programs and functions that look at some samples, or for which one at a time is the point."""
_GOES_ON = regex.compile(r"hidden|state|memory|history|past|cache|prev", re.IGNORECASE)
"""Names of what a model takes over from the sample before."""


@dataclass(frozen=True, slots=True)
class SingleForward:
    """A call that runs a model on one of many samples, or leads to that; ``generates`` if it makes text, or is a
    pipeline's."""

    call: ast.Call
    samples: NodeRef
    generates: bool
    advice: str


def one_by_one(project: Project, module: ModuleIndex) -> Iterator[SingleForward]:
    """Calls of pipelines and models in a module that get one sample of a data set each."""
    for call, samples in single_samples(project, module):
        yield SingleForward(call, samples, True, _PIPE)
    yield from _forwards(project, module)
    yield from _served(project, module)


def _served(project: Project, module: ModuleIndex) -> Iterator[SingleForward]:
    """Calls of vLLM's ``LLM`` with one prompt, in a loop over prompts."""
    if "vllm" not in module.packages or _LOOKS.search(module.path.stem):
        return
    for call in module.calls_where(lambda name: name in ("generate", "chat")):
        if not isinstance(call.func, ast.Attribute) or not _is_one_text(call):
            continue
        made = project.fact(Resolver).points_to(module, call.func.value)
        if not any(_makes_llm(project, ref) for ref in made):
            continue
        for loop, given in loops_around(project, module, call):
            if _evaluates(project, loop, NodeRef(module, call), True) and _passes_over_data(project, loop):
                assert isinstance(loop.node, ast.For)
                where = given if loop.module is module else call
                yield SingleForward(where, NodeRef(loop.module, loop.node.iter), True, _SERVED)
                break


def _is_one_text(call: ast.Call) -> bool:
    """``llm.generate([prompt], sampling)``, ``llm.generate(prompt)``"""
    match call.args[:1]:
        case [ast.List(elts=[ast.Name() | ast.JoinedStr() | ast.Subscript()])] | [ast.JoinedStr()]:
            return True
        case [ast.Name(id=name)]:
            return last_name(call.func) == "generate" and not name.endswith("s")
    return False


def _makes_llm(project: Project, ref: NodeRef) -> bool:
    return isinstance(ref.node, ast.Call) and "vllm.LLM" in project.fact(Resolver).call_names(ref.module, ref.node)


def _forwards(project: Project, module: ModuleIndex) -> Iterator[SingleForward]:
    """Calls of a module that run a model on one sample of many, one for each loop over these."""
    if "torch" not in module.packages or _LOOKS.search(module.path.stem):
        return
    seen = set[ast.AST]()
    for call in module.calls_where(lambda name: name == "generate" or _MODEL.search(name)):
        generates = last_name(call.func) == "generate"
        if not _gets_one(module, call, generates):
            continue
        for loop, given in loops_around(project, module, call):
            if loop.node in seen or not _evaluates(project, loop, NodeRef(module, call), generates):
                continue
            if _passes_over_data(project, loop) and gives_one(project, loop, given) and not _goes_on(loop, given):
                seen.add(loop.node)
                assert isinstance(loop.node, ast.For)
                yield SingleForward(
                    given if loop.module is module else call,
                    NodeRef(loop.module, loop.node.iter),
                    generates,
                    _PROMPTS if generates else _STACK,
                )


def _gets_one(module: ModuleIndex, call: ast.Call, generates: bool) -> bool:
    """Return whether what a model gets is made of one sample: of one prompt, or of an image that becomes a batch of
    one."""
    given = [
        *call.args[:1],
        *(k.value for k in call.keywords if k.arg in (None, "input_ids", "inputs", "pixel_values")),
    ]
    is_one = _is_prompt if generates else _is_unsqueezed
    return any(is_one(made) for value in given[:1] for made in _made_of(module, value))


def _made_of(module: ModuleIndex, value: ast.expr) -> Iterator[ast.expr]:
    """Yield an expression, and those that it is made of by assignments, moves and look-ups."""
    for _ in range(MAX_STEPS):
        yield value
        match value:
            case ast.Name():
                bindings = reaching(module, module.scope(value).lookup(value.id), value)
                if len(bindings) != 1 or bindings[0].kind is not BindingKind.ASSIGN or bindings[0].path:
                    return
                if bindings[0].value is None:
                    return
                value = bindings[0].value
            case ast.Call(func=ast.Attribute(attr=name, value=inner)) if name in _MOVES:
                value = inner
            case ast.Subscript(value=inner, slice=ast.Constant(value=str())) | ast.Attribute(value=inner):
                value = inner
            case _:
                return


def _is_prompt(value: ast.expr) -> bool:
    """``tokenizer(prompt, return_tensors="pt")``, ``tokenizer([prompt], ...)``."""
    if not isinstance(value, ast.Call) or not value.args or not any(k.arg == "return_tensors" for k in value.keywords):
        return False
    if not _TOKENIZER.search(last_name(value.func)) and last_name(value.func) != "encode":
        return False
    match value.args[0]:
        case ast.List(elts=[ast.Name() | ast.JoinedStr()]) | ast.JoinedStr():
            return True
        case ast.Name(id=name):
            return not name.endswith("s")
    return False


def _is_unsqueezed(value: ast.expr) -> bool:
    """``image.unsqueeze(0)``, ``torch.unsqueeze(image, 0)``, ``image[None]``."""
    match value:
        case ast.Call(func=ast.Attribute(attr="unsqueeze"), args=[*_, ast.Constant(value=0)]):
            return True
        case ast.Subscript(slice=ast.Constant(value=None)):
            return True
    return False


def _evaluates(project: Project, loop: NodeRef, call: NodeRef, generates: bool) -> bool:
    """Return whether a loop only infers, outside of a training step, on images of one size or on text."""
    if not isinstance(loop.node, ast.For):
        return False
    contexts, guards = project.fact(LoopContexts), project.fact(Guards)
    around = (loop.module.function(loop.node), call.module.function(call.node))
    if any(function is not None and _LOOKS.search(function.name) for function in around):
        return False
    if contexts.role(loop.module, loop.node) in (Role.STEP, Role.EPOCH) or any(
        context.role is Role.STEP for context in contexts.enclosing_loops(loop.module, loop.node)
    ):
        return False
    if generates:
        return True
    without = guards.is_without_gradients(call.module, call.node)
    without = without or guards.is_without_gradients(loop.module, loop.node.body[0])
    texts = (call.module.syntax.source.text, loop.module.syntax.source.text)
    return without and any(map(_RESIZES.search, texts))


def _passes_over_data(project: Project, loop: NodeRef) -> bool:
    """Return whether a loop goes through a data set, a folder or a table, as far as names tell."""
    if not isinstance(loop.node, ast.For):
        return False
    module, source = loop.module, unwrap_iterable(loop.node.iter)
    if isinstance(source, ast.Call) and last_name(source.func) == "sorted" and source.args:
        source = source.args[0]
    match source:
        case ast.Call(func=ast.Name(id="range"), args=[count] | [ast.Constant(value=0), count]):
            known = project.fact(Constants).of(module, count)
            few = any(isinstance(value.value, int) and value.value <= FEW for value in known.values)
            return not few and not isinstance(count, ast.Constant) and _takes_by_count(loop.node)
        case ast.Call(func=func):
            return last_name(func) in LISTS | {"iterrows", "itertuples", "load_dataset"}
        case ast.Name() | ast.Attribute():
            return bool(_MANY.search(last_name(source))) and is_unbounded(project, module, source)
    return False


def _takes_by_count(loop: ast.For) -> bool:
    """Return whether a loop takes an item of something by what it counts (``dataset[i]``)."""
    counts = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
    return any(
        isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Name) and part.slice.id in counts
        for part in walk(loop)
    )


def _goes_on(loop: NodeRef, call: ast.Call) -> bool:
    """Return whether a sample needs the result of the one before it."""
    given = {part.id for part in walk(call) if isinstance(part, ast.Name)}
    if any(map(_GOES_ON.search, given)):
        return True
    statement = loop.module.syntax.parents.get(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(part, ast.Name) and part.id in given for target in targets for part in walk(target))
