"""Work on the server's thread ends when somebody says so, and the thread goes on with what comes next."""

import asyncio
import threading

import pytest

from gpulint.lsp.worker import Interrupted, Worker


class Endless:
    """Work without an end; ``begun`` is set once it runs, ``ended`` when it is over."""

    def __init__(self):
        self.begun, self.ended = threading.Event(), threading.Event()

    def __call__(self):
        try:
            while True:
                self.begun.set()
        finally:
            self.ended.set()


class Stubborn(Endless):
    """Endless work that Python does not let exceptions out of, for a while."""

    def __call__(self):
        for _ in range(3):
            Swallowing(self.begun)
        super().__call__()


class Swallowing:
    def __init__(self, begun):
        self._begun = begun

    def __del__(self):
        import time

        self._begun.set()
        until = time.monotonic() + 0.4
        while time.monotonic() < until:
            pass


async def begun(work):
    async with asyncio.timeout(30):
        while not work.begun.is_set():
            await asyncio.sleep(0.01)


async def test_results_and_exceptions_come_back():
    worker = Worker()
    assert await worker.run(lambda: 42) == 42
    with pytest.raises(KeyError):
        await worker.run(lambda: {}["missing"])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", [Endless, Stubborn])
async def test_what_is_interrupted_ends_and_the_next_work_is_done(kind):
    worker, work = Worker(), kind()
    task = asyncio.ensure_future(worker.run(work))
    await begun(work)
    worker.interrupt()
    with pytest.raises(Interrupted):
        async with asyncio.timeout(30):
            await task
    assert work.ended.is_set() or kind is Stubborn
    assert await worker.run(lambda: "next") == "next"


async def test_work_that_takes_too_long_is_interrupted():
    worker, work = Worker(), Endless()
    with pytest.raises(TimeoutError):
        await worker.run(work, 0.05)
    assert await worker.run(work.ended.is_set)


async def test_cancelling_the_task_interrupts_its_work():
    worker, work = Worker(), Endless()
    task = asyncio.ensure_future(worker.run(work))
    await begun(work)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await worker.run(work.ended.is_set)


async def test_work_that_was_cancelled_while_it_waited_is_not_done():
    worker, first, second = Worker(), Endless(), Endless()
    tasks = [asyncio.ensure_future(worker.run(work)) for work in (first, second)]
    await begun(first)
    worker.interrupt()
    assert [type(error) for error in await asyncio.gather(*tasks, return_exceptions=True)] == [Interrupted] * 2
    assert not second.begun.is_set()


async def test_later_work_is_not_struck_by_an_interruption_of_earlier_work():
    worker, work = Worker(), Endless()
    task = asyncio.ensure_future(worker.run(lambda: "done in time"))
    await asyncio.sleep(0)
    worker.interrupt(0.2)
    assert await task == "done in time"
    with pytest.raises(TimeoutError):  # and no earlier end
        await worker.run(work, 0.6)
