"""``gpulint config show``: the settings that a scan would use, and where each comes from."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from gpulint.cli import CLEAN, inputs
from gpulint.cli.outputs import write_utf8
from gpulint.config import Config, origins
from gpulint.escaping import say, toml_escapes
from gpulint.reporters import as_json
from gpulint.settings import CACHE_VARIABLE, SETTINGS

COMMAND_LINE = "command line"
DEFAULT = "default"


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = commands.add_parser("config", help="show the effective settings", description="Show the settings.")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    show = actions.add_parser(
        "show",
        help="print the effective settings, as TOML, and where each comes from",
        description="Print the settings that a scan with these arguments would use, and where each comes from.",
    )
    inputs.add_arguments(show)
    inputs.add_impact(show)
    show.add_argument("--output-format", choices=("toml", "json"), default="toml", help="(default: toml)")
    inputs.add_settings(show)
    show.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one setting per line."""
    from gpulint import plugins
    from gpulint.discover import absolute

    # Where standard input belongs decides the settings, not what it holds: nothing waits for it here.
    named = args.stdin_filename
    paths = inputs.given_paths(args)[0] if named is None else [absolute(Path(named))]
    settings, config = inputs.configuration(args, paths)
    inputs.check_choice(args, settings, plugins.load())
    source = None if config.source is None else os.path.relpath(config.source)
    found = {key: (_value(config, key), _origin(args, settings, config, key)) for key in SETTINGS}
    if named := os.environ.get(CACHE_VARIABLE):
        found["cache-dir"] = named, CACHE_VARIABLE
    if args.output_format == "json":
        table = {key: {"value": value, "source": origin} for key, (value, origin) in found.items()}
        write_utf8(as_json({"file": source, "settings": table}))
        return CLEAN
    say(f"# {source}" if source else "# no settings file", file=sys.stdout)
    lines = [(_assignment(key, value), origin) for key, (value, origin) in found.items()]
    width = min(max(len(text) for text, _ in lines), 60)
    for text, origin in lines:
        say(f"{text:<{width}}  # {origin}", file=sys.stdout)
    sys.stdout.flush()
    return CLEAN


def _value(config: Config, key: str) -> Any:
    """The value as TOML and JSON have it; None where nothing is set and the default is no value."""
    value = getattr(config, key.replace("-", "_"))
    if key in ("severity", "impact"):
        return str(value)
    if key in ("per-rule-impact", "per-file-impact"):
        return {name: str(level) for name, level in value.items()}
    if key == "models":
        return {kind: [row.label for row in rows] for kind, rows in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return {pattern: list(codes) for pattern, codes in value.items()} if key == "per-file-ignores" else value


def _origin(args: argparse.Namespace, settings: Config, config: Config, key: str) -> str:
    in_file = origins(settings).get(key)
    if in_file is not None:
        in_file = os.path.relpath(in_file)
    here, there = _value(config, key), _value(settings, key)
    if getattr(args, key.replace("-", "_"), None):
        # What is added to the file's own list comes from both.
        both = in_file is not None and isinstance(there, list) and bool(there) and here[: len(there)] == there
        return f"{in_file}, {COMMAND_LINE}" if both and here != there else COMMAND_LINE
    if here != there:
        return f"{COMMAND_LINE}: {'--impact' if 'impact' in key and args.impact else '--select'} replaces it"
    if in_file is None and here is None:
        return f"{DEFAULT}: {SETTINGS[key].default}"
    return in_file or DEFAULT


def _assignment(key: str, value: Any) -> str:
    """``key = value`` in TOML; a comment where no value is set."""
    if value is None:
        return f"# {key} is not set"
    if isinstance(value, dict):
        inner = ", ".join(f"{_toml(name)} = {_toml(codes)}" for name, codes in value.items())
        return f"{key} = {{ {inner} }}" if inner else f"{key} = {{}}"
    return f"{key} = {_toml(value)}"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(one)}' for key, one in value.items())} }}"
    return toml_escapes(json.dumps(value, ensure_ascii=False))
