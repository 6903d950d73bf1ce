"""The catalogue is complete and regular: every rule is documented, specified, and repaired where it says so."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gpulint_rules
import pytest

from gpulint import catalogue, plugins
from gpulint.cli.rule_page import SECTIONS, section_titles
from gpulint.cli.rules import page
from gpulint.deferred import Deferred
from gpulint.fix import Safety
from gpulint.rule import Category, Dimension, Rule
from gpulint.testing import check, read, read_all

ROOT = Path(__file__).parent.parent
LOADED = plugins.load()
RULES = sorted((rule for rule in LOADED.rules if rule.code.startswith("GPU")), key=lambda rule: rule.code)
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stem(rule: Rule) -> str:
    return f"{rule.code.lower()}_{rule.name.replace('-', '_')}"


def test_all_plugins_load() -> None:
    assert LOADED.failures == []


def test_the_catalogue_says_what_the_rules_say() -> None:
    kept = Path(*gpulint_rules.__path__, catalogue.NAME).read_text(encoding="utf-8")
    assert kept == catalogue.written(gpulint_rules.__name__, gpulint_rules.__path__), "run scripts/generate_docs.py"
    for rule in RULES:
        whole = importlib.import_module(rule.check.__module__).RULE
        assert isinstance(rule.check, Deferred)
        assert rule == whole
        assert (rule.may_fire is None) == (whole.may_fire is None)


def test_fixers_have_the_code_of_their_module() -> None:
    for code, fixer in LOADED.fixers.items():
        assert importlib.import_module(fixer.fix.__module__).FIXER.code == code


def test_codes_and_names_are_unique() -> None:
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)


def test_every_rule_file_registers() -> None:
    files = {path.stem for path in (ROOT / "rules").rglob("gpu[0-9]*.py")}
    assert files == {stem(rule) for rule in RULES}


def test_every_fixer_belongs_to_a_rule_that_declares_a_fix() -> None:
    files = {path.relative_to(ROOT / "fixers" / "gpulint_fixers") for path in (ROOT / "fixers").rglob("gpu[0-9]*.py")}
    assert files == {Path(rule.dimension, stem(rule) + ".py") for rule in RULES if rule.fix is not Safety.ADVICE}
    assert set(LOADED.fixers) == {rule.code for rule in RULES if rule.fix is not Safety.ADVICE}


@every_rule
def test_metadata(rule: Rule) -> None:
    assert re.fullmatch(r"GPU[1-4]\d\d", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert list(Dimension)[int(rule.code[3]) - 1] is rule.dimension
    module = rule.check.__module__
    assert module == f"gpulint_rules.{rule.dimension}.{stem(rule)}"
    for text in (rule.summary, rule.why, rule.bad, rule.good):
        assert text.strip()
        assert "TODO" not in text
    assert "\n" not in rule.summary
    assert rule.evidence
    assert rule.kinds


@every_rule
def test_docstring_has_all_sections(rule: Rule) -> None:
    assert section_titles(rule.doc) == list(SECTIONS)


@every_rule
def test_spec_is_in_the_mirrored_place(rule: Rule) -> None:
    cases = read(ROOT / "tests" / "rules" / rule.dimension / f"{stem(rule)}.md")
    assert {(case.code, case.name) for case in cases} == {(rule.code, rule.name)}
    assert {case.kind for case in cases} == {"Bad", "Good", "Silent"}


def test_no_spec_without_a_rule() -> None:
    specified = {case.code for case in read_all(ROOT / "tests" / "rules")}
    assert specified == {rule.code for rule in RULES}


def test_generated_docs_are_up_to_date() -> None:
    names = script("generate_docs").stale(ROOT / "docs")
    assert names == [], "run scripts/generate_docs.py and commit what it writes"


def test_every_rule_links_to_its_page() -> None:
    for rule in RULES:
        assert rule.url.rstrip("/").endswith("/" + page(rule).removesuffix(".md"))


def test_a_scaffolded_rule_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[Path, str] = script("new_rule").files(
        tmp_path, "GPU399", "made-up", Category.DATA_PREPROCESSING, Safety.UNSAFE
    )
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    names = {path.relative_to(tmp_path).as_posix() for path in made}
    assert names == {
        "rules/gpulint_rules/data/gpu399_made_up.py",
        "fixers/gpulint_fixers/data/gpu399_made_up.py",
        "tests/rules/data/gpu399_made_up.md",
    }
    code = (tmp_path / "rules/gpulint_rules/data/gpu399_made_up.py").read_text()
    module: dict[str, Any] = {"__name__": "made_up"}
    monkeypatch.setitem(sys.modules, "made_up", ModuleType("made_up", doc=code.split('"""')[1]))
    exec(compile(code, "made_up", "exec"), module)
    rule = module["RULE"]
    assert (rule.code, rule.dimension, rule.fix) == ("GPU399", Dimension.DATA, Safety.UNSAFE)
    assert section_titles(rule.doc) == list(SECTIONS)
    # The spec runs at once, and fails until the rule does what it says.
    good, bad = plugins.Plugins(rules=[rule]), read(tmp_path / "tests/rules/data/gpu399_made_up.md")
    with pytest.raises(AssertionError, match=r"missing: +train\.py:1 \[GPU399\]"):
        check(bad[0], good, tmp_path)


def test_the_scaffolder_refuses_what_exists_or_is_malformed() -> None:
    def run(*arguments: str) -> str:
        command = [sys.executable, str(ROOT / "scripts" / "new_rule.py"), *arguments, "--category", "API Misuse"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        return done.stderr

    assert "kebab-case" in run("GPU499", "Not Kebab")
    for rule in RULES[:1]:
        assert "exists already" in run(rule.code, "another-name")
