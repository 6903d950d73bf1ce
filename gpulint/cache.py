"""The cache: what a scan reported, kept for the next scan of the very same files under the very same conditions.

An entry's name is a hash of everything that was known before the scan: settings, the paths and contents of all files,
the installed plugins and gpulint's own code. Whatever else the scan asked of the disk (is there a module of that name,
a folder beside the script) is written down in the entry with the answer, and asked again before the entry is used. So
an entry either gives what a scan would give, or nothing.

Entries are JSON; one is written under another name and then moved into place, so that neither runs side by side nor a
killed process leave a broken one. The oldest go when there are too many.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint import __version__
from gpulint.finding import Finding, Place, Problem, Severity
from gpulint.fix import Declined, Edit, Fix, NewFile, Safety
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule, Scope
from gpulint.source import Span

if TYPE_CHECKING:
    from gpulint.config import Config
    from gpulint.engine import Report
    from gpulint.tree import Tree

NAME = ".gpulint_cache"
MAX_ENTRIES = 30
MAX_BYTES = 50_000_000
"""Of one entry; a longer report is not kept."""
_TAG = "CACHEDIR.TAG"
_SIGNATURE = "Signature: 8a477f597d28d172789f06886806bc55\n"
"""As https://bford.info/cachedir/ has it, so that backups leave the folder out."""


class Cache:
    """The entries in one folder, which is made when the first one is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> tuple[Report, tuple[Rule, ...]] | None:
        """The report of an entry and the rules that ran; None if there is none or it does not hold any more."""
        try:
            entry = json.loads((self.folder / f"{key}.json").read_bytes())
            if not _still_holds(entry["asked"]) or any(code_of(Path(p)) != stamp for p, stamp in entry["code"].items()):
                return None
            return _report(entry)
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return None

    def put(self, key: str, report: Report, rules: Sequence[Rule], tree: Tree, code: Iterable[Path]) -> None:
        """Keep a report; silently not, where nothing can be written."""
        entry = {
            "asked": tree.asked(),
            "code": {str(folder): code_of(folder) for folder in code},
            "rules": [_rule_out(rule) for rule in rules],
            "extra": [_rule_out(rule) for rule in _others(report, rules)],
            "results": [_result_out(result) for result in report.results],
            "problems": [[str(p.path), p.message, p.line, p.column, p.is_error] for p in report.problems],
        }
        try:
            data = json.dumps(entry, separators=(",", ":")).encode()
            if len(data) > MAX_BYTES:
                return
            self._prepare()
            # Other processes may write the same entry at this moment, each under a name of its own.
            unfinished = self.folder / f"{key}.{os.getpid()}.tmp"
            unfinished.write_bytes(data)
            unfinished.replace(self.folder / f"{key}.json")
            self._shrink()
        except (OSError, UnicodeError, ValueError):
            return

    def _prepare(self) -> None:
        if (self.folder / _TAG).is_file():
            return
        self.folder.mkdir(exist_ok=True)
        (self.folder / ".gitignore").write_text("*\n")
        (self.folder / _TAG).write_text(_SIGNATURE + "# Made by gpulint; `gpulint clean` removes it.\n")

    def _shrink(self) -> None:
        """Remove the oldest entries, and what killed processes left."""
        found = []
        for entry in os.scandir(self.folder):
            if entry.name.endswith((".json", ".tmp")):
                with contextlib.suppress(OSError):
                    found.append((entry.stat().st_mtime_ns, entry.path))
        for _, path in sorted(found)[:-MAX_ENTRIES]:
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - plain names here


def is_cache(folder: Path) -> bool:
    """Is a folder one that gpulint made, and not something else of that name?"""
    try:
        return (folder / _TAG).read_text().startswith(_SIGNATURE)
    except (OSError, UnicodeError):
        return False


def key_of(
    config: Config, files: Sequence[Path], reported: Sequence[Path], data: Mapping[Path, bytes], *more: Any
) -> str:
    """The name of the entry for a scan that reports on ``reported`` and may read ``files``; ``more`` is anything else
    that decides what it finds."""
    digest = hashlib.blake2b(digest_size=20)
    head = (
        __version__,
        sys.version,
        sys.flags.utf8_mode,
        config,
        *more,
        [str(path) for path in reported],
        _installed(),
    )
    digest.update(repr(head).encode("utf-8", "surrogateescape"))
    for path in files:
        text = data[path]
        digest.update(f"\n{path}\0{len(text)}\0".encode("utf-8", "surrogateescape"))
        digest.update(text)
    return digest.hexdigest()


def _installed() -> list[tuple[str, int]]:
    """Installed distributions, any of which may bring plugins."""
    found = []
    for folder in sorted(set(sys.path)):
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder or "."):
                if entry.name.endswith((".dist-info", ".egg-info", ".egg-link")):
                    found.append((entry.path, entry.stat().st_mtime_ns))
    return sorted(found)


def code_of(folder: Path) -> str:
    """A stamp of the Python files below a package's folder (or of one file): their names, sizes and times."""
    digest = hashlib.blake2b(digest_size=16)
    if folder.is_file():
        info = folder.stat()
        return f"{info.st_size} {info.st_mtime_ns}"
    todo = [str(folder)]
    for current in todo:
        with os.scandir(current) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        todo.append(entry.path)
                elif entry.name.endswith((".py", ".json")):
                    info = entry.stat()
                    digest.update(f"{entry.path}\0{info.st_size}\0{info.st_mtime_ns}\n".encode("utf-8", "replace"))
    return digest.hexdigest()


def _still_holds(asked: Mapping[str, Mapping[str, Any]]) -> bool:
    """Does the disk answer as it did when the entry was made?"""
    from gpulint.files import ANSWERS

    return all(ANSWERS[kind](path) == answer for kind, answers in asked.items() for path, answer in answers.items())


class _Kept(Rule):
    """A rule as far as reports tell of it; its module is not imported."""

    @property
    def doc(self) -> str:
        return str(self.__dict__["text"])


# -- as JSON -----------------------------------------------------------------------------------------------------------


def _others(report: Report, rules: Sequence[Rule]) -> list[Rule]:
    """Rules of findings that are none of those that ran (an unused suppression)."""
    return list({r.finding.rule.code: r.finding.rule for r in report.results if r.finding.rule not in rules}.values())


def _span_out(span: Span) -> list[int | None]:
    return [span.line, span.column, span.end_line, span.end_column, span.cell]


def _rule_out(rule: Rule) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "category": rule.category.name,
        "dimension": rule.dimension.value,
        "severity": rule.severity.value,
        "kinds": sorted(kind.value for kind in rule.kinds),
        "summary": rule.summary,
        "why": rule.why,
        "evidence": [[evidence.value, evidence.source] for evidence in rule.evidence],
        "scope": rule.scope.value,
        "fix": rule.fix.value,
        "default": rule.default,
        "bad": rule.bad,
        "good": rule.good,
        "since": rule.since,
        "references": rule.references,
        "docs_url": rule.docs_url,
        "text": rule.doc,
    }


def _rule(made: dict[str, Any]) -> Rule:
    fields = {
        **made,
        "category": Category[made["category"]],
        "dimension": Dimension(made["dimension"]),
        "severity": Severity(made["severity"]),
        "kinds": frozenset(map(Kind, made["kinds"])),
        "evidence": tuple(Evidence(*parts) for parts in made["evidence"]),
        "scope": Scope(made["scope"]),
        "fix": Safety(made["fix"]),
        "references": tuple(made["references"]),
    }
    text = fields.pop("text")
    rule = _Kept(**fields, check=lambda subject, project: iter(()))
    rule.__dict__["text"] = text
    return rule


def _result_out(result: Any) -> dict[str, Any]:
    found, fix = result.finding, result.fix
    made: dict[str, Any] = {
        "rule": found.rule.code,
        "path": str(found.path),
        "span": _span_out(found.span),
        "message": found.message,
        "help": found.help,
        "severity": found.severity.value,
        "related": [[str(place.path), _span_out(place.span), place.message] for place in found.related],
    }
    if isinstance(fix, Declined):
        made["declined"] = fix.reason
    elif isinstance(fix, Fix):
        made["fix"] = {
            "description": fix.description,
            "safety": fix.safety.value,
            "edits": [[str(edit.path), _span_out(edit.span), edit.text] for edit in fix.edits],
            "files": [[str(file.path), file.text] for file in fix.files],
        }
    return made


def _report(entry: dict[str, Any]) -> tuple[Report, tuple[Rule, ...]]:
    from gpulint.engine import Report, Result

    ran = tuple(map(_rule, entry["rules"]))
    rules = {rule.code: rule for rule in (*ran, *map(_rule, entry["extra"]))}
    results = []
    for made in entry["results"]:
        fix: Fix | Declined | None = None
        if "declined" in made:
            fix = Declined(made["declined"])
        elif "fix" in made:
            parts = made["fix"]
            edits = tuple(Edit(Path(path), Span(*span), text) for path, span, text in parts["edits"])
            files = tuple(NewFile(Path(path), text) for path, text in parts["files"])
            fix = Fix(parts["description"], Safety(parts["safety"]), edits, files)
        finding = Finding(
            rules[made["rule"]],
            Path(made["path"]),
            Span(*made["span"]),
            made["message"],
            made["help"],
            Severity(made["severity"]),
            None,
            tuple(Place(Path(path), Span(*span), text) for path, span, text in made["related"]),
        )
        results.append(Result(finding, fix))
    problems = [Problem(Path(path), *rest) for path, *rest in entry["problems"]]
    return Report(results, problems), ran
