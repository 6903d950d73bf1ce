"""Comments beside a line that give a reason for it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.reasons import refers_elsewhere, speaks_foreign_reason

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject

_REASON = regex.compile(
    r"\b(because|since|otherwise|avoids?|deadlocks?|hangs?|crash(es)?|leaks?|workarounds?|intentional(ly)?|on purpose"
    r"|must|needs?|(?<!if )(?<!as )(?<!when )(?<!where )(needed|required|necessary)|requires?"
    r"|cannot|can't|don'?t|do not|(not |un)supported|prevents?|bugs?|issue"
    r"|fails?|caus(es?|ing)|nans?|better|incompatib\w+|mismatch\w*|segfaults?|CUDNN_STATUS_\w+|RuntimeError"
    r"|slower|faster|reproducib\w+|determinis\w+|windows|oom|memory|limit(ed|s)?|too (large|big|slow|small)"
    r"|only (once|one)|sync\w* .{0,40}\bonce|small enough|(for|to) (debug|test)\w*|for safety"
    r"|(is|are) enough|suffic(es?|ient)"
    r"|to (keep|save|ensure|make sure)|rather than|instead of)\b",
    re.IGNORECASE,
)
_CURES = regex.compile(
    r"\b((to|should|which|that) (solve|fix|avoid|prevent|circumvent|silence)s?"
    r"|(solves|fixes|avoids|prevents|works around)|work-?around"
    r"|(solve|fix|avoid|prevent|get rid of)\b.{0,200}\b(issues?|errors?|bugs?|problems?|crash\w*|hang\w*|deadlocks?)"
    r"|(memory|oom|leak|hang|deadlock|crash|stability)[- ]fix|defrag\w*|(reduces?|against|memory) fragmentation)\b",
    re.IGNORECASE,
)
"""Words of what a setting right below is there for."""
_FINDS_ERRORS = regex.compile(
    r"\b(error|stack|crash|exception)s?[ -]?(trac\w+|locations?|reporting|localization)\b|\btracebacks?\b"
    r"|\b(detailed|accurate|exact|precise|better|clear(er)?|meaningful|informative|synchronous|correct)\b.{0,30}"
    r"\b(errors?|traces?|stack\w*|exceptions?)\b"
    r"|\b(locali[sz]e|pinpoint|locate|catch|trace|find|track down|diagnos\w+|investigat\w+)\b.{0,40}"
    r"\b(errors?|faults?|asserts?|exceptions?|crash\w*|illegal|failures?|accesse?s?)\b"
    r"|\billegal (memory )?access|\bdevice-side assert|\bCUDA error:",
    re.IGNORECASE,
)
"""What a debug mode is there for, other than its name: to say where an error is."""
_MODES = frozenset({"debug-mode"})
_NAMES_WAITS = regex.compile(
    r"\b(host|device|gpu|cuda|cpu|d2h|dtoh|blocking|implicit|explicit|costly|expensive|avoid\w*|extra|unneeded)\b.{0,30}\bsync"
    r"|\bsync\w*\b.{0,40}\b(host|device|gpu|cuda|cpu|stalls?|overhead|slow\w*|cost\w*|expensive|pipeline)\b"
    r"|\b(stalls?|blocks?) the (gpu|host|cpu|pipeline)\b|\bdevice.?to.?host\b|\bwaits? for the gpu\b",
    re.IGNORECASE,
)
"""Comments whose authors know that the host waits for the GPU there."""
_COMPARES_DEVICES = regex.compile(
    r"\b(faster|quicker|slow(er)?|cheaper)\b.{0,40}\b(on|with|using|than) (the )?(cpu|gpu|cuda|host|device)\b"
    r"|\b(cpu|host)\b.{0,30}\b(is|was|runs?|seems|looks) .{0,20}(faster|quicker|cheaper|better)\b"
    r"|\b(gpu|cuda)\b.{0,30}\b(is|was|runs?|seems|looks) .{0,20}slow(er)?\b"
    r"|\b(not|isn'?t|un)[ -]?(implemented|supported|available) (on|for|with) (the )?(gpu|cuda|mps)",
    re.IGNORECASE,
)
"""Comments whose authors have measured, or know, why something runs on the CPU: also below the line."""
_TO_DO = regex.compile(r"\b(todo|fixme|xxx|hack)\b", re.IGNORECASE)
MAX_BELOW = 3
"""Most lines of a comment below a statement that are read."""
MAX_PARAGRAPH = 40
"""Most lines of a block without empty lines that a comment in it is about."""
_PLAIN = regex.compile(r"(?:^|(?<=\s))#\s?(?P<text>.*)$")
_CODE = regex.compile(
    r"^(?!(?:NOTE|TODO|FIXME|XXX|HACK|HINT)\()[\w.\[\]]+\s*[=(]|^(import|from|print|return|for|if|with)\b[^.]*$"
)
"""Code that was commented out, which explains nothing."""
_SETTING = regex.compile(
    r"\w\s*=\s*([\d\"']|True\b|False\b|None\b)|^\s*\w[\w.]*\((True|False|[\d\"'][^()]{0,40})?\)\s*(#|$)"
)
"""A line that sets something to what is written there, or only calls a function for it."""
_NAME = regex.compile(r"\w+")
MAX_ALIKE = 12
"""Most lines of one form that a comment above them is read for."""
MAX_STATEMENTS = 5
"""Most statements of a function that a comment at its head is about."""
_WORD = regex.compile(r"[a-z]{3,}")
_OF_LOADERS = frozenset(
    "loader dataloader train training val valid validation test eval batch batche dataset default".split()
)
"""Words of comments on anything that has to do with loaders."""
_COMMON = frozenset(
    "the and for with this that from are not you use uses used set code here all into will data".split()
)


def has_reason(subject: Subject) -> bool:
    """Return whether a comment on the line, or directly above it, mentions what the finding is about and says why."""
    document = subject.document
    if document is None:
        return False
    source = document.cell_source(subject.finding.span.cell)
    line = subject.finding.span.line
    own = _comment(source.line(line)) or _comment(source.line(subject.finding.span.end_line))
    above = []
    at = line - 1
    while at > line - MAX_ALIKE and _shape(source.line(at)) == _shape(source.line(line)):
        at -= 1  # a comment above several lines that do the same is about them all
    line = at + 1
    while at > 0 and at > line - 4 and source.line(at).lstrip().startswith("#"):
        above.append(_comment(source.line(at)))
        at -= 1
    if subject.cost is not None and subject.cost.kind in _MODES and _finds_errors(subject, own, above[::-1]):
        return True
    words = _subject_words(subject, source.line(subject.finding.span.line).partition("#")[0])
    for text in (own, " ".join(reversed(above))):
        if text and not _CODE.match(text) and _says_why(text) and (text == own or words & _words(text)):
            return True
    if _explains_argument(subject, words) or _compares_devices_below(subject):
        return True
    if line == subject.finding.span.line and _CURES.search(" ".join(reversed(above))):
        return True
    nearest = above[0] if above and line == subject.finding.span.line else ""
    if _SETTING.search(source.line(subject.finding.span.line)) and any(map(refers_elsewhere, (own, nearest))):
        return True
    head = _head(subject)
    return bool(_says_why(head) and (words | _words(subject.finding.help)) & _words(head))


def _finds_errors(subject: Subject, own: str, above: list[str]) -> bool:
    """Return whether the comments of a debug mode say which errors it is there to find."""
    return any(_FINDS_ERRORS.search(text) and not _CODE.match(text) for text in (own, " ".join(above)))


def _explains_argument(subject: Subject, words: frozenset[str]) -> bool:
    """Return whether a comment beside an argument of the call, or above it within the call, says why it is as it is, if
    the finding is about this argument (``pin_memory=False,  # saves memory``)."""
    document, node, module = subject.document, subject.node, subject.module
    if document is None or module is None or not isinstance(node, ast.Call):
        return False
    for keyword in node.keywords:
        named = _words(keyword.arg or "")
        if not named or not named <= words or keyword.lineno == node.lineno:
            continue
        span = module.syntax.span(keyword)
        source = document.cell_source(span.cell)
        said = [_comment(source.line(span.end_line))]
        if source.line(span.line - 1).lstrip().startswith("#"):
            said.append(_comment(source.line(span.line - 1)))
        if any(text and not _CODE.match(text) and (_says_why(text) or refers_elsewhere(text)) for text in said):
            return True
    return False


def _compares_devices_below(subject: Subject) -> bool:
    """Return whether the comment in the lines below the statement says that the CPU does this faster, or the GPU
    cannot."""
    document, module, node = subject.document, subject.module, subject.node
    if document is None or module is None or node is None:
        return False
    ups = (node, *module.syntax.ancestors(node))
    statement = next((up for up in ups if isinstance(up, ast.stmt) and not hasattr(up, "body")), None)
    if statement is None:
        return False
    span = module.syntax.span(statement)
    source, said = document.cell_source(span.cell), list[str]()
    for number in range(span.end_line + 1, span.end_line + 1 + MAX_BELOW):
        if not source.line(number).lstrip().startswith("#"):
            break
        said.append(_comment(source.line(number)))
    return _COMPARES_DEVICES.search(" ".join(said)) is not None


def names_waits(subject: Subject) -> bool:
    """Return whether a comment beside a read of the GPU, or above it in the same block without empty lines, says that
    the host synchronises there. One on a barrier only says what the barrier does."""
    document, span = subject.document, subject.finding.span
    if document is None:
        return False
    source = document.cell_source(span.cell)
    if "synchronize" in source.line(span.line).partition("#")[0]:
        return False
    lines = [source.line(span.line)]
    for number in range(span.line - 1, max(span.line - MAX_PARAGRAPH, 0), -1):
        text = source.line(number)
        if not text.strip() or text.lstrip().startswith(("def ", "async def ", "class ")):
            break
        if text.lstrip().startswith("#"):
            lines.append(text)
    said = [comment for line in lines if (comment := _comment(line))]
    return any(_NAMES_WAITS.search(text) and not _CODE.match(text) for text in said) and not any(
        map(_TO_DO.search, said)
    )


def _says_why(text: str) -> bool:
    return bool(_REASON.search(text)) or speaks_foreign_reason(text)


def _subject_words(subject: Subject, marked: str) -> frozenset[str]:
    """Words of what a finding is about. A call that makes a loader has many settings, so its line does not say of
    which a comment speaks: only the message does, and the advice."""
    finding = subject.finding
    if subject.cost is not None and subject.cost.loader is not None:
        return _words(f"{finding.rule.name} {finding.message} {finding.help}") - _OF_LOADERS
    return _words(f"{finding.rule.name} {finding.message} {marked}")


def _head(subject: Subject) -> str:
    """The comments at the head of the short function that the finding is in: they are about all that it does."""
    module, node = subject.module, subject.node
    function = module.function(node) if module is not None and node is not None else None
    if module is None or function is None or len(function.body) > MAX_STATEMENTS:
        return ""
    first = module.syntax.span(function.body[0])
    source = module.syntax.source if first.cell is None else None
    if source is None:
        return ""
    lines = (source.line(number) for number in range(function.lineno + 1, first.line))
    return " ".join(_comment(line) for line in lines if line.lstrip().startswith("#"))


def _shape(line: str) -> str:
    """A line without its names: ``a = float(b.item())`` is like ``c = int(d.item())``."""
    return _NAME.sub("a", line.partition("#")[0].rstrip())


def _comment(line: str) -> str:
    match = _PLAIN.search(line)
    return match["text"].strip() if match is not None else ""


def _words(text: str) -> frozenset[str]:
    return frozenset(word.rstrip("s") for word in _WORD.findall(text.lower().replace("_", " "))) - _COMMON
