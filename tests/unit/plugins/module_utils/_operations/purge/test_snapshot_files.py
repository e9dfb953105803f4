# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of external snapshots: the memory that is the machine's own goes with it, and every other file is named."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._operations import ownership
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.snapshot_files import is_memory_of
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import (
    MAKE,
    PurgeHost,
    decided,
    disk,
)

MEMORY = "web1.now.memory"
OWN = "delete: it belongs to this machine"
SNAPSHOT = """<domainsnapshot><name>now</name><description>{mark}</description><state>running</state>
<creationTime>1</creationTime><memory snapshot='external' file='{memory}'/><disks>
<disk name='vda' snapshot='external' type='file'><driver type='qcow2'/><source file='{vda}'/></disk></disks>
{domain}</domainsnapshot>"""
OTHER_UUID = "11111111-1111-1111-1111-111111111111"


def saved(uuid: str, magic: bytes = b"LibvirtQemudSave") -> bytes:
    """A file as libvirt saves the memory of a machine in it."""
    text = f"<domain type='kvm'><name>web1</name><uuid>{uuid}</uuid></domain>".encode() + b"\0"
    return struct.pack("=16s19I", magic, 2, len(text), 1, *[0] * 16) + text + b"memory" * 100


@pytest.fixture
def made(host: PurgeHost) -> PurgeHost:
    """The machine, which has its own system disk."""
    host.make()
    return host


def take(host: PurgeHost, memory: Path, *, own: bool = True, content: bytes | None = None, vda: str = "") -> None:
    """A snapshot with memory, as libvirt leaves it."""
    domain = host.conn.lookupByName("web1")
    memory.write_bytes(saved(domain.UUIDString()) if content is None else content)
    if memory.parent == host.pool:
        MAKE(host.handle, f"<volume><name>{memory.name}</name><capacity>1</capacity></volume>")
    text = SNAPSHOT.format(
        mark="brine.virt:1" if own else "by hand",
        memory=memory,
        vda=vda or host.pool / "web1-system.qcow2",
        domain=domain.XMLDesc(0),
    )
    flags = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_CURRENT
    domain.snapshotCreateXML(text, flags)


def test_what_a_killed_run_could_not_note_goes(made: PurgeHost) -> None:
    take(made, made.pool / MEMORY)
    assert decided(made.one())[MEMORY] == OWN
    assert (made.names(), made.files()) == (set(), {})


def test_what_is_noted_goes_where_files_cannot_be_marked(made: PurgeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "_has_attributes", lambda _path: False)
    take(made, made.pool / MEMORY)
    note = VolumeNote("default", MEMORY, "disk", format="raw", identity="0" * 32)
    made.write(dataclasses.replace(made.notes(), volumes=(*made.notes().volumes, note)))
    assert decided(made.one())[MEMORY] == OWN
    assert MEMORY not in made.files()


@pytest.mark.parametrize(
    ("own", "content"), [(False, None), (True, saved(OTHER_UUID)), (True, b"somebody's"), (True, b"x" * 1000)]
)
def test_any_other_stays_and_is_named(made: PurgeHost, content: bytes | None, *, own: bool) -> None:
    take(made, made.pool / MEMORY, own=own, content=content)
    assert decided(made.one())[MEMORY] == (
        "keep: snapshot now of the machine has its memory in it. If nobody needs it: "
        f"virsh vol-delete {MEMORY} --pool default"
    )
    assert set(made.files()) == {MEMORY}


def test_one_that_another_machine_has_stays(made: PurgeHost) -> None:
    take(made, made.pool / MEMORY)
    made.guest("other", disk(made.pool / MEMORY, image_format="raw"))
    assert decided(made.one())[MEMORY] == "keep: it is used by machine other"


def test_one_in_no_pool_stays_and_is_named(made: PurgeHost) -> None:
    memory = made.outside / "web1 now.memory"
    take(made, memory)
    assert decided(made.one())[str(memory)].startswith("keep: snapshot now of the machine has its memory in it. ")
    assert set(made.files()) == {"web1 now.memory"}


def test_one_that_is_gone_is_not_named(made: PurgeHost) -> None:
    take(made, made.outside / MEMORY)
    (made.outside / MEMORY).unlink()
    assert set(decided(made.one())) == {"web1-system.qcow2"}


def test_the_disk_of_a_snapshot_by_hand_is_named(made: PurgeHost) -> None:
    overlay = made.image(made.outside / "by-hand.qcow2")
    take(made, made.pool / MEMORY, vda=str(overlay))
    reason = decided(made.one())[str(overlay)]
    assert reason == f"keep: snapshot now of the machine has it as a disk. If nobody needs it: rm {overlay}"


def on_its_file(made: PurgeHost, *, own: bool) -> None:
    """The machine is on the file of a snapshot, which a killed run could not note."""
    overlay = made.image(made.pool / "web1-vda.now.qcow2", below=made.pool / "web1-system.qcow2")
    take(made, made.pool / MEMORY, own=own, vda=str(overlay))
    made.detach("web1", "web1-system.qcow2")
    made.attach("web1", disk(overlay))


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize("listed", [True, False])
def test_a_machine_on_a_file_that_a_killed_run_could_not_note(
    made: PurgeHost, *, check_mode: bool, listed: bool
) -> None:
    """Removed, it would leave all of its disks behind, and nobody would know whose they are. libvirt creates such a
    file past its pools, and lists it when it may look again, which another job in the pool forbids."""
    on_its_file(made, own=True)
    if not listed:
        overlay = made.pool / "web1-vda.now.qcow2"
        content = overlay.read_bytes()
        made.handle.storageVolLookupByName(overlay.name).delete()
        overlay.write_bytes(content)
    before = made.files()
    assert made.purge(check_mode=check_mode)["machines"][0]["msg"] == (
        "default/web1-vda.now.qcow2, a file of snapshot now of web1, is not noted as its own yet, so all of its disks "
        "would stay behind: a run is taking that snapshot, or was interrupted. Wait for that run. If there is none: "
        "virt_snapshot with state: present and name: now, which notes it"
    )
    assert (made.names(), made.files()) == ({"web1"}, before)


@pytest.mark.parametrize(("own", "options"), [(True, {"keep_disks": True}), (False, {})])
def test_a_file_that_stays_as_asked_for_or_as_somebody_else_has_made_it(
    made: PurgeHost, options: dict[str, bool], *, own: bool
) -> None:
    on_its_file(made, own=own)
    assert decided(made.one(**options))["web1-vda.now.qcow2"].startswith("keep: ")


def test_a_file_that_is_gone_is_waited_for_by_nobody(made: PurgeHost) -> None:
    """virt_snapshot would not note it."""
    on_its_file(made, own=True)
    made.handle.storageVolLookupByName("web1-vda.now.qcow2").delete()
    made.purge()
    assert made.names() == set()


def test_a_file_that_the_task_names_goes(made: PurgeHost) -> None:
    on_its_file(made, own=True)
    assert decided(made.one(disks=["vda"]))["web1-vda.now.qcow2"] == "delete: disks names it"


def test_with_keep_disks_the_memory_stays(made: PurgeHost) -> None:
    take(made, made.pool / MEMORY)
    assert decided(made.one(keep_disks=True))[MEMORY] == "keep: keep_disks is set"


def test_of_a_machine_of_others_it_stays(host: PurgeHost) -> None:
    host.image(host.pool / "web1-system.qcow2")
    host.guest("web1", disk(host.pool / "web1-system.qcow2"))
    take(host, host.pool / MEMORY)
    assert decided(host.one(adopt=True))[MEMORY].startswith("keep: snapshot now")


@pytest.mark.parametrize(
    "content",
    [
        *(b"", saved(OTHER_UUID)[:100], saved(OTHER_UUID, b"LibvirtQemudPart")),
        struct.pack("=16s19I", b"LibvirtQemudSave", 2, 2**32 - 1, 1, *[0] * 16),
        saved(OTHER_UUID).replace(b"</domain>", b"</d\xff>"),
    ],
)
def test_no_memory_of_the_machine(tmp_path: Path, content: bytes) -> None:
    for name in ("file", "link"):
        file = tmp_path / name
        if name == "file":
            file.write_bytes(content)
        else:
            (tmp_path / "good").write_bytes(saved(OTHER_UUID))
            file.symlink_to(tmp_path / "good")
        assert not is_memory_of(str(file), OTHER_UUID)
    assert is_memory_of(str(tmp_path / "good"), OTHER_UUID)
    assert not is_memory_of(str(tmp_path), OTHER_UUID)
