"""Programs that commands of notes and scripts start: ``python inference.py --ckpt model.pt`` in a README."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.file_facts import inspects
from gpulint.assessment.shell_defaults import contents
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_STARTS = regex.compile(
    r"(?<![\w./-])(?:python[\d.]{0,5}|torchrun|accelerate[ \t]{1,9}launch|deepspeed|ipython)[ \t]"
    r"(?P<words>[^\n#|;&`]{0,400})"
)
_PROGRAM = regex.compile(
    r"(?<![\w=/.-])(?:-m[ \t]{1,9}(?P<module>[A-Za-z_][\w.]{0,200})|(?P<file>[\w./-]{1,200}\.py)(?![\w.]))"
)


def inspects_in_no_command(subject: Subject) -> bool:
    """Return whether the file is there to evaluate, show or export what was trained, and no command of the notes runs
    it."""
    return inspects(subject) and subject.finding.path not in _started(subject.project)


@query
def _started(project: Project) -> frozenset[Path]:
    """Return the programs that commands of notes and scripts start."""
    named = dict[str, list[Path]]()
    for path in project.python_files:
        named.setdefault(path.name, []).append(path)
    found = set[Path]()
    for note, text in contents(project):
        for command in _STARTS.finditer(text):
            if (match := _PROGRAM.search(command["words"])) is not None:
                given = match["file"] or match["module"].replace(".", "/") + ".py"
                found.update(_meant(project, note.parent, given.removeprefix("./"), named))
    return frozenset(found)


def _meant(project: Project, folder: Path, given: str, named: dict[str, list[Path]]) -> list[Path]:
    """Return the file that a command in a folder starts: from there, from the root of the tree, or the only one."""
    ends = [path for path in named.get(given.rpartition("/")[2], ()) if f"/{project.place(path)}".endswith(f"/{given}")]
    near = [path for path in ends if path in (folder / given, project.root / given)]
    return near or (ends if len(ends) == 1 else [])
