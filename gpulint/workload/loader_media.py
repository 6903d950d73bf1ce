"""What the files of loaders hold: images, audio, video or volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint.workload.item_work import ItemWorks

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_MEDIA = frozenset({"image", "audio", "video", "volume"})
"""Kinds of work that decode a file for each sample."""


def differ_in_medium(project: Project, one: Loader, other: Loader) -> bool:
    """Return whether two loaders decode different media, such as images and audio: the number of files of each decides
    which of them matters, and the code does not say it."""
    media = [_MEDIA.intersection(project.fact(ItemWorks).of(loader).kinds) for loader in (one, other)]
    return all(media) and media[0].isdisjoint(media[1])
