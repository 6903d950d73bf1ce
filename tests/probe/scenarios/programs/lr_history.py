import json
import os
import threading
import time

from plain_job import train_step

end, beginning = os.pipe()


def share():
    """A file share that takes four kilobytes thirty times a second."""
    while True:
        os.read(end, 4096)
        time.sleep(0.03)


class LRFinder:
    """Raises the learning rate on every step, and keeps the curve in a file."""

    def __init__(self, file):
        self.file, self.curve, self.lr = file, [], 1e-7

    def range_test(self, steps):
        for step in range(steps):
            loss = train_step(gpu_s=0.02)
            self.lr *= 1.1
            self.write_history(step, loss)

    def write_history(self, step, loss):
        self.curve.append({"step": step, "lr": self.lr, "loss": 2.3025850929940455})
        json.dump(self.curve[-200:], self.file)
        self.file.write("\n")
        self.file.flush()


threading.Thread(target=share, name="share", daemon=True).start()
LRFinder(os.fdopen(beginning, "w")).range_test(150)
os._exit(0)
