# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that goes, or makes place for other content: when it may, and the steps."""

from __future__ import annotations

import typing as t

from ..._base.errors import ConflictError, UnsupportedError
from ..._host.connection import host_name
from ..._host.images.clustered import users_in_cluster
from ..._host.storage.ceph import has_bindings
from ..._host.storage.pools import Pool
from ..._host.storage.transfer.compare import stamp_of
from ..._host.storage.transfer.fill import require_no_sender, upload_of
from ..._host.storage.usage import delete_unused, require_unused
from ..._host.storage.volume_facts import Volume
from ..._model.spec.resources.volume import VolumeSpec
from ..hypervisor_view import HypervisorView
from ..plan import Step
from ..resources import ResourcePlan
from ..shared_volumes.volume import shared_volume
from .found import find
from .task import VolumePlan, VolumeTask, require_nobodys, shown, unasked

_OWNED = (
    "virt_purge removes it with {machine}; or take the disk out of {machine} first, with state: absent in its disks"
)
# Pools whose back-end has no deleteVol (libvirt's src/storage/): their volumes are LUNs of a server.
_OF_A_SERVER = ("iscsi", "iscsi-direct", "mpath", "scsi")


def plan_absent(spec: VolumeSpec, view: HypervisorView, task: VolumeTask) -> VolumePlan:
    """A volume that is not to be there. Raises ConflictError, with what to do, for one that has to stay."""
    where = spec.given.at("name")
    pool = view.pools.get(spec.pool, spec.given.at("pool"))
    found = find(view, pool, spec.name, where)
    if found is None:
        return VolumePlan(ResourcePlan(spec.name, None, None, where=where))
    before = shown(pool, found)
    refusal = check_deletion(view, pool, found, task, "deleted", where)
    plan = ResourcePlan(spec.name, before, before if refusal else None, where=where)
    if refusal is None:
        step = delete_step(pool, found, task, "deleted", where)
        plan = ResourcePlan(spec.name, before, None, (step,), where=where)
    loses = None if refusal else found.source.place
    return VolumePlan(plan, refusal, shared_volume(pool, spec.name), loses=loses)


def check_deletion(
    view: HypervisorView, pool: Pool, volume: Volume, task: VolumeTask, what: str, where: str
) -> ConflictError | None:
    """Raise ConflictError for a volume that has to stay. what: what is not done to it, in a word.

    An error is given back where only other hypervisors have yet to be asked.
    """
    require_nobodys(view, pool, volume.name, what, where, _OWNED)
    _require_deletable(pool, volume.name, what, where)
    upload = upload_of(pool, volume.name)
    if upload is not None:
        require_no_sender(pool, volume.name, upload, host_name(task.conn), where)
    use = view.usage.of(pool, volume.name)
    if use.elsewhere is not None and not use.users and not use.unknown:
        return unasked(pool, volume.name, what, use.elsewhere, where)
    require_unused(view.usage, [(pool, volume.name)])
    return None


def _require_deletable(pool: Pool, name: str, what: str, where: str) -> None:
    """Raise an error where the storage itself would refuse, which nobody sees before it is asked to delete."""
    words = f"volume {name} of pool {pool.name} is not {what}"
    if pool.type in _OF_A_SERVER:
        raise UnsupportedError(
            f"{words}: libvirt deletes none in a pool of type {pool.type}",
            where=where,
            hint=f"Remove the LUN on its server, then run virsh pool-refresh {pool.name}",
        )
    if pool.clones_images and has_bindings():
        users = users_in_cluster(pool, [name]).get(name, ())
        if users:
            raise ConflictError(
                f"{words}: it is used by {', '.join(users)}",
                where=where,
                hint="If nobody needs them: make clones independent (rbd flatten), and delete snapshots (rbd snap rm)",
            )


def delete_step(
    pool: Pool, volume: Volume, task: VolumeTask, what: str, where: str, *, first: t.Callable[[], t.Any] | None = None
) -> Step:
    """The step that deletes a volume, after a second look at all that may keep it. It cannot be taken back.

    first: what has to succeed before anything is deleted.
    """
    stamp = stamp_of(pool, volume)

    def apply() -> None:
        with task.alone():
            view = task.look()
            now = find(view, pool, volume.name, where)
            if now is None:
                return
            if stamp_of(pool, now) != stamp:
                raise ConflictError(
                    f"volume {volume.name} of pool {pool.name} is not {what}: it has changed since this run looked",
                    where=where,
                    hint="Run it again if it is to go as it is now",
                )
            refusal = check_deletion(view, pool, now, task, what, where)
            if refusal is not None:
                raise refusal
            if first is not None:
                first()
            delete_unused(task.conn, [(pool, volume.name)], elsewhere=task.elsewhere)

    return Step(f"delete volume {volume.name} of pool {pool.name}", apply)


def clear_step(pool: Pool, name: str, task: VolumeTask, is_still: t.Callable[[], bool], *, fresh: bool = True) -> Step:
    """The step that deletes what a killed run has left half made, if it is still that and nobody has taken it into use.

    is_still: whether it is still that. fresh: it is certain that it was made for nobody, so that only a use that is
    seen keeps it.
    """

    def apply() -> None:
        with task.alone():
            if is_still():
                delete_unused(task.conn, [(pool, name)], fresh=fresh, elsewhere=task.elsewhere)

    return Step(f"delete the unfinished volume {name} of pool {pool.name}", apply)
