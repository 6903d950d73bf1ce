"""Settings from ``pyproject.toml`` (``[tool.gpulint]``) or ``gpulint.toml``, checked key by key."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpulint import disk
from gpulint.finding import Problem, Severity
from gpulint.impact import Level
from gpulint.records import dataclass, field
from gpulint.settings import SETTINGS
from gpulint.suggestions import suggestion

_NAME = b"gpulint"
"""What a file with settings for gpulint contains."""
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
"""Where tomllib says that a mistake is."""


class ConfigError(Exception):
    """Invalid settings or arguments; the message names the file, the line where known, and the key."""


class _NotTOML(ConfigError):
    """A file that cannot be parsed, and why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: not valid TOML: {reason}")
        self.path, self.reason = path, reason


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a user can set in a file; command-line options are laid over it."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: tuple[str, ...] | None = None
    """Replaces the built-in list of folders that are never entered; None keeps it."""
    extend_exclude: tuple[str, ...] = ()
    remote_paths: tuple[str, ...] = ()
    """Path prefixes that are remote storage on the user's cluster."""
    gpus_per_node: int | None = None
    """GPUs that a node has where no job specification says so."""
    include_tests: bool = False
    """Report findings in test files too; tests hold no GPUs for long, so they are silent unless asked for."""
    severity: Severity = Severity.INFO
    """Findings below this are not reported."""
    impact: Level = Level.MEDIUM
    """Findings below this are hidden where neither a rule nor a file has a level of its own."""
    per_rule_impact: Mapping[str, Level] = field(default_factory=dict)
    """Selector -> the lowest impact shown of its rules."""
    per_file_impact: Mapping[str, Level] = field(default_factory=dict)
    """Pattern -> the lowest impact shown in files that match it."""
    checkpoint_times: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Pattern -> the measured times of the programs that match it, by their keys in the file."""
    estimate: tuple[tuple[str, ...], ...] = ()
    """For each model factory the arguments of ``gpulint estimate``, the factory first."""
    cache_dir: str | None = None
    """The folder of the cache, relative to ``base`` and in it; None: the user's cache folder."""
    models: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Rows that teach gpulint libraries and job formats, by kind, as :class:`gpulint.libraries.Models` takes them."""
    base: Path = field(default_factory=Path.cwd)
    """The folder that path patterns are relative to."""
    source: Path | None = None
    """The file these settings came from."""
    problems: tuple[Problem, ...] = ()
    """Files that were passed over, for they cannot be parsed and do not mention gpulint."""


def load(start: Path, *, explicit: Path | None = None, isolated: bool = False) -> Config:
    """Settings that apply to files below ``start`` (an absolute folder).

    ``gpulint.toml`` wins over ``pyproject.toml`` in one folder; the nearest folder upwards that has settings counts,
    and the search ends at the repository's root. A ``pyproject.toml`` that cannot be parsed is passed over if it does
    not mention gpulint.

    Raises:
        ConfigError: unreadable file, broken TOML, unknown key or a value of the wrong type.
    """
    if explicit is not None:
        if not disk.exists(explicit):
            raise ConfigError(f"{explicit}: no such configuration file")
        table = _table(explicit)
        return _parse(explicit, {} if table is None else table)
    if isolated:
        return Config(base=start)
    passed_over = list[Problem]()
    for folder in (start, *start.parents):
        for name in ("gpulint.toml", "pyproject.toml"):
            path = folder / name
            if disk.exists(path):
                check_link(path, "--config")
                try:
                    table = _table(path)
                except _NotTOML as error:
                    if name == "gpulint.toml" or _NAME in disk.read(path):
                        raise
                    passed_over.append(_passed_over(error))
                    continue
                if table is not None:
                    return dataclasses.replace(_parse(path, table), problems=tuple(passed_over))
        if disk.exists(folder / ".git"):
            break
    return Config(base=start, problems=tuple(passed_over))


def _passed_over(error: _NotTOML) -> Problem:
    """Return the warning for a file that cannot be parsed, at the place that tomllib names."""
    found = _PLACE.search(error.reason)
    line = column = None
    if found is not None:
        lines = disk.read(error.path).decode("utf-8-sig").rstrip("\n").split("\n")
        line, column = (int(found[1]), int(found[2])) if found[1] else (len(lines), len(lines[-1]) + 1)
    reason = _PLACE.sub("", error.reason)
    return Problem(error.path, f"not valid TOML: {reason}", line, column, is_error=False, is_warning=True)


def check_link(path: Path, option: str) -> None:
    """Refuse a file that was found, not named, and is a link out of its repository (or folder, if that is in none).

    Raises:
        ConfigError: it is one, and only ``option`` may name what is behind it.
    """
    top = next((folder for folder in path.parents if disk.exists(folder / ".git")), path.parent)
    if not disk.is_within(path, top):
        raise ConfigError(f"{path}: a link out of the project; pass the file it leads to with {option}")


def origins(config: Config) -> dict[str, str]:
    """``path:line`` of every key that the settings' own file has."""
    table = _table(config.source) if config.source is not None else None
    return {} if config.source is None else {key: _where(config.source, key) for key in table or {}}


def _table(path: Path) -> dict[str, Any] | None:
    """gpulint's table of a TOML file; None when the file has none."""
    import tomllib

    try:
        data = tomllib.loads(disk.read(path).decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except RecursionError:
        raise _NotTOML(path, "nested too deeply") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _NotTOML(path, str(error)) from None
    except ValueError:
        raise _NotTOML(path, "a number has thousands of digits") from None
    tool = data.get("tool", {})
    table = tool.get("gpulint") if isinstance(tool, dict) else None
    if table is None and path.name != "pyproject.toml":
        table = data
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{path}: 'tool.gpulint' must be a table")
    return table


def _parse(path: Path, table: dict[str, Any]) -> Config:
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in SETTINGS:
            raise ConfigError(f"{_where(path, key)}: unknown setting '{key}'{suggestion(key, SETTINGS)}")
        try:
            values[key.replace("-", "_")] = SETTINGS[key].read(value)
        except ValueError as error:
            raise ConfigError(f"{_where(path, key)}: '{key}' {error}") from None
    if "models" in values:
        values["models"] = _models(values["models"], path)
    return dataclasses.replace(Config(base=path.parent.absolute(), source=path), **values)


def _models(given: object, path: Path) -> Mapping[str, tuple[Any, ...]]:
    from gpulint.libraries.sources import ModelError, from_settings

    try:
        return from_settings(given, path, "tool.gpulint.models." if path.name == "pyproject.toml" else "models.")
    except ModelError as error:
        raise ConfigError(str(error)) from None


def _where(path: Path, key: str) -> str:
    """``path:line`` of a key; tomllib keeps no places, so the first line that assigns the key is taken."""
    pattern = re.compile(rf"""^\s*(?:\[[\w.]*\.?)?["']?{re.escape(key)}["']?\s*[=\].]""")
    for number, line in enumerate(disk.read(path).decode("utf-8-sig").splitlines(), 1):
        if pattern.match(line):
            return f"{path}:{number}"
    return str(path)
