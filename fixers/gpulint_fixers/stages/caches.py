"""Whether the folders in which libraries keep what they download are the same for a job and a stage before it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents import Document
from gpulint.documents.shell import Command, Script
from gpulint.documents.shell.script import Assignment
from gpulint.launch.job import Job
from gpulint.launch.local_copies import LOCAL
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.stages.kinds import differs

_CACHES = frozenset(
    "HF_HOME HF_HUB_CACHE HUGGINGFACE_HUB_CACHE TRANSFORMERS_CACHE PYTORCH_TRANSFORMERS_CACHE HF_DATASETS_CACHE "
    "HF_MODULES_CACHE DIFFUSERS_CACHE SENTENCE_TRANSFORMERS_HOME MODELSCOPE_CACHE TORCH_HOME NLTK_DATA XDG_CACHE_HOME "
    "HOME".split()
)
"""Variables that say where libraries keep what they download."""
_NODE_OWN = regex.compile(r"scratch[-_]?local|\$\{?(?:SLURMD_NODENAME|HOSTNAME)\b", re.IGNORECASE)
_VARIES = regex.compile(r"(?:\$\(|`)\s*(?:date|mktemp|uuidgen|hostname)\b|\$\{?RANDOM\b|\$\$")
_VARIABLE = regex.compile(r"\$\{?(\w+)")
_SOURCES = frozenset({"source", "."})
_NAMES = "|".join(sorted(_CACHES))
_SET_IN_PYTHON = regex.compile(
    rf"""environ\[\s*["'](?:{_NAMES})["']\s*\]\s*=(?!=)|environ\.setdefault\(\s*["'](?:{_NAMES})["']"""
    rf"""|environ\.update\(\s*\{{?\s*["']?(?:{_NAMES})\b|putenv\(\s*["'](?:{_NAMES})["']"""
)


def are_shared(job: Job, document: Document) -> bool:
    """Return whether another job that runs the same settings has the caches that the programs of a job read.

    It has not where a path goes with the job or its node, in whatever way it is put together, nor where only the
    command of a program or a script that runs on its own sets it.
    """
    (script,) = document.scripts
    commands = [item.command for item in job.commands if item.command.name in _SOURCES]
    sourced = {word.text.rpartition("/")[2] for command in commands for word in command.argv[1:2]}
    for other in job.scripts:
        seen = other.path == document.path or other.path.name in sourced
        for one in other.scripts:
            caches, values = [item for item in one.assignments if item.name in _CACHES], _values(script, one)
            if any(not seen or _is_own(one, values, item) for item in caches) or any(map(_sets_one, one.commands)):
                return False
    return True


def _sets_one(command: Command) -> bool:
    """Return whether a command alone gets another cache (``HF_HOME=hub python train.py``, ``env HF_HOME=hub ...``)."""
    if any(item.name in _CACHES for item in command.assignments):
        return True
    return [word.raw for word in command.words[:1]] == ["env"] and any(
        word.raw.partition("=")[0] in _CACHES for word in command.words[1:] if "=" in word.raw
    )


def sets_caches(module: ModuleIndex) -> bool:
    """Return whether a program itself says where its libraries keep what they download."""
    return _SET_IN_PYTHON.search(module.syntax.source.text) is not None


def _is_own(script: Script, values: dict[str, list[str]], item: Assignment) -> bool:
    """Return whether the value of a variable is another one in another job, or names what only one node sees."""
    return any(
        LOCAL.search(text) is not None
        or _NODE_OWN.search(text) is not None
        or _VARIES.search(text) is not None
        or differs(text) is not None
        for text in _texts(script, values, item)
    )


def _values(*scripts: Script) -> dict[str, list[str]]:
    """Return the texts that variables of scripts are set to, by name."""
    values = dict[str, list[str]]()
    for item in (item for one in dict.fromkeys(scripts) for item in one.assignments):
        values.setdefault(item.name, []).append(_text(item))
    return values


def _text(item: Assignment) -> str:
    return item.fragment.text[item.start : item.end].partition("=")[2]


def _texts(script: Script, values: dict[str, list[str]], item: Assignment) -> Iterator[str]:
    """Yield the text of a value, and those of all variables that it is made of."""
    wanted, seen = [_text(item)], {item.name}
    if item.value is not None and (known := script.expand(item.value)) is not None:
        yield known
    while wanted:
        text = wanted.pop()
        yield text
        for name in _VARIABLE.findall(text):
            if name not in seen:
                seen.add(name)
                wanted += values.get(name, ())
