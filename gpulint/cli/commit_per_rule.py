"""``gpulint fix --commit-per-rule``: writes and commits the fixes of one rule after the other."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.commits import Commits
from gpulint.config import ConfigError
from gpulint.escaping import say, shown_path
from gpulint.outcomes import Fixed, Outcome, State
from gpulint.reporters import Context, pull_request
from gpulint.writing import Change

if TYPE_CHECKING:
    from gpulint.cli.inputs import Inputs
    from gpulint.project import Project
    from gpulint.rule import Rule


def commit(fixed: Fixed, given: Inputs, fix: Callable[[Rule, Project], Fixed]) -> Fixed:
    """Do again what ``fixed`` did, rule by rule, each with a commit of its own.

    Raises:
        ConfigError: there is no git work tree, git refuses, or files have changes that are not committed.
    """
    from gpulint.cli.fix import write

    repository = Commits(given.project.root)
    if uncommitted := repository.uncommitted(fixed.changes):
        file = shown_path(os.path.relpath(uncommitted[0]))
        raise ConfigError(
            f"--commit-per-rule: {file} differs from HEAD (or goes through a git filter); commit it first"
        )
    project, outcomes = given.project, list[Outcome]()
    changes: dict[Path, Change] = {}
    codes = {outcome.result.finding.rule.code: outcome.result.finding.rule for outcome in fixed.of(State.APPLIED)}
    for _, rule in sorted(codes.items()):
        one = fix(rule, project)
        write(one, given.project.root)
        done = one.of(State.APPLIED)
        outcomes += [*done, *one.of(State.DROPPED)]
        for change in one.changes:
            first = changes.get(change.path, change)
            changes[change.path] = Change(change.path, first.before, change.after)
        if done:
            context = Context(one.project, [rule], Path.cwd())
            message = pull_request.message(done, context)
            say(f"{repository.commit(one.changes, message)} {message.splitlines()[0]}")
        project = one.project
    left = [outcome for outcome in fixed.outcomes if outcome.state is not State.APPLIED]
    return Fixed([*outcomes, *left], [[change] for change in changes.values()], fixed.report, project)
