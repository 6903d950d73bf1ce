"""Shell commands that load a model or a data set of the Hugging Face hub by its identifier."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.option_parser import passed_option
from gpulint.launch.program_launches import innermost
from gpulint.libraries.hub_ids import is_data_set_id, is_model_id
from gpulint.libraries.names import matches

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpulint.documents.shell import ArgWord, Command
    from gpulint.libraries import Models
    from gpulint.libraries.commands import HubProgram

_PYTHON = regex.compile(r"python[\d.]*|accelerate|torchrun|deepspeed")


def hub_words(models: Models, command: Command, exists: Callable[[Path], bool]) -> list[tuple[ArgWord, bool]]:
    """Words of a command with identifiers of the hub, and whether each is one of a data set: models come first."""
    argv, row, found = _models(models, command)
    if row is None or row.named:
        return []
    hits = [(word, False) for word in found if word.value is not None and is_model_id(word.value, (), exists)]
    data = [word for option in row.data for word in _given(argv[1:], option)]
    return hits + [(word, True) for word in data if word.value is not None and is_data_set_id(word.value, (), exists)]


def named_model(models: Models, command: Command) -> tuple[ArgWord, str] | None:
    """The model that a program fetches by a name of its own, and where from (``yolo train model=yolo11n.pt``)."""
    _, row, found = _models(models, command)
    if row is None or not row.named:
        return None
    word = next((word for word in found if word.value is not None and re.fullmatch(row.named, word.value)), None)
    return (word, row.origin) if word is not None else None


def _models(models: Models, command: Command) -> tuple[tuple[ArgWord, ...], HubProgram | None, list[ArgWord]]:
    """A command's words from the program on, the program's row, and the words where it names models."""
    argv = innermost(command)
    if not argv:
        return argv, None, []
    name = argv[0].text.rstrip("/").rpartition("/")[2]
    if _PYTHON.fullmatch(name) and len(argv) > 1:
        argv = argv[2:] if argv[1].text == "-m" and len(argv) > 2 else argv[1:]
        name = argv[0].text.rpartition("/")[2]
    rows: tuple[HubProgram, ...] = models.rows("hub-program")
    plain = [word for word in argv[1:] if not word.text.startswith("-")]
    for row in rows:
        if not matches(row.programs, (name,)):
            continue
        verb = next(
            (verb for verb in row.verbs if [word.text for word in plain[: len(verb.split())]] == verb.split()), None
        )
        if row.verbs and verb is None:
            continue
        after = plain[len(verb.split()) if verb else 0 :]
        found = [word for option in row.models for word in _given(argv[1:], option)]
        if row.position is not None:
            found += after[row.position : row.position + 1]
        return argv, row, found
    return argv, None, []


def _given(args: tuple[ArgWord, ...], option: str) -> list[ArgWord]:
    """Values of an option; of ``name=`` what follows it in a word of several (``pretrained=gpt2,dtype=float``)."""
    if not option.endswith("="):
        return [word for text, word in passed_option(args, (option,)) if text is not None]
    found = []
    for word in args:
        at = next((at for at in (0, word.text.find(f",{option}") + 1) if word.text.startswith(option, at)), None)
        if at is not None:
            start = at + len(option)
            end = word.text.find(",", start)
            found.append(word.after(start).before(end - start) if end >= 0 else word.after(start))
    return found
