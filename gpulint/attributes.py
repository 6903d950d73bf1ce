"""What a file has besides its content, given to the file that replaces it."""

from __future__ import annotations

import os
import stat

_OF_THE_CONTENT = frozenset({"security.ima", "security.evm"})
"""Signatures of the content; the system makes new ones."""
_NEEDED = ("user.", "security.", "system.")
"""Attributes of other kinds say where and how a file system stores the file."""


class CannotKeep(Exception):
    """The new file cannot be what the old one is; the message names the attribute."""


def keep(old: int, new: int) -> None:
    """Give the open file ``new`` the owner, group, mode, extended attributes, ACLs and security label of ``old``.

    Raises:
        CannotKeep: one of them cannot be set.
    """
    info, made = os.fstat(old), os.fstat(new)
    if (info.st_uid, info.st_gid) != (made.st_uid, made.st_gid):
        try:
            os.fchown(new, info.st_uid, info.st_gid)
        except OSError:
            raise CannotKeep("owner and group") from None
    os.fchmod(new, stat.S_IMODE(info.st_mode))
    if hasattr(os, "listxattr"):
        _keep_extended(old, new)
    if stat.S_IMODE(os.fstat(new).st_mode) != stat.S_IMODE(info.st_mode):
        raise CannotKeep("mode")


def _keep_extended(old: int, new: int) -> None:
    """The same for extended attributes, among which Linux keeps ACLs and security labels."""
    wanted, present = _extended(old), _extended(new)
    for name in present.keys() | wanted.keys():
        value = wanted.get(name)
        if value == present.get(name) or name in _OF_THE_CONTENT:
            continue
        try:
            if value is None:  # of an ACL that new files of the folder get
                os.removexattr(new, name)
            else:
                os.setxattr(new, name, value)
        except OSError:
            if name.startswith(_NEEDED):
                raise CannotKeep(f"extended attribute {name}") from None


def _extended(descriptor: int) -> dict[str, bytes]:
    try:
        names = os.listxattr(descriptor)
    except OSError:
        return {}  # the file system has none
    found = {}
    for name in names:
        try:
            found[name] = os.getxattr(descriptor, name)
        except OSError:
            if name.startswith(_NEEDED):
                raise CannotKeep(f"extended attribute {name}") from None
    return found
