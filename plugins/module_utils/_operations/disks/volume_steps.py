# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The step that makes a volume for a machine, and how it is rolled back."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.machines.redefine import is_defined
from ansible_collections.brine.virt.plugins.module_utils._host.storage import volumes
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.usage import delete_unused
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step


@dataclass(frozen=True)
class VolumeOwner:
    """The machine that a volume is made for.

    new: it is made with the machine, and goes with it when that fails. uuid: of a machine that is there already.
    """

    hypervisor: Hypervisor
    machine: str
    new: bool
    uuid: str | None = None

    def delete(self, pool: Pool, volume: str) -> None:
        """Delete a volume that this run has made, unless somebody has taken it into use meanwhile.

        A machine that has left may have taken it along, in a pool that its new hypervisor shares.
        """
        if self.uuid is not None and not is_defined(self.hypervisor.conn, self.uuid):
            raise ConflictError(
                f"volume {volume} of pool {pool.name} is kept, as machine {self.machine} may still use it elsewhere",
                hint=f"If it does not: virsh vol-delete {volume} --pool {pool.name}",
            )
        clearing = self.machine if self.new else None
        delete_unused(self.hypervisor.conn, [(pool, volume)], owner=self.machine, clearing=clearing, fresh=True)


def volume_step(what: str, make: t.Callable[[], None], pool: Pool, volume: str, maker: VolumeOwner) -> Step:
    """The step that makes a volume; undoing it deletes it, unless it turned out to be somebody else's."""
    theirs: list[VirtError] = []

    def apply() -> None:
        try:
            # Whatever fails before the volume is made, what is there then is somebody else's.
            volumes.require_not_there(pool, volume)
            make()
        except volumes.VolumeExistsError as exc:
            theirs.append(exc)
            raise

    def undo() -> None:
        if not theirs:
            maker.delete(pool, volume)

    return Step(what, apply, undo)
