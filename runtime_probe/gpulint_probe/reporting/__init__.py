"""Reports of a recording: a page for the terminal, HTML, PNG, JSON, and two recordings compared."""

from __future__ import annotations

from gpulint_probe.analysis import Program, analyse, read_program
from gpulint_probe.recording import Recording


def summary(recording: Recording, *, findings: Program | None = None, colour: bool = False, width: int = 80) -> str:
    """One page of text about a recording. Without ``findings`` the recorded command's program is searched for them."""
    from gpulint_probe.reporting.page import page

    program = findings or read_program(recording.command, recording.cwd, len(recording.gpus))
    return page(analyse(recording, program), colour=colour, width=width)
