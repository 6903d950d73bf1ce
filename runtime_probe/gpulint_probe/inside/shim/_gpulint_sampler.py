"""Samples the Python stacks of the process that it runs in, from a thread of its own. Nothing is patched.

The file is imported by the job's own Python, 3.8 or newer, which may not have gpulint; it needs the standard library's
built-in modules only. Whatever goes wrong ends the sampling and nothing else. See gpulint_probe.inside for the format.
"""

import _thread
import atexit
import os
import sys
import time

from _gpulint_plain import BackwardThreads, allocator, contents, encoded, rows, start_thread, status

PERIOD_S = 0.05
"""Mean time between samples of the main thread; each is moved at random, so as not to follow a loop's own rhythm."""
LONGEST_PERIOD_S, FORK_WAIT_S, ALLOCATOR_S = 2.0, 0.5, 2.0
MOST_OF_CPU = 0.004
"""Where sampling takes a larger share of its process's CPU time (waiting counts a quarter), samples become rarer, and
more frequent again below half of it. Windows of less than a second may cost so much more."""
CHANGE_S = 0.00008
"""What a sample costs the process beside the thread's own time: the threads change places twice."""
PATIENCE_S, FIRST_S, USUAL_S = 0.00002, 0.0005, 0.005
"""For so long the sampler lets the main thread keep the interpreter, where that is its only busy thread. With Python's
own 5 ms it would run on to the next call that lets go: shorter Python code would never be seen, that call always."""
CLAIM_S, CLAIMS = 0.0005, 16
"""CPU seconds that a wait for the interpreter may take, on average over so many. The thread wakes up each time that its
patience ends, which is cheap where Python code runs. Code in C may keep the interpreter for long, and so may a thread
without a core: then the sampler is more patient, up to Python's own 5 ms."""
LONGEST_WINDOWS = 4
"""Windows become longer as samples become rarer, up to so many times."""
FORKED, OTHERS_EVERY = 2, 4
"""How many times less often a forked process is sampled, and a thread other than the main one."""
MOST_THREADS, MOST_STACKS = 24, 4000
GENERATOR = 0x20  # of code objects; ``inspect`` is not to be imported here
BUSY_THREAD = 0.02
"""Share of a core from which on a thread other than the main one is recorded."""
CALM_S = 5.0
"""For so long after that the interpreter is not claimed early."""
LONGER_WINDOWS = ((1800.0, 5), (18000.0, 30))
"""After so many seconds, windows are so many times as long: a week's recording stays small."""


class Sampler:
    """One process's sampler. ``setting`` is the length of a window in seconds and the folder to write to."""

    def __init__(self, setting):
        window, self.folder = setting.split(" ", 1)
        self.window_s = float(window)
        self.broken = False
        self.reset()

    def reset(self, times_rarer=1):
        """Forget everything, as a new process does."""
        self.main = _thread.get_ident()
        self.clock = time.pthread_getcpuclockid(self.main) if hasattr(time, "pthread_getcpuclockid") else None
        self.pid, self.forked = os.getpid(), times_rarer > 1
        self.path = "%s/%d-%d.jsonl" % (self.folder, self.pid, time.time_ns())
        self.started = time.monotonic()
        self.period_s = self.shortest_s = PERIOD_S * times_rarer
        # A forked process keeps its parent's: to free them would write to memory that both share, and so copy it.
        self.inherited = self.__dict__.copy()
        self.codes, self.stacks, self.told, self.known_threads = {}, {}, 0, set()
        self.lines, self.greeted, self.allocator_at, self.others_cpu = [], False, 0.0, {}
        self.stopping, self.native, self.crowded, self.calm_at = False, 0, True, 0.0
        self.patience_s, self.early_s, self.claim_s = FIRST_S, 0.0, 0.0
        self.backward = BackwardThreads()
        self.new_window()

    def new_window(self):
        """Begin to count anew."""
        self.begun, self.counts, self.lag_s, self.number = time.time(), {}, 0.0, 0
        self.ranked, self.order = not self.forked and "RANK" in os.environ, []
        self.window_cpu = self.cpu_before = self.cpu()
        self.window_delay = self.delay_before = self.delay()
        self.sampled_at = time.monotonic()

    def run(self):
        """Until told to stop, or until something fails."""
        try:
            me, self.native = _thread.get_ident(), _thread.get_native_id()
            most = MOST_OF_CPU / min(self.window_s, 1.0)
            spent, before, least = time.thread_time(), self.base(), 0.0
            while not self.stopping:
                pause = self.pause(least)
                due, asked = time.monotonic() + pause, time.thread_time()
                self.claim_early()
                self.woken.acquire(True, pause)
                self.claim_as_usual()  # from here on, it is the main thread that waits
                if self.stopping:
                    break
                started = time.thread_time()
                self.sample(me, due)
                self.adapt(started - asked)
                # Each sample pays for itself: imports have new stacks all the time.
                least = min((time.thread_time() - asked + CHANGE_S) / most / self.pace(before), self.period_s * 4)
                if time.time() - self.begun >= self.window():
                    changes = self.number * CHANGE_S
                    self.flush()
                    share = (time.thread_time() - spent + changes) / (time.monotonic() - before[2]) / self.pace(before)
                    spent, before = time.thread_time(), self.base()
                    if share > most:
                        self.period_s = min(self.period_s * min(share / most, 4.0), LONGEST_PERIOD_S)
                    elif share < most / 2:
                        self.period_s = max(self.period_s * max(1.25 * share / most, 0.25), self.shortest_s)
            self.flush()
        except Exception:
            self.broken = True
        finally:
            self.claim_as_usual()
            self.done.release()

    def pause(self, least):
        """Seconds to the next sample, ``least`` or more. All ranks of a job take theirs at the same moments of a common
        plan: only then is seen who works while another one waits. A rank that is sampled less often leaves some out."""
        if not self.ranked:
            return max(self.period_s * (0.5 + time.perf_counter_ns() % 1009 / 1009), least)
        every, now = 1, time.time()
        while every * PERIOD_S < self.period_s * 0.9:
            every *= 2
        number = (int((now + least) / PERIOD_S) // every + 1) * every
        return (number + number * 619 % 1009 / 1009) * PERIOD_S - now

    def claim_early(self):
        """Make a thread that waits for the interpreter, which will be this one, claim it early. Nothing changes where
        other Python threads are busy, or where the program has set another value."""
        if not self.crowded and abs(sys.getswitchinterval() - USUAL_S) < 1e-6:
            sys.setswitchinterval(self.patience_s)
            self.early_s = self.patience_s

    def claim_as_usual(self):
        """Undo it."""
        if self.early_s and abs(sys.getswitchinterval() - self.early_s) < 2e-6:
            sys.setswitchinterval(USUAL_S)
        self.early_s = 0.0

    def adapt(self, took):
        """Be as patient as waits for the interpreter are dear; ``took`` is the CPU time of the last one."""
        self.claim_s += (took - self.claim_s) / CLAIMS
        if self.claim_s > CLAIM_S:
            self.patience_s = min(self.patience_s * self.claim_s / CLAIM_S, USUAL_S)
        elif self.claim_s < CLAIM_S / 2:
            self.patience_s = max(self.patience_s * 0.8, PATIENCE_S)

    def base(self):
        """CPU seconds of the process, seconds without those in which no core was free, and all seconds."""
        now = time.monotonic()
        return time.process_time(), now - self.delay(), now

    def pace(self, before):
        """CPU seconds of the process for each second since ``before``; waiting counts a quarter."""
        cpu, free, elapsed = (new - old for new, old in zip(self.base(), before))
        return max(cpu, free / 4, 1e-3) / max(elapsed, 1e-3)

    def window(self):
        age = time.monotonic() - self.started
        longer = max([1, *(times for after, times in LONGER_WINDOWS if age >= after)])
        return self.window_s * max(longer, min(self.period_s / self.shortest_s, LONGEST_WINDOWS))

    def sample(self, me, due):
        """Count where each thread is now. Frames come first, as the main thread goes on once this one lets go of the
        interpreter. It ran if it used a core, or was ready to, for most of the time since its last sample; its state
        at the moment would not tell, as it may have to wait for the sampler."""
        when, frames = time.time(), sys._current_frames()
        found = {self.main: rows(frames.get(self.main))}
        if self.number % OTHERS_EVERY == 0:
            others = [ident for ident in list(frames)[:MOST_THREADS] if ident not in (self.main, me)]
            found.update({ident: rows(frames[ident]) for ident in others})
        frames.clear()
        self.number += 1
        now, cpu = time.monotonic(), self.cpu()
        self.lag_s += max(0.0, now - due)
        half = 0.5 * (now - self.sampled_at)
        ran = cpu - self.cpu_before >= half
        if not ran:
            delay = self.delay()  # costs more than the rest, but only a thread that waits
            ran = cpu - self.cpu_before + delay - self.delay_before >= half
            self.delay_before = delay
        helped = self.backward.ran(now, half, found[self.main])
        self.cpu_before, self.sampled_at = cpu, now
        for ident, stack in found.items():
            if stack:
                main = ident == self.main
                number = self.stack(stack)
                counted = self.counts.setdefault(ident, {}).setdefault(number, [0, 0, 0])
                state = status("/proc/self/task/%d/stat" % self.pid)[:1] if main and (self.ranked or not ran) else b""
                counted[0] += 1
                counted[1] += main and (ran or helped)
                counted[2] += not (main and ran) and state == b"D"  # waits for a disk
                if main and self.ranked:
                    slept = state != b"R" and not helped
                    self.order.append((number, int((when - self.begun) * 1000), int(slept)))

    def stack(self, found):
        """The number of a stack."""
        frames, (leaf, _, instruction, _) = [], found[0]
        for code, line, _, module in found:
            number = id(code)
            if number not in self.codes:
                # Keeping the code keeps its number from being given to another one.
                self.codes[number] = (code, len(self.codes))
                generator = bool(code.co_flags & GENERATOR) and code.co_name != "<genexpr>"
                names = [str(module.get("__name__", "")), getattr(code, "co_qualname", code.co_name), code.co_filename]
                self.lines.append({"code": len(self.codes) - 1, "names": names, "generator": generator})
            frames += self.codes[number][1], line or 0
        key = hash((instruction, *frames))  # of 64 bits: the stacks themselves would take megabytes
        if key not in self.stacks:
            if len(self.stacks) >= MOST_STACKS:
                self.stacks.clear()
            self.stacks[key] = self.told
            self.told += 1
            self.tell(self.stacks[key], frames, leaf, instruction)
        return self.stacks[key]

    def tell(self, number, frames, leaf, instruction):
        """Write a new stack, innermost frame first, with the place of the innermost call in its source where Python
        knows it (3.11)."""
        places = enumerate(leaf.co_positions() if hasattr(leaf, "co_positions") else ())
        place = next((place for index, place in places if index == instruction // 2), None)
        self.lines.append({"stack": number, "frames": list(zip(frames[::2], frames[1::2])), "place": place})

    def cpu(self):
        """Seconds for which the main thread ran."""
        return time.clock_gettime(self.clock) if self.clock is not None else 0.0

    def delay(self):
        """Seconds for which the main thread could have run, but no core was free; 0 where the system does not tell."""
        fields = contents("/proc/self/task/%d/schedstat" % self.pid).split()
        return int(fields[1]) / 1e9 if len(fields) > 1 else 0.0

    def flush(self):
        """Write a window. The file is opened each time: a job may close every descriptor that it does not know."""
        now = time.time()
        if not self.greeted:
            self.greeted = True
            self.lines.insert(0, self.greeting())
        waited, self.crowded = self.waited(), time.monotonic() < self.calm_at
        for ident, counted in self.counts.items():
            name, cpu, delay = self.thread(ident, waited)
            if name is None:
                continue
            self.lines.append({
                "from": self.begun, "to": now, "main": ident == self.main, "thread": name, "cpu_s": cpu,
                "counts": [[number, *three] for number, three in counted.items()],
                "lag_s": self.lag_s / max(self.number, 1),
                "delay_s": delay,
                "order": self.order if ident == self.main and self.ranked else None,
            })  # fmt: skip
        if time.monotonic() - self.allocator_at >= ALLOCATOR_S:
            self.allocator_at = time.monotonic()
            self.lines += allocator(now)
        lines, self.lines = self.lines, []
        text = "".join(encoded(line) + "\n" for line in lines)
        number = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(number, text.encode("ascii"))
        finally:
            os.close(number)
        self.new_window()

    def greeting(self):
        def environment(name):
            value = os.environ.get(name, "")
            return int(value) if value.isdecimal() else None

        return {
            "pid": self.pid, "parent": os.getppid(), "time": time.time(),
            "command": [str(word)[:200] for word in (getattr(sys, "orig_argv", None) or getattr(sys, "argv", []))[:8]],
            "rank": environment("RANK"), "local_rank": environment("LOCAL_RANK"),
        }  # fmt: skip

    def waited(self):
        """Return whether the main thread did not run for most of the window, and so may wait for another one."""
        found = self.counts.get(self.main, {}).values()
        return 2 * sum(counted[1] for counted in found) < sum(counted[0] for counted in found)

    def thread(self, ident, waited):
        """(name, CPU seconds in the window, seconds without a free core); no name for one that never did much, unless
        the main thread ``waited``."""
        if ident == self.main:
            return "main", max(0.0, self.cpu() - self.window_cpu), max(0.0, self.delay() - self.window_delay)
        found = getattr(sys.modules.get("threading"), "_active", {}).get(ident)
        native = getattr(found, "native_id", None)
        if native is None:
            return None, None, None
        fields = status("/proc/self/task/%d/stat" % native).split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if len(fields) > 12 else 0.0
        used = cpu - self.others_cpu.get(ident, cpu)
        self.others_cpu[ident] = cpu
        if used >= BUSY_THREAD * (time.time() - self.begun):
            self.known_threads.add(ident)
            self.crowded, self.calm_at = True, time.monotonic() + CALM_S
        return (str(found.name)[:80] if waited or ident in self.known_threads else None), used, None

    def start(self):
        """Start the thread."""
        if self.broken:
            return
        self.woken, self.done = _thread.allocate_lock(), _thread.allocate_lock()
        self.woken.acquire()
        self.done.acquire()
        self.stopping = False
        start_thread(self.run)

    def stop(self):
        """End the thread and wait for that, but never long."""
        if not self.stopping:
            self.stopping = True
            self.woken.release()
            self.done.acquire(True, FORK_WAIT_S)

    def stop_before_fork(self):
        """As ``stop``; Python 3.12 counts the system's threads, and one that has ended is there a little longer."""
        self.stop()
        for _ in range(100 if sys.version_info >= (3, 12) and self.native else 0):
            if not os.path.exists("/proc/self/task/%d" % self.native):
                break
            time.sleep(0.0002)


def start(setting):
    """Sample this process from now on, and every process that it forks."""
    sampler = Sampler(setting)

    def guarded(step):
        def call():
            try:
                step()
            except Exception:
                pass

        return call

    def child():
        sampler.reset(FORKED)
        sampler.start()

    # A fork finds one thread less: Python warns of forks beside threads, and some programs make that an error.
    os.register_at_fork(
        before=guarded(sampler.stop_before_fork), after_in_parent=guarded(sampler.start), after_in_child=guarded(child)
    )
    atexit.register(guarded(sampler.stop))
    sampler.start()
