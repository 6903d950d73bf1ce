"""What makes a finding cost less than it would elsewhere: toy runs, demos, copies, code that is not called, reasons.

Each circumstance is one row of ``CIRCUMSTANCES``: how it reads, by how many levels it lowers, and the test. Tests ask
about the file, the place and the jobs, never about the rule.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.choices import is_other_choice
from gpulint.assessment.copies import original
from gpulint.assessment.reasons import has_reason
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.records import dataclass
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.unused_symbols import is_unused
from gpulint.training.guards import Guards, is_benchmark
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.repetition import training_contexts
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, last_name, source_text

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject

TO_LOW = 2
"""Levels that lead from high to low."""
_DEMO = regex.compile(
    r"(^|[/_.-])(tutorials?|demos?|demonstration|workshops?|getting[-_]?started|quick[-_]?start|lessons?|courses?|labs?"
    r"|cookbooks?|blogs?|exercises?|assignments?|homework|playground|intro(duction)?|colab|toy|hello[-_]?world|templates?)([/_.-]|$)"
    r"|(^|/)(examples?|samples?)(/|$)",
    re.IGNORECASE,
)
_OUTDATED = regex.compile(
    r"(^|[/_.-])(old|bak|backup|deprecated|legacy|archived?|obsolete|unused|trash|bad|copy|scratch)([/_.-]|\d|$)",
    re.IGNORECASE,
)
_VENDORED = regex.compile(
    r"(^|/)(third[-_]?party|3rd[-_]?party|vendor(ed)?|externals?|extern|submodules?|deps|contrib|site-packages"
    r"|node_modules|forks?)/",
    re.IGNORECASE,
)
_ADAPTED = regex.compile(
    r"\b(code|copied|adapted|taken|borrowed|ported|derived|modified|based|copy|adaptation|implementation)\b[^\n]{0,60}"
    r"\b(from|on|of|by)\b[^\n]*\n?[^\n]*(github\.com|https?://|\brepo\b)",
    re.IGNORECASE,
)
_MEASURES = regex.compile(
    r"(^|[/_.-])(bench(mark)?s?|benchmarking|profil(e|er|ing)|speed[-_]?test|sanity)([/_.-]|$)", re.I
)
_TOY_DATA = regex.compile(
    r"\b(Fashion|K|E|Q)?MNIST\w*\(|mnist\.load_data|load_(iris|digits|boston|diabetes|breast_cancer|wine)\b|make_(moons|blobs"
    r"|classification|regression|circles)\(|\b(Fake|Dummy|Toy|Synthetic|Random)\w*(Dataset|Data|Loader)\(|TUDataset\("
    r"|Planetoid\(|PennFudan|\bMedNIST|load_dataset\(\s*[\"'](mnist|fashion_mnist|imdb|glue|rotten_tomatoes|yelp_polarity)[\"']"
)
_FEW = regex.compile(
    r"""split\s*=\s*["'][^"']*\[:\s*\d{1,5}\]|\.select\(\s*range\(\s*\d{1,4}\s*\)"""
    r"""|--?max[-_](steps|iters)[= ]\d{1,2}\b"""
)
_SMOKE = regex.compile(
    r"(^|[/_.-])(smoke|dry[-_]?run|debug|minimal|mini|tiny|dummy|synthetic|mnist)([/_.-]|$)", re.IGNORECASE
)
_INSPECTS = regex.compile(
    r"(^|[/_-])(visuali[sz]e|plot|draw|show|inspect|export|convert|inference|infer|predict|generate|sample|synthesi[sz]e"
    r"|interpolate|metrics?|scores?|fid|inception|evaluate|evaluation|eval|test)([/_.-]|s?$)",
    re.IGNORECASE,
)
_LARGE_SAMPLES = regex.compile(
    r"Conv3d|\b3[dD]\b|[Vv]olumetric|nibabel|SimpleITK|[Rr]eplay_?[Bb]uffer|\breplay\b|[Rr]ollout", re.M
)
_TRAINS = regex.compile(r"train|fit|distributed|ddp|dist\b|gpu|cuda|amp|fp16|rank", re.IGNORECASE)
"""Words of switches that those who train on GPUs set."""


@dataclass(frozen=True, slots=True)
class Circumstance:
    """Why a finding costs less, by how many levels, and whether it holds; of some kinds of cost only, if any."""

    phrase: str
    levels: int
    holds: Callable[[Subject], bool]
    kinds: frozenset[str] = frozenset()
    not_kinds: frozenset[str] = frozenset()


def circumstances(subject: Subject) -> Iterator[Circumstance]:
    """Those that hold for a finding."""
    kind = subject.cost.kind if subject.cost is not None else ""
    for row in CIRCUMSTANCES:
        if (row.kinds and kind not in row.kinds) or kind in row.not_kinds:
            continue
        if row.holds(subject):
            yield row


# -- the file ----------------------------------------------------------------------------------------------------------


def _is_demo(subject: Subject) -> bool:
    return bool(_DEMO.search(subject.place)) and not subject.is_launcher


def _is_notebook(subject: Subject) -> bool:
    return subject.is_notebook and not subject.jobs


def _is_outdated(subject: Subject) -> bool:
    return bool(_OUTDATED.search(subject.place))


def _is_vendored(subject: Subject) -> bool:
    if _VENDORED.search(subject.place):
        return True
    root, folder = subject.project.root, subject.path.parent
    while folder != root and folder.is_relative_to(root):
        if any(name.upper().startswith(("LICENSE", "LICENCE", "COPYING")) for name in subject.project.entries(folder)):
            return any(name.upper().startswith("LICEN") for name in subject.project.entries(root))
        folder = folder.parent
    return False


def _is_adapted(subject: Subject) -> bool:
    """A helper whose head says that it comes from elsewhere; a program of its own is its owner's by now."""
    if subject.module is None or subject.trains:
        return False
    return bool(_ADAPTED.search("\n".join(subject.text.splitlines()[:25])))


def _is_copy(subject: Subject) -> bool:
    return original(subject.project, subject.path) is not None


def _measures(subject: Subject) -> bool:
    return bool(_MEASURES.search(subject.place)) or is_benchmark(subject.path) or subject.project.is_test(subject.path)


# -- the run -----------------------------------------------------------------------------------------------------------


def _is_toy(subject: Subject) -> bool:
    if _SMOKE.search(subject.place):
        return True
    if _TOY_DATA.search(subject.text):
        return True
    if subject.module is None or subject.is_notebook:
        return False
    # A data set of digits that a module of the program's own makes.
    imported = islice(sorted(subject.project.imported(subject.path)), 12)
    return any(
        path.parent == subject.path.parent and _TOY_DATA.search(subject.project.python_text(path)) for path in imported
    )


def _uses_few(subject: Subject) -> bool:
    return bool(_FEW.search(subject.text))


def _is_one_epoch(subject: Subject) -> bool:
    """Does the training around run once over its data?"""
    module, node = subject.module, subject.node
    if module is None or node is None:
        return False
    for name in ("epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs"):
        for use in islice(module.uses.get(name, ()), 3):
            known = subject.project.fact(Constants).of(module, use)
            if known.complete and known.every(lambda value: value == 1):
                return True
    return False


def _is_without_gpu(subject: Subject) -> bool:
    module, node = subject.module, subject.node
    return module is not None and node is not None and subject.project.fact(Guards).is_without_gpu(module, node)


# -- the place ---------------------------------------------------------------------------------------------------------


def _is_not_called(subject: Subject) -> bool:
    module, node = subject.module, subject.node
    if module is None or node is None or subject.is_notebook:
        return False
    if any(isinstance(context.loop.node, FUNCTIONS) for context in subject.contexts):
        return False  # a framework calls it
    return is_unused(subject.project, module, node) or _is_orphan(subject)


def _is_orphan(subject: Subject) -> bool:
    """A module that no other imports and that does nothing when it is started."""
    module = subject.module
    if module is None or module.path.name == "__init__.py" or "__main__" in subject.text:
        return False
    if any(
        isinstance(part, ast.Expr | ast.For | ast.While | ast.With) and not _is_text(part)
        for part in module.syntax.tree.body
    ):
        return False
    if any(isinstance(part, ast.If | ast.Try) for part in module.syntax.tree.body) or subject.jobs:
        return False
    hooks = subject.project.fact(LoopContexts)
    if any(True for function in module.functions for _ in hooks.hooks(module, function)):
        return False
    return not any(True for _ in subject.project.fact(GpuPrograms).users(subject.path)) and bool(module.functions)


def _is_text(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)


def _is_off(subject: Subject) -> bool:
    """Is there a switch between the training loop and the place that is off? One around the whole training is not: who
    trains sets it."""
    module, node = subject.module, subject.node
    if module is None or node is None:
        return False
    guards = subject.project.fact(Guards)
    if not subject.contexts:
        tests = (source_text(module, test) for test, _ in conditions(module, node))
        return not any(map(_TRAINS.search, tests)) and (
            guards.is_off_by_default(module, node) or guards.is_switched_off(module, node)
        )
    for context in subject.contexts:
        places = [(module, node), *((site.module, site.node) for site in context.calls)]
        loop = context.loop.node
        if not any(guards.is_off_by_default(*place, loop) for place in places):
            return False
    return True


def _is_choice(subject: Subject) -> bool:
    return (
        subject.module is not None
        and subject.node is not None
        and is_other_choice(subject.project, subject.module, subject.node)
    )


def _repeats_call(subject: Subject) -> bool:
    """Is what is loaded here loaded above already, by the same name?"""
    module, node = subject.module, subject.node
    if module is None or not isinstance(node, ast.Call):
        return False
    wanted = _first(node)
    if wanted is None:
        return False
    own = last_name(node.func)
    for call in module.calls_by_name.get(own, []):
        if (call.lineno, call.col_offset) >= (node.lineno, node.col_offset):
            continue
        if _first(call) == wanted and module.function(call) is module.function(node):
            return True
    return False


def _first(call: ast.Call) -> str | None:
    given = call.args[0] if call.args else next((keyword.value for keyword in call.keywords if keyword.arg), None)
    return ast.unparse(given) if isinstance(given, ast.Name | ast.Attribute | ast.Constant) else None


def _inspects(subject: Subject) -> bool:
    """Is the file there to evaluate, show or export what was trained, with no job that runs it?"""
    return (
        bool(_INSPECTS.search(subject.place.rpartition("/")[2].removesuffix(".py")))
        and not subject.trains
        and not subject.jobs
    )


def _only_infers(subject: Subject) -> bool:
    """Does nothing that the module is part of take training steps?"""
    module = subject.module
    if module is None or subject.trains:
        return False
    if any(word in subject.text for word in ("backward(", "Trainer(", ".fit(", "optimizer")):
        return False
    project, loops = subject.project, subject.project.fact(LoopContexts)
    for user in islice(project.fact(GpuPrograms).users(subject.path), 6):
        other = project.module_at(user)
        if other is not None and loops.has_training_step(other):
            return False
    return True


def _has_large_samples(subject: Subject) -> bool:
    return bool(_LARGE_SAMPLES.search(subject.text))


def _has_few_repetitions(subject: Subject) -> bool:
    """Does the place run only on the way out, or in a loop around whole trainings?"""
    module, node = subject.module, subject.node
    if module is None or node is None or not subject.contexts:
        return False
    return (
        bool(subject.roles)
        and not training_contexts(subject.project, module, node)
        and "evaluation" not in {role.value for role in subject.roles}
    )


_BATCH = frozenset({"small-batch", "small-evaluation-batch", "single-sample-evaluation"})
_START = frozenset({"install", "data-copy", "idle-gpus", "interactive", "pause", "idle-host-phase"})

CIRCUMSTANCES: tuple[Circumstance, ...] = (
    Circumstance("a reason is written beside it", TO_LOW, lambda subject: has_reason(subject)),
    Circumstance("nothing calls it", TO_LOW, _is_not_called),
    Circumstance("a vendored copy", TO_LOW, _is_vendored),
    Circumstance("adapted from elsewhere", 1, _is_adapted),
    Circumstance("a copy of another file", TO_LOW, _is_copy),
    Circumstance("an old version", TO_LOW, _is_outdated),
    Circumstance("a benchmark or test", TO_LOW, _measures),
    Circumstance("a toy or smoke run", TO_LOW, _is_toy, not_kinds=_START),
    Circumstance("a demo", 1, _is_demo, not_kinds=_START),
    Circumstance("a notebook", 1, _is_notebook),
    Circumstance("few samples", 1, _uses_few, not_kinds=_START),
    Circumstance("evaluates or shows only", TO_LOW, _inspects, not_kinds=_START),
    Circumstance("for a machine without GPU", TO_LOW, _is_without_gpu),
    Circumstance("off by default", TO_LOW, _is_off),
    Circumstance("a choice that is not the default", TO_LOW, _is_choice),
    Circumstance("loaded above already", TO_LOW, _repeats_call, kinds=frozenset({"download"})),
    Circumstance("inference only", TO_LOW, _only_infers, kinds=frozenset({"data-parallel"})),
    Circumstance("large samples or a replay buffer", TO_LOW, _has_large_samples, kinds=_BATCH),
    Circumstance("one epoch", TO_LOW, _is_one_epoch, kinds=frozenset({"worker-start"})),
    Circumstance("at the end of the training", 1, _has_few_repetitions),
)
"""What lowers, in the order in which the basis tells it."""
