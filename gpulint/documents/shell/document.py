"""The document of a shell script or batch job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint.documents.base import Document
from gpulint.documents.conflicts import UNRESOLVED, conflict_line
from gpulint.documents.shell.parse import parse_script
from gpulint.rule import Kind
from gpulint.source import Fragment

if TYPE_CHECKING:
    from gpulint.documents.shell.script import Script
    from gpulint.documents.tasks import Task


class ShellDocument(Document):
    """A script file: one ``Script``, and one task with what its ``#SBATCH`` (PBS, LSF, SGE) lines ask for."""

    kind = Kind.SHELL

    def read_scripts(self) -> tuple[Script, ...]:
        script = parse_script(Fragment(self.source.text, self.source))
        if (line := conflict_line(self.source.text)) is not None:
            self.problem(UNRESOLVED, line, 1, is_error=False)
        for message, place in script.problems[:1] if line is None else ():
            self.problem(message, place, is_error=False)
        self.note_bounds((script,))
        return (script,)

    def read_tasks(self) -> tuple[Task, ...]:
        from gpulint.documents.shell.scheduler_directives import request
        from gpulint.documents.shell.submissions import submitted
        from gpulint.documents.tasks import Task

        if not self.scripts:  # it could not be read
            return ()
        (script,) = self.scripts
        found = request(script)
        span = self.source.span(0, len(self.source.text.rstrip()))
        return (
            Task(
                name=found.name or self.path.name,
                span=span,
                resources=found.resources,
                scripts=(script,),
                working_dir=found.working_dir,
                system=found.system,
            ),
            *submitted(script, self.models),
        )
