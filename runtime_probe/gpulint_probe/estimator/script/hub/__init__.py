"""The Hugging Face hub, for scripts that run without it: models, tokenizers and data sets by their public names."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from gpulint_probe.estimator.script.hub import datasets, tokenizers
from gpulint_probe.estimator.script.hub.models import Hub
from gpulint_probe.estimator.script.imports import after_import


def install(
    folder: Path, note: Callable[[str], None], made_up: Callable[[str], None], line: Callable[[], str],
    stack: contextlib.ExitStack,
) -> None:  # fmt: skip
    """Answer for what is not on this machine until ``stack`` is closed; files are made in ``folder``.

    ``made_up`` is told of data sets, ``line`` names the line of the script that runs now.
    """
    hub = Hub(folder / "hub", note, line)
    of_datasets = datasets.actions(folder, note, made_up, line, stack)
    after_import(hub.actions(stack) | tokenizers.actions(hub, note, stack) | of_datasets, stack)
