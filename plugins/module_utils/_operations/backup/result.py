# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of the backup of one machine."""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass, field

from ..._base.errors import VirtError, outcome, visible
from ..._host.backup.directory import Backups
from ..._host.backup.verify import look_for_damage
from ..._model.backup.manifest import Manifest
from .plan import BackupPlan


@dataclass
class BackupResult:
    """What became of one machine. remarks: what the user should know though nothing has failed. to_verify: what would
    be read back, in check mode. kept: what stays though it was to go or to be changed, in words, by the reason."""

    name: str
    plan: BackupPlan | None = None
    made: Manifest | None = None
    backups: Backups | None = None
    verified: list[str] = field(default_factory=list)
    to_verify: list[str] | None = None
    merged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    kept: dict[str, list[str]] = field(default_factory=dict)
    error: VirtError | None = None
    seconds: float = 0.0

    def note_broken(self) -> None:
        """Remark what cannot be read or is damaged, once for each: who waits for a restore learns of it too late."""
        if self.backups is None:
            return
        look_for_damage(self.backups)
        found = {name: f"backup {name} cannot be restored: {why}" for name, why in self.backups.broken.items()}
        for name, what in self.backups.damaged.items():
            found[name] = f"backup {name} is damaged: {what}"
        for name, words in found.items():
            if not any(name in said for said in self.remarks):
                self.remarks.append(words)

    def as_result(self) -> dict[str, t.Any]:
        """In the words of the module's result."""
        more: dict[str, t.Any] = {
            "actions": self.actions,
            "merged": self.merged,
            "removed": self.removed,
            "verified": self.verified,
            "backups": [] if self.backups is None else _entries(self.backups),
            "broken": {} if self.backups is None else {name: str(why) for name, why in self.backups.broken.items()},
            "path": None if self.backups is None else self.backups.path,
            "remarks": [
                *self._unsaved(),
                *self.remarks,
                *(_kept_words(words, why) for why, words in self.kept.items()),
            ],
            "seconds": round(self.seconds, 1),
        }
        if self.to_verify is not None:
            more["to_verify"] = self.to_verify
        if self.plan is not None:
            parent = self.plan.parent
            more.update(
                id=self.made.id if self.made else None,
                kind=self.plan.kind,
                parent=parent.id if parent else None,
                reason=self.plan.reason,
                no_checkpoint=self.plan.no_checkpoint,
                left_out=self.plan.left_out,
                unsaved_disks=list(self.plan.unsaved),
                quiesced=self.made.quiesced if self.made else None,
                bytes=self.made.total_bytes if self.made else None,
            )
        return outcome(self.name, bool(self.actions), self.error, more)

    def _unsaved(self) -> list[str]:
        """A remark about each disk that is missed when it is to be restored: who reads no result learns of it now."""
        if self.plan is None or self.error is not None:
            return []
        return [f"disk {target} is not in the backup: {self.plan.left_out[target]}" for target in self.plan.unsaved]


def _kept_words(words: list[str], why: str) -> str:
    return f"{' and '.join(words)} {'is' if len(words) == 1 else 'are'} kept: {why}"


def _entries(backups: Backups) -> list[dict[str, t.Any]]:
    return [{**_entry(one), "damaged": visible(backups.damage_of(one.id))} for one in backups.newest_first()]


def _entry(manifest: Manifest) -> dict[str, t.Any]:
    return {
        "id": manifest.id,
        "kind": manifest.kind,
        "parent": manifest.parent,
        "made": manifest.made.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "uuid": manifest.uuid,
        "bytes": manifest.total_bytes,
        "quiesced": manifest.quiesced,
        "disks": [disk.target for disk in manifest.disks],
    }


@contextlib.contextmanager
def noted(result: BackupResult, what: str) -> t.Iterator[None]:
    """An error of ours in the block is only a remark. what: what it comes to for the user."""
    try:
        yield
    except VirtError as exc:
        result.remarks.append(f"{what}: {exc}")
