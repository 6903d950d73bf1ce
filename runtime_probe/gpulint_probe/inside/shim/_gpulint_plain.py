"""What the sampler reads and writes, with the standard library's built-in modules only; see _gpulint_sampler."""

import _signal
import _thread
import os
import sys

try:
    from _json import encode_basestring_ascii as quoted
except ImportError:

    def quoted(text):
        """A string of JSON."""
        return '"%s"' % "".join(letter if " " <= letter <= "~" and letter not in '\\"' else "?" for letter in text)


MOST_FRAMES = 60


def encoded(value):
    """JSON of plain data. The thread must not import anything, not even ``json``: it would take part in the import
    locks of the job."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        return "{%s}" % ",".join("%s:%s" % (quoted(key), encoded(of)) for key, of in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ",".join([encoded(of) for of in value])
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def status(path):
    """Return what follows the name in a stat file of /proc: the state and the counters."""
    return contents(path).rpartition(b") ")[2]


def contents(path):
    """Of a small file; empty where there is none."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(number, 1024)
    except OSError:
        return b""
    finally:
        os.close(number)


def start_thread(run):
    """Start a thread with every signal blocked in it: signals are the job's. It takes over to wake up to the
    microsecond: Linux' own slack of 50 is longer than the sampler's patience."""
    mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    starter = _thread.get_native_id() if len(sys._current_frames()) == 1 else 0
    try:
        if starter:
            set_slack(starter, 1000)
        _thread.start_new_thread(run, ())
    finally:
        if starter:
            set_slack(starter, 0)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)


def set_slack(thread, nanoseconds):
    """Set how much later than asked a thread of this process, and those that it starts, may wake up; 0 for its default.

    To be called only while the process has no other Python thread: one that closes all descriptors and opens a file of
    its own in between would find the number in that file.
    """
    try:
        number = os.open("/proc/%d/timerslack_ns" % thread, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(number, b"%d" % nanoseconds)
    except OSError:
        pass
    finally:
        os.close(number)


class BackwardThreads:
    """The threads in which torch runs backward passes on GPUs, by their names; the calling thread sleeps meanwhile."""

    LOOK_S = 10.0

    def __init__(self):
        self.tasks, self.looked, self.before = [], float("-inf"), 0.0

    def ran(self, now, seconds, stack):
        """Return whether they ran for so many seconds since the last call, where ``stack`` is in a backward pass."""
        within = bool(stack) and str(stack[0][3].get("__name__")).startswith("torch.autograd")
        if within and not self.tasks and now - self.looked >= self.LOOK_S:
            self.looked = now
            tasks = ["/proc/self/task/%s" % task for task in os.listdir("/proc/self/task")]
            self.tasks = [task for task in tasks if contents(task + "/comm").startswith(b"pt_autograd")]
        if not self.tasks:
            return False
        # They ran, or could have run and no core was free.
        ready = sum(int(field) for task in self.tasks for field in contents(task + "/schedstat").split()[:2]) / 1e9
        before, self.before = self.before, ready
        return within and ready - before >= seconds


def rows(frame):
    """Code, line, instruction and globals of a frame and of those around it. The frames themselves are let go at once,
    as they hold their variables and their threads go on."""
    found = []
    while frame is not None and len(found) < MOST_FRAMES:
        found.append((frame.f_code, frame.f_lineno, frame.f_lasti, frame.f_globals))
        frame = frame.f_back
    return found


def allocator(now):
    """Counters of torch's CUDA allocator, one dictionary for each device that is used; CUDA is never started."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    found = []
    try:
        if cuda is None or not cuda.is_initialized():
            return found
        for device in range(16):  # the first that does not exist ends this
            stats = cuda.memory_stats(device)
            if stats.get("reserved_bytes.all.current"):
                found.append({
                    "allocator": device, "time": now,
                    "retries": int(stats.get("num_alloc_retries", 0)), "ooms": int(stats.get("num_ooms", 0)),
                    "allocated": int(stats.get("allocated_bytes.all.current", 0)),
                    "reserved": int(stats.get("reserved_bytes.all.current", 0)),
                    "inactive": int(stats.get("inactive_split_bytes.all.current", 0)),
                })  # fmt: skip
    except Exception:
        return found
    return found
