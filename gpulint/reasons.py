"""Reasons that authors write down beside a setting: ``num_workers=0  # h5py handles cannot be shared``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.comments import comments
from gpulint.libraries import BUILT_IN
from gpulint.libraries.comments import likeness_pattern, reason_pattern, setting_pattern, trouble_pattern

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.source import Span

_REASON = regex.compile(
    r"do(n't| not) (remove|delete|change)|work-?\s?around|(w/o|without) (this|these)\b|otherwise|must\b|keep this"
    r"|(do(es)?(n't| not)|can'?t|cannot|can not|won'?t) (support|have|connect|survive|share|be|work|handle|use)"
    r"|(can'?t|cannot) communicate"
    r"|(has|have) no\b|not (work|supported|available|safe)"
    r"|(will|would|may|can|might) (hang|deadlock|crash|fail|leak)"
    r"|(avoid|prevent)\w* .*\b(error|hang|deadlock|crash|leak|copy)"
    r"|\b(for|improves?) (\w+ )?stability\b|\bstability settings?\b"
    r"|(is|are|it'?s) (needed|required|necessary)|\bneeded (for|by|since|when)\b"
    r"|\bbecause\b|\bdue to\b|\bso that\b|\bsince\b",
    re.IGNORECASE | re.ASCII,
)
"""``re.ASCII``: a word may border on Chinese or Japanese without a space."""
_TROUBLE = regex.compile(
    r"debug|deadlock|\bhangs?\b|\bcrash|\b(windows\w?|wsl ?\d?|mac(os)?|mps|jupyter|shm)\b|\bissues?\b|#\d{2,}"
    r"|\bbugs?\b|pickl|\bfork|\breproducib|\bdeterminis|\bnotebook[- ]safe",
    re.IGNORECASE | re.ASCII,
)
"""Words of what goes wrong with worker processes."""
_CITES = regex.compile(
    r"https?://\S{1,150}/(issues|pulls?|merge_requests|discussions?)/\d+"
    r"|\b(discuss|discourse|forums?)\.[\w.-]{3,60}/\S{0,150}\d"
    r"|\b(stackoverflow\.com|stackexchange\.com|superuser\.com|serverfault\.com)/(questions|q|a)/\d+"
    r"|\bbugs\.[\w.-]{3,60}/\S{0,150}\d|/jira/browse/\w+-\d+|/show_bug\.cgi"
    r"|(?<![\w/])[\w.-]{1,40}/[\w.-]{1,60}#\d+\b"
    r"|\b(issue|bug|pr|pull request|gh|nvbug)[ :#-]{1,3}\d{2,}\b",
    re.IGNORECASE | re.ASCII,
)
"""The address or number of an issue, a pull request or a thread of a forum."""
_ORIGIN = regex.compile(
    r"\b(adapted|borrowed|copied|taken|stolen|inspired|modified|source|credits?|based on|tutorial)\b", re.IGNORECASE
)
"""Words of where code comes from, which tell nothing of why it is so."""
_ALIKE = regex.compile(
    r"\b(same( \w+)? (as|like)|identical (to|with)|consistent(ly)? (with|to|across|between)"
    r"|consistency with|in line with"
    r"|aligned (with|to)|mirror(s|ing)?|match(es|ing)?|(as|like) (in|for|during|at)|equal to)"
    r"( (in|for|during|at|the|our|its|from|of))* "
    r"(\w*train\w*|\w*eval\w*|val(idation)?|test(ing)?|inference|paper|original|reference|official|upstream|\w+\.(py|sh))\b",
    re.IGNORECASE | re.ASCII,
)
"""A comment that says that a setting is as in another program or in the paper."""
_STEP = (
    r"(?<![\w.])(?P<old>\d+|true|false)"
    r"(?:\s*(?:[-=~]+>|\u2192|\u21d2|\u27f6|\u279c)\s*|,?\s+(?:(?:changed|reduced|set|lowered|raised)\s+)?"
    r"(?:to|into|now|auf|zu|a|em|para|por|vers|naar|na)\s+|\s*(?!\u6216|\u548c)[^\W\d_\x00-\u036f]{1,8}\s*)"
    r"(?P<new>\d+|true|false)(?!\w|[.]\d)"
)
"""One value in place of another: by an arrow, a preposition, or words of a script other than Latin."""
_CHANGED = regex.compile(_STEP, re.IGNORECASE)
_SETTING_CHANGED = regex.compile(
    rf"(?P<setting>workers|pin_mem(?:ory)?|batch[_ -]?size)[\"'`]*[^\d\n,;()#]{{0,12}}?{_STEP}", re.IGNORECASE
)
_NAMES_SETTING = regex.compile(
    r"^\W*(the |a )?(total |max\w* )?(number|num|count|amount|no\.?|nr)\b"
    r"|\b(todo|fixme|increase|raise|adjust|tune|change|faster)\b",
    re.IGNORECASE,
)
"""A comment that only says what a setting is, or that it may be changed."""
_CODE = regex.compile(
    r"^\s*[\w.\[\]\"']+\s*[=(]|[)\]}]\s*,?\s*$|^\s*[A-Za-z_.\"']+\s*:?\s*$|\b(if|for)\b.{0,200}\belse\b"
)
"""Code that was commented out, or a single word."""
_GOES_ON = regex.compile(r"\s*[a-z]+[ ,;][^=(]{0,200}$")
"""The second line of a sentence."""
_LETTERS = regex.compile(r"[^\W\d_]")
_SIGNS = regex.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_NUMBERS = regex.compile(r"\d+")
SENTENCE = 12
"""Letters from which on a comment in an alphabet is a sentence."""
SENTENCE_OF_SIGNS = 5
"""Letters of a comment in Chinese, Japanese or Korean from which on it is a sentence."""
WRAPPED = 40
"""Characters from which on a line of a comment may be the first one of a sentence."""
MAX_ABOVE = 3
"""Most lines of comments above a setting that are read."""
MAX_BESIDE = 12
"""Most lines of a block of settings that a comment above it is read for."""


def says_why(text: str) -> bool:
    """Return whether a comment gives a reason, in any language of the rows."""
    return bool(_REASON.search(text)) or speaks_foreign_reason(text)


def speaks_foreign_reason(text: str) -> bool:
    """Return whether a comment gives a reason in a language other than English."""
    return bool(BUILT_IN.derived(reason_pattern).search(text) or BUILT_IN.derived(trouble_pattern).search(text))


def refers_elsewhere(text: str) -> bool:
    """Return whether a comment on a setting gives the issue or thread that it goes back to, or says with which other
    program it agrees, in any language."""
    if _CITES.search(text):
        return not _ORIGIN.search(text)
    return bool(_ALIKE.search(text) or BUILT_IN.derived(likeness_pattern).search(text))


def names_trouble(text: str) -> bool:
    """Return whether a comment speaks of what goes wrong with worker processes."""
    return bool(_TROUBLE.search(text) or BUILT_IN.derived(trouble_pattern).search(text))


def says_more(text: str) -> bool:
    """Return whether a comment beside a value that is written out says more than what the setting is or was, in any
    language: its author chose the value."""
    letters = "".join(_LETTERS.findall(text))
    signs = len(_SIGNS.findall(letters))
    return (
        (signs >= SENTENCE_OF_SIGNS or (len(letters) >= SENTENCE and len(text.split()) > 2))
        and not (_NAMES_SETTING.search(text) or BUILT_IN.derived(setting_pattern).search(text))
        and not _CODE.search(text)
        and not any(number != "0" for number in _NUMBERS.findall(text))
    )


def is_changed(document: Document, setting: re.Pattern[str], value: str, beside: Span | None = None) -> bool:
    """Return whether a comment of a file says that somebody has changed a setting to the value that it has (``#
    num_workers 16 -> 0``), in any language; or a comment ``beside`` the value, which need not name the setting."""
    own = document.cell_source(beside.cell).line(beside.line).partition("#")[2] if beside is not None else ""
    if any(found["new"].lower() == value for found in _CHANGED.finditer(own)):
        return True
    if not any(_is_change(found, setting, value) for found in _SETTING_CHANGED.finditer(document.source.text)):
        return False
    return any(
        _is_change(found, setting, value)
        for comment in comments(document)
        for found in _SETTING_CHANGED.finditer(comment.text)
    )


def _is_change(found: re.Match[str], setting: re.Pattern[str], value: str) -> bool:
    return found["new"].lower() == value != found["old"].lower() and setting.search(found["setting"]) is not None


def is_explained(
    document: Document,
    span: Span,
    more: re.Pattern[str] | None = None,
    about: re.Pattern[str] | None = None,
    beside: re.Pattern[str] | None = None,
    trouble: bool = False,
) -> bool:
    """Return whether a comment beside a setting, or right above it, gives a reason for it.

    ``more`` are further words of reasons, and ``trouble`` accepts what goes wrong with worker processes as one. A
    comment above has to speak ``about`` the setting, if it is in English. It may stand above several settings that
    match ``beside``, and is about them all.
    """
    source = document.cell_source(span.cell)
    own = source.line(span.line)
    lines = [own.partition("#")[2]]
    above = span.line - 1
    if beside is not None and beside.match(own):
        while above > span.line - MAX_BESIDE and beside.match(source.line(above)):
            above -= 1
    sentence = ""
    for number in range(above, max(above - MAX_ABOVE, 0), -1):
        text = source.line(number)
        if not text.lstrip().startswith("#"):
            break
        said = text.partition("#")[2]
        joins = len(said) >= WRAPPED and _GOES_ON.match(sentence) and not _CODE.search(said)
        sentence = f"{said} {sentence}" if joins else said
        cites = number == span.line - 1 and _CITES.search(sentence)
        if about is None or about.search(sentence) or cites or speaks_foreign_reason(sentence):
            lines.append(sentence)
    return any(
        says_why(text)
        or refers_elsewhere(text)
        or (more is not None and more.search(text))
        or (trouble and names_trouble(text))
        for text in lines
    )
