"""What to say where a package of one of gpulint's extras is missing."""

from __future__ import annotations

import importlib.metadata
import shlex

from gpulint import regex

_OF_EXTRA = regex.compile(r"""(?P<package>[^;]+?)\s*;.*\bextra\s*==\s*['"](?P<extra>[^'"]+)['"]""")


def missing(what: str, package: str, extra: str) -> str:
    """``gpulint probe needs psutil, which is not installed; run: pip install 'psutil>=6.0'``.

    The packages themselves are named rather than ``gpulint[extra]``, so that the command works wherever gpulint itself
    was installed from: an index, a clone or a wheel.
    """
    try:
        required = importlib.metadata.requires("gpulint") or []
    except importlib.metadata.PackageNotFoundError:
        required = []
    found = [match["package"] for text in required if (match := _OF_EXTRA.fullmatch(text)) and match["extra"] == extra]
    packages = " ".join(shlex.quote(text) for text in found or [package])
    return f"{what} needs {package}, which is not installed; run: pip install {packages}"
