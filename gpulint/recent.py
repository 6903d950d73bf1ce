"""What is made again when it is needed, and held for the last few objects that needed it."""

from __future__ import annotations

from collections import deque
from typing import Protocol
from weakref import ref


class Releasing(Protocol):
    """An object that can make again what it holds."""

    def release(self) -> None:
        """Drop it."""


class Recent:
    """The last objects that hold something; the one that has held it longest releases it for another."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._holders: deque[ref[Releasing]] = deque()

    def add(self, holder: Releasing) -> None:
        """Take up an object that holds something from now on, and did not before."""
        holders = self._holders
        holders.append(ref(holder))
        while (oldest := holders[0]()) is None or len(holders) > self._most:
            holders.popleft()
            if oldest is not None:
                oldest.release()
