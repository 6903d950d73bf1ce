"""What the kernel refuses a script: to change files outside of one folder, and to connect (Linux 5.13, Landlock).

Python's functions are answered by `guards`; this is for libraries that write by themselves, and for commands that a
script starts. Source: Documentation/userspace-api/landlock.rst of the kernel.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on all architectures
_NO_NEW_PRIVILEGES = 38
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))  # remove and make entries of all kinds
_CONNECT = 1 << 1
# Devices (shared memory, /dev/null) and what a process says about itself.
_ALWAYS = ("/dev", "/proc")


def confine(folder: str) -> bool:
    """Let this process and its children change files in ``folder`` alone, and open no TCP connections (Linux 6.7).

    Returns whether the kernel can refuse writes.
    """
    if not sys.platform.startswith("linux"):
        return False
    kernel = ctypes.CDLL(None, use_errno=True)
    version = kernel.syscall(_CREATE, None, 0, 1)
    if version < 1:
        return False
    handled = _CHANGES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    rules = struct.pack("QQ", handled, _CONNECT) if version >= 4 else struct.pack("Q", handled)
    ruleset = kernel.syscall(_CREATE, rules, len(rules), 0)
    if ruleset < 0:
        return False
    try:
        for path in (folder, *_ALWAYS):
            if Path(path).is_dir():
                opened = os.open(path, os.O_PATH)
                kernel.syscall(_ADD, ruleset, 1, struct.pack("=Qi", handled, opened), 0)
                os.close(opened)
        kernel.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(kernel.syscall(_RESTRICT, ruleset, 0) == 0)
    finally:
        os.close(ruleset)
