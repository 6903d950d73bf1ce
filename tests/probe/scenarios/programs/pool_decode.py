from collections import deque
from concurrent.futures import ThreadPoolExecutor

import stage
from plain_job import forward

RECORD = "".join(f"{number % 256:02x}" for number in range(8000))


def decode(index):
    """Parse one batch of hexadecimal pixels in plain Python."""
    rows = []
    for _ in range(160):
        pixels = [int(RECORD[place : place + 2], 16) for place in range(0, len(RECORD), 2)]
        rows.append([(pixel - 127) / 255 for pixel in pixels])
    return index, rows


with ThreadPoolExecutor(2) as pool:
    pending = deque(pool.submit(decode, index) for index in range(4))
    stage.kernel(0)
    for step in stage.steps(6):
        batch = pending.popleft().result()
        pending.append(pool.submit(decode, step + 4))
        forward(0.002)
        stage.kernel(0.35)
    pool.shutdown(wait=False, cancel_futures=True)
