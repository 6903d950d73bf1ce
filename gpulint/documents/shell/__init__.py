"""Shell: scripts, notebook ``%%bash`` cells, commands in job specs and images, all read into one ``Script``."""

from gpulint.documents.shell.document import ShellDocument
from gpulint.documents.shell.expand import ALL_GPUS, SCRIPT_DIR, START_DIR, ArgWord
from gpulint.documents.shell.parse import parse_script, script_from_argv, statements
from gpulint.documents.shell.script import Assignment, Block, Command, Comment, Directive, Redirect, Script
from gpulint.documents.shell.words import Word

__all__ = [
    "ALL_GPUS",
    "SCRIPT_DIR",
    "START_DIR",
    "ArgWord",
    "Assignment",
    "Block",
    "Command",
    "Comment",
    "Directive",
    "Redirect",
    "Script",
    "ShellDocument",
    "Word",
    "parse_script",
    "script_from_argv",
    "statements",
]
