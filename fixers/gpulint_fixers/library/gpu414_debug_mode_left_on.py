"""Take out a debugging switch."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpulint_rules.library.anomaly_blocks import looks_for_nan
from gpulint_rules.library.caught_errors import is_caught
from gpulint_rules.library.debug_calls import DebugMode
from gpulint_rules.library.gpu414_debug_mode_left_on import DETERMINISM

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.python import PythonModule, walk
from gpulint.finding import Finding, Place
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.rule import Kind
from gpulint.source import Span
from gpulint_fixers.edits.announced_variables import with_announcements
from gpulint_fixers.edits.calls import remove_keyword
from gpulint_fixers.edits.entries import remove_entry
from gpulint_fixers.edits.imports import drop_import, drop_local_import
from gpulint_fixers.edits.statements import remove_lines, remove_statement, with_own_comment, without_gaps
from gpulint_fixers.edits.structural import rewrite
from gpulint_fixers.library.enabled_cudnn import comment_behind, enable_cudnn

if TYPE_CHECKING:
    from gpulint_fixers.edits.structural import Statement

_SPEAKS = regex.compile(r"debug|anomal|anorm|blocking|\bnan\b|device-side", re.IGNORECASE)
"""Words of comments that are about a debugging switch."""
_WHY = regex.compile(
    r"\b(because|since|so|otherwise|until|currently|caus\w*|needed|needs?|better|prevents?|avoids?|workaround|due to|"
    r"hangs|deadlocks|crash\w*|gives?|gets?|produces?|becomes?)\b",
    re.IGNORECASE,
)
"""Words of comments that say why a debugging switch is on."""
_SWITCHES = frozenset({"detect_anomaly", "set_detect_anomaly"})
_WORD = regex.compile(r"(--export=ALL,)?\w+=[\w\"']+")
_DEFAULT = regex.compile(
    r"""\b(?P<name>[A-Z][A-Z0-9_]+)=(["']?)\$\{(?P=name):?-(?P<default>[A-Za-z]+|1)\}\2(?=\s|;|$)"""
)
"""``NAME="${NAME:-1}"``"""
_CAUGHT = "the program catches the error that it raises for NaN, and would go on with such gradients"
_NAN = "; NaN in a backward pass no longer stops the run"
_TRACE = "; errors of a backward pass no longer name the operation of the forward pass"
"""What is no longer done without anomaly detection."""
_SEEDS = regex.compile(r"seed|determin|reproduc", re.IGNORECASE)
_ENTRY = regex.compile(r"[\w\"']+:\s*([\"']?)[\w.-]+\1")


def fix(finding: Finding, project: Project) -> Fix | Declined:
    made, mode = _together(finding, project), finding.payload
    if isinstance(made, Fix) and isinstance(mode, DebugMode) and mode.what == "anomaly detection" and made.edits:
        return replace(made, description=f"{made.description}{_lost(finding, mode, project)}")
    return made


def _lost(finding: Finding, mode: DebugMode, project: Project) -> str:
    document = project.document(finding.path)
    module = project.module(document) if document is not None else None
    looks = module is None or not isinstance(mode.node, ast.Call) or looks_for_nan(project, module, mode.node)
    return _NAN if looks else _TRACE


def _together(finding: Finding, project: Project) -> Fix | Declined:
    """Return the removal of a switch with those of other modules that keep the mode on: all of them, or none."""
    made, mode = _without(finding, project), finding.payload
    if not isinstance(made, Fix) or not made.edits or not isinstance(mode, DebugMode) or not mode.beside:
        return made
    edits, safety = [*made.edits], made.safety
    for one in mode.beside:
        place = one.place
        other = replace(finding, path=place.path, span=place.span, payload=mode.at(one))
        also = _without(other, project)
        if isinstance(also, Declined) or not also.edits:
            if mode.own is None or one.node is None or not one.runs_wherever(mode.own):
                continue  # some program, or some run of it, is without it
            where = f"{project.place(place.path)}:{place.span.mark}"
            state = "on" if mode.removable else "off"
            return Declined(f"{where} keeps it {state} in the same programs, and has no fix")
        edits += (edit for edit in also.edits if edit not in edits)
        safety = safety if also.safety is Safety.SAFE else also.safety
    modules = len({edit.path for edit in edits})
    of_modules = all(edit.path.suffix == ".py" for edit in edits)
    where = f"{modules} {'modules' if of_modules else 'files'}" if modules > 1 else f"{len(mode.beside) + 1} places"
    comments = " with their comments" if safety is not Safety.SAFE else ""
    description = f"remove {mode.shown} in {where} of the same programs{comments}"
    if not mode.removable:
        description = f"in {where} of the same programs, {made.description}"
    return Fix(description, safety, tuple(edits))


def _without(finding: Finding, project: Project) -> Fix | Declined:
    """Return the removal of a switch, or why it has to stay."""
    mode, document = finding.payload, project.document(finding.path)
    if not isinstance(mode, DebugMode) or document is None:
        return Declined("the finding does not say which switch is on")
    if not mode.removable:
        return _unset(document, mode.node) or enable_cudnn(document, mode.node, project)
    if "CUDA_LAUNCH_BLOCKING" in mode.what and DETERMINISM.search(document.source.text):
        return Declined("it is set for reproducible runs, which some versions of CUDA need it for")
    if _is_explained(document, finding, mode.node):
        return Declined("the comment beside it says why it is on")
    if (off := _off_by_default(document, finding)) is not None:
        return Fix(f"turn {mode.what} off by default", Safety.SAFE, (off,))
    if (reader := _read_in(document, project, mode.what)) is not None:
        return Declined(f"{reader} reads the variable")
    if document.python is not None and mode.what == "anomaly detection" and is_caught(project, finding.path):
        return Declined(_CAUGHT)
    edit: Edit | None = None
    if mode.node is not None and document.python is not None:
        module = document.python
        statement = next((up for up in (mode.node, *module.ancestors(mode.node)) if isinstance(up, ast.stmt)), None)
        if isinstance(statement, ast.With) and len(statement.items) == 1 and statement.items[0].optional_vars is None:
            return _dedented(document, project, statement, mode.what)
        if isinstance(statement, ast.Assign | ast.Expr) and not isinstance(statement.value, ast.Dict):
            edit = remove_statement(module, statement)
    elif document.kind in (Kind.SHELL, Kind.DOCKERFILE) and finding.span.cell is None:
        edit = _without_assignment(document, finding)
    elif document.kind is Kind.JOBSPEC:
        edit = _without_entry(document, finding)
    if edit is None:
        return Declined("the switch is not a separate statement")
    if edit.text:
        return Declined("its block contains nothing else")
    return _removal(document, finding, project, mode, edit)


def _removal(document: Document, finding: Finding, project: Project, mode: DebugMode, edit: Edit) -> Fix | Declined:
    """Return an edit that removes a switch, with those of what only the switch needs."""
    twins = _twins(document, finding, edit)
    if isinstance(twins, Declined):
        return twins
    said, left = with_announcements(document, mode.what, edit) if mode.what.isupper() else ([], ())
    if left:
        lines = f"line {left[0]} still says" if len(left) == 1 else f"{len(left)} lines still say"
        edits = (edit, *twins, *said)
        return Fix(f"remove {mode.shown}; {lines} that it is set", Safety.UNSAFE, edits)
    if twins:
        return Fix(f"remove {mode.shown}, also for the container", Safety.SAFE, (edit, *twins, *said))
    source = document.cell_source(edit.span.cell)
    whole = with_own_comment(source, edit, _SPEAKS)
    unused = [one for one in _unused_import(document, project, mode.node) if one.span.cell == whole.span.cell]
    edits = tuple(without_gaps(source, [whole, *unused, *said]))
    is_blocking = "CUDA_LAUNCH_BLOCKING" in mode.what
    if is_blocking and document.python is not None and mode.node and _is_among_seeds(document.python, mode.node):
        note = "runs stay reproducible, except for some recurrent layers under CUDA 10.1"
        return Fix(f"remove {mode.shown}; {note}", Safety.UNSAFE, edits)
    if whole != edit:
        return Fix(f"remove {mode.shown} with its comment", Safety.UNSAFE, edits)
    return Fix(f"remove {mode.shown}{' and what prints it' if said else ''}", Safety.SAFE, edits)


def _without_assignment(document: Document, finding: Finding) -> Edit | None:
    """`export NAME=1` and `ENV NAME=1` are lines of their own; as a prefix of a command only the word goes."""
    span = finding.span
    line = document.source.line(span.line)
    before, after = line[: span.column - 1].strip(), line[span.end_column - 1 :]
    if before in ("", "export", "ENV") and after.strip()[:1] in ("", "#"):
        start = len(line) - len(line.lstrip()) + 1
        return remove_lines(
            document.source, Place(finding.path, type(span)(span.line, start, span.end_line, span.end_column))
        )
    if before == "" and after.strip() == "\\":
        return Edit(finding.path, Span(span.line, 1, span.line + 1, 1), "")
    return _without_word(finding, line) if after.startswith(" ") else None


def _off_by_default(document: Document, finding: Finding) -> Edit | None:
    """Change the default of ``NAME="${NAME:-DETAIL}"``, which the environment of a job may replace."""
    if document.kind is not Kind.SHELL or finding.span.cell is not None:
        return None
    number = finding.span.line
    found = _DEFAULT.search(document.source.line(number))
    if found is None or document.source.text.count(found["name"]) != found[0].count(found["name"]):
        return None  # another line reads it as well
    off = "OFF" if found["default"].isalpha() else "0"
    return Edit(finding.path, Span(number, found.start("default") + 1, number, found.end("default") + 1), off)


def _is_explained(document: Document, finding: Finding, node: ast.AST | None) -> bool:
    """Return whether the comment behind or above the switch gives the reason for it."""
    source, module = document.cell_source(finding.span.cell), document.python
    first, behind = finding.span.line, source.line(finding.span.line).partition(" #")[2]
    if module is not None and node is not None:
        statement = next((up for up in (node, *module.ancestors(node)) if isinstance(up, ast.stmt)), None)
        if isinstance(statement, ast.Assign | ast.Expr):
            behind = comment_behind(module, statement)
    above = list[str]()
    while (line := source.line(first - 1).strip()).startswith("#") and not line.startswith(("#!", "#SBATCH")):
        above.append(line)
        first -= 1
    said = " ".join(reversed(above))
    return _WHY.search(behind) is not None or (_SPEAKS.search(said) is not None and _WHY.search(said) is not None)


def _dedented(document: Document, project: Project, statement: ast.With, what: str) -> Fix | Declined:
    """Take the block out of ``with detect_anomaly():``."""

    def body(node: Statement) -> Sequence[Statement]:
        import libcst as cst

        assert isinstance(node, cst.With)
        assert isinstance(node.body, cst.IndentedBlock)
        found: list[Statement] = []
        for inner in node.body.body:
            assert isinstance(inner, cst.SimpleStatementLine | cst.BaseCompoundStatement)
            found.append(inner)
        return found

    assert document.python is not None
    text, header = document.python.text(statement), document.python.text(statement.items[0].context_expr)
    last = document.python.source.position(document.python.offsets(statement)[1])[0]
    below = document.python.source.line(last + 1)
    if statement.body[0].lineno == statement.lineno or "#" in text.partition(header)[2].partition("\n")[0]:
        return Declined("the switch shares its line with a statement or a comment")
    if below.lstrip().startswith("#") and len(below) - len(below.lstrip()) > statement.col_offset:
        return Declined("a comment ends the block")
    edits = rewrite(document, statement, body)
    if isinstance(edits, Declined):
        return edits
    unused = without_gaps(document.source, _unused_import(document, project, statement.items[0].context_expr))
    return Fix(f"remove {what}", Safety.SAFE, (*edits, *unused))


def _unset(document: Document, node: ast.AST | None) -> Fix | None:
    """Remove ``detect_anomaly=True`` from Lightning's trainer."""
    if document.python is None or not isinstance(node, ast.Call):
        return None
    given = next((keyword.value for keyword in node.keywords if keyword.arg == "detect_anomaly"), None)
    if not isinstance(given, ast.Constant):
        return None
    edit = remove_keyword(document.python, node, "detect_anomaly")
    return Fix("remove `detect_anomaly=True`", Safety.SAFE, (edit,)) if edit is not None else None


def _is_among_seeds(module: PythonModule, node: ast.AST) -> bool:
    """Return whether blocking launches are set in a function that makes runs reproducible."""
    function = next((up for up in module.ancestors(node) if isinstance(up, ast.FunctionDef)), None)
    return function is not None and _SEEDS.search(function.name) is not None


def _read_in(document: Document, project: Project, name: str) -> str | None:
    """The file that reads an environment variable, with which it may do something else; None if no file does."""
    if not name.isupper():
        return None
    if document.kind is Kind.SHELL and re.search(rf"\$\{{?{name}\b", document.source.text):
        return document.path.name
    reads = re.compile(
        rf"(getenv|environ\.(get|pop|__getitem__))\(\s*[\"']{name}[\"']"
        rf"|environ\[[\"']{name}[\"']\](?!\s*=[^=])|[\"']{name}[\"']\s+(not\s+)?in\b"
    )
    paths = (path for path in project.python_files_with(name.encode()) if project.matches(path, reads))
    return next((path.name for path in paths), None)


def _without_word(finding: Finding, line: str) -> Edit | None:
    """Remove ``NAME=1`` from a command, with the option ``-e`` or ``--env`` that it is the value of."""
    span = finding.span
    before, after = line[: span.column - 1], line[span.end_column - 1 :]
    start = span.column
    if not _WORD.fullmatch(line[span.column - 1 : span.end_column - 1]):
        return None
    if option := re.search(r"(?<!\S)(-e|--env|-x)\s+$", before):
        start = option.start() + 1
    elif re.search(r"(?<!\S)-\S*\s*$", before):
        return None
    if not line[: start - 1].strip() and after.strip() == "\\":
        return Edit(finding.path, Span(span.line, 1, span.line + 1, 1), "")
    gap = len(after) - len(after.lstrip(" "))
    return Edit(finding.path, Span(span.line, start, span.end_line, span.end_column + gap), "")


def _unused_import(document: Document, project: Project, node: ast.AST | None) -> list[Edit]:
    """Remove ``import os`` if ``os.environ[...] = ...`` was all that it was for, or ``from torch.autograd import
    detect_anomaly``."""
    module = document.python
    if module is None or node is None:
        return []
    index = project.module(document)
    if index is None:
        return []
    found = list[Edit]()
    for used in (part for part in walk(node) if isinstance(part, ast.Name) and part.id in {"os", *_SWITCHES}):
        found += drop_local_import(index, used)
        if not any(path != document.path for path in project.files_using(document.path, used.id)):
            found += drop_import(index, used)  # others may take the name from here
    return found


def _twins(document: Document, finding: Finding, edit: Edit) -> list[Edit] | Declined:
    """Removals of ``export SINGULARITYENV_NAME=...``, which sets the same in the job's container."""
    if document.kind is not Kind.SHELL or finding.span.cell is not None:
        return []
    source, found = document.source, list[Edit]()
    name = re.search(r"([A-Z][A-Z0-9_]+)=", source.line(edit.span.line))
    for number in range(1, len(source.line_starts) + 1) if name is not None else ():
        assert name is not None
        line = source.line(number)
        if re.match(rf"\s*(?:export\s+)?(?:SINGULARITY|APPTAINER)ENV_{name[1]}=", line) is None:
            continue
        start = len(line) - len(line.lstrip()) + 1
        gone = remove_lines(source, Place(finding.path, Span(number, start, number, len(line.rstrip()) + 1)))
        if gone is None:
            return Declined("the same is set for the container, on a line with other commands")
        found.append(gone)
    return found


def _without_entry(document: Document, finding: Finding) -> Edit | None:
    """Remove ``NAME: value``, or a list's ``- name: NAME`` with the ``value:`` on the next line."""
    span, source = finding.span, document.source
    line, below = source.line(span.line), source.line(span.line + 1)
    indent = len(line) - len(line.lstrip()) + 2
    if not line.lstrip().startswith("- name:"):
        whole = Span(span.line, len(line) - len(line.lstrip()) + 1, span.line, len(line.rstrip()) + 1)
        return remove_entry(finding.path, source, whole) if _ENTRY.fullmatch(line.strip()) else None
    if not below.startswith(" " * indent + "value:"):
        return None
    return remove_entry(finding.path, source, Span(span.line, indent + 1, span.line + 1, len(below.rstrip()) + 1))


FIXER = Fixer("GPU414", fix)
