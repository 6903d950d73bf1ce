import threading
import time

import stage
from plain_job import burn, train_step

lock = threading.Lock()
weights = [0.0] * 100
average = list(weights)


def keep_average():
    """A moving average of the weights, which nobody may change meanwhile."""
    while True:
        with lock:
            burn(0.04)
            average[:] = [0.9 * mean + 0.1 * weight for mean, weight in zip(average, weights, strict=True)]
        time.sleep(0.002)


threading.Thread(target=keep_average, name="average", daemon=True).start()
for step in stage.steps(5):
    train_step(gpu_s=0.02)
    with lock:
        weights[step % 100] += 0.1
