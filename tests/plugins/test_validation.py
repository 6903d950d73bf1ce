"""What is wrong with a rule or fixer is said when it registers; it costs that rule or fixer alone."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Iterator
from typing import Any

import pytest

from gpulint import plugins
from gpulint.finding import Severity
from gpulint.fix import Fixer
from gpulint.hooks import Failure, hookimpl
from gpulint.rule import Category, Dimension, Evidence, Kind, OtherCategory, Rule
from gpulint.validation import rule_flaws


def check(document: Any, project: Any) -> Iterator[Any]:
    return iter(())


def fix(finding: Any, project: Any) -> Any: ...


GOOD = Rule(
    code="ACME101",
    name="no-time-limit",
    category=Category.UNRELEASED_JOB,
    dimension=Dimension.JOB,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.SHELL}),
    summary="A job without a time limit",
    why="It holds its GPUs for as long as the partition allows.",
    evidence=(Evidence("5 %", "ACME's handbook"),),
    check=check,
    references=("https://handbook.acme.example/limits",),
    docs_url="https://handbook.acme.example/gpulint",
)
OTHER = dataclasses.replace(GOOD, code="ACME102", name="other-rule")


class Plugin:
    """A plugin with any rules and fixers."""

    def __init__(self, rules: Any = (), fixers: Any = ()) -> None:
        self._rules, self._fixers = rules, fixers
        self.__name__ = "acme"

    @hookimpl
    def gpulint_rules(self) -> Any:
        return self._rules() if callable(self._rules) else self._rules

    @hookimpl
    def gpulint_fixers(self) -> Any:
        return self._fixers() if callable(self._fixers) else self._fixers


def loaded(*given: Any) -> tuple[list[str], list[str]]:
    """The codes that third-party plugins register, and what is said of the plugins."""
    found = plugins.load(given)
    codes = [rule.code for rule in found.rules if rule.code.startswith("ACME")]
    codes += [f"fixer {code}" for code in found.fixers if code.startswith("ACME")]
    return codes, [f"{failure.name}: {failure.reason}" for failure in found.failures]


def test_gpulints_own_rules_have_no_flaws() -> None:
    found = {rule.code: rule_flaws(rule) for rule in plugins.load().rules}
    assert {flaw for flaws in found.values() for flaw in flaws} == {
        "code must not start with GPU, as only gpulint's own rules do"
    }


def test_a_good_rule_and_fixer() -> None:
    assert loaded(Plugin([GOOD], [Fixer("ACME101", fix)])) == (["ACME101", "fixer ACME101"], [])


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError


async def asynchronous(document: Any, project: Any) -> None: ...


BAD_FIELDS = [
    ("code", "acme101"), ("code", "ACME1"), ("code", "ACME12345"), ("code", "A101"), ("code", "ACMEACMEA101"),
    ("code", "ACME101\n"), ("code", "ACME\u0661\u0660\u0661"), ("code", 101), ("code", None), ("code", "GPU999"),
    ("name", "No-Limit"), ("name", "no_limit"), ("name", "-no"), ("name", ""), ("name", "a" * 60), ("name", "a\n"),
    ("category", "Unreleased Job"), ("category", None), ("dimension", "job"), ("severity", "warning"), ("severity", 2),
    ("scope", "document"), ("fix", "safe"), ("default", 1), ("default", "yes"), ("bad", None), ("good", b""),
    ("kinds", {Kind.SHELL}), ("kinds", frozenset()), ("kinds", frozenset({"shell"})), ("kinds", [Kind.SHELL]),
    ("summary", ""), ("summary", " "), ("summary", "two\nlines"), ("summary", "\x1b[31mred"), ("summary", 5),
    ("summary", "\u202e"), ("why", ""), ("why", None), ("why", "two\rlines"), ("evidence", ()[:0] or []),
    ("evidence", ("5 %",)), ("evidence", (Evidence("", "x"),)), ("evidence", (Evidence("5 %", "a\nb"),)),
    ("tokens", ["sbatch"]), ("tokens", ("sbatch",)), ("tokens", ((),)), ("tokens", (("",),)), ("tokens", ((b"x",),)),
    ("tokens", (("\ud800",),)), ("code_tokens", (["x"],)), ("code_tokens", None),
    ("since", "soon"), ("since", 1.0), ("since", "1.0\n"), ("since", "1" * 40),
    ("references", ["https://a.example"]), ("references", ("a handbook",)), ("references", ("javascript:alert(1)",)),
    ("docs_url", "handbook"), ("docs_url", "https://a b"), ("docs_url", "https://a\x1b"), ("docs_url", None),
    ("docs_url", "file:///etc"), ("check", None), ("check", lambda: None), ("check", lambda a, b, c: None),
    ("check", asynchronous), ("may_fire", 1), ("may_fire", lambda: True), ("summary", Hostile()), ("kinds", Hostile()),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(BAD_FIELDS)])
def test_a_rule_with_one_wrong_field_is_refused_and_the_field_named(field: str, value: Any) -> None:
    wrong: Any = {field: value}
    codes, (failure,) = loaded(Plugin([dataclasses.replace(GOOD, **wrong), OTHER]))
    assert codes == ["ACME102"]
    assert failure.startswith("acme: rule ")
    assert f"refused: {field}" in failure
    assert failure.isprintable()


@pytest.mark.parametrize(
    "function",
    [lambda *anything: iter(()), functools.partial(check), type("Check", (), {"__call__": lambda *a: iter(())})()],
)
def test_any_callable_that_takes_two_arguments_may_check(function: Any) -> None:
    assert loaded(Plugin([dataclasses.replace(GOOD, check=function)])) == (["ACME101"], [])


def test_all_flaws_of_a_rule_are_named_at_once() -> None:
    wrong: Any = {"severity": "high", "since": "", "tokens": "x"}
    _, (failure,) = loaded(Plugin([dataclasses.replace(GOOD, **wrong)]))
    assert "severity must be" in failure and "since must be" in failure and "tokens must be" in failure


def test_a_rule_whose_fields_raise_is_refused() -> None:
    class Strange(Rule):
        @property
        def why(self) -> str:
            raise OSError("no network")

    strange = Strange.__new__(Strange)
    codes, failures = loaded(Plugin([strange, OTHER]))
    assert codes == ["ACME102"] and len(failures) == 1


def test_fixers_are_checked_too() -> None:
    makers: list[Any] = [None, lambda: None]
    fixers = [Fixer("acme", fix), Fixer("ACME101", makers[0]), Fixer("ACME102", makers[1]), Fixer("ACME103", fix)]
    codes, failures = loaded(Plugin((), fixers))
    assert codes == ["fixer ACME103"]
    assert [
        "code must be" in failures[0],
        "fix must be a function" in failures[1],
        "fix must take 2" in failures[2],
    ] == [True] * 3


def endless() -> Iterator[Rule]:
    while True:
        yield OTHER


def leave() -> None:
    raise SystemExit(0)


class Odd(BaseException):
    pass


def odd() -> None:
    raise Odd("odd")


def unprintable() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    raise Unprintable


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "TypeError"),
        (5, "TypeError"),
        ("ACME", "not a Rule"),
        ([GOOD, "rule"], "'rule', which is not a Rule"),
        ([Hostile()], "which is not a Rule"),
        ([Failure("module", "broken")], "module: broken"),
        (leave, "gpulint_rules raised SystemExit: 0"),
        (odd, "gpulint_rules raised Odd: odd"),
        (unprintable, "gpulint_rules raised Unprintable"),
        (endless, "already taken"),
        (lambda: 1 // 0, "gpulint_rules raised ZeroDivisionError"),
    ],
)  # fmt: skip
def test_whatever_a_hook_returns_or_raises_costs_that_plugin_alone(given: Any, said: str) -> None:
    good = Plugin([dataclasses.replace(GOOD, code="ACME999", name="still-here")])
    good.__name__ = "good"
    codes, failures = loaded(Plugin(given), good)
    assert "ACME999" in codes
    assert said in failures[0] and failures[0].startswith("acme: ")


def test_ctrl_c_is_not_taken_for_a_broken_plugin() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plugins.load([Plugin(interrupt)])


def test_the_first_of_two_plugins_with_one_code_or_name_keeps_it() -> None:
    second = Plugin([dataclasses.replace(GOOD, name="second"), dataclasses.replace(GOOD, code="ACME555"), OTHER])
    second.__name__ = "second"
    codes, failures = loaded(Plugin([GOOD], [Fixer("ACME101", fix)]), second)
    assert codes == ["ACME101", "ACME102", "fixer ACME101"]
    assert [failure.partition(": ")[0] for failure in failures] == ["second"] * 2
    assert all("already taken by ACME101 no-time-limit of the plugin acme" in failure for failure in failures)


def test_what_is_no_plugin_is_refused() -> None:
    strange = types.SimpleNamespace(gpulint_rules=5, __name__="strange")
    codes, _ = loaded(strange, Plugin([GOOD]))
    assert codes == ["ACME101"]


@pytest.mark.parametrize("label", ["", "two\nlines", "--", "Data", "all", "api misuse", "API_MISUSE"])
def test_categories_of_plugins_are_their_own(label: str) -> None:
    flaws = rule_flaws(dataclasses.replace(GOOD, category=OtherCategory(label)))
    assert len(flaws) == 1
    assert flaws[0].startswith("category: ")


def test_no_figure_of_the_study_is_given_for_rules_of_plugins() -> None:
    assert dataclasses.replace(GOOD, code="GPU999").worth.startswith("Unreleased Job, ")
    assert GOOD.worth == ""
    own = dataclasses.replace(GOOD, category=OtherCategory("Scheduling"))
    assert (rule_flaws(own), own.worth) == ([], "")
