"""Settings of a program's own configuration file that commands set to something unknown (``train.lr=$LR``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.semantic.points_to import Resolver
from gpulint.values.config_files import ConfigFiles

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.values.constants import Value
    from gpulint.workspace.module_index import NodeRef


def is_passed_unknown(configs: ConfigFiles, ref: NodeRef) -> bool:
    """Return whether a command sets what ``cfg.train.lr`` reads to something unknown."""
    return any(text is None for _, _, given in configs.passed(ref) for found in given for text, _ in found)


def left_in_force(project: Project, configs: ConfigFiles, ref: NodeRef) -> list[Value]:
    """Return what files hold for an expression that some commands set to something unknown and others leave as it is;
    none if an origin of it is something else."""
    origins = project.fact(Resolver).points_to(ref.module, ref.node)
    held = [list(_left(configs, origin)) for origin in origins]
    return [value for values in held for value in values] if all(held) else []


def _left(configs: ConfigFiles, ref: NodeRef) -> Iterator[Value]:
    for path, keys, given in configs.passed(ref):
        if not all(given):
            yield from configs.written_under(path, keys)
