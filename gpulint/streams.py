"""Standard output belongs to reports."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def output_as_errors() -> Iterator[None]:
    """Send what is printed inside, by Python, by C code or by other processes, to standard error."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, ValueError):  # one of the two is closed
            sys.stdout.flush()
            kept = os.dup(1)
            stack.callback(os.close, kept)
            os.dup2(2, 1)
            stack.callback(os.dup2, kept, 1)
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield
