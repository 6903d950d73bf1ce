"""A model of PyTorch's CUDA caching allocator: from a trace of allocations to reserved memory.

Rules and sizes are those of ``c10/cuda/CUDACachingAllocator.cpp`` with the default settings (no expandable segments, no
``max_split_size_mb``, no garbage collection threshold, one stream).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

MIB = 1 << 20
BLOCK_ROUNDING = 512
SMALL_ALLOCATION = 1 * MIB
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB
LARGE_ALLOCATION = 10 * MIB
SEGMENT_ROUNDING = 2 * MIB


class OutOfMemory(Exception):
    """An allocation does not fit, even after every cached segment was returned."""

    def __init__(self, requested: int, reserved: int, event: int) -> None:
        super().__init__(f"{requested} bytes requested with {reserved} bytes reserved")
        self.requested = requested
        self.reserved = reserved
        self.event = event


@dataclass(slots=True)
class _Block:
    segment: int
    offset: int
    size: int
    free: bool
    previous: _Block | None = None
    next: _Block | None = None


class CachingAllocator:
    """Allocate and free blocks by key; ``capacity`` is the memory in bytes that segments may take (None: no limit)."""

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.allocated = 0
        self.reserved = 0
        self._blocks: dict[int, _Block] = {}
        # Free blocks by pool (small, large), sorted as the allocator's best-fit set is: by size, then by age of the
        # segment.
        self._pools: tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]] = ([], [])
        self._free_blocks: dict[tuple[int, int], _Block] = {}
        self._segments: dict[int, tuple[int, bool]] = {}
        self._next_segment = 0

    def allocate(self, key: int, size: int) -> None:
        """Reserve ``size`` bytes under ``key``. Raises OutOfMemory. Nothing is held for a size of 0."""
        if size <= 0:
            return
        size = -(-size // BLOCK_ROUNDING) * BLOCK_ROUNDING
        small = size <= SMALL_ALLOCATION
        block = self._best_fit(size, small) or self._new_segment(size, small)
        remaining = block.size - size
        if remaining >= BLOCK_ROUNDING if small else remaining > SMALL_ALLOCATION:
            rest = _Block(block.segment, block.offset + size, remaining, True, block, block.next)
            if block.next is not None:
                block.next.previous = rest
            block.next = rest
            block.size = size
            self._insert(rest, small)
        self._blocks[key] = block
        self.allocated += block.size

    def free(self, key: int) -> None:
        """Return the block of ``key`` to its pool and join it with free neighbours; unknown keys are empty tensors."""
        block = self._blocks.pop(key, None)
        if block is None:
            return
        self.allocated -= block.size
        small = self._segments[block.segment][1]
        block.free = True
        before, after = block.previous, block.next
        if before is not None and before.free:
            self._remove(before, small)
            block.offset, block.size, block.previous = before.offset, before.size + block.size, before.previous
            if block.previous is not None:
                block.previous.next = block
        if after is not None and after.free:
            self._remove(after, small)
            block.size, block.next = block.size + after.size, after.next
            if block.next is not None:
                block.next.previous = block
        self._insert(block, small)

    def _best_fit(self, size: int, small: bool) -> _Block | None:
        pool = self._pools[small]
        index = bisect_left(pool, (size, -1, -1))
        if index == len(pool):
            return None
        _, segment, offset = pool.pop(index)
        block = self._free_blocks.pop((segment, offset))
        block.free = False
        return block

    def _new_segment(self, size: int, small: bool) -> _Block:
        if small:
            total = SMALL_SEGMENT
        elif size < LARGE_ALLOCATION:
            total = LARGE_SEGMENT
        else:
            total = -(-size // SEGMENT_ROUNDING) * SEGMENT_ROUNDING
        if self.capacity is not None and self.reserved + total > self.capacity:
            self._release_cached()
            if self.reserved + total > self.capacity:
                raise OutOfMemory(size, self.reserved, -1)
        segment = self._next_segment
        self._next_segment += 1
        self._segments[segment] = (total, small)
        self.reserved += total
        return _Block(segment, 0, total, False)

    def _release_cached(self) -> None:
        for block in list(self._free_blocks.values()):
            total, small = self._segments[block.segment]
            if block.size == total:
                self._remove(block, small)
                del self._segments[block.segment]
                self.reserved -= total

    def _insert(self, block: _Block, small: bool) -> None:
        insort(self._pools[small], (block.size, block.segment, block.offset))
        self._free_blocks[block.segment, block.offset] = block

    def _remove(self, block: _Block, small: bool) -> None:
        pool = self._pools[small]
        del pool[bisect_left(pool, (block.size, block.segment, block.offset))]
        del self._free_blocks[block.segment, block.offset]


@dataclass(frozen=True, slots=True)
class Replay:
    """Peaks of one replay in bytes; ``peak_event`` is the index of the event at which most was allocated."""

    allocated: int
    reserved: int
    peak_event: int


def replay(events: Iterable[tuple[int, int]], capacity: int | None = None) -> Replay:
    """Replay ``(key, bytes)`` events, where bytes > 0 allocates and a negative number frees. Raises OutOfMemory."""
    allocator = CachingAllocator(capacity)
    allocated = reserved = 0
    peak_event = 0
    for index, (key, size) in enumerate(events):
        if size < 0:
            allocator.free(key)
            continue
        try:
            allocator.allocate(key, size)
        except OutOfMemory as error:
            error.event = index
            raise
        if allocator.allocated > allocated:
            allocated, peak_event = allocator.allocated, index
        reserved = max(reserved, allocator.reserved)
    return Replay(allocated, reserved, peak_event)
