"""Write docs/rules and the rules' catalogue from the rules, docs/configuration.md from the settings, and docs/impact.md
from the figures that impacts rest on, and docs/api.md from the docstrings of what plugins may use.

With --check, only say what is out of date.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import api_page
import gpulint_rules
import impact_page

from gpulint import catalogue, plugins
from gpulint.cli.rule_page import explanation
from gpulint.cli.rules import markdown, page
from gpulint.settings import SETTINGS
from gpulint.suppress import UNUSED_IGNORE

FOLDER = Path(__file__).resolve().parent.parent / "docs"
CATALOGUE = Path(*gpulint_rules.__path__, catalogue.NAME)
INDEX = """---
hide:
  - toc
---

# Rules

"""
SITE = FOLDER.parent / "zensical.toml"
NAVIGATION = re.compile(r"(?<=  # rules: written by scripts/generate_docs.py\n).*?(?=  # end of rules\n)", re.DOTALL)
MOVED = """# {rule.code} {name}

This rule is now called [{rule.name}]({page}). The old name still works in settings, selectors and suppressions.
"""
CONFIGURATION = """# Configuration

Settings live in `pyproject.toml` under `[tool.gpulint]`, or in `gpulint.toml` without that header. gpulint uses the
nearest file at or above the scanned path, up to the repository's root; `gpulint.toml` wins in one folder.
A `pyproject.toml` that is not valid TOML is passed over with a warning if it does not mention gpulint.
`gpulint init` writes a commented file, and `gpulint config show` prints the effective settings and their origins.

Command-line options override the file. `--select` also replaces the file's `ignore` and `extend-select`. `--isolated`
uses no settings file, `--config FILE` a specific one.

## Settings

This section is generated from `gpulint/settings.py` by `scripts/generate_docs.py`.
"""
SUPPRESSIONS = """
## Suppressions

```python
loader = DataLoader(data)  # gpulint: ignore[GPU301] the batches stay on the CPU
# gpulint: ignore[dataloader-not-pinned] above a line that cannot have a comment
# gpulint: ignore-file[GPU301]
```

A comment without codes covers every rule. The same comments work in shell, YAML and Dockerfiles; above a shell command
that is continued with backslashes the comment covers all of its lines. `gpulint scan --report-unused-ignores` reports
comments that hide nothing, as [GPU900](rules/gpu900-unused-ignore.md). A comment that was meant
to suppress findings but does not (an unknown rule, `disable=GPU301`, `noqa: GPU301`) is a warning in every scan.

## Environment variables

| variable | effect |
|---|---|
| `NO_COLOR` | no colours; `--color` overrides it |
| `FORCE_COLOR` | colours and rendered pages even if the output is not a terminal |
| `FORCE_HYPERLINK` | `1`: rule codes and paths are always hyperlinks (OSC 8); `0`: they never are |
| `GPULINT_CACHE_DIR` | the folder of the [cache](usage.md#the-cache) |
| `GPULINT_DEBUG` | internal errors include a traceback |
"""


def configuration() -> str:
    """The page on settings."""
    parts = [CONFIGURATION]
    for key, setting in SETTINGS.items():
        default = f"`{setting.default}`" if re.match(r"[\[{\"]|true|false", setting.default) else setting.default
        parts.append(f"\n### {key}\n\n{setting.text}\n\n- Type: {setting.type}\n- Default: {default}\n")
        parts.append(f"\n```toml\n{key} = {setting.example}\n```\n")
    return "".join([*parts, SUPPRESSIONS])


def pages() -> dict[str, str]:
    """Path below the folder -> content of everything that is generated."""
    loaded = plugins.load()
    if loaded.failures:
        sys.exit("\n".join(f"{failure.name}: {failure.reason}" for failure in loaded.failures))
    rules = sorted([*loaded.rules, UNUSED_IGNORE], key=lambda rule: rule.code)
    made = {f"rules/{page(rule)}": explanation(rule) for rule in rules}
    made |= {
        f"rules/{rule.code.lower()}-{name}.md": MOVED.format(rule=rule, name=name, page=page(rule))
        for rule in rules
        for name in rule.former_names
    }
    return made | {
        "rules/index.md": INDEX + markdown(rules),
        "configuration.md": configuration(),
        "impact.md": impact_page.page(),
        "api.md": api_page.page(),
    }


def site() -> str:
    """Return the site's settings with all rules in the menu, by category."""
    groups: dict[str, list[str]] = {}
    for rule in sorted([*plugins.load().rules, UNUSED_IGNORE], key=lambda rule: rule.code):
        line = f'      {{ "{rule.code} {rule.name}" = "rules/{page(rule)}" }},\n'
        groups.setdefault(rule.category.label, []).append(line)
    lines = [f'    {{ "{category}" = [\n{"".join(rules)}    ] }},\n' for category, rules in groups.items()]
    entry = '  { "Rules" = [\n    { "All rules" = "rules/index.md" },\n' + "".join(lines) + "  ] },\n"
    return NAVIGATION.sub(lambda _: entry, SITE.read_text(encoding="utf-8"))


def _present(folder: Path) -> list[Path]:
    """The generated pages in ``folder``, and those that no longer are."""
    single = (folder / name for name in ("configuration.md", "impact.md", "api.md"))
    return [*(folder / "rules").glob("*.md"), *(path for path in single if path.is_file())]


def stale(folder: Path) -> list[str]:
    """Paths of the pages below ``folder`` that are missing, different or no longer wanted."""
    wanted = pages()
    there = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in _present(folder)}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main() -> int:
    """Exit code 1 if ``--check`` finds a stale page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    metadata = catalogue.written(gpulint_rules.__name__, gpulint_rules.__path__)
    if parser.parse_args().check:
        names = stale(FOLDER)
        names += [] if SITE.read_text(encoding="utf-8") == site() else [SITE.name]
        names += [] if CATALOGUE.is_file() and CATALOGUE.read_text(encoding="utf-8") == metadata else [CATALOGUE.name]
        if names:
            print("Out of date (run scripts/generate_docs.py): " + ", ".join(names))
        return 1 if names else 0
    CATALOGUE.write_text(metadata, encoding="utf-8")
    SITE.write_text(site(), encoding="utf-8")
    (FOLDER / "rules").mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for path in _present(FOLDER):
        if path.relative_to(FOLDER).as_posix() not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
