# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of keys and certificates: written whole or not at all, with owner and mode from the first byte on."""

from __future__ import annotations

import os
import time

from .._base.errors import HostError
from .._base.files import file_errors, write_whole
from .paths import Owner

KEY_MODE = 0o600
CERTIFICATE_MODE = 0o644


def write_file(path: str, content: bytes, owner: Owner, mode: int) -> None:
    """Put a file in place at once; missing folders are made. Raises HostError."""
    with file_errors(f"{path} cannot be written"):
        make_folder(os.path.dirname(path), owner)
        write_whole(path, content, mode, (owner.uid, owner.gid) if os.geteuid() == 0 else None)


def make_folder(path: str, owner: Owner) -> None:
    """Make a folder with those above it, where they are missing. One that is there stays as it is.

    Open to all, as virt-pki-validate wants even that of the keys, but in an account's home.
    """
    if not os.path.isdir(path):
        make_folder(os.path.dirname(path), owner)
        mode = 0o700 if owner.home and path.startswith(f"{owner.home}/") else 0o755
        os.mkdir(path, mode)
        os.chmod(path, mode)


def is_guarded(path: str, owner: Owner) -> bool:
    """Whether a key belongs to its owner, who alone may read it."""
    found = os.stat(path)
    return (found.st_uid, found.st_mode & 0o7777) == (owner.uid, KEY_MODE)


def guard(path: str, owner: Owner) -> None:
    """Give a good key to its owner, for him alone. Raises HostError."""
    with file_errors(f"{path} cannot be given to user {owner.name}"):
        os.chmod(path, KEY_MODE)
        os.chown(path, owner.uid, owner.gid)


def is_public(path: str) -> bool:
    """Whether everybody may read a file, as QEMU's account and other users have to, and no others than its owner change
    it. True where there is none."""
    if not os.path.exists(path):
        return True
    mode = os.stat(path).st_mode
    return mode & 0o444 == 0o444 and not mode & 0o022


def publish(path: str) -> None:
    """Let everybody read a file, and only its owner change it. Raises HostError."""
    with file_errors(f"{path} cannot be made readable for all"):
        os.chmod(path, CERTIFICATE_MODE)


def keep_backup(path: str) -> str | None:
    """Keep a file that is going to be replaced under another name, with its mode; where, or None without a file."""
    backup = f"{path}.{time.strftime('%Y%m%d-%H%M%S')}.old"
    try:
        os.link(path, backup)
    except FileNotFoundError:
        return None
    except FileExistsError:
        return backup
    except OSError as exc:
        raise HostError(f"{path} cannot be backed up as {backup}: {exc.strerror}") from exc
    return backup
