# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that others use on the hypervisor: in a snapshot, a saved state, by another name of its file."""

from __future__ import annotations

import os
import re
import subprocess
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    MachineNotes,
    VolumeNote,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import NAMESPACE
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.metadata.notes_text import notes_to_xml
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import (
    IMAGE,
    SHARE,
    Disks,
    Host,
    one,
)


def test_what_only_a_snapshot_has(host: Host) -> None:
    guest = host.add_guest()
    guest.create()
    guest.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>", 0)
    guest.destroy()
    host.add_guest(has=False)
    assert host.refused(one("a", Disks.WRITE)) == (
        "machines[0].disks[0].source: volume x.qcow2 is used by snapshot before of machine guest. Machine guest may "
        "resume with that volume as long as that exists"
    )
    assert host.refused(one("a", Disks.OVERLAY)) == (
        "machines[0].disks[0].backing: snapshot before of machine guest may write to volume x.qcow2, which would "
        "break every overlay on it"
    )


def test_a_saved_state_that_cannot_be_read(host: Host) -> None:
    """libvirt's test driver saves machines, and cannot say what is in a saved state."""
    guest = host.add_guest()
    guest.create()
    guest.managedSave(0)
    host.add_guest(has=False)
    assert host.refused(one("a", Disks.WRITE)) == (
        "machines[0].disks[0].source: it cannot be determined whether something uses volume x.qcow2: the saved "
        "state of machine guest cannot be read. Resolve that first, or set readonly for the disk"
    )
    assert host.refused(one("a", Disks.OVERLAY)) == (
        "machines[0].disks[0].backing: the saved state of machine guest cannot be read, so that it cannot be "
        "determined whether something writes to volume x.qcow2, which would break every overlay on it"
    )
    host.plan(one("a", Disks.READONLY))
    host.plan(one("b", {"size": "1MiB"}))


def test_a_saved_state_that_can(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test driver does not know is what the machine was described as when it was saved, as QEMU's has it."""
    guest = host.add_guest()
    guest.create()
    was = guest.XMLDesc(0)
    guest.managedSave(0)
    host.add_guest(has=False)
    monkeypatch.setattr(type(guest), "managedSaveGetXMLDesc", lambda _self, _flags=0: was)
    assert host.refused(one("a", Disks.WRITE)) == (
        "machines[0].disks[0].source: volume x.qcow2 is used by the saved state of machine guest. Machine guest may "
        "resume with that volume as long as that exists"
    )
    assert host.refused(one("a", Disks.OVERLAY)).startswith(
        "machines[0].disks[0].backing: the saved state of machine guest may write to volume x.qcow2"
    )
    host.plan(one("a", Disks.READONLY))


@pytest.mark.parametrize("way", ["pool by a symbolic link", "hard link", "symbolic link", "nested pool"])
def test_other_names_of_a_file(host: Host, way: str) -> None:
    name, pool, home = "x.qcow2", "second", host.directory / "second"
    if way == "pool by a symbolic link":
        home.symlink_to(host.directory / "default")
    else:
        home = host.directory / "default" / "nest" if way == "nested pool" else home
        home.mkdir()
        name = "other.qcow2"
        if way == "symbolic link":
            (home / name).symlink_to(host.path)
        else:
            os.link(host.path, home / name)
    host.add_pool(pool, home)
    host.know(name, pool)
    source, backing = {"source": name, "pool": pool}, {"backing": {"volume": name, "pool": pool}}
    host.plan(one("a", source))
    host.add_guest()
    taken = f"machines[0].disks[0].source: volume {name} is a disk of machine guest. {SHARE}"
    assert host.refused(one("a", source)) == taken
    assert host.refused(one("a", {"source": str(home / name)})) == taken
    assert "backing: machine guest writes to volume" in host.refused(one("a", backing))
    host.add_guest(rest="<readonly/>")
    host.plan(one("a", backing))
    host.add_guest(has=False)
    host.add_volume("y.qcow2", "-b", str(host.path), "-F", "qcow2")
    assert f"volume {name} backs volume default/y.qcow2" in host.refused(one("a", source))


def test_a_chain_below_a_volume_that_somebody_writes_to_by_another_name(host: Host) -> None:
    (host.directory / "second").symlink_to(host.directory / "default")
    host.add_pool("second", host.directory / "second")
    host.know("x.qcow2", "second")
    host.add_volume("y.qcow2", "-b", str(host.directory / "second" / "x.qcow2"), "-F", "qcow2")
    host.plan(one("a", {"source": "y.qcow2"}))
    host.add_guest()
    message = host.refused(one("a", {"source": "y.qcow2"}))
    assert "is backed by volume x.qcow2 of pool" in message
    assert message.endswith("and machine guest writes to that")


def test_what_a_machine_is_backed_by_outside_all_pools(host: Host) -> None:
    top = host.directory / "top.qcow2"
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(host.path), "-F", "qcow2", str(top)], check=True
    )
    below, host.path = host.path, top
    host.add_guest()
    host.path = below
    words = "volume x.qcow2 backs a disk of machine guest, and must not be written to"
    for disk in (Disks.WRITE, Disks.SHAREABLE):
        assert words in host.refused(one("a", disk))
    host.plan(one("a", Disks.READONLY))
    host.plan(one("a", Disks.OVERLAY))


def test_what_libvirt_itself_says_that_a_running_machine_is_backed_by(host: Host) -> None:
    base = host.add_volume("base.qcow2")
    below = f"<backingStore type='file'><format type='qcow2'/><source file='{base}'/></backingStore>"
    host.add_guest(rest=below).create()
    for disk in ({"source": "base.qcow2"}, {"source": "base.qcow2", "shareable": True}):
        assert "volume base.qcow2 backs a disk of machine guest" in host.refused(one("a", disk))
    host.plan(one("a", {"backing": "base.qcow2"}))


def test_a_pool_that_is_not_active(host: Host) -> None:
    host.add_pool("asleep", active=False)
    assert "uses volume x.qcow2: storage pool asleep is not active" in host.refused(one("a", Disks.WRITE))
    # An overlay that nobody sees does nothing to another overlay, and a reader nothing to anybody.
    host.plan(one("a", Disks.OVERLAY))
    host.plan(one("a", Disks.READONLY))


def test_what_was_made_for_a_machine_it_takes_back_even_so(host: Host) -> None:
    host.make(one("a", {"size": "1MiB"}))
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", str(host.directory / "default" / "a-d.qcow2"), "1M"], check=True
    )
    host.add_pool("asleep", active=False)
    record = host.conn.lookupByName("a").XMLDesc(2)
    host.conn.defineXML(re.sub("<disk .*</disk>", "", record, flags=re.DOTALL))
    assert host.files("a") == []
    host.make(one("a", {"size": "1MiB"}))
    assert host.files("a") == ["a-d.qcow2"]


def test_a_volume_of_a_move_that_has_not_ended(host: Host) -> None:
    made = "<m:made pool='default' name='x.qcow2'/>"
    here = host.conn.getHostname()
    host.add_guest(
        has=False, notes=f"<m:move xmlns:m='{NAMESPACE}' source='elsewhere' target='{here}' uri='x'>{made}</m:move>"
    )
    assert host.refused(one("a", Disks.WRITE)) == (
        "machines[0].disks[0].source: volume x.qcow2 belongs to a move of machine guest that has not finished. Let it "
        "finish first, or start it again"
    )
    assert "writes to volume x.qcow2" in host.refused(one("a", Disks.OVERLAY))


def test_what_only_the_notes_of_a_machine_list_is_free(host: Host) -> None:
    """Taken out with virsh: no task could free it otherwise, and the machine does not take it back while it is used."""
    notes = MachineNotes(volumes=(VolumeNote("default", "x.qcow2", "disk", format="qcow2"),))
    host.add_guest(has=False, notes=notes_to_xml(notes))
    host.make(one("a", Disks.WRITE))


def test_a_floppy_is_written_to_unless_it_says_otherwise(host: Host) -> None:
    host.add_guest()
    assert "is a disk of machine guest" in host.refused(one("a", Disks.FLOPPY))
    host.plan(one("a", {**Disks.FLOPPY, "readonly": True}))
    host.plan(one("a", Disks.CDROM))


def test_an_image_of_the_store_is_not_written_to(host: Host) -> None:
    image: dict[str, t.Any] = {"pool": "images", "source": IMAGE}
    assert host.refused(one("a", image)) == (
        f"machines[0].disks[0].source: volume {IMAGE} is an image of the store, and must not be written to. Use it "
        "as image, or set readonly"
    )
    assert "is an image of the store" in host.refused(one("a", {**image, "shareable": True}))
    host.plan(one("a", {**image, "readonly": True}))
