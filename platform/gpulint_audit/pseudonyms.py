"""Names of users that cannot be read, and cannot be found by hashing a list of names without the key."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from dataclasses import replace

from gpulint_audit.tables import Job

KEY = "GPULINT_AUDIT_KEY"
"""Environment variable with the key: the same key gives the same pseudonyms."""


def key() -> bytes:
    """The user's key, or one for this run only."""
    given = os.environ.get(KEY)
    return given.encode() if given else secrets.token_bytes(32)


class Pseudonyms:
    """Replaces names of users, also where they are part of a job's other texts."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, name: str) -> str:
        """``user-`` and 12 hexadecimal digits; no name stays no name."""
        return "user-" + hmac.new(self._key, name.encode(), hashlib.sha256).hexdigest()[:12] if name else ""

    def job(self, job: Job) -> Job:
        """The job without its user's name. What it ran could tell more, and is left out."""
        hidden = self.of(job.user)
        shown = re.sub(re.escape(job.user), lambda _: hidden, job.job) if job.user else job.job
        return replace(job, job=shown, user=hidden, name="", command="", workdir="", image="", repository="")
