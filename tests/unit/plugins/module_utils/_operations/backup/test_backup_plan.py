# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Full or incremental, and why: on libvirt's test driver, which has checkpoints and snapshots."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.backup import checkpoints
from ansible_collections.brine.virt.plugins.module_utils._host.backup.directory import Backups, list_backups
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import KnownSnapshot, Snapshot
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import Manifest, checkpoint_name
from ansible_collections.brine.virt.plugins.module_utils._operations.backup import plan
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.disks import (
    find_disks,
    require_readable_disks,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.options import BackupOptions
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.backup.backup_host import (
    UUID,
    BackupHost,
)

pytestmark = pytest.mark.medium

SERIES = "0123456789abcdef"


def tracked(machine: BackupHost) -> Manifest:
    """A backup of which libvirt has the checkpoint."""
    made = machine.made().made
    assert made is not None
    name = checkpoint_name(SERIES, made.id)
    disks = "<disks><disk name='vda' checkpoint='bitmap'/></disks>"
    handle = machine.conn.lookupByName("web1")
    handle.create()
    handle.checkpointCreateXML(f"<domaincheckpoint><name>{name}</name>{disks}</domaincheckpoint>", 0)
    return replace(made, checkpoint=name, series=SERIES)


def choose(machine: BackupHost, *known: Manifest, changed: int | None = 0, **options: t.Any) -> tuple[str | None, str]:
    domain = list_domains(machine.conn)["web1"]
    disks, _left_out = find_disks(domain, Pools(machine.conn))
    backups = list_backups(str(machine.destination), "web1")
    backups = Backups(backups.path, {one.id: one for one in known})
    chosen = replace(machine.options, **options)
    whole = plan.sizes_since

    def sizes(handle: t.Any, name: str) -> dict[str, int | None] | None:
        found = whole(handle, name)
        # The test driver has the disks of a checkpoint, and no sizes.
        return None if found is None else dict.fromkeys(found, changed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "sizes_since", sizes)
        parent, reason, _changed = plan._choose_parent(domain, UUID, disks, backups, chosen)
    return (parent.id if parent else None), reason


def test_what_libvirt_remembers_makes_it_incremental(machine: BackupHost) -> None:
    made = tracked(machine)
    assert choose(machine, made) == (made.id, "")


def test_why_it_is_full(machine: BackupHost) -> None:
    made = tracked(machine)
    assert choose(machine) == (None, "there is no earlier one")
    assert choose(machine, made, full=True)[1] == "it was requested"
    assert "of another machine of this name" in choose(machine, replace(made, uuid=UUID[::-1]))[1]
    assert "has lost the checkpoint" in choose(machine, replace(made, checkpoint="brine-backup-gone"))[1]
    assert "does not know what has changed on disk vda" in choose(machine, made, changed=None)[1]
    assert "is number 1 of those" in choose(machine, made, full_every=1)[1]
    (disk,) = made.disks
    assert "vda has another size" in choose(machine, replace(made, disks=(replace(disk, size_bytes=1),)))[1]
    assert "vda is on another volume" in choose(machine, replace(made, disks=(replace(disk, volume="b.qcow2"),)))[1]
    assert disk.source_file is not None
    moved = replace(disk, source_file=replace(disk.source_file, inode=disk.source_file.inode + 1))
    words = f"the file of disk vda is not the same as when {made.id} was made"
    assert choose(machine, replace(made, disks=(moved,))) == (None, words)
    other = replace(disk, target="vdb")
    assert "disk vdb was removed" in choose(machine, replace(made, disks=(disk, other)))[1]
    assert "disk vda was added" in choose(machine, replace(made, disks=(other,)))[1]


def test_what_earlier_versions_did_not_look_at_keeps_nothing_from_being_incremental(machine: BackupHost) -> None:
    made = tracked(machine)
    (disk,) = made.disks
    earlier = replace(made, disks=(replace(disk, source_file=None),))
    assert choose(machine, earlier) == (made.id, "")


def test_what_the_guest_writes_leaves_its_disk_the_same_file(machine: BackupHost) -> None:
    made = tracked(machine)
    machine.write(1 << 20, 7)
    machine.conn.lookupByName("web1").destroy()
    machine.conn.lookupByName("web1").create()
    assert choose(machine, made) == (made.id, "")


def test_why_nothing_was_remembered(machine: BackupHost) -> None:
    """In the words of who knows that the machine was off, or had a snapshot, and has never seen a checkpoint."""
    made = replace(tracked(machine), checkpoint="")
    off = f"the machine was off when {made.id} was made, so nothing was noting what it changes from then on"
    assert choose(machine, replace(made, running=False)) == (None, off)
    had = f"the machine had a snapshot when {made.id} was made, and libvirt does not remember what going back to one"
    assert choose(machine, replace(made, running=True)) == (None, f"{had} changes")
    (disk,) = made.disks
    raw = f"disk vda was raw when {made.id} was made, and libvirt remembers changes in qcow2 images only"
    assert choose(machine, replace(made, running=True, disks=(replace(disk, format="raw"),))) == (None, raw)


def test_the_snapshot_that_has_moved_a_disk_to_another_file_is_named(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine writes to the snapshot's file, which is no volume that the backup has seen."""
    made = tracked(machine)
    (disk,) = made.disks
    earlier = replace(made, disks=(replace(disk, volume="web1-system.before"),))

    def snapshot(name: str, kind: str, path: str) -> KnownSnapshot:
        return KnownSnapshot(None, Snapshot(name, 1, "running", kind, False, None, "", True, (("vda", path),)), False)

    there = [snapshot("inside", "internal", str(machine.image)), snapshot("update", "external", "/elsewhere")]
    monkeypatch.setattr(plan, "list_snapshots", lambda _handle: there)
    assert choose(machine, earlier) == (None, f"disk vda is on another volume than in {made.id}")
    there.append(snapshot("later", "external", str(machine.image)))
    words = f"the file of disk vda has changed since {made.id}, by the snapshot later"
    assert choose(machine, earlier) == (None, words)


def test_a_chain_grows_no_longer_than_qemu_can_read(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever full_every says: of 1100 nothing could be restored any more."""
    made = tracked(machine)
    assert choose(machine, made, full_every=10000) == (made.id, "")
    monkeypatch.setattr(plan, "_DEEPEST", 1)
    assert "is number 1 of those that are built on each other, and QEMU" in choose(machine, made, full_every=10000)[1]


def test_it_is_full_when_a_file_of_the_chain_is_gone(machine: BackupHost) -> None:
    made = tracked(machine)
    (machine.destination / "web1" / made.id / "vda.qcow2").unlink()
    parent, reason = choose(machine, made)
    assert parent is None
    assert f"nothing can be built on {made.id}" in reason


def test_an_older_one_that_can_be_built_on_is_taken(machine: BackupHost) -> None:
    made = tracked(machine)
    later = replace(made, id="20991231T000000Z-full", checkpoint="")
    assert choose(machine, made, later) == (made.id, "")


def test_no_checkpoint_with_snapshots(machine: BackupHost) -> None:
    def why() -> str:
        domain = list_domains(machine.conn)["web1"]
        return plan._why_no_checkpoint(domain, find_disks(domain, Pools(machine.conn))[0])

    assert why() == ""
    machine.conn.lookupByName("web1").snapshotCreateXML("<domainsnapshot><name>s1</name></domainsnapshot>", 0)
    assert "has the snapshot s1" in why()


def test_no_checkpoint_with_raw_disks(machine: BackupHost) -> None:
    made = tracked(machine)
    machine.define(image_format="raw")
    domain = list_domains(machine.conn)["web1"]
    why = plan._why_no_checkpoint(domain, find_disks(domain, Pools(machine.conn))[0])
    assert why == "disk vda is raw, and libvirt remembers changes in qcow2 images only"
    assert "disk vda is raw" in choose(machine, made)[1]


def test_only_checkpoints_of_the_series_are_ours(machine: BackupHost) -> None:
    made = tracked(machine)
    handle = machine.conn.lookupByName("web1")
    handle.checkpointCreateXML("<domaincheckpoint><name>theirs</name></domaincheckpoint>", 0)
    assert checkpoints.own_checkpoints(handle, SERIES) == [made.checkpoint]
    assert checkpoints.own_checkpoints(handle, "f" * 16) == []
    checkpoints.remove_checkpoint(handle, "gone")
    assert checkpoints.sizes_since(handle, "gone") is None
    assert checkpoints.snapshots(handle) == []


def test_what_cannot_be_backed_up_is_refused(machine: BackupHost) -> None:
    machine.define(rest="<encryption format='luks'/>")
    with pytest.raises(UnsupportedError, match="disk vda of machine web1 is encrypted"):
        plan.plan_backup(machine.conn, "web1", machine.options)
    part = "<slices><slice type='storage' offset='512' size='1024'/></slices>"
    more = machine.disk("vdb", "/part.raw", "raw").replace("'/part.raw'/>", f"'/part.raw'>{part}</source>")
    assert part in more
    machine.define(more)
    with pytest.raises(UnsupportedError, match="disk vdb of machine web1 is only a part of its file"):
        plan.plan_backup(machine.conn, "web1", machine.options)
    machine.define(image_format="vmdk")
    with pytest.raises(UnsupportedError, match="vda of machine web1 is of format vmdk, and is not .*one of raw, qcow2"):
        plan.plan_backup(machine.conn, "web1", machine.options)
    network = "<disk type='network' device='disk'><source protocol='rbd' name='p/v'><host name='m'/></source>"
    machine.define(f"{network}<target dev='vdb' bus='virtio'/></disk>")
    with pytest.raises(UnsupportedError, match="vdb of machine web1 is on a network, and is backed up only while"):
        plan.plan_backup(machine.conn, "web1", machine.options)
    require_readable_disks([], "web1")
    machine.conn.defineXML(
        "<domain type='test'><name>bare</name><memory>65536</memory><os><type>hvm</type></os></domain>"
    )
    with pytest.raises(ConflictError, match="machine bare has no disk"):
        plan.plan_backup(machine.conn, "bare", BackupOptions(str(machine.destination)))
