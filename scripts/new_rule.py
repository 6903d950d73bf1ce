"""Start a rule: writes its module, its spec and, unless the fix is advice, its fixer, each in the mirrored place.

python scripts/new_rule.py GPU399 batches-sorted-on-host --category "Data Preprocessing" --fix unsafe
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from gpulint.fix import Safety
from gpulint.rule import Category, Dimension

ROOT = Path(__file__).resolve().parent.parent
DIMENSIONS = dict(zip("1234", Dimension, strict=True))

RULE = '''\
"""TODO: what is found, in one line.

What it detects
    TODO

Why it costs GPU time
    TODO: the study's number and its sample.

When to ignore this rule
    TODO

Fix safety
    TODO

References
    TODO
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import api
from gpulint.finding import Finding, Severity
from gpulint.fix import Safety
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule

if TYPE_CHECKING:
    from gpulint.documents import Document
    from gpulint.project import Project


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = api.module(project, document)
    if module is None or not api.runs_on_gpu(project, module):
        return
    for call in api.calls_to(project, module, {{"torch.TODO"}}):
        yield RULE.finding(document.path, module.syntax.span(call), "TODO", help="TODO")


RULE = Rule(
    code="{code}",
    name="{name}",
    category=Category.{category},
    dimension=Dimension.{dimension},
    severity=Severity.WARNING,
    kinds=frozenset({{Kind.PYTHON, Kind.NOTEBOOK}}),
    summary="TODO",
    why="TODO",
    evidence=(Evidence("TODO"),),
    check=check,
    tokens=(("TODO",),),
    fix=Safety.{fix},
    bad="TODO",
    good="TODO",
    references=(),
)
'''

FIXER = '''\
"""Repairs {code} {name}: TODO."""

from __future__ import annotations

from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Fixer
from gpulint.project import Project


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """TODO."""
    return Declined("TODO")


FIXER = Fixer("{code}", fix)
'''

SPEC = """\
# {code} {name}

TODO: what the cases below have in common.

## Bad: TODO

```python train.py
x = 1  # error: [{code}]
```

## Good: TODO

```python train.py
x = 1
```

## Silent: TODO what cannot be known

```python train.py
x = 1
```
"""


def files(root: Path, code: str, name: str, category: Category, fix: Safety) -> dict[Path, str]:
    """Path -> content of what a new rule consists of."""
    dimension = DIMENSIONS[code[3]]
    stem = f"{code.lower()}_{name.replace('-', '_')}"
    values = {
        "code": code,
        "name": name,
        "category": category.name,
        "dimension": dimension.name,
        "fix": fix.name,
    }
    made = {
        root / "rules" / "gpulint_rules" / dimension / f"{stem}.py": RULE.format(**values),
        root / "tests" / "rules" / dimension / f"{stem}.md": SPEC.format(**values),
    }
    if fix is not Safety.ADVICE:
        made[root / "fixers" / "gpulint_fixers" / dimension / f"{stem}.py"] = FIXER.format(**values)
    return made


def main() -> int:
    """Write the files; refuses to touch one that exists."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("code", help="GPU and three digits; the first says the dimension")
    parser.add_argument("name", help="kebab-case; names the pattern")
    parser.add_argument("--category", required=True, choices=[category.label for category in Category])
    parser.add_argument("--fix", choices=[str(safety) for safety in Safety], default="advice")
    args = parser.parse_args()
    if not re.fullmatch(r"GPU[1-4]\d\d", args.code) or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", args.name):
        parser.error("the code must be GPU1xx to GPU4xx, and the name kebab-case")
    category = next(category for category in Category if category.label == args.category)
    made = files(ROOT, args.code, args.name, category, Safety(args.fix))
    taken = [*made, *(ROOT / "rules").rglob(f"{args.code.lower()}_*.py")]
    if existing := [path for path in taken if path.exists()]:
        parser.error(f"{existing[0].relative_to(ROOT)} exists already")
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
