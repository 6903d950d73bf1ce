"""The allocator model against the documented behaviour of the CUDA caching allocator."""

from __future__ import annotations

import pytest
from gpulint_probe.estimator.allocator import CachingAllocator, OutOfMemory, replay

MIB = 1 << 20


def test_sizes_are_rounded_to_512_bytes() -> None:
    allocator = CachingAllocator()
    allocator.allocate(1, 1)
    allocator.allocate(2, 513)
    assert allocator.allocated == 512 + 1024


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB),
    ],
)
def test_segment_sizes(size: int, segment: int) -> None:
    allocator = CachingAllocator()
    allocator.allocate(1, size)
    assert allocator.reserved == segment


def test_small_tensors_share_a_segment() -> None:
    assert replay([(key, MIB // 2) for key in range(4)]).reserved == 2 * MIB
    assert replay([(key, MIB // 2) for key in range(5)]).reserved == 4 * MIB


def test_a_freed_block_is_used_again_and_stays_reserved() -> None:
    result = replay([(1, 64 * MIB), (1, -1), (2, 60 * MIB)])
    assert (result.allocated, result.reserved) == (64 * MIB, 64 * MIB)


def test_the_smallest_block_that_fits_is_chosen() -> None:
    events = [(1, 100 * MIB), (2, 40 * MIB), (1, -1), (2, -1), (3, 30 * MIB), (4, 100 * MIB)]
    assert replay(events).reserved == 140 * MIB  # the 30 MiB went into the block of 40, so the 100 is whole


def test_a_large_block_is_split_only_when_more_than_a_mebibyte_is_left() -> None:
    kept_whole = [(1, 20 * MIB), (1, -1), (2, 19 * MIB), (3, MIB // 2 * 3)]
    assert replay(kept_whole).reserved == 40 * MIB
    split = [(1, 20 * MIB), (1, -1), (2, 17 * MIB), (3, MIB // 2 * 3)]
    assert replay(split).reserved == 20 * MIB


def test_free_neighbours_are_joined() -> None:
    halves = [(0, 100 * MIB), (0, -1), (1, 50 * MIB), (2, 50 * MIB), (1, -1), (2, -1)]
    assert replay([*halves, (3, 100 * MIB)]).reserved == 100 * MIB


def test_small_and_large_tensors_do_not_share_segments() -> None:
    assert replay([(1, 20 * MIB), (1, -1), (2, 512)]).reserved == 22 * MIB


def test_cached_segments_are_returned_when_the_card_is_full() -> None:
    events = [(1, 60 * MIB), (1, -1), (2, 80 * MIB)]
    assert replay(events).reserved == 140 * MIB
    assert replay(events, capacity=100 * MIB).reserved == 80 * MIB


def test_out_of_memory_names_the_event() -> None:
    with pytest.raises(OutOfMemory) as error:
        replay([(1, 60 * MIB), (2, 60 * MIB)], capacity=100 * MIB)
    assert error.value.event == 1
    assert error.value.reserved == 60 * MIB


def test_tensors_without_elements_take_nothing() -> None:
    assert replay([(1, 0), (1, -1)]).reserved == 0
