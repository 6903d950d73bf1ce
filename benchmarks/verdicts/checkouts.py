"""Repositories on disk, and what gpulint reports in them."""

from __future__ import annotations

import functools
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SCAN = ("--output-format", "json", "--exit-zero", "--no-cache", "--isolated", "--select", "ALL")
CURRENT = shlex.join([sys.executable, "-m", "gpulint"])
"""The gpulint of the environment that runs this program."""


def folder_of(repository: str) -> str:
    """Name of a repository's checkout."""
    return repository.replace("/", "+", 1)


def check_out(repository: str, commit: str, folder: Path, source: str) -> None:
    """Clone a repository at a commit unless that is there already.

    Files whose content the source lacks (a snapshot may leave large ones out) are skipped.

    Raises:
        SystemExit: git failed; what it said is on standard error.
    """
    target = folder / folder_of(repository)
    marker = target / ".git" / "verdicts-commit"
    if marker.is_file() and marker.read_text() == commit:
        return
    if not target.exists():
        owner, name = repository.split("/", 1)
        url = source.format(repository=repository, owner=owner, name=name)
        _git("clone", "--quiet", "--no-checkout", url, str(target))
    at_commit = _git("-C", str(target), "rev-parse", "HEAD", check=False) == commit
    if not at_commit or not any(path.name != ".git" for path in target.iterdir()):
        if not _has(target, commit):
            _git("-C", str(target), "fetch", "--quiet", "origin", commit)
        _git("-C", str(target), "update-ref", "--no-deref", "HEAD", commit)
        _git("-C", str(target), "read-tree", commit)
        _git("-C", str(target), "checkout-index", "--all", "--force", "--quiet", check=False)
    marker.write_text(commit)


def scan(checkouts: Path, repository: str, command: str = CURRENT) -> list[dict[str, Any]]:
    """Findings of all rules in one checkout; their paths begin with the checkout's name.

    Raises:
        SystemExit: gpulint failed; what it said is on standard error.
    """
    arguments = [*shlex.split(command), "scan", *SCAN, *_impact(command), folder_of(repository)]
    run = subprocess.run(arguments, cwd=checkouts, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"{shlex.join(arguments)}: exit code {run.returncode}")
    report: list[dict[str, Any]] = json.loads(run.stdout)
    return report


def scan_all(checkouts: Path, commits: Mapping[str, str], source: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Check out and scan repository after repository."""
    checkouts.mkdir(parents=True, exist_ok=True)
    for number, (repository, commit) in enumerate(sorted(commits.items()), 1):
        print(f"{number}/{len(commits)} {repository}", file=sys.stderr)
        check_out(repository, commit, checkouts, source)
        yield repository, scan(checkouts, repository)


def commit_of(checkout: Path) -> str | None:
    """Commit of a checkout, if git can tell."""
    return _git("-C", str(checkout), "rev-parse", "HEAD", check=False) or None


@functools.cache
def _impact(command: str) -> Sequence[str]:
    """Ask for findings of low impact where gpulint leaves them out otherwise."""
    text = subprocess.run([*shlex.split(command), "scan", "--help"], capture_output=True, text=True, check=True).stdout
    return ("--impact", "low") if "--impact " in text else ()


def _has(checkout: Path, commit: str) -> bool:
    return bool(_git("-C", str(checkout), "cat-file", "-t", commit, check=False))


def _git(*arguments: str, check: bool = True) -> str:
    errors = None if check else subprocess.DEVNULL
    run = subprocess.run(["git", *arguments], stdout=subprocess.PIPE, stderr=errors, text=True, check=False)
    if check and run.returncode:
        raise SystemExit(f"git {shlex.join(arguments)}: exit code {run.returncode}")
    return run.stdout.strip()
