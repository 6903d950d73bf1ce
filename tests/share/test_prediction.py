"""What jobs do to each other on one card."""

from __future__ import annotations

import pytest
from gpulint_share import Profile, ShareError, Value, predict
from gpulint_share.prediction.failures import learn_failures
from gpulint_share.prediction.observed import learn
from gpulint_share.prediction.slices import gpu_bound, layouts, slice_named, slice_speed, smallest
from hypothesis import given
from hypothesis import strategies as st

GIB = 1 << 30
ratio = st.floats(0, 1)


def job(name: str = "a", memory: float | None = 4, card: str = "A100-40GB", **ratios: float) -> Profile:
    values = {field: Value.of(value, "measured") for field, value in ratios.items()}
    held = None if memory is None else Value.of(memory * GIB, "measured", 0.1)
    return Profile(name, card, memory_bytes=held, **values)  # type: ignore[arg-type]


def speeds(*jobs: Profile, method: str = "streams") -> list[float]:
    found = predict(jobs, "A100-40GB", method).speeds
    assert found is not None
    return [speed.mid for speed in found]


def test_small_jobs_keep_their_speed_and_heavy_ones_do_not() -> None:
    light, heavy = job(utilization=0.2, memory_activity=0.1), job("b", utilization=1.0, memory_activity=0.85)
    assert min(speeds(light, light)) > 0.99
    assert max(speeds(heavy, heavy)) < 0.6
    assert speeds(light, heavy)[0] > speeds(heavy, heavy)[0]


@given(ratio, ratio, ratio, ratio, ratio)
def test_a_heavier_partner_never_makes_a_job_faster(
    mine: float, traffic: float, low: float, high: float, busy: float
) -> None:
    low, high = sorted((low, high))
    subject = job(utilization=mine, memory_activity=traffic)
    beside = [job("b", utilization=busy, memory_activity=value) for value in (low, high)]
    assert speeds(subject, beside[0])[0] >= speeds(subject, beside[1])[0]
    assert 0 < speeds(subject, beside[1])[0] <= 1


def test_jobs_of_short_kernels_wait_for_those_of_long_ones() -> None:
    short = job(utilization=0.8, memory_activity=0.2)
    long = job("b", utilization=0.8, memory_activity=0.7)
    waiting, holding = speeds(short, long)
    assert waiting < holding
    assert speeds(short, short)[0] > waiting
    assert speeds(long, short)[0] == pytest.approx(holding)


def test_jobs_that_keep_the_memory_busy_still_share_one_card() -> None:
    streaming = [job(name, utilization=1.0, memory_activity=0.4) for name in "abcd"]
    found = speeds(*streaming)
    assert sum(found) <= 1.2 + 1e-9
    assert max(found) == pytest.approx(min(found))


def test_a_third_job_slows_the_others_further_and_mps_less_than_streams() -> None:
    each = [job(name, utilization=0.7, memory_activity=0.3, sm_activity=0.3) for name in "abc"]
    assert speeds(*each)[0] < speeds(*each[:2])[0]
    assert speeds(*each, method="mps")[0] > speeds(*each)[0]


def test_mps_promises_nothing_where_nobody_knows_how_full_the_multiprocessors_are() -> None:
    blind = [job(name, utilization=0.95) for name in "ab"]
    assert speeds(*blind, method="mps") == speeds(*blind)
    assert any("SM activity of a job is not known" in note for note in predict(blind, "A100-40GB", "mps").notes)


@given(st.lists(ratio, min_size=2, max_size=4))
def test_streams_never_use_more_of_the_card_than_mps(active: list[float]) -> None:
    each = [job(str(number), sm_activity=value) for number, value in enumerate(active)]
    used = [
        sum(value * speed for value, speed in zip(active, speeds(*each, method=method), strict=True))
        for method in ("streams", "mps")
    ]
    assert used[0] <= used[1] + 1e-9 and used[1] <= 1 + 1e-9


def test_mps_cannot_give_more_multiprocessors_than_there_are() -> None:
    full = [job(name, utilization=1.0, memory_activity=0.3, sm_activity=0.9) for name in "ab"]
    assert sum(0.9 * speed for speed in speeds(*full, method="mps")) <= 1 + 1e-9


def test_memory_decides_whether_jobs_fit() -> None:
    ten, twenty = job(memory=10, utilization=0.1), job("b", memory=20, utilization=0.1)
    assert predict([ten, twenty], "A100-40GB").fits
    too_much = predict([twenty, twenty], "A100-40GB")
    assert too_much.fits is False
    assert too_much.notes[0] == "memory: 20.0 + 20.0 GiB and 2 GiB to spare do not fit 40.0 GiB"
    close = predict([job(memory=17, utilization=0.1), twenty], "A100-40GB")
    assert close.fits and not close.safe  # the upper bounds do not
    assert predict([ten, job("b", memory=None, utilization=0.1)], "A100-40GB").fits is None


def test_the_host_limits_jobs_that_need_its_cores() -> None:
    loading = [job(name, utilization=0.1, memory_activity=0.1, cpu_cores=6) for name in "ab"]
    found = predict(loading, "A100-40GB", cores=8)
    assert found.speeds is not None
    assert found.speeds[0].mid == pytest.approx(8 / 12, abs=0.01)


def test_sharing_saves_the_power_of_an_idle_card() -> None:
    each = [job(name, utilization=0.3, memory_activity=0.1, watts=150) for name in "ab"]
    found = predict(each, "A100-40GB")
    assert found.energy is not None and 0.5 < found.energy < 1
    assert predict([job(utilization=0.3), each[0]], "A100-40GB").energy is None


def test_guidelines_explain_the_prediction() -> None:
    busy = [job(name, utilization=1.0, sm_activity=0.97, memory_activity=0.8) for name in "ab"]
    notes = "\n".join(predict(busy, "A100-40GB").notes)
    assert "a alone has 97% SM activity: there is little to gain beside it" in notes
    assert "SM activity adds up to 194%, above the 80%" in notes


def test_nothing_is_predicted_from_nothing() -> None:
    found = predict([job(), job("b", utilization=0.5)], "A100-40GB")
    assert found.speeds is None and found.throughput is None
    assert any("no speed can be predicted" in note for note in found.notes)


def test_slices_are_cut_as_the_card_allows() -> None:
    cuts = [tuple(part.name for part in layout) for layout in layouts("A100-40GB")]
    assert ("4g.20gb", "3g.20gb") in cuts
    assert ("3g.20gb", "3g.20gb") in cuts
    assert ("1g.5gb",) * 7 in cuts
    assert ("4g.20gb", "4g.20gb") not in cuts
    assert ("3g.20gb", "3g.20gb", "1g.5gb") not in cuts  # the memory is used up
    assert layouts("V100-16GB") == ()
    with pytest.raises(ShareError, match=r"cannot be cut into 4g.20gb and 4g.20gb"):
        predict([job(), job("b")], "A100-40GB", "mig", ["4g.20gb", "4g.20gb"])
    with pytest.raises(ShareError, match=r"has no MIG profile '9g.1gb'"):
        predict([job()], "A100-40GB", "mig", ["9g.1gb"])


def test_a_slice_slows_only_the_work_of_the_gpu() -> None:
    half = slice_named("A100-40GB", "3g.20gb")
    assert slice_speed(job(sm_activity=0.0), half) == 1
    assert slice_speed(job(sm_activity=1.0), half) == pytest.approx(half.share)
    bound = gpu_bound(0.7, half)
    assert slice_speed(job(gpu_bound=bound), half) == pytest.approx(0.7)
    assert slice_speed(job(), half) is None


def test_the_smallest_slice_that_serves_a_job() -> None:
    mostly_idle = job(memory=8, sm_activity=0.2)
    found = smallest(mostly_idle, "A100-40GB", 0.5)
    assert found is not None and found.name == "2g.10gb"
    assert smallest(job(memory=30, sm_activity=0.2), "A100-40GB", 0.5) is None


def test_pairs_that_were_seen_teach_pairs_that_were_not() -> None:
    endurance = {"a": 0.95, "b": 0.8, "c": 0.6, "d": 0.7}
    gentleness = {"a": 0.9, "b": 0.5, "c": 0.8, "d": 0.7}
    pairs = [
        (one, other, endurance[one] * gentleness[other], endurance[other] * gentleness[one])
        for one in "abcd"
        for other in "abcd"
        if one < other and (one, other) != ("b", "d")
    ]
    known = learn(pairs)
    assert known.speed("b", "d") == pytest.approx(0.8 * 0.7, abs=0.03)
    assert known.speed("d", "b") == pytest.approx(0.7 * 0.5, abs=0.03)
    assert 0 < known.speed("new", "a") < 1


def test_failures_of_pairs_tell_which_others_fail() -> None:
    memory = {"tiny": 1, "small": 3, "half": 7, "large": 10, "huge": 13}
    limits = {"16 GB": 16, "12 GB": 12}
    tried = [
        (a, b, card, memory[a] + memory[b] > limit)
        for a in memory for b in memory if a <= b for card, limit in limits.items()
        if (a, b) != ("half", "huge")
    ]  # fmt: skip
    known = learn_failures(tried)
    assert known.risk("half", "huge", "16 GB") > 0.5 > known.risk("tiny", "small", "16 GB")
    assert known.risk("half", "huge", "12 GB") > known.risk("half", "huge", "16 GB")
    assert known.risk("half", "huge") == known.risk("half", "huge", "12 GB")  # the strictest card
    with pytest.raises(ValueError, match="no pairs"):
        learn_failures([])


def test_footprints_tell_about_jobs_that_were_never_tried() -> None:
    held = {"tiny": 1.0, "small": 4.0, "half": 8.0, "huge": 14.0, "new small": 2.0, "new huge": 15.0}

    def filled(job: str, other: str, card: str) -> float:
        return (held[job] + held[other]) / 16.0

    names = list(held)[:4]
    tried = [(a, b, "16 GB", held[a] + held[b] > 16) for a in names for b in names]
    known = learn_failures(tried, filled)
    assert known.risk("new huge", "half", "16 GB") > 0.5 > known.risk("new small", "half", "16 GB")
    assert learn_failures(tried).risk("new huge", "half") == learn_failures(tried).risk("new small", "half")
