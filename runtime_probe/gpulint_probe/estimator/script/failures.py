"""Which code is the script's own, and what it raised, in one line."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from gpulint_probe.estimator.adapters import downloads_asked_for

_ESTIMATOR = str(Path(__file__).parent.parent)


class OwnCode:
    """The files of a script: those in its folder and in the working directory, without installed packages."""

    def __init__(self, script: str) -> None:
        self.folders = tuple(
            str(folder) for folder in {Path(script).resolve().parent, Path.cwd()} if folder.parent != folder
        )

    def __contains__(self, file: str) -> bool:
        return file.startswith(self.folders) and "site-packages" not in file and not file.startswith(_ESTIMATOR)

    def line(self) -> str:
        """The innermost line of the script that runs now, as `` (train.py:7)``; empty if none does."""
        frame = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if file in self:
                return f" ({Path(file).name}:{frame.f_lineno})"
            frame = frame.f_back  # type: ignore[assignment]
        return ""


def failure(error: BaseException, script: str) -> str:
    """One line about what a script raised, with the line of the script."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in OwnCode(script)]
    where = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    line = next((line for line in str(error).splitlines() if line.strip()), "")
    hint = ""
    if isinstance(error, FileNotFoundError):
        hint = "; --loader fake makes up the data of torchvision's datasets"
    elif downloads_asked_for(str(error)) or "refuses network connections" in str(error):
        hint = "; nothing is downloaded: use from_config, local files, or --loader fake"
    said = f"{type(error).__name__}: {line}" if line else type(error).__name__
    return f"the script fails{where}: {said}{hint}"
