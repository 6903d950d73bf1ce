"""Names of users that cannot be read, and cannot be found by hashing a list of names without the key."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import replace

from gpulint_audit.tables import Job

KEY = "GPULINT_AUDIT_KEY"
"""Environment variable with the key: the same key gives the same pseudonyms."""


def key() -> bytes:
    """The user's key, or one for this run only."""
    given = os.environ.get(KEY)
    return given.encode() if given else secrets.token_bytes(32)


class Pseudonyms:
    """Replaces names of users, also where they are part of other texts."""

    def __init__(self, key: bytes, users: Iterable[str] = ()) -> None:
        self._key = key
        known = sorted({user for user in users if user}, key=len, reverse=True)
        self._users = re.compile(rf"(?<![^\W_])({'|'.join(map(re.escape, known))})(?![^\W_])") if known else None

    def of(self, name: str) -> str:
        """``user-`` and 12 hexadecimal digits; no name stays no name."""
        return "user-" + hmac.new(self._key, name.encode(), hashlib.sha256).hexdigest()[:12] if name else ""

    def text(self, line: str) -> str:
        """A line of a report without any user's name."""
        return self._users.sub(lambda match: self.of(match[0]), line) if self._users is not None else line

    def job(self, job: Job) -> Job:
        """The job without its user's name. What it ran could tell more, and is left out."""
        hidden = self.of(job.user)
        shown = re.sub(re.escape(job.user), lambda _: hidden, job.job) if job.user else job.job
        return replace(job, job=shown, user=hidden, name="", command="", workdir="", image="", repository="")
