"""Commands that only run another one: ``env``, ``sudo``, ``time``, ``timeout 3h`` and their like."""

from __future__ import annotations

from gpulint import regex
from gpulint.documents.shell.expand import ArgWord
from gpulint.records import dataclass

_ASSIGNMENT = regex.compile(r"([A-Za-z_]\w*)=")
# Options with a value, and how many plain words stand before the command that is run.
_WRAPPERS: dict[str, tuple[frozenset[str], int]] = {
    "env": (frozenset({"-u", "--unset", "-C", "--chdir", "-S"}), 0),
    "sudo": (frozenset({"-u", "--user", "-g", "--group", "-h", "-p", "-C"}), 0),
    "time": (frozenset({"-f", "--format", "-o", "--output"}), 0),
    "nohup": (frozenset(), 0),
    "exec": (frozenset({"-a"}), 0),
    "command": (frozenset(), 0),
    "builtin": (frozenset(), 0),
    "timeout": (frozenset({"-s", "--signal", "-k", "--kill-after"}), 1),
    "nice": (frozenset({"-n", "--adjustment"}), 0),
    "ionice": (frozenset({"-c", "--class", "-n", "--classdata"}), 0),
    "stdbuf": (frozenset({"-i", "-o", "-e", "--input", "--output", "--error"}), 0),
    "setsid": (frozenset(), 0),
    "unbuffer": (frozenset(), 0),
    "taskset": (frozenset({"-c", "--cpu-list"}), 0),
    "numactl": (frozenset({"-N", "-m", "-C", "-i", "-p"}), 0),
    "chroot": (frozenset(), 1),
    "xvfb-run": (frozenset({"-e", "-f", "-n", "-p", "-s", "-w", "--server-args", "--server-num"}), 0),
    "catchsegv": (frozenset(), 0),
    "caffeinate": (frozenset(), 0),
    "eval": (frozenset(), 0),
    "tini": (frozenset(), 0),
    "dumb-init": (frozenset(), 0),
}
# Options with which a command returns while what it runs goes on; clusters of letters hold others as well.
_DETACHES = {
    "ssh": regex.compile(r"-[46ACGTXYfgnqtvxy]{0,20}f[46ACGTXYfgnqtvxy]{0,20}"),
    "screen": regex.compile(r"-[A-Za-z]{0,20}d[A-Za-z]{0,20}"),
    "tmux": regex.compile(r"-[A-Za-z]{0,20}d[A-Za-z]{0,20}"),
    "setsid": regex.compile(r"-f|--fork"),
    "docker": regex.compile(r"-[itP]{0,20}d[itP]{0,20}|--detach(=true)?"),
    "podman": regex.compile(r"-[itP]{0,20}d[itP]{0,20}|--detach(=true)?"),
    "nerdctl": regex.compile(r"-[itP]{0,20}d[itP]{0,20}|--detach(=true)?"),
}


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """What runs in the end, the wrappers on the way to it, and the variables that ``env`` sets."""

    argv: tuple[ArgWord, ...]
    wrappers: tuple[str, ...]
    env: tuple[tuple[str, ArgWord], ...]


def unwrap(argv: tuple[ArgWord, ...]) -> Unwrapped:
    """Strip wrappers; a wrapper that runs nothing (``command -v x``, ``exec 3>&1``) stays as it is."""
    wrappers, env = list[str](), list[tuple[str, ArgWord]]()
    while argv:
        name = (argv[0].value or "").rpartition("/")[2]
        if name not in _WRAPPERS or (name == "command" and len(argv) > 1 and argv[1].text in ("-v", "-V")):
            break
        valued, positionals = _WRAPPERS[name]
        at = 1
        while at < len(argv):
            text = argv[at].text
            if text == "--":
                at += 1
                break
            if text.startswith("-") and len(text) > 1:
                at += 2 if text in valued else 1
            elif name in ("env", "sudo") and (match := _ASSIGNMENT.match(text)):
                env.append((match[1], argv[at].after(match.end())))
                at += 1
            else:
                break
        at += positionals
        if at >= len(argv):
            break
        wrappers.append(name)
        argv = argv[at:]
    return Unwrapped(argv, tuple(wrappers), tuple(env))


def detaches(argv: tuple[ArgWord, ...]) -> bool:
    """Return whether a command returns at once while what it runs goes on: ``docker run -d``, ``ssh -f``."""
    for at, word in enumerate(argv):
        name = (word.value or "").rpartition("/")[2]
        if name in _DETACHES:
            return any(_DETACHES[name].fullmatch(option.text) for option in argv[at + 1 :])
        if name not in _WRAPPERS and not word.text.startswith("-"):
            return False
    return False
