"""All files of a plan, written at once into a folder."""

from __future__ import annotations

from pathlib import Path

from gpulint.writing import Change, WriteError, remove_leftovers
from gpulint.writing import write as write_all
from gpulint_share.errors import ShareError
from gpulint_share.planning.plan import Plan
from gpulint_share.planning.settings import kubernetes, mig, mps, slurm


def write(plan: Plan, folder: Path) -> None:
    """Write the plan's settings; the files of an earlier plan are replaced. Raises ShareError."""
    texts = mps.files(plan) | mig.files(plan) | slurm.files(plan) | kubernetes.files(plan)
    if folder.exists() and not folder.is_dir():
        raise ShareError(f"--settings {folder}: not a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers([folder], folder)
        changes = []
        for name, text in texts.items():
            path = folder / name
            changes.append(Change(path, path.read_bytes() if path.exists() else None, text.encode()))
        write_all(changes, folder)
    except WriteError as error:
        raise ShareError(str(error)) from error
    except OSError as error:
        raise ShareError(f"{folder}: {error.strerror or error}") from error
