"""Which findings are shown: those whose impact reaches what the settings, or the command line, say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gpulint.counting import counted
from gpulint.impact import Level

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.config import Config
    from gpulint.finding import Finding
    from gpulint.report import Result
    from gpulint.rule import Rule


class ImpactFilter:
    """The lowest level that is shown of each rule in each file, and how many findings were hidden so far."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._of_rule: dict[str, Level | None] = {}
        self._of_file: dict[Path, Level | None] = {}
        self.hidden: Counter[Level] = Counter()
        self.folded = 0
        """Findings that are hidden as copies of others, or as places of one repair, and fixed with them."""

    def threshold(self, finding: Finding) -> Level:
        """``per-file-impact`` and ``per-rule-impact`` replace ``impact``; where both apply the higher level counts."""
        config = self._config
        rule, path = finding.rule, finding.path
        if config.per_rule_impact and rule.code not in self._of_rule:
            self._of_rule[rule.code] = _of_rule(rule, config.per_rule_impact)
        if config.per_file_impact and path not in self._of_file:
            self._of_file[path] = _of_file(path, config)
        levels = [level for level in (self._of_rule.get(rule.code), self._of_file.get(path)) if level is not None]
        return max(levels, default=config.impact)

    def shows(self, finding: Finding) -> bool:
        """Return whether the impact of ``finding`` reaches its threshold."""
        return finding.impact.level >= self.threshold(finding)

    def shown(self, results: Iterable[Result]) -> list[Result]:
        """``results`` without those below their threshold, which are counted."""
        kept = []
        for result in results:
            if self.shows(result.finding):
                kept.append(result)
            else:
                self.hidden[result.finding.impact.level] += 1
        return kept

    @property
    def note(self) -> str:
        """``41 low-impact findings hidden; --impact low shows them.``, empty if none were."""
        return hidden_note(self.hidden)


def hidden_note(hidden: Mapping[Level, int]) -> str:
    """``41 low-impact findings hidden; --impact low shows them.``, empty if none are."""
    levels = sorted(level for level, count in hidden.items() if count)
    if not levels:
        return ""
    total = sum(hidden.values())
    names = " and ".join(f"{level}-" for level in levels[:-1])
    which = f"{names} and {levels[-1]}-impact" if names else f"{levels[-1]}-impact"
    return f"{counted(total, f'{which} finding')} hidden; --impact {levels[0]} shows {'it' if total == 1 else 'them'}."


def _of_rule(rule: Rule, levels: Mapping[str, Level]) -> Level | None:
    """The level of the most specific selector that names ``rule``."""
    from gpulint.selection import rank

    ranked = [(rank(selector, rule), level) for selector, level in levels.items()]
    return max((found for found in ranked if found[0]), default=(0, None))[1]


def _of_file(path: Path, config: Config) -> Level | None:
    """The level of the last pattern that matches ``path``, as in ``.gitignore``."""
    if not path.is_relative_to(config.base):
        return None
    from gpulint.patterns import compiled

    relative = path.relative_to(config.base).as_posix()
    found = [level for pattern, level in config.per_file_impact.items() if compiled((pattern,)).match_file(relative)]
    return found[-1] if found else None
