"""What a program downloads, from the Hugging Face hub or by a library that keeps it, as commands to run before it."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from gpulint_rules.data.gpu331_external_data import downloads_of

from gpulint.documents.call_syntax import keyword_value
from gpulint.launch.job import Job
from gpulint.launch.local_copies import LOCAL
from gpulint.launch.program_launches import Launch
from gpulint.libraries.downloads import HUB
from gpulint.libraries.hub_ids import is_model_id
from gpulint.programs.gpu_jobs import GpuJobs
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.transfers.download import Download
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex
from gpulint_fixers.stages import library_calls
from gpulint_fixers.stages.caches import sets_caches
from gpulint_fixers.stages.library_calls import UNKNOWN, only_value

_LOADS = ("from_pretrained", "load_dataset", "snapshot_download", "hf_hub_download", "pipeline")
_TALKS = re.compile(r"push_to_hub|create_repo|upload_f|HfApi|\blogin\(|evaluate\.load|load_metric|load_checkpoint_and")
"""Needs the hub while the program runs."""
_SMALL = re.compile(r"Tokenizer|Processor|Extractor|Config\b")
"""Classes whose files are small."""
_OPTIONS = ("revision", "cache_dir", "local_dir")
"""Arguments of the library's calls that say what is fetched and where to."""
_TOKENS = ("token", "use_auth_token")
"""Arguments with the user's access; ``True`` stands for the one that is kept on the machine."""
_ELSEWHERE = frozenset({"cache_folder", "download_dir", "download_root", "root"})
"""Arguments of other libraries that put what they fetch into a folder of their own."""
_OTHER_FORMATS = ("*.h5", "*.msgpack", "*.ot", "onnx/*", "original/*")
"""Copies of the weights that PyTorch does not read."""
_WRITTEN = re.compile(
    r"(?:final|best|last|latest|merged|saved|trained)?[_-]?(?:check_?points?|ckpts?|outputs?|results?|weights|models?|runs?"
    r"|logs?)|checkpoint-\d+|final|best|last|latest|merged",
    re.IGNORECASE,
)
"""Folders that programs write: ``training/checkpoints``."""
_FETCHED = re.compile(r"snapshot_download\('([^']+)'")
_BILLIONS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)b(?![a-z])", re.IGNORECASE)
_FEW_BILLIONS = 3
_NAMED_SMALL = re.compile(r"(?:^|[-_/])(?:tiny|mini|small|base|distil\w*|\d+m)(?![a-z])|minilm|gpt2$", re.IGNORECASE)
_VARIABLE = re.compile(r"\"?\$(?:[@*]|\w+|\{\w+\}|\{\w*\[?[@*]\]?\})\"?")
"""``"$@"``, ``$args`` and ``"${args[@]}"``"""
_DATA_ARGUMENTS = ("path", "name", "data_dir", "data_files", "revision", "trust_remote_code", "cache_dir")
"""What of ``load_dataset``'s arguments decides what is fetched; without ``split`` all splits are."""


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Commands that fetch what programs download."""

    lines: tuple[str, ...] = ()
    uses_hub: bool = False
    """Whether something comes from the Hugging Face hub."""
    complete: bool = False
    """Whether that is all that they take from the hub."""
    is_large: bool = False
    """Whether models or data sets are among it, and not tokenizers and settings alone."""
    is_chosen: bool = False
    """Whether options or settings name some of it."""


def of_job(project: Project, job: Job) -> Prefetch:
    """Return what the programs of a job download by identifiers that are known."""
    lines, uses_hub, complete, is_large = list[str](), False, bool(job.programs), False
    named = frozenset(document.path for document in (job.document, *job.scripts))
    passes_on = any(_passes_on(start.launch) for start in job.launches if start.program is not None)
    for path in job.programs:
        modules = _closure(project, path)
        if any(map(sets_caches, modules)):
            return Prefetch()
        for module in modules:
            found = of_module(project, module, named, modules)
            complete = complete and not (passes_on and found.is_chosen)
            lines += found.lines
            uses_hub = uses_hub or found.uses_hub
            complete = complete and found.complete
            is_large = is_large or found.is_large
    return Prefetch(tuple(dict.fromkeys(lines)), uses_hub, complete and uses_hub, is_large)


def _passes_on(launch: Launch) -> bool:
    """Return whether a program gets arguments of the job's own command line (``python train.py "$@"``)."""
    words = launch.args
    return any(
        not word.known
        and _VARIABLE.fullmatch(word.word.raw) is not None
        and not words[at - 1 if at else at].word.raw.startswith("-")
        for at, word in enumerate(words)
    )


def _closure(project: Project, path: Path) -> list[ModuleIndex]:
    from gpulint.programs.import_closure import whole_program

    module = project.module_at(path)
    if module is None:
        return []
    whole = whole_program(project, module)
    return list(whole.own) if whole is not None else [module]


def reported(project: Project, module: ModuleIndex) -> list[Download]:
    """The downloads of a module that the rule reports: what is done by default, on a machine with GPUs."""
    held = None
    if not project.fact(GpuPrograms).runs_on_gpu(module):
        held = project.fact(GpuJobs).holding_part(module.path)
        if held is None:
            return []
    return [*downloads_of(module, project, (held,) if held is not None else ())]


def of_module(
    project: Project,
    module: ModuleIndex,
    named: frozenset[Path] | None = None,
    program: Sequence[ModuleIndex] = (),
) -> Prefetch:
    """Return what a module downloads by identifiers that are known; of those in launchers only what ``named`` say.

    A ``program`` does not download what only classes and functions load that none of its modules names.
    """
    lines, known, ids, is_large = list[str](), set[ast.AST](), set[str](), False
    found = [item for item in reported(project, module) if named is None or _is_named_in(item, named)]
    found = [item for item in found if not program or _is_named_by(program, module, item.node)]
    whole = {
        item.what for item in found if HUB in item.origin and item.kind == "weights" and not _SMALL.search(item.name)
    }
    for item in found:
        if HUB in item.origin and item.what in whole and _SMALL.search(item.name):
            known.add(item.node)  # it comes with the model
            continue
        made = line(project, module, item)
        if made is not None:
            lines.append(made)
        if made is not None and HUB in item.origin:
            known.add(item.node)
            ids.add(item.what)
            is_large = is_large or not _SMALL.search(item.name)
    loads = [call for name in _LOADS for call in module.calls_by_name.get(name, [])]
    loads += [item.node for item in found if HUB in item.origin]
    complete = all(call in known or _names(project, module, call) & ids for call in loads) and not _TALKS.search(
        module.syntax.source.text
    )
    is_chosen = any(item.place is not None for item in found)
    return Prefetch(tuple(dict.fromkeys(lines)), bool(known), complete, is_large, is_chosen)


def names_several(project: Project, module: ModuleIndex) -> bool:
    """Return whether launchers and defaults of the tree name different models for the same download."""
    for item in reported(project, module):
        if item.place is not None and HUB in item.origin and (first := _first(item.node)) is not None:
            values = project.fact(Constants).of(module, first).values
            if len({str(known.value) for known in values}) > 1:
                return True
    return False


def _is_named_in(item: Download, named: frozenset[Path]) -> bool:
    """Return whether a program loads what an item names in every start, or in those of some launchers."""
    at = item.place.path if item.place is not None else None
    return at is None or at in named or at.suffix in (".py", ".ipynb")


def _is_named_by(program: Sequence[ModuleIndex], module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a module of a program names the class or function of a module that a node is in."""
    owner = next((part for part in module.syntax.ancestors(node) if part in module.syntax.tree.body), None)
    if not isinstance(owner, (*FUNCTIONS, ast.ClassDef)):
        return True
    return any(
        any(owner not in other.syntax.ancestors(part) for part in other.named.get(owner.name, ()))
        or any(part.attr == owner.name for part in other.syntax.of(ast.Attribute))
        or any(
            alias.asname and alias.name == owner.name
            for part in other.syntax.of(ast.ImportFrom)
            for alias in part.names
        )
        or any(owner.name in text for text in other.strings)
        for other in program
    )


def _names(project: Project, module: ModuleIndex, call: ast.Call) -> set[object]:
    """The identifier that a call loads, if it is certain (a tokenizer has that of its model)."""
    first = _first(call)
    return {only_value(project, module, first)} if first is not None else set()


def _first(call: ast.Call) -> ast.expr | None:
    """The argument that names what a call loads."""
    keyword = (k.value for k in call.keywords if k.arg in ("pretrained_model_name_or_path", "model"))
    return next(iter((*call.args, *keyword)), None)


def line(project: Project, module: ModuleIndex, item: Download) -> str | None:
    """The shell command that fetches what a call downloads; None if that could not be determined."""
    if _is_alternative(module, item):
        return None
    if HUB not in item.origin:
        return library_calls.command(project, module, item)
    if not item.what or re.search(r"[^\w./-]", item.what):
        return None
    if is_folder(project, module, item.what):
        return None
    if item.kind == "data":
        return _data_set(project, module, item)
    if item.kind != "weights" or not is_model_id(item.what, (), lambda path: False):
        return None
    if any(keyword.arg in _ELSEWHERE for keyword in item.node.keywords):
        return None
    options = list[str]()
    for name in _OPTIONS:
        value = _constant(project, module, item.node, name)
        if not isinstance(value, str | None) or _is_local(name, value):
            return None
        options += [f"{name}={value!r}"] if value else []
    for name in _TOKENS:
        value = _constant(project, module, item.node, name)
        if not isinstance(value, bool | None):
            return None  # a secret, which no script should hold
        options += [f"token={value}"] if value else []
    trusts = _constant(project, module, item.node, "trust_remote_code")
    if not isinstance(trusts, bool | None):
        return None
    if trusts and _SMALL.search(item.name):
        options.append("trust_remote_code=True")
    code = _small(project, module, item, options) if _SMALL.search(item.name) else _snapshot(item.what, options)
    return None if code is None or any(mark in code for mark in '"$`\\\n!') else f'python -c "{code}"'


def is_folder(project: Project, module: ModuleIndex, name: str) -> bool:
    """Return whether a name that may be one of the hub is that of a folder of the tree, or of what a program writes."""
    first, _, rest = name.partition("/")
    if not rest:
        return any(project.is_dir(folder / name) for folder in {project.root, module.path.parent})
    if "/" in rest or _WRITTEN.fullmatch(rest):
        return True
    return any(project.is_dir(folder / first) for folder in {project.root, module.path.parent})


def are_small(found: Prefetch) -> bool:
    """Return whether all that is fetched is models of few parameters, as their names say."""
    weights = [match[1] for text in found.lines if (match := _FETCHED.search(text))]
    return len(weights) == len(found.lines) > 0 and all(map(_is_small, weights))


def _is_small(name: str) -> bool:
    sizes = [float(size) for size in _BILLIONS.findall(name)]
    return max(sizes) < _FEW_BILLIONS if sizes else _NAMED_SMALL.search(name) is not None


def _small(project: Project, module: ModuleIndex, item: Download, options: list[str]) -> str | None:
    """The call itself, for classes whose files are small."""
    names = project.fact(Resolver).call_names(module, item.node)
    owner = next((name for name in sorted(names) if re.fullmatch(r"(\w+\.)+[A-Z]\w*\.from_pretrained", name)), None)
    if owner is None:
        return None
    home, _, last = owner.removesuffix(".from_pretrained").rpartition(".")
    return f"from {home} import {last}; {last}.from_pretrained({', '.join([repr(item.what), *options])})"


def _snapshot(identifier: str, options: list[str]) -> str:
    """All files but the copies of the weights for other libraries, without loading them."""
    ignored = f"ignore_patterns={list(_OTHER_FORMATS)!r}"
    arguments = ", ".join([repr(identifier), *options, ignored])
    return f"from huggingface_hub import snapshot_download; snapshot_download({arguments})"


def _is_alternative(module: ModuleIndex, item: Download) -> bool:
    """Return whether an option picks the download among others (``if name == "alpaca"``)."""
    return any(
        isinstance(test, ast.Compare)
        and any(isinstance(part, ast.Constant) for part in test.comparators)
        and isinstance(test.ops[0], ast.Eq | ast.In)
        for test, holds in conditions(module, item.node)
        if item.kind == "data"
    )


def _data_set(project: Project, module: ModuleIndex, item: Download) -> str | None:
    """``load_dataset`` with the same configuration: in offline mode only what it has itself prepared is found."""
    if not item.name.endswith("load_dataset") or any(k.arg is None for k in item.node.keywords):
        return None
    given = dict(zip(_DATA_ARGUMENTS, item.node.args, strict=False))
    given |= {k.arg: k.value for k in item.node.keywords if k.arg in _DATA_ARGUMENTS}
    shown = [repr(item.what)]
    for name in _DATA_ARGUMENTS[1:]:
        if name in given:
            value = only_value(project, module, given[name])
            if not isinstance(value, str | bool | None) or _is_local(name, value):
                return None
            if value is None and not isinstance(given[name], ast.Constant):
                return None  # callers may give another one
            if value is not None:
                shown.append(f"{name}={value!r}")
    code = f"from datasets import load_dataset; load_dataset({', '.join(shown)})"
    return None if '"' in code or "$" in code else f'python -c "{code}"'


def _is_local(name: str, value: object) -> bool:
    """Return whether an argument names a folder that only the node of the job sees."""
    return name in ("cache_dir", "local_dir") and isinstance(value, str) and LOCAL.search(value) is not None


def _constant(project: Project, module: ModuleIndex, call: ast.Call, name: str) -> object:
    """The value of a keyword, None without it."""
    if any(keyword.arg is None for keyword in call.keywords) and name in module.syntax.source.text:
        return UNKNOWN
    found = keyword_value(call, name)
    return None if found is None else only_value(project, module, found)
