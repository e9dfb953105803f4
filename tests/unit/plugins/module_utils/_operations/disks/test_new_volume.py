# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking back a new volume deletes what this run has made, and nothing else; on libvirt's test driver."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._host.storage import shared_pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volumes import VolumeExistsError, create_empty
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import NETWORK, DiskSource
from ansible_collections.brine.virt.plugins.module_utils._operations.disks.new_volume import (
    VolumeOwner,
    free_name,
    volume_step,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Host

NAME = "web1-d.qcow2"
MIB = 1024 * 1024


class Work:
    """The step that makes a volume of 1 MiB for the machine web1."""

    def __init__(self, host: Host, **maker: t.Any) -> None:
        hypervisor = Hypervisor(host.conn, image_pool="images")
        self.handle = host.conn.storagePoolLookupByName("default")
        self.pool: Pool = hypervisor.pools.get("default")
        self.maker = VolumeOwner(hypervisor, "web1", **{"new": True, **maker})

    def step(self, make: t.Callable[[], None] | None = None) -> Step:
        return volume_step("make it", make or self.make, self.pool, VolumeNote("default", NAME, "disk"), self.maker)

    def make(self) -> None:
        create_empty(self.pool, NAME, size_bytes=MIB, image_format="qcow2")

    def is_there(self) -> bool:
        return NAME in self.handle.listVolumes()


def undo(step: Step) -> None:
    assert step.undo is not None
    step.undo()


def test_what_was_made_goes(host: Host) -> None:
    work = Work(host)
    step = work.step()
    step.apply()
    assert work.is_there()
    undo(step)
    assert not work.is_there()


def test_what_was_there_before_stays(host: Host) -> None:
    work = Work(host)
    work.make()
    step = work.step(lambda: pytest.fail("it was made all the same"))
    with pytest.raises(VolumeExistsError):
        step.apply()
    undo(step)
    assert work.is_there()


def test_what_somebody_makes_at_the_same_moment_stays(host: Host) -> None:
    """It was not there when it was looked for, and is when it is to be made."""
    work = Work(host)

    def make() -> None:
        work.make()
        work.make()

    step = work.step(make)
    with pytest.raises(VolumeExistsError):
        step.apply()
    undo(step)
    assert work.is_there()


def test_what_could_not_be_looked_for_stays(host: Host) -> None:
    """libvirt has lost sight of the pool, as it does when its daemon starts, and another hypervisor uses it too."""
    work = Work(host)
    host.conn.storagePoolDefineXML(work.handle.XMLDesc(0), 0)
    work.make()
    work.handle.destroy()
    step = work.step(lambda: pytest.fail("it was made all the same"))
    with pytest.raises(ConflictError, match="not active"):
        step.apply()
    work.handle.create(0)
    undo(step)
    assert work.is_there()


def test_half_of_it_goes_as_well(host: Host) -> None:
    work = Work(host)

    def make() -> None:
        work.make()
        raise HostError("the disk is full")

    step = work.step(make)
    with pytest.raises(HostError):
        step.apply()
    undo(step)
    assert not work.is_there()


def test_what_another_machine_has_begun_to_use_stays(host: Host) -> None:
    work = Work(host)
    step = work.step()
    step.apply()
    host.path = host.directory / "default" / NAME
    host.add_guest()
    with pytest.raises(ConflictError, match="guest"):
        undo(step)
    assert work.is_there()


def test_what_a_machine_that_has_left_may_have_taken_along_stays(host: Host) -> None:
    """In a pool that its new hypervisor shares."""
    uuid = host.add_guest(has=False).UUIDString()
    work = Work(host, new=False, uuid=uuid)
    step = work.step()
    step.apply()
    host.conn.lookupByUUIDString(uuid).undefine()
    with pytest.raises(
        ConflictError, match=rf"volume {NAME} of pool default is kept, as machine web1 may still use it"
    ) as caught:
        undo(step)
    assert f"virsh vol-delete {NAME} --pool default" in str(caught.value)
    assert work.is_there()


@pytest.mark.parametrize(
    ("kind", "network", "hint"),
    [
        (
            "dir",
            None,
            f"Use it as it is with source: {NAME}, or if nobody needs it: virsh vol-delete {NAME} --pool default",
        ),
        # It may be what a killed run of another hypervisor has left, which the next one there deletes.
        (
            "rbd",
            DiskSource(NETWORK, "vms/"),
            "A machine of another hypervisor may have it, as storage pool default is of type rbd. Choose another name, "
            f"or another pool. Only if nobody needs what is in it: virsh vol-delete {NAME} --pool default",
        ),
        # Or the disk of a machine that runs there.
        ("netfs", None, "A machine of another hypervisor may have it, as storage pool default is of type netfs. "),
        (
            "logical",
            None,
            "If it was left by an interrupted run, it may have what deleted volumes had; use it as it is",
        ),
    ],
)
def test_a_volume_of_nobody_may_be_used_where_no_other_hypervisor_has_it(
    host: Host, kind: str, network: DiskSource | None, hint: str
) -> None:
    work = Work(host)
    work.make()
    pool = replace(work.pool, type=kind, network=network)
    with pytest.raises(ConflictError, match=f"has a volume '{NAME}' already") as error:
        free_name(NAME, "web2", pool, work.maker.hypervisor, "disks[0]")
    assert (error.value.hint or "").startswith(hint)


def test_a_directory_on_a_share_may_be_that_of_others(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The volume may be the disk of a machine that runs on another hypervisor."""
    monkeypatch.setattr(shared_pools, "file_system_type", lambda *_what: "nfs4")
    work = Work(host)
    work.make()
    with pytest.raises(ConflictError, match=f"has a volume '{NAME}' already") as error:
        free_name(NAME, "web2", work.pool, work.maker.hypervisor, "disks[0]")
    assert error.value.hint == (
        "A machine of another hypervisor may have it, as storage pool default lies on a file system of type nfs4. "
        "Choose another name, or another pool. Only if nobody needs what is in it: "
        f"virsh vol-delete {NAME} --pool default"
    )


def test_of_a_volume_that_is_used_nobody_is_told_to_delete_it(host: Host) -> None:
    work = Work(host)
    work.make()
    path = work.handle.storageVolLookupByName(NAME).path()
    host.conn.createXML(
        "<domain type='test'><name>other</name><memory>9</memory><os><type>hvm</type></os><devices>"
        f"<disk type='file'><source file='{path}'/><target dev='vda'/></disk></devices></domain>"
    )
    with pytest.raises(ConflictError, match=f"has a volume '{NAME}' already") as error:
        free_name(NAME, "web2", work.pool, work.maker.hypervisor, "disks[0]")
    assert error.value.hint == (
        "It is used by machine other. Detach it there first, or give the disk another name here"
    )
