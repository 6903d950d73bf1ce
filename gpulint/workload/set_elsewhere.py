"""Batch sizes that are set in another file than the one that makes the batches, a configuration or a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.finding import Place
from gpulint.records import dataclass
from gpulint.semantic.unused_values import is_replaced
from gpulint.source import Span
from gpulint.spread import Spread
from gpulint.values.constants import Constants
from gpulint.values.parameter_defaults import is_overridden
from gpulint.workload.batch_size_limits import BatchSizeLimits
from gpulint.workload.batch_sources import BatchSources
from gpulint.workload.data_split import Split
from gpulint.workload.evaluation_batches import few_graphs

if TYPE_CHECKING:
    from gpulint.project import Project

_MAKES = regex.compile("batch|[lL]oader")


@dataclass(frozen=True, slots=True)
class BatchSetting:
    """A number of samples at a place of a file, and where batches of that size are made for training."""

    size: int
    span: Span
    used: Place


def _settings(project: Project, path: Path) -> Iterator[tuple[Path, Span, BatchSetting]]:
    if project.is_test(path) or not project.matches(path, _MAKES) or (module := project.module_at(path)) is None:
        return
    sources = project.fact(BatchSources).in_module(module)
    training = [source for source in sources if source.split in (Split.TRAIN, Split.BOTH)]
    if not training or project.fact(BatchSizeLimits).reason(module):
        return
    for source in training:
        known = project.fact(Constants).of(source.batch.module, source.batch.node)
        if project.fact(BatchSizeLimits).only_looked_at(module, source.node) or few_graphs(module, source):
            continue
        if is_replaced(module, source.node):
            continue
        used = Place(path, module.syntax.span(source.node), "the batches are made here")
        for value in known.values if known.complete else ():
            place, size = value.place, value.value
            if type(size) is not int or place.path == path or value.source in ("launcher", "environment"):
                continue
            if not is_overridden(project, place):
                yield place.path, place.span, BatchSetting(size, place.span, used)


_BY_FILE: Spread[Span, BatchSetting] = Spread(__name__, "batch sizes set elsewhere", _settings)


def settings_in(project: Project, path: Path) -> Iterator[BatchSetting]:
    """The sizes that a file sets for batches which other files make, in source order, each once."""
    found = dict(_BY_FILE.homed(project, path))
    yield from (found[span] for span in sorted(found, key=lambda span: (span.line, span.column)))
