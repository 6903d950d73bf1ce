"""What GPUs without work cost."""

from __future__ import annotations

from gpulint.impact import Cost


def idle(used: int, held: int | None, assumed: str = "") -> Cost:
    """The share of the GPUs of a node that nothing uses; ``assumed`` says what is not proven, if anything."""
    if not held or used >= held:
        return Cost("idle-gpus", assumed=assumed)
    share = 1 - used / held
    return Cost("idle-gpus", share=(share, share), basis=f"{used} of {held} GPUs in use", assumed=assumed)
