"""Settings of data loaders in the configuration files of trainings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.reasons import is_explained
from gpulint.source import Span

if TYPE_CHECKING:
    from gpulint.documents.yamlvalues import Scalar
    from gpulint.project import Project

_TRAINS = regex.compile(
    r"(^|[._])(epochs?|num_epochs|number_of_epochs|lr|learning_rate|max_steps|optimizer|batch_size)(\.|$)",
    re.IGNORECASE,
)
_NO_TRAINING = regex.compile(
    r"debug|smoke|tiny|mock|infer|eval|predict|cpu|(^|/)hparams\.ya?ml$|(^|[/_-])dev(elopment)?\.ya?ml$"
    r"|(^|/)(dvclive|wandb|mlruns|lightning_logs|\.hydra|multirun)/",
    re.IGNORECASE,
)
"""Configurations of something else than training, and what a run has noted down (``hparams.yaml``: Lightning)."""
_TRIES = regex.compile(r"(^|\.)(dry_?run|debug\w*|smoke\w*|sanity\w*|quick\w*|dev_run|toy)\.", re.IGNORECASE)
"""Sections for a first try of the program."""
_DEVICE = regex.compile(r"(^|\.)(device|accelerator)$", re.IGNORECASE)


def settings(
    document: Document, project: Project, written: re.Pattern[str], key: re.Pattern[str]
) -> Iterator[tuple[str, Scalar, Span]]:
    """(key, value, place) under dotted keys that match, once a line, if the text has anything like ``written``."""
    if not document.is_configuration or _NO_TRAINING.search(project.place(document.path)):
        return
    if not written.search(document.source.text) or project.is_test(document.path):
        return
    from gpulint.documents.yamlvalues import flatten

    values = flatten(document.source)
    if not any(_TRAINS.search(name) for name in values):
        return
    if any(_DEVICE.search(name) and value == "cpu" for name, (value, _) in values.items()):
        return
    seen = set[tuple[int, object]]()
    for name, (value, span) in values.items():
        line = document.source.line(span.line).partition("#")[0]
        if not key.search(name) or _TRIES.search(name) or "!ref" in line or (span.line, value) in seen:
            continue
        if not is_explained(document, span, about=key, trouble=True):
            seen.add((span.line, value))
            yield name, value, span
