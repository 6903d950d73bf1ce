"""What a policy would have done to the submissions of a log."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from gpulint.counting import counted
from gpulint.escaping import say
from gpulint_gate import journal
from gpulint_gate.decision import Decision, Verdict, decide
from gpulint_gate.hits import Hit, from_record
from gpulint_gate.overrides import Override
from gpulint_gate.policy import Facts, Policy


def run(log: Path, policy: Policy, *, as_json: bool) -> None:
    """Print what would have been refused, and how often.

    Raises:
        JournalError: the log cannot be read, or a line of it is no entry.
    """
    verdicts: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    users: Counter[str] = Counter()
    gpus = 0
    refused: list[dict[str, Any]] = []
    for number, entry in journal.read(log):
        try:
            decision = _again(entry, policy)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise journal.JournalError(f"{log}:{number}: not an entry of gpulint gate") from None
        verdicts[str(decision.verdict)] += 1
        if decision.verdict is Verdict.REFUSE:
            codes.update({hit.code for hit in decision.refusing})
            users[decision.facts.user] += 1
            gpus += decision.facts.gpus or 0
            refused.append({key: entry.get(key) for key in ("time", "user", "partition", "script", "gpus")})
    if as_json:
        made = {"verdicts": verdicts, "refused": refused, "rules": codes, "users": users, "gpus_refused": gpus}
        sys.stdout.write(json.dumps(made, indent=2) + "\n")
        return
    total = sum(verdicts.values())
    say(f"{counted(total, 'submission')}: {', '.join(f'{verdicts[str(v)]} {v}' for v in Verdict)}", file=sys.stdout)
    if refused:
        say(
            f"Refused jobs hold {counted(gpus, 'GPU')}; by rule: {_counts(codes)}; by user: {_counts(users)}",
            file=sys.stdout,
        )


def _again(entry: dict[str, Any], policy: Policy) -> Decision:
    """The decision that the policy makes on a logged submission."""
    facts = Facts(str(entry["partition"]), str(entry["queue"]), str(entry["user"]), entry["gpus"])
    hits: list[Hit] = [from_record(found) for found in (*entry["findings"], *entry["overridden"])]
    overrides = [Override(str(found["code"]), str(found["reason"])) for found in entry["overridden"]]
    return decide(hits, facts, policy, overrides)


def _counts(table: Counter[str]) -> str:
    return ", ".join(f"{name or 'unknown'} {count}" for name, count in table.most_common(5))
