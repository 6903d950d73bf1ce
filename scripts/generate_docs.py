"""Write docs/rules from the rules' metadata and docstrings; with --check, only say what is out of date."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpulint import plugins
from gpulint.cli.explain import explanation
from gpulint.cli.rules import markdown, page
from gpulint.suppress import UNUSED_IGNORE

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "rules"
INDEX = """# Rules

This page and the others in this folder are generated from the rules themselves by `scripts/generate_docs.py`.

"""


def pages() -> dict[str, str]:
    """File name -> content of everything in the folder."""
    loaded = plugins.load()
    if loaded.failures:
        sys.exit("\n".join(f"{failure.name}: {failure.reason}" for failure in loaded.failures))
    rules = sorted([*loaded.rules, UNUSED_IGNORE], key=lambda rule: rule.code)
    made = {page(rule): explanation(rule) for rule in rules}
    made["index.md"] = INDEX + markdown(rules)
    return made


def stale(folder: Path) -> list[str]:
    """Names of the pages in ``folder`` that are missing, different or no longer wanted."""
    wanted = pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main() -> int:
    """Exit code 1 if ``--check`` finds a stale page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        names = stale(FOLDER)
        if names:
            print("Out of date (run scripts/generate_docs.py): " + ", ".join(names))
        return 1 if names else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for path in FOLDER.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
