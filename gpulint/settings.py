"""The keys of a settings file: how each is read, and what ``gpulint init`` and the documentation say of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpulint.finding import Severity
from gpulint.impact import Level
from gpulint.records import dataclass

CACHE_VARIABLE = "GPULINT_CACHE_DIR"
"""The environment variable that names the cache's folder."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One key. ``read`` turns the TOML value into that of ``Config`` and raises ValueError for a wrong type."""

    read: Callable[[Any], Any]
    type: str
    default: str
    """What holds without the key, in words or as TOML."""
    example: str
    """A value as TOML."""
    text: str
    """What the key does, in one or two sentences."""


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("must be a list of strings")
    return tuple(value)


def _patterns(value: Any) -> tuple[str, ...]:
    from gpulint.patterns import compiled

    patterns = _strings(value)
    compiled(patterns)
    return patterns


def _lists_by_pattern(value: Any) -> dict[str, tuple[str, ...]]:
    from gpulint.patterns import compiled

    if not isinstance(value, dict):
        raise ValueError('must be a table such as {"tests/*" = ["GPU301"]}')
    found = {pattern: _strings(codes) for pattern, codes in value.items()}
    compiled(tuple(found))
    return found


MAX_COUNT = 10_000
"""Most GPUs of a node; beyond it a number is a mistake."""


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_COUNT:
        raise ValueError(f"must be a whole number from 0 to {MAX_COUNT:,}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _severity(value: Any) -> Severity:
    if not isinstance(value, str) or value.upper() not in Severity.__members__:
        raise ValueError(f"must be one of {', '.join(map(str, Severity))}")
    return Severity[value.upper()]


def level(value: Any) -> Level:
    """``low``, ``medium`` or ``high``; ``all`` is another word for ``low``."""
    word = "low" if value == "all" else value
    if not isinstance(word, str) or word.upper() not in Level.__members__:
        raise ValueError(f"must be one of {', '.join(map(str, Level))}")
    return Level[word.upper()]


def _levels(value: Any) -> dict[str, Level]:
    if not isinstance(value, dict):
        raise ValueError('must be a table such as {GPU302 = "high"}')
    return {selector: level(word) for selector, word in value.items()}


def _levels_by_pattern(value: Any) -> dict[str, Level]:
    from gpulint.patterns import compiled

    if not isinstance(value, dict):
        raise ValueError('must be a table such as {"research/*" = "high"}')
    compiled(tuple(value))
    return {pattern: level(word) for pattern, word in value.items()}


CHECKPOINT_TIMES = ("mtbf-hours", "checkpoint-seconds", "step-seconds")


def _checkpoint_times(value: Any) -> dict[str, dict[str, float]]:
    from gpulint.patterns import compiled

    if not isinstance(value, dict) or not all(isinstance(times, dict) for times in value.values()):
        raise ValueError("must be a table of tables by pattern, each with " + ", ".join(CHECKPOINT_TIMES))
    for times in value.values():
        if times.keys() != set(CHECKPOINT_TIMES):
            raise ValueError(f"must have {', '.join(CHECKPOINT_TIMES)} for each pattern, and nothing else")
        if not all(isinstance(one, int | float) and type(one) is not bool and 0 < one < 1e9 for one in times.values()):
            raise ValueError("must have positive numbers")
    compiled(tuple(value))
    return {pattern: {key: float(times[key]) for key in CHECKPOINT_TIMES} for pattern, times in value.items()}


def _estimates(value: Any) -> tuple[tuple[str, ...], ...]:
    tables = value if isinstance(value, list) else [value]
    if not all(isinstance(table, dict) and isinstance(table.get("target"), str) for table in tables):
        raise ValueError('must be a table with a target, such as {target = "train.py:build", gpu = "A100-40GB"}')
    return tuple((table["target"], *_options(table)) for table in tables)


def _options(table: dict[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        if key == "target" or value is False:
            continue
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, str | int):
                raise ValueError(f"has a '{key}' that is not a string, a number or a list of these")
            yield from (f"--{key}",) if item is True else (f"--{key}", str(item))


def _models(value: Any) -> Any:
    # The rows are read once it is known which file names them.
    if not isinstance(value, list | dict):
        raise ValueError("must be a list of files, or a table of rows")
    return value


def _inner_folder(value: Any) -> str:
    # The file may come with a repository that nobody trusts, so it can name no place elsewhere.
    folder = Path(os.path.normpath(value)) if isinstance(value, str) and value.isprintable() else Path()
    if folder.is_absolute() or not folder.parts or folder.parts[0] == os.pardir or value.startswith("~"):
        raise ValueError('must be a relative path inside the folder of the settings file, such as ".cache/gpulint"')
    return str(folder)


SETTINGS = {
    "select": Setting(
        _strings,
        "list of selectors",
        "every rule that is on by default",
        '["GPU1", "data"]',
        "The rules to run, instead of the default selection. A selector is a code, the start of a code, a name, a"
        " category, a dimension or `ALL`.",
    ),
    "extend-select": Setting(
        _strings,
        "list of selectors",
        "[]",
        '["GPU205"]',
        "Rules to run in addition.",
    ),
    "ignore": Setting(
        _strings,
        "list of selectors",
        "[]",
        '["external-data"]',
        'Rules not to run. The more specific selector wins: `ignore = ["GPU3"]` keeps `select = ["GPU301"]`.',
    ),
    "per-file-ignores": Setting(
        _lists_by_pattern,
        "table of lists of selectors",
        "{}",
        '{ "tools/*" = ["ALL"] }',
        "Rules whose findings are dropped in files that match a pattern (as in `.gitignore`, from the folder of the"
        " settings file).",
    ),
    "severity": Setting(
        _severity,
        "`info`, `warning` or `error`",
        '"info"',
        '"warning"',
        "Findings below this severity are not reported.",
    ),
    "impact": Setting(
        level,
        "`low`, `medium` or `high`",
        '"medium"',
        '"high"',
        "Findings below this [impact](usage.md#impact) are hidden. `low` shows everything.",
    ),
    "per-rule-impact": Setting(
        _levels,
        "table of levels by selector",
        "{}",
        '{ GPU302 = "high", model = "low" }',
        "The lowest impact shown of some rules, instead of `impact`. The most specific selector wins.",
    ),
    "per-file-impact": Setting(
        _levels_by_pattern,
        "table of levels by pattern",
        "{}",
        '{ "research/*" = "high" }',
        "The lowest impact shown in files that match a pattern (as in `.gitignore`, from the folder of the settings"
        " file), instead of `impact`. The last pattern that matches counts; where `per-rule-impact` applies too, the"
        " higher level does.",
    ),
    "include-tests": Setting(
        _flag,
        "`true` or `false`",
        "false",
        "true",
        "Report findings in test files too. Tests do not hold GPUs for long, so they are skipped by default.",
    ),
    "gpus-per-node": Setting(
        _count,
        "whole number",
        "unknown",
        "8",
        "Number of GPUs per node, for jobs whose specification does not say it.",
    ),
    "remote-paths": Setting(
        _strings,
        "list of path prefixes",
        "[]",
        '["/mnt/blob", "/data"]',
        "Paths below these prefixes are remote storage on your cluster. URLs of object stores and usual mounts"
        " (`/nfs`, `/lustre`, `/mnt/blob`) are recognized automatically.",
    ),
    "checkpoint-times": Setting(
        _checkpoint_times,
        "table of tables by pattern",
        "{}",
        '{ "train.py" = { mtbf-hours = 200, checkpoint-seconds = 45, step-seconds = 0.8 } }',
        "Measured times of training programs, by pattern of their files (as in `.gitignore`, from the folder of the"
        " settings file; the last pattern that matches counts): the mean time between failures of the whole job, the"
        " time that the GPUs wait for one checkpoint, and the time of one step, as the program counts the steps"
        " between checkpoints. GPU211 computes its impact from them, and the interval that loses the least time by the"
        " Young-Daly rule: the square root of twice the time of a checkpoint times the mean time between failures.",
    ),
    "estimate": Setting(
        _estimates,
        "table, or list of tables",
        "none",
        '{ target = "train.py:build", gpu = "A100-40GB", input = "3x224x224" }',
        "A model factory and options of `gpulint estimate`, by their long names. With `--estimate`, `gpulint scan`"
        " and `gpulint fix` run it, and GPU201 and GPU202 report which batch fits.",
    ),
    "extend-exclude": Setting(
        _patterns,
        "list of patterns",
        "[]",
        '["old/"]',
        "Files and folders that are not scanned, as in `.gitignore`. Files that you name are always scanned.",
    ),
    "exclude": Setting(
        _patterns,
        "list of patterns",
        "folders of tools and of third-party code",
        '["third_party/"]',
        "Replaces the built-in list of folders that are never entered.",
    ),
    "models": Setting(
        _models,
        "list of TOML files, or table of rows",
        "none",
        '{ format = { name = "ours", requires = "flavor", gpus = "flavor", commands = "run" } }',
        "Rows that teach gpulint your framework or job format: files in the folder of the settings file, or the rows"
        " themselves, such as `[[tool.gpulint.models.format]]`. See [Models](models.md).",
    ),
    "cache-dir": Setting(
        _inner_folder,
        "path of a folder",
        "the user's cache folder",
        '".cache/gpulint"',
        "The cache folder, relative to the folder of the settings file and inside it. No part of the path may be a"
        " symbolic link. `--cache-dir` and `GPULINT_CACHE_DIR` override it and may name any folder.",
    ),
}
