"""JUnit XML, which nearly every CI system shows: a suite per file, a failed test case per finding."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from gpulint import regex
from gpulint.escaping import printable
from gpulint.finding import Finding
from gpulint.report import Report
from gpulint.reporters import Context
from gpulint.reporters.impact_text import impact_line, is_known

_NOT_XML = regex.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report, context: Context) -> str:
    """The report. Files that cannot be read and internal errors are test cases in error; no findings, one that passes.

    Names of test cases hold no line numbers, so that a CI system recognizes them when lines shift.
    """
    root = Element("testsuites", name="gpulint")
    suites: dict[str, Element] = {}
    names: Counter[tuple[str, str]] = Counter()

    def case(path: str, name: str) -> Element:
        if path not in suites:
            suites[path] = SubElement(root, "testsuite", name=_text(path))
        names[path, name] += 1
        number = names[path, name]
        shown = name if number == 1 else f"{name} ({number})"
        return SubElement(suites[path], "testcase", classname=_text(path), name=_text(shown))

    for found in (result.finding for result in report.results):
        path = context.relative(found.path)
        made = case(path, f"{found.rule.code} {found.rule.name}: {found.message}")
        span, _ = context.in_file(found.path, found.span)
        made.set("file", _text(path))
        made.set("line", str(span.line))
        if is_known(found.impact):
            properties = SubElement(made, "properties")
            SubElement(properties, "property", name="impact", value=str(found.impact.level))
        failure = SubElement(made, "failure", type=found.rule.code, message=_text(found.message))
        failure.text = _text(_explained(found, context))
    for problem in report.problems:
        if problem.is_error:
            _error(case(context.relative(problem.path), "can be read"), "unreadable", problem.message, problem.line)
    for error in report.errors:
        _error(case(context.relative(error.path), error.title), "internal error", error.error)
    if not suites:
        case("gpulint", "no findings")
    for suite in suites.values():
        _count(suite, suite)
    _count(root, root)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _explained(found: Finding, context: Context) -> str:
    lines = [f"{context.place(found.path, found.span)}: {found.message}", f"why: {found.rule.why}"]
    lines += filter(None, [impact_line(found.impact)])
    lines += [f"note: {context.place(place.path, place.span)}: {place.message}" for place in found.related]
    return "\n".join([*lines, f"help: {found.help}"] if found.help else lines) + f"\nsee: {found.rule.url}"


def _error(case: Element, kind: str, message: str, line: int | None = None) -> None:
    if line is not None:
        case.set("line", str(line))
    SubElement(case, "error", type=kind, message=_text(message))


def _count(target: Element, within: Element) -> None:
    for attribute, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        target.set(attribute, str(sum(1 for _ in within.iter(tag))))


def _text(text: str) -> str:
    """``text`` without the characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", printable(text, keep="\n"))
