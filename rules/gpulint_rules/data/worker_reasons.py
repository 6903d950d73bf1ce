"""Why a loader has no workers, as comments and the code around it say."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import reasons, regex
from gpulint.comments import comments
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.notebook import NotebookDocument
from gpulint.documents.python import walk
from gpulint.launch.job_index import JobIndex
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.values.option_calls import declaring_calls
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.launch.program_launches import Launch
    from gpulint.project import Project
    from gpulint.source import Span
    from gpulint.training.loader_calls import Loader

_WORKER = regex.compile(r"workers?\b|process|fork|thread", re.IGNORECASE)
_COSTS = regex.compile(
    r"overhead|slow|cache|in[- ]memory|\bram\b|disabled|lustre|\bnfs\b|hdf5|h5py|lmdb|sqlite|already|no i/?o|too small",
    re.IGNORECASE,
)
"""Words of what workers would cost, or could not help with."""
_ZERO = regex.compile(r"(?<![\w.,=:])0(?![\w.,]|\s*:)", re.ASCII)
"""A comment that names 0 as a choice, in any language."""
_NAMES_ZERO = regex.compile(
    r"workers[\"']?\s*(=|:|is|to)\s*0\s*(for|on|in|when|under|with|if|as|at|unless|here)\b"
    r"|\b(keep|leave|important|note|needs?|use|prefer|we)\b[^,()]{0,200}workers[\"']?\s*(=|:|at|to)\s*0\b(?!\s*,)",
    re.IGNORECASE,
)
"""A sentence that names the setting with its value; a call that is commented out has commas and parentheses."""
_PLATFORM = regex.compile(r"platform|win32|darwin|\bos\.name\b|\bmps\b", re.IGNORECASE)
_SENTENCE = re.compile(r"[.!]\s+|\n\s*\n")
_OWN_PROCESS = regex.compile(
    r"\b(no|without|zero|0) (\w+ )?workers\b|\bworkers\b.{0,60}\b(not|0|zero)\b|workers\s*=+\s*0"
    r"|\b(main|single|one|same|training) process\b",
    re.IGNORECASE | re.DOTALL,
)
"""What a docstring says of a loader without workers."""
_SETTING = regex.compile(r"\s*[\w.\"']*workers[\"']?\s*[=:]", re.IGNORECASE)
_NAMED = regex.compile(r"\bnum_?workers[\"'`]*\s*(=|:|is|to|of|at)+\s*[\"'`]*0(?![\w.])", re.IGNORECASE)
_PICKLED = regex.compile(
    r"\bworkers?\b[^.;\n]{0,60}\b(un)?pickl|\b(un)?pickl\w*[^.;\n]{0,60}\b(worker|dataloader|multi-?process|num_workers)",
    re.IGNORECASE,
)
"""A comment on what workers are sent."""
_IF = regex.compile(r"\b(if|when|in case|try|consider)\b", re.IGNORECASE)
"""Words of advice for machines on which something goes wrong."""
_ELSEWHERE = regex.compile(r"debug|windows", re.IGNORECASE)
"""What others may pass 0 for; a program for Windows alone has low impact."""
_RAISES = regex.compile(r"todo|increase|raise|adjust|tune|change|faster", re.IGNORECASE)


def is_explained(project: Project, loader: Loader, workers: tuple[NodeRef, ...]) -> bool:
    """Return whether a comment beside the number or the loader, or above it, says why there are no workers; or beside
    the constant that has the number, or beside the 0 of another loader of the file."""
    nodes = [(loader.module, loader.node), *((ref.module, ref.node) for ref in workers)]
    places = [(where.path, where.syntax.span(node)) for where, node in nodes if isinstance(node, ast.expr)]
    numbers = [
        (one.place.path, one.place.span)
        for ref in workers
        for one in project.fact(Constants).of(ref.module, ref.node).values
    ]
    if any(_is_chosen(project, path, span) or _is_described(project, path, span) for path, span in numbers):
        return True
    places += numbers
    for path, span in dict.fromkeys(places):
        document = project.document(path)
        if document is not None and reasons.is_explained(document, span, _NAMES_ZERO, about=_WORKER, trouble=True):
            return True
    for path, span in dict.fromkeys(numbers):
        document = project.document(path)
        if document is not None and reasons.is_changed(document, _WORKER, "0", span):
            return True
    options = [(ref.module.path, ref.node.attr) for ref in workers if isinstance(ref.node, ast.Attribute)]
    if _documents(loader) or any(_declares_with_reason(project, *one) for one in options):
        return True
    return any(isinstance(ref.node, ast.Constant) for ref in workers) and (
        _explains_zero(loader.module)
        or _says_zero(project, loader.module.path)
        or _was_made_for_workers(project, loader.module)
    )


def is_explained_where_declared(project: Project, at: Path, launch: Launch, flag: str) -> bool:
    """Return whether a comment where the program of a command, or a module that it imports, declares an option for the
    number of workers says what is wrong with workers (``# there is a bug with num_workers > 0``)."""
    linked = (one.start.program for one in project.fact(JobIndex).launches_at(at, launch.span))
    name = Path(launch.program or "").name
    programs = [path for path in linked if path is not None] or [
        path for path in project.python_files if path.name == name
    ]
    return any(_declares_with_reason(project, program, flag) for program in programs)


def _declares_with_reason(project: Project, program: Path, flag: str) -> bool:
    """Return whether a comment beside the declaration of an option in a program or a module that it imports, or its
    description, says what is wrong with workers."""
    declared = (
        (path, module.syntax.span(call), call)
        for path in (program, *sorted(project.imported(program)))
        if (module := project.module_at(path)) is not None
        for call in declaring_calls(module).get(flag.lstrip("-").replace("-", "_"), ())
    )
    return any(
        reasons.is_explained(document, span, about=_WORKER, trouble=True) or _describes(call)
        for path, span, call in declared
        if (document := project.document(path)) is not None
    )


def _is_described(project: Project, path: Path, number: Span) -> bool:
    """Return whether a number is the default of an option, or of a field, whose description says why it is 0."""
    module = project.module_at(path)
    return module is not None and any(
        _describes(call)
        for call in _described(module)
        if (span := module.syntax.span(call)).cell == number.cell and span.line <= number.line <= span.end_line
    )


@query
def _described(module: ModuleIndex) -> list[ast.Call]:
    """Return the calls of a module with a description of a number of workers."""
    return [call for call in module.calls if _description(call) and "worker" in ast.unparse(call).lower()]


def _describes(call: ast.Call) -> bool:
    """Return whether the description of an option says why there are no workers (``help="0 for stability"``), other
    than for those who look for errors."""
    text = _description(call)
    if _IF.search(text) or not (_ZERO.search(text) or _OWN_PROCESS.search(text)):
        return False
    return reasons.says_why(text) or (reasons.names_trouble(text) and _ELSEWHERE.search(text) is None)


def _description(call: ast.Call) -> str:
    """Return ``help`` of a declaration, also in the metadata of a field (``metadata={"help": "..."}``)."""
    given = [keyword.value for keyword in call.keywords if keyword.arg in ("help", "description")]
    for keyword in call.keywords:
        if keyword.arg == "metadata" and isinstance(keyword.value, ast.Dict):
            pairs = zip(keyword.value.keys, keyword.value.values, strict=True)
            given += [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "help"]
    texts = (value.value for value in given if isinstance(value, ast.Constant))
    return next((text for text in texts if isinstance(text, str)), "")


def is_exception(project: Project, workers: NodeRef) -> bool:
    """Return whether the 0 is set on some platforms only (``if platform.system() == "Windows": num_workers = 0``)."""
    return any(
        _PLATFORM.search(ast.unparse(test))
        for origin in project.fact(Resolver).points_to(workers.module, workers.node)
        for test, _ in conditions(origin.module, origin.node)
    )


def _documents(loader: Loader) -> bool:
    """Return whether the docstring of the function or class that makes the loader says why it has no workers."""
    owners = (
        up for up in loader.module.syntax.ancestors(loader.node) if isinstance(up, ast.ClassDef | ast.FunctionDef)
    )
    sentences = (sentence for owner in owners for sentence in _SENTENCE.split(ast.get_docstring(owner) or ""))
    return any(
        _OWN_PROCESS.search(sentence) and reasons.says_why(sentence) and not _RAISES.search(sentence)
        for sentence in sentences
    )


def _is_chosen(project: Project, path: Path, span: Span) -> bool:
    """Return whether the comment above a setting of its own names 0 as one of its values (``# 2 or 0 with little
    memory``)."""
    document = project.document(path)
    if document is None:
        return False
    source = document.cell_source(span.cell)
    if not _SETTING.match(source.line(span.line)):
        return False
    lines = itertools.takewhile(
        lambda line: line.lstrip().startswith("#"),
        (source.line(number) for number in range(span.line - 1, max(span.line - 1 - reasons.MAX_ABOVE, 0), -1)),
    )
    above = [line.partition("#")[2] for line in lines]
    return any(map(_ZERO.search, above)) and not any(map(_RAISES.search, above))


def is_tried(loader: Loader) -> bool:
    """Return whether a loop makes the loader with one number of workers after the other, to find out which is best."""
    workers = keyword_value(loader.node, "num_workers")
    names = {part.id for part in walk(workers) if isinstance(part, ast.Name)} if workers is not None else set[str]()
    return any(
        isinstance(up, ast.For) and any(isinstance(part, ast.Name) and part.id in names for part in walk(up.target))
        for up in loader.module.syntax.ancestors(loader.node)
    )


def is_fallback(loader: Loader) -> bool:
    """Return whether an ``except`` handler makes the loader that the ``try`` body makes with workers."""
    parents = loader.module.syntax.parents
    node: ast.AST | None = loader.node
    while node is not None and not isinstance(node, ast.ExceptHandler):
        node = parents.get(node)
    attempt = parents.get(node) if node is not None else None
    if not isinstance(attempt, ast.Try):
        return False
    return any(
        isinstance(call, ast.Call)
        and last_name(call.func) == last_name(loader.node.func)
        and _has_workers(call, loader)
        for statement in attempt.body
        for call in walk(statement)
    )


def _has_workers(call: ast.Call, loader: Loader) -> bool:
    """Return whether a call makes a loader of the same name, with workers."""
    statement = loader.module.syntax.parents.get(call)
    workers = keyword_value(call, "num_workers")
    return (
        isinstance(statement, ast.Assign | ast.Return)
        and (
            isinstance(statement, ast.Return) or _names(statement) == _names(loader.module.syntax.parents[loader.node])
        )
        and workers is not None
        and not (isinstance(workers, ast.Constant) and not workers.value)
    )


def _names(statement: ast.AST) -> set[str]:
    return {ast.unparse(target) for target in statement.targets} if isinstance(statement, ast.Assign) else set()


@query
def _explains_zero(module: ModuleIndex) -> bool:
    """Return whether a comment in the line of a ``num_workers=0`` says what is wrong with workers here."""
    given = [one for one in module.syntax.of(ast.keyword) if one.arg == "num_workers"]
    lines = [module.syntax.source.line(one.lineno) for one in given]
    comments = [line.partition("#")[2] for line in lines if "num_workers=0" in line.replace(" ", "")]
    return any((_COSTS.search(text) or reasons.names_trouble(text)) and not _RAISES.search(text) for text in comments)


@query
def _says_zero(project: Project, path: Path) -> bool:
    """Return whether a line of a comment, of a string, or of a cell with text names the setting with its value and says
    what is wrong with workers here, anywhere in a file (``# rebuild with num_workers=0 (multiprocessing bug)``)."""
    document, module = project.document(path), project.module_at(path)
    if document is None or module is None or _NAMED.search(document.source.text) is None:
        return False
    texts = [comment.text for comment in comments(document)]
    texts += [one.value for one in module.syntax.of(ast.Constant) if isinstance(one.value, str)]
    if isinstance(document, NotebookDocument):
        texts += [cell.source.text for cell in document.cells if cell.kind != "code"]
    lines = (line for text in texts if _NAMED.search(text) for line in text.splitlines())
    return any(
        _NAMED.search(line)
        and (reasons.says_why(line) or reasons.names_trouble(line))
        and not (_RAISES.search(line) or _IF.search(line))
        for line in lines
    )


@query
def _was_made_for_workers(project: Project, module: ModuleIndex) -> bool:
    """Return whether a comment says that something can, or cannot, be sent to workers (``# at module level so that
    workers can pickle it``) in a file whose loaders all have none: they were tried, and given up."""
    given = [one.value for one in module.syntax.of(ast.keyword) if one.arg == "num_workers"]
    if not all(isinstance(value, ast.Constant) and value.value == 0 for value in given):
        return False
    document = project.document(module.path)
    texts = [comment.text for comment in comments(document)] if document is not None else []
    return any(_PICKLED.search(text) and not (_IF.search(text) or _RAISES.search(text)) for text in texts)
