# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is damaged is noted in the backup itself, so that the next run knows it, and no longer when it was found whole.

Whoever reads backups back may do so without the lock: a note is written and removed at once, and goes with the backup.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone

from ..._base.errors import ConflictError, HostError, VirtError
from ..._base.files import file_errors, sync_folder, write_whole
from ..._model.backup.damage import DAMAGED, Damage
from ..._model.backup.manifest import Manifest
from .directory import Backups, load_manifest


class DamagedError(HostError):
    """A file of a backup is missing, is lost to the system, or is not what it was when the backup was made."""


def changed_meanwhile(backups: Backups) -> ConflictError:
    """What is said where they are no longer what they were when they were listed."""
    return ConflictError(f"the backups in {backups.path} have changed meanwhile", hint="Run it again")


def note_damage(backups: Backups, manifest: Manifest, exc: DamagedError) -> VirtError:
    """Have it be known from now on, also after a loss of power. The error to be raised, which says if that failed.

    Nothing is noted in a backup that another run has changed since it was listed: its files are right for what it is
    now, and another error says so.
    """
    home = backups.path_of(manifest.id)
    try:
        if load_manifest(backups.path, manifest.id, backups.owner) != manifest:
            return changed_meanwhile(backups)
    except VirtError:
        # It was removed meanwhile, or nobody takes it for a backup any more.
        return exc
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    # Without paths, as in the manifest: the directory may be moved, and other hosts have it elsewhere.
    damage = Damage(exc.what.replace(f"{home}/", ""), now)
    backups.damaged[manifest.id] = damage.words
    try:
        write_whole(f"{home}/{DAMAGED}", damage.to_text().encode(), 0o600)
    except FileNotFoundError:
        # It was removed meanwhile.
        return exc
    except OSError as failed:
        return DamagedError(
            f"{exc.what}, which cannot be noted beside it: {failed.strerror}",
            hint="Make a full backup (kind: full, -e full=true in the playbook)",
        )
    return exc


def forget_damage(backups: Backups, manifest: Manifest) -> None:
    """All of it was found whole. Raises HostError where the note of before cannot be removed."""
    if manifest.id not in backups.damaged:
        return
    home = backups.path_of(manifest.id)
    with file_errors(f"cannot remove {home}/{DAMAGED}"):
        if os.path.lexists(f"{home}/{DAMAGED}"):
            os.unlink(f"{home}/{DAMAGED}")
            sync_folder(home)
    del backups.damaged[manifest.id]
