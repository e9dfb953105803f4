# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which backups stay as they are though the option ``keep`` does not ask for them, and why.

A machine may have been started from a file of a backup, or an overlay may be backed by one; and somebody may have put a
file of their own beside them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence

from ..._host.backup.directory import Backups, foreign_in
from ..._host.connection import VirConnect
from ..._host.storage.usage import Usage, why_kept
from ..._model.backup.manifest import Manifest
from ..._model.backup.merging import Merge


class KeptBackups:
    """What keeps the backups of one machine, as this hypervisor is at this moment.

    noted: where what stays is put, in words, by the reason.
    """

    def __init__(self, conn: VirConnect, backups: Backups, noted: dict[str, list[str]]) -> None:
        self._usage = Usage(conn)
        self._backups = backups
        self._own = [path for one in backups.by_id.values() for path in self._files_of(one)]
        self._noted = noted

    def going(self, backups: Iterable[Manifest]) -> list[Manifest]:
        """Those of the backups that can go. One that stays keeps all that it is built on.

        backups: what is built on others comes before them.
        """
        goes = []
        needed: dict[str | None, str] = {}
        for manifest in backups:
            why = self._why_used(manifest) or self._foreign_in(manifest)
            above = needed.get(manifest.id)
            if why is None and above is None:
                goes.append(manifest)
                continue
            needed[manifest.parent] = why or above or ""
            if why is not None and why != above:
                below = "" if manifest.parent is None else ", with all that it is built on,"
                self._note(f"{self._backups.path_of(manifest.id)}{below}", why)
        return goes

    def can_merge(self, merge: Merge) -> bool:
        """Whether a merge may be done, and anything can go after it."""
        by_id = self._backups.by_id
        # What is about to be made has no files yet.
        used = [name for name in merge.merged if name in by_id and not self.can_change(by_id[name])]
        return not used and bool(self.going(by_id[name] for name in merge.gone))

    def can_change(self, manifest: Manifest) -> bool:
        """Whether the files of a backup may be replaced: whatever has one of them open would go on with the old one."""
        why = self._why_used(manifest)
        if why is not None:
            self._note(f"{self._backups.path_of(manifest.id)}, which was to be merged,", why)
        return why is None

    def unfinished(self) -> list[str]:
        """The names of the directories that a killed run has left, and that nothing is seen to use."""
        goes = []
        for name in self._backups.unfinished:
            path = self._backups.path_of(name)
            files: Sequence[str] = ()
            # It may go at any time for who does not hold the lock.
            with contextlib.suppress(OSError):
                files = [f"{path}/{file}" for file in os.listdir(path)]
            why = why_kept(self._usage.of_files(files), fresh=True)
            if why is None:
                goes.append(name)
            else:
                self._note(path, why)
        return goes

    def _files_of(self, manifest: Manifest) -> list[str]:
        return [f"{self._backups.path_of(manifest.id)}/{file}" for file in manifest.files]

    def _why_used(self, manifest: Manifest) -> str | None:
        # What is built on what, the backups say themselves.
        return why_kept(self._usage.of_files(self._files_of(manifest), besides=self._own))

    def _foreign_in(self, manifest: Manifest) -> str | None:
        # What cannot be read now is told when it is to be removed.
        with contextlib.suppress(OSError):
            return foreign_in(self._backups.path_of(manifest.id), manifest.files)
        return None

    def _note(self, words: str, why: str) -> None:
        known = self._noted.setdefault(why, [])
        if words not in known:
            known.append(words)
