# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines and disks restored on libvirt's test driver, from backups of real images."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
import shutil
import subprocess
import threading
import typing as t
import uuid
from pathlib import Path

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    InputError,
    NotFoundError,
    UnsupportedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._base.xml import attribute
from ansible_collections.brine.virt.plugins.module_utils._host.backup import images, state_files
from ansible_collections.brine.virt.plugins.module_utils._host.backup.directory import list_backups, remove
from ansible_collections.brine.virt.plugins.module_utils._host.backup.merge import merge_backup
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.machines import redefine
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains, write_notes
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressFile, ProgressMeter
from ansible_collections.brine.virt.plugins.module_utils._host.storage import shared_pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.disk_lock import first_open
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import READY, VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._operations import plan as plans
from ansible_collections.brine.virt.plugins.module_utils._operations.create.claims import Claim, make_claims
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.restore import machine as restore_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.restore import plan as restore_plan
from ansible_collections.brine.virt.plugins.module_utils._operations.restore import volumes
from ansible_collections.brine.virt.plugins.module_utils._operations.restore.machine import (
    RestoreResult,
    preview,
    restore,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.restore.options import (
    RestoreOptions,
    read_restore_options,
)
from ansible_collections.brine.virt.plugins.modules.virt_restore import ARGUMENTS
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.backup.backup_files import (
    FIRST,
    FULL,
    SECOND,
    add_backup,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.backup.backup_host import (
    MACHINE,
    UUID,
    BackupHost,
)

pytestmark = pytest.mark.medium

OTHER_UUID = "4a5e8c3e-6ad5-4c39-9d3b-9f1c8f3d1c55"
LAST = "20261123T020000Z-incremental"


def read(host: BackupHost | None = None, **params: t.Any) -> RestoreOptions:
    source = str(host.destination) if host else "/srv/backup"
    given = {"src": source, "machine": "web1", "lock_timeout": 0, **params}
    validated = ArgumentSpecValidator(ARGUMENTS).validate(given)
    assert not validated.error_messages
    return read_restore_options(validated.validated_parameters)


def bring_back(host: BackupHost, **params: t.Any) -> RestoreResult:
    return restore(host.conn, read(host, **params), threading.Event(), ProgressFile(None))


def backup_image(machine: BackupHost) -> Path:
    backups = list_backups(str(machine.destination), "web1")
    return Path(backups.path_of(backups.newest_first()[0].id)) / "vda.qcow2"


def lose(machine: BackupHost) -> None:
    machine.conn.lookupByName("web1").undefine()
    machine.conn.storagePoolLookupByName("default").storageVolLookupByName(machine.image.name).delete()
    machine.image.unlink()


def volume(result: RestoreResult) -> str:
    return str(result.as_result(read())["volumes"][0]["path"])


def test_a_lost_machine_comes_back_as_it_was(machine: BackupHost) -> None:
    lose(machine)
    result = bring_back(machine)
    domain = list_domains(machine.conn)["web1"]
    assert domain.notes is not None
    assert (domain.handle.UUIDString(), domain.notes.status, domain.notes.tags) == (UUID, READY, ("front",))
    (note,) = domain.notes.volumes
    assert (note.name, note.making, bool(note.identity)) == ("web1-system.qcow2", None, True)
    assert volume(result) == str(machine.image)
    assert images.same_content(str(backup_image(machine)), str(machine.image), "qcow2", threading.Event())


def test_another_name_gets_an_identity_and_volumes_of_its_own(machine: BackupHost) -> None:
    shown = preview(machine.conn, read(machine, name="web2"))
    assert "web2" not in list_domains(machine.conn)
    result = bring_back(machine, name="web2")
    assert result.actions[:-1] == shown.actions
    domain = list_domains(machine.conn)["web2"]
    assert domain.handle.UUIDString() not in (UUID, "")
    assert machine.host.files("web2") == ["web2-system.qcow2"]
    assert machine.host.files("web1") == ["web1-system.qcow2"]


def claim(machine: BackupHost, name: str, identity: str) -> None:
    claims = make_claims(machine.conn, [Claim(name, 64, 1, identity)], list_domains(machine.conn))
    assert claims == {name: identity}


def test_two_volumes_of_one_name_come_into_one_pool(machine: BackupHost) -> None:
    """They were in two."""
    other = machine.host.directory / "same" / machine.image.name
    other.parent.mkdir(exist_ok=True)
    shutil.copy(machine.image, other)
    machine.define(machine.disk("vdb", str(other)))
    made = machine.made().made
    assert made is not None
    path = backup_image(machine).with_name("manifest.json")
    text = re.sub('"pool": "[a-z]*"', '"pool": "fast"', path.read_text(encoding="utf-8"))
    path.write_text(re.sub('"volume": ".*"', f'"volume": "{machine.image.name}"', text), encoding="utf-8")
    lose(machine)
    shown = preview(machine.conn, read(machine, pool="default"))
    names = [machine.image.name, f"web1-vdb-{made.id.partition('-')[0]}.qcow2"]
    assert [one.volume for one in shown.plan.volumes] == names
    bring_back(machine, pool="default")
    assert machine.host.files("web1") == names


def test_a_claim_becomes_the_machine(machine: BackupHost) -> None:
    """Also that of a run which was killed since."""
    lose(machine)
    claim(machine, "web1", UUID)
    claim(machine, "web2", OTHER_UUID)
    assert preview(machine.conn, read(machine)).as_result(read(machine))["uuid"] == UUID
    for name, identity in (("web1", UUID), ("web2", OTHER_UUID)):
        result = bring_back(machine, name=None if name == "web1" else name)
        assert "remove" not in " ".join(result.actions)
        domain = list_domains(machine.conn)[name]
        assert domain.notes is not None
        assert (domain.handle.UUIDString(), domain.notes.status, domain.notes.claimed) == (identity, READY, False)
        assert machine.host.files(name) == [f"{name}-system.qcow2"]


def test_the_claim_of_another_machine_stays(machine: BackupHost) -> None:
    lose(machine)
    claim(machine, "web1", OTHER_UUID)
    with pytest.raises(ConflictError, match="web1 is only claimed here"):
        bring_back(machine)
    assert list_domains(machine.conn)["web1"].handle.UUIDString() == OTHER_UUID


@pytest.mark.parametrize("claimed", [True, False])
def test_what_another_run_has_made_under_the_name_meanwhile_stays(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch, claimed: bool
) -> None:
    """Between the plan and its first step it may have the lock. Of one claim, two runs may have taken the name."""
    if claimed:
        claim(machine, "web2", OTHER_UUID)
    other = MACHINE.format(name="web2", uuid=OTHER_UUID, devices=machine.disk("vda", "/other"), notes="")

    taken: list[str] = []

    def lock(what: str, **_settings: t.Any) -> t.ContextManager[None]:
        if taken:
            machine.conn.defineXML(other)
        taken.append(what)
        return contextlib.nullcontext()

    monkeypatch.setattr(restore_machine, "hypervisor_lock", lock)
    with pytest.raises(ConflictError) as caught:
        bring_back(machine, name="web2")
    assert caught.value.what == f"another run has created a machine web2 here meanwhile: its UUID is {OTHER_UUID}"
    assert machine.host.files("web2") == ["other"]
    assert "web2-system.qcow2" not in machine.conn.storagePoolLookupByName("default").listVolumes()


def test_another_name_has_not_the_address_of_the_machine(machine: BackupHost) -> None:
    domain = list_domains(machine.conn)["web1"]
    assert domain.notes is not None
    write_notes(domain.handle, dataclasses.replace(domain.notes, variables={"ansible_host": "192.0.2.10", "a": 1}))
    machine.made()
    result = bring_back(machine, name="web2")
    notes = list_domains(machine.conn)["web2"].notes
    assert notes is not None and notes.variables == {"a": 1}
    assert result.remarks == ["variable ansible_host is gone, as 192.0.2.10 is web1's"]


def test_what_it_needs_of_a_hypervisor(machine: BackupHost) -> None:
    needs = preview(machine.conn, read(machine, name="web2")).as_result(read(machine, name="web2"))["needs"]
    (disk,) = needs.pop("disks")
    assert needs == {
        **{"memory_max_mib": 64, "vcpus_max": 1, "arch": "i686", "domain_type": "test", "machine_type": None},
        **{"labels": [], "anti_affinity": [], "nics": []},
    }
    size = disk["size_bytes"]
    assert 0 < disk.pop("allocation_bytes") < size
    path = str(machine.image.with_name("web2-system.qcow2"))
    assert disk == {"target": "vda", "source": path, "pool": "default", "size_bytes": size}
    one = preview(machine.conn, read(machine, disk="vda")).as_result(read(machine))["needs"]
    assert (one["memory_max_mib"], one["vcpus_max"], len(one["disks"])) == (0, 0, 1)


def test_whether_the_backup_is_seen_is_said_where_it_cannot_be_restored(machine: BackupHost) -> None:
    seen = list_backups(str(machine.destination), "web1").newest_first()[0].id
    for params, words, result in (
        ({}, "there is a machine web1 already", {"backup": seen, "uuid": UUID}),
        ({"name": "web2", "pool": "none"}, "there is no storage pool 'none'", {"backup": seen, "uuid": None}),
        ({"disk": "vda", "pool": "none"}, "there is no storage pool 'none'", {"backup": seen, "uuid": None}),
        ({"machine": "web9"}, "there is no backup of machine web9", {"backup": None}),
        ({"name": "web2", "backup": LAST}, f"there is no backup {LAST} in ", {"backup": None}),
    ):
        with pytest.raises(VirtError, match=words) as caught:
            preview(machine.conn, read(machine, **params))
        assert caught.value.result == result
    (Path(machine.destination) / "web1" / seen / "manifest.json").write_text("{}")
    with pytest.raises(InputError) as damaged:
        preview(machine.conn, read(machine, name="web2"))
    assert damaged.value.result == {}, "it may be the newest one, and is not known"


def test_a_pool_that_is_not_here_is_named_with_what_to_do(machine: BackupHost) -> None:
    path = backup_image(machine).with_name("manifest.json")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"pool": "default"', '"pool": "fast"'), encoding="utf-8")
    words = "vda cannot go into the pool that it was in: there is no storage pool 'fast'. Name another one with pool"
    with pytest.raises(NotFoundError, match=words):
        preview(machine.conn, read(machine, name="web2"))
    assert preview(machine.conn, read(machine, name="web2", pool="default")).plan.volumes


def test_one_disk_becomes_a_volume(machine: BackupHost) -> None:
    result = bring_back(machine, disk="system", volume="friday")
    assert os.path.basename(volume(result)) == "friday.qcow2"
    assert result.as_result(read())["name"] is None
    with pytest.raises(ConflictError, match="has a volume 'friday.qcow2' already"):
        bring_back(machine, disk="vda", volume="friday")
    with pytest.raises(NotFoundError, match="disk: backup .* has no disk vdx. It has vda"):
        bring_back(machine, disk="vdx")


def test_a_lost_machine_is_defined_on_its_own_disks_again(machine: BackupHost) -> None:
    """They have newer data than the backup. It is ours as before."""
    before = list_domains(machine.conn)["web1"].notes
    machine.conn.lookupByName("web1").undefine()
    machine.write(0, 9)
    definition = backup_image(machine).with_name("domain.xml")
    with pytest.raises(ConflictError) as caught:
        preview(machine.conn, read(machine))
    assert "has a volume 'web1-system.qcow2' already" in caught.value.what
    assert f"and define it on its own disks again: virsh define {definition}. Only if nobody" in str(caught.value)
    # That would define it under its old name.
    manifest = definition.with_name("manifest.json")
    text = manifest.read_text(encoding="utf-8").replace('"web1-system.qcow2"', '"web2-system.qcow2"')
    manifest.write_text(text, encoding="utf-8")
    machine.image.with_name("web2-system.qcow2").touch()
    with pytest.raises(ConflictError, match="has a volume 'web2-system.qcow2' already") as renamed:
        preview(machine.conn, read(machine, name="web2"))
    assert "the machine's own disk" in str(renamed.value) and "virsh define" not in str(renamed.value)
    # As virsh does it, and as the guide has it.
    machine.conn.defineXML(definition.read_text(encoding="utf-8"))
    domain = list_domains(machine.conn)["web1"]
    assert (domain.handle.UUIDString(), domain.notes) == (UUID, before)
    assert [attribute(disk, "source", "file") for disk in domain.xml.iterfind("devices/disk")] == [str(machine.image)]
    domain.handle.create()
    domain.handle.destroy()
    assert machine.made().made is not None


def test_its_seed_comes_back_alone(machine: BackupHost) -> None:
    """That was on the hypervisor that is lost, where the disks were not. It is where the definition has it."""
    seed = machine.image.with_name("web1-seed.iso")
    seed.write_bytes(b"x" * 376832)
    machine.host.know(seed.name)
    handle = machine.define(machine.disk("sda", str(seed), "raw", device="cdrom", rest="<readonly/>"))
    notes = list_domains(machine.conn)["web1"].notes
    assert notes is not None
    write_notes(handle, dataclasses.replace(notes, volumes=(*notes.volumes, VolumeNote("default", seed.name, "seed"))))
    machine.made()
    handle.undefine()
    machine.conn.storagePoolLookupByName("default").storageVolLookupByName(seed.name).delete()
    seed.unlink()
    result = bring_back(machine, disk="sda", volume=seed.name)
    assert (volume(result), seed.read_bytes()) == (str(seed), b"x" * 376832)
    assert str(seed) in backup_image(machine).with_name("domain.xml").read_text(encoding="utf-8")


def test_nothing_goes_over_a_machine_that_is_there(machine: BackupHost) -> None:
    with pytest.raises(ConflictError, match="there is a machine web1 already"):
        bring_back(machine)
    handle = machine.conn.lookupByName("web1")
    handle.create()
    with pytest.raises(ConflictError, match="web1 is running, so it is not replaced"):
        bring_back(machine, replace=True)
    handle.destroy()
    machine.conn.lookupByName("web1").snapshotCreateXML("<domainsnapshot><name>s1</name></domainsnapshot>", 0)
    with pytest.raises(ConflictError, match="has snapshots"):
        bring_back(machine, replace=True)


@pytest.mark.parametrize("named_by", ["path", "pool and volume"])
@pytest.mark.parametrize("shared", [False, True])
def test_nor_over_one_whose_qemu_goes_on_though_libvirt_says_that_it_is_off(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch, named_by: str, shared: bool
) -> None:
    """It would write on to volumes that nothing shows any more."""
    monkeypatch.setattr(restore_plan, "first_open", functools.partial(first_open, wait_seconds=0))
    monkeypatch.setattr(restore_plan, "shared_because", lambda _pool: "it is NFS" if shared else None)
    path = list_domains(machine.conn)["web1"].xml.find("devices/disk/source").get("file")
    if named_by != "path":
        text = machine.conn.lookupByName("web1").XMLDesc(0)
        source = f"pool='default' volume='{machine.image.name}'"
        machine.conn.defineXML(text.replace("disk type='file'", "disk type='volume'").replace(f"file='{path}'", source))
    said = "here .* or on another hypervisor" if shared else rf"that libvirt does not know of \(fuser {path} shows"
    with subprocess.Popen(["qemu-io", "-f", "qcow2", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"length\n")
        process.stdin.flush()
        assert process.stdout.readline()
        with pytest.raises(ConflictError, match=f"web1 is off as far as libvirt knows, but .*{said}"):
            bring_back(machine, replace=True)
        process.stdin.close()
    assert volume(bring_back(machine, replace=True)) != path


def test_a_machine_of_the_same_name_is_not_the_same(machine: BackupHost) -> None:
    machine.conn.lookupByName("web1").undefine()
    machine.conn.defineXML(
        "<domain type='test'><name>web1</name><memory>65536</memory><os><type>hvm</type></os></domain>"
    )
    with pytest.raises(ConflictError, match="is not the one of the backup"):
        bring_back(machine, replace=True)


def test_the_identity_is_not_given_twice(machine: BackupHost) -> None:
    machine.conn.lookupByName("web1").undefine()
    xml = f"<domain type='test'><name>renamed</name><uuid>{UUID}</uuid><memory>65536</memory><os><type>hvm</type></os>"
    machine.conn.defineXML(f"{xml}</domain>")
    with pytest.raises(ConflictError, match="machine renamed has the UUID of web1"):
        bring_back(machine)


def test_a_damaged_backup_is_not_restored(machine: BackupHost) -> None:
    image = backup_image(machine)
    content = bytearray(image.read_bytes())
    content[-1] ^= 1
    image.write_bytes(content)
    lose(machine)
    with pytest.raises(HostError, match="has another content"):
        bring_back(machine)
    assert "web1" not in list_domains(machine.conn)
    assert not machine.image.exists()


def test_what_a_restore_finds_damaged_is_remembered_until_all_of_it_is_whole(machine: BackupHost) -> None:
    image = backup_image(machine)
    before = image.read_bytes()
    image.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))

    def known() -> bool:
        return bool(list_backups(str(machine.destination), "web1").damaged)

    with pytest.raises(HostError, match="has another content than when the backup was made$"):
        bring_back(machine, disk="vda")
    assert known()
    add_backup(machine.destination, FULL, 1, uuid=UUID)
    with pytest.raises(
        HostError, match=f"To restore the newest of the others: backup: {FULL}, -e backup={FULL} in the "
    ):
        bring_back(machine, disk="vda", backup=image.parent.name)
    image.write_bytes(before)
    # It does not read all of it.
    bring_back(machine, disk="vda")
    assert known()
    lose(machine)
    bring_back(machine)
    assert not known()


def test_what_is_merged_while_it_waits_is_not_damaged(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    destination = str(machine.destination)
    shutil.rmtree(machine.destination / "web1")
    add_backup(machine.destination, FULL, 1, uuid=UUID)
    add_backup(machine.destination, FIRST, 2, uuid=UUID)

    @contextlib.contextmanager
    def waits(*_words: t.Any) -> t.Iterator[None]:
        merge_backup(list_backups(destination, "web1"), FIRST, None, threading.Event())
        yield

    monkeypatch.setattr(restore_machine, "locked_to_read", waits)
    with pytest.raises(ConflictError, match="have changed meanwhile. Run it again"):
        bring_back(machine, disk="vda", volume="v", backup=FIRST)
    assert not list_backups(destination, "web1").damaged


def test_what_fails_half_way_is_taken_back(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    lose(machine)
    monkeypatch.setattr(volumes.images, "same_content", lambda *_arguments: False)
    with pytest.raises(HostError, match="differs from backup"):
        bring_back(machine)
    assert "web1" not in list_domains(machine.conn)
    names = machine.conn.storagePoolLookupByName("default").listVolumes()
    assert "web1-system.qcow2" not in names


def of_somebody_else(machine: BackupHost) -> None:
    """The same machine, with a nic and as somebody else has made it, has a backup."""
    nic = "<interface type='network'><mac address='52:54:00:00:00:01'/><source network='default'/></interface>"
    devices = machine.disk("vda", str(machine.image)) + nic
    machine.conn.networkDefineXML("<network><name>default</name></network>").create()
    machine.conn.lookupByName("web1").undefine()
    machine.conn.defineXML(MACHINE.format(name="web1", uuid=UUID, devices=devices, notes=""))
    machine.made()


@pytest.mark.parametrize("name", ["web1", "web2"])
def test_what_somebody_else_has_made_is_ours_with_names_for_its_devices(machine: BackupHost, name: str) -> None:
    """As after an adoption: without them nobody could export, clone or change a disk of it, and adopt it no more."""
    of_somebody_else(machine)
    if name == "web1":
        lose(machine)
    bring_back(machine, name=name, trust_definition=True)
    domain = list_domains(machine.conn)[name]
    assert domain.notes is not None
    assert [(note.name, note.target) for note in domain.notes.disks] == [("vda", "vda")]
    mac = attribute(domain.xml, "devices/interface/mac", "address")
    assert [(note.name, note.mac) for note in domain.notes.nics] == [("eth0", mac)]
    assert (mac == "52:54:00:00:00:01") == (name == "web1")


def test_what_somebody_else_has_made_stays_so_where_it_is_not_replaced(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_somebody_else(machine)
    monkeypatch.setattr(volumes.images, "same_content", lambda *_arguments: False)
    with pytest.raises(HostError, match="differs from backup"):
        bring_back(machine, replace=True, trust_definition=True)
    assert list_domains(machine.conn)["web1"].notes is None


def test_what_is_said_of_a_definition_cannot_draw_on_the_terminal(machine: BackupHost) -> None:
    """XML can have the control characters that C1 is."""
    lose(machine)
    shown = preview(machine.conn, read(machine))
    shown.remarks = ["filter \x9b2Jx of a nic has no IP any more"]
    assert shown.as_result(read(machine))["remarks"] == ["filter  2Jx of a nic has no IP any more"]


def test_the_newest_is_not_silently_another_one(machine: BackupHost) -> None:
    first = list_backups(str(machine.destination), "web1").newest_first()[0].id
    machine.made()
    second = list_backups(str(machine.destination), "web1").newest_first()[0].id
    (machine.destination / "web1" / second / "manifest.json").unlink()
    with pytest.raises(VirtError, match=f"To restore the one before it: backup: {first}"):
        bring_back(machine, name="web2")
    with pytest.raises(NotFoundError, match="^there is no backup of machine db1"):
        bring_back(machine, machine="db1")


def test_the_newest_of_two_machines_of_one_name_is_not_taken_for_either(machine: BackupHost) -> None:
    """Such as on a share of two inventories. One that was created anew comes after the old one."""
    own = list_backups(str(machine.destination), "web1").newest_first()[0].id
    add_backup(machine.destination, FULL, 1, uuid=OTHER_UUID)
    assert preview(machine.conn, read(machine, disk="vda")).plan.manifest.id == own
    add_backup(machine.destination, "20991231T000000Z-full", 1, uuid=OTHER_UUID)
    for params in ({"name": "web2"}, {"disk": "vda"}):
        with pytest.raises(ConflictError, match=f"backup: two machines of this name .*{UUID} is {own}"):
            preview(machine.conn, read(machine, **params))
    assert preview(machine.conn, read(machine, disk="vda", backup=own)).plan.manifest.uuid == UUID


def test_a_definition_of_another_machine_is_refused(machine: BackupHost) -> None:
    path = backup_image(machine).with_name("domain.xml")
    path.write_text("<domain><name>web1</name><uuid>other</uuid></domain>", encoding="utf-8")
    with pytest.raises(InputError, match="is not the definition of machine web1"):
        bring_back(machine, name="web2")
    path.write_text("<!DOCTYPE x []><domain/>", encoding="utf-8")
    with pytest.raises(InputError, match="is not the definition of a machine"):
        bring_back(machine, name="web2")


def test_what_stands_behind_a_comment_in_a_definition_is_seen(machine: BackupHost) -> None:
    """libvirt has the text without the comment: the guest would read the file."""
    path = backup_image(machine).with_name("domain.xml")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("</os>", "<kernel><!-- -->/etc/shadow</kernel></os>"), encoding="utf-8")
    with pytest.raises(InputError, match="names /etc/shadow in <kernel>"):
        bring_back(machine, name="web2")
    # Nor does one cut a name in two.
    path.write_text(text.replace("<name>web1<", "<name>web1<!-- -->-2<"), encoding="utf-8")
    with pytest.raises(InputError, match="is not the definition of machine web1"):
        bring_back(machine)
    assert sorted(list_domains(machine.conn)) == ["web1"]


def test_a_definition_that_gets_a_device_of_the_hypervisor_has_to_be_trusted(machine: BackupHost) -> None:
    path = backup_image(machine).with_name("domain.xml")
    tpm = "<tpm model='tpm-tis'><backend type='passthrough'/></tpm></devices>"
    path.write_text(path.read_text(encoding="utf-8").replace("</devices>", tpm), encoding="utf-8")
    for restoring in (bring_back, lambda host, **params: preview(host.conn, read(host, **params))):
        with pytest.raises(InputError, match="has type=passthrough in <backend> of <tpm>, which may lead to"):
            restoring(machine, name="web2")
    assert sorted(list_domains(machine.conn)) == ["web1"]
    assert preview(machine.conn, read(machine, name="web2", trust_definition=True)).as_result(read())["volumes"]


def test_what_a_newer_libvirt_has_put_into_the_definition_is_refused_before_anything_is_copied(
    machine: BackupHost,
) -> None:
    """The test driver's libvirt may be older than 9.1: that watchdog goes; and what else it does not know is told."""
    path = backup_image(machine).with_name("domain.xml")
    text = path.read_text(encoding="utf-8")
    for own, action in ((), "reset"), (("i6300esb",), "pause"):
        watchdogs = "".join(f"<watchdog model='{model}' action='{action}'/>" for model in (*own, "itco"))
        path.write_text(text.replace("</devices>", f"{watchdogs}</devices>"), encoding="utf-8")
        restored = preview(machine.conn, read(machine, name="web2")).plan.restored
        assert restored is not None
        assert [dog.get("model") for dog in restored.root.iterfind("devices/watchdog")] == list(own)
    path.write_text(text.replace("</devices>", "<watchdog model='next'/></devices>"), encoding="utf-8")
    for restoring in (bring_back, lambda host, **params: preview(host.conn, read(host, **params))):
        with pytest.raises(InputError, match=r"domain.xml: the machine does not match libvirt's schema") as caught:
            restoring(machine, name="web2")
        assert caught.value.hint == (
            "Restore it on a hypervisor with the libvirt that it is from, or its disks one by one (disk)"
        )
    assert sorted(list_domains(machine.conn)) == ["web1"]


def test_a_machine_type_of_a_newer_qemu_is_refused_before_anything_is_copied(machine: BackupHost) -> None:
    path = backup_image(machine).with_name("domain.xml")
    text = path.read_text(encoding="utf-8")
    arch = Hypervisor(machine.conn, image_pool="images").guests.arch
    path.write_text(re.sub("<type [^>]*>", f"<type arch='{arch}' machine='pc-q35-99.0'>", text), encoding="utf-8")
    for restoring in (bring_back, lambda host, **params: preview(host.conn, read(host, **params))):
        with pytest.raises(UnsupportedError) as caught:
            restoring(machine, name="web2")
        assert caught.value.where == str(path)
        assert caught.value.what == "the machine type pc-q35-99.0 is not known on this hypervisor"
        assert caught.value.hint == "Another version of QEMU is needed; this one has none of this kind"
    assert sorted(list_domains(machine.conn)) == ["web1"]


def test_a_name_in_a_manifest_leads_out_of_no_pool(machine: BackupHost) -> None:
    path = backup_image(machine).with_name("manifest.json")
    text = path.read_text(encoding="utf-8")
    assert text.count('"system"') == 1
    path.write_text(text.replace('"system"', '"/../../victim"'), encoding="utf-8")
    assert [
        one["volume"] for one in preview(machine.conn, read(machine, name="web2")).as_result(read())["volumes"]
    ] == ["web2-vda.qcow2"]
    (replaced,) = preview(machine.conn, read(machine, replace=True)).as_result(read())["volumes"]
    assert "/" not in replaced["volume"]


@pytest.mark.parametrize(
    ("names", "volume_name"),
    [
        ({"volume": "debian-13-0123456789abcdef.qcow2"}, "web1-system.qcow2"),
        ({"volume": "debian-13-0123456789abcdef.raw"}, "web1-system.qcow2"),
        ({"volume": "", "name": "0123456789abcdef"}, "web1-vda.qcow2"),
    ],
)
def test_a_name_in_a_manifest_is_not_that_of_an_image(
    machine: BackupHost, names: dict[str, str], volume_name: str
) -> None:
    """Other machines would be made from it: the store takes what has such a name for an image with that content."""
    path = backup_image(machine).with_name("manifest.json")
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["disks"][0].update(names)
    path.write_text(json.dumps(manifest), encoding="utf-8")
    lose(machine)
    assert [one.volume for one in preview(machine.conn, read(machine)).plan.volumes] == [volume_name]


def test_nor_is_that_of_a_volume_beside_the_machine(machine: BackupHost) -> None:
    image = "debian-13-0123456789abcdef.qcow2"
    with pytest.raises(InputError, match=f"volume: {image} is the name of a stored image"):
        preview(machine.conn, read(machine, disk="vda", volume=image))


def test_a_merged_backup_is_restored_with_what_is_built_on_it(machine: BackupHost) -> None:
    """Each of the chain, before what is merged away has gone and afterwards."""
    lose(machine)
    place = machine.destination
    shutil.rmtree(place / "web1")
    for number, name in enumerate((FULL, FIRST, SECOND, LAST)):
        add_backup(place, name, number + 1, uuid=UUID, targets=("vda", "vdb"))
    before = {name: whole(place / "web1" / name / "vdb.qcow2") for name in (SECOND, LAST)}
    for gone in ((), (FIRST, FULL)):
        if not gone:
            merge_backup(list_backups(str(place), "web1"), SECOND, None, threading.Event())
        for name in gone:
            remove(str(place / "web1"), name)
        for name in (SECOND, LAST):
            found = bring_back(machine, backup=name, disk="vdb", volume=f"v{len(gone)}-{name}").as_result(read())
            assert whole(Path(found["volumes"][0]["path"])) == before[name]


def whole(image: Path) -> bytes:
    """All that a guest would read."""
    raw = image.with_name("raw-of-a-test")
    subprocess.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", str(image), str(raw)], check=True)
    try:
        return raw.read_bytes()
    finally:
        raw.unlink()


def test_a_network_without_the_port_group_would_leave_the_guest_without_its_vlan(machine: BackupHost) -> None:
    lose(machine)
    path = backup_image(machine).with_name("domain.xml")
    nic = "<interface type='network'><source network='lan' portgroup='dmz'/></interface></devices>"
    path.write_text(path.read_text(encoding="utf-8").replace("</devices>", nic), encoding="utf-8")
    network = "<network><name>lan</name><forward mode='bridge'/><bridge name='br0'/>{}</network>"
    machine.conn.networkDefineXML(network.format("<portgroup name='dzm'/>")).create()
    with pytest.raises(NotFoundError, match="network lan has no port group 'dmz'"):
        bring_back(machine)
    assert not machine.image.exists()


def test_the_state_of_a_tpm_that_is_there_stays(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_files, "_SWTPM", str(machine.destination.parent / "swtpm"))
    state = Path(state_files._SWTPM) / UUID / "tpm2" / "tpm2-00.permall"
    state.parent.mkdir(parents=True)
    state.write_bytes(b"old")
    machine.define("<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>")
    machine.made()
    lose(machine)
    state.write_bytes(b"newer than the backup")
    for restoring in (bring_back, lambda host: preview(host.conn, read(host))):
        with pytest.raises(ConflictError, match="holds the state of a TPM already"):
            restoring(machine)
    assert state.read_bytes() == b"newer than the backup"
    assert "web1" not in list_domains(machine.conn)
    assert not machine.image.exists(), "no disk is written before"
    state.unlink()
    bring_back(machine)
    assert state.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("params", "locks"), [({"name": "web2"}, ["web2", "backups"]), ({"disk": "vda", "volume": "v"}, ["backups"])]
)
def test_the_locks_have_the_order_of_a_backup(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch, params: dict[str, t.Any], locks: list[str]
) -> None:
    """Otherwise the two may wait for each other. For a disk beside it a machine need not stand still for hours."""
    taken: list[str] = []

    def lock(name: str, **_settings: t.Any) -> t.ContextManager[None]:
        taken.append(name)
        return contextlib.nullcontext()

    monkeypatch.setattr(restore_machine, "machine_lock", lock)
    monkeypatch.setattr(restore_machine, "locked_to_read", lambda *_place: lock("backups"))
    bring_back(machine, **params)
    assert taken == locks


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_backups_on_a_share_that_can_only_be_read(machine: BackupHost, tmp_path: Path) -> None:
    (machine.destination / "web1" / ".lock").unlink()
    share = tmp_path / "share"
    share.mkdir()
    if subprocess.run(["mount", "-o", "bind,ro", str(machine.destination), str(share)], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        bring_back(machine, src=str(share), name="web2")
    finally:
        subprocess.run(["umount", str(share)], check=True)
    assert "web2" in list_domains(machine.conn)
    assert not (machine.destination / "web1" / ".lock").exists()


@pytest.mark.parametrize("replace", [False, True])
def test_a_run_that_is_killed_before_the_tpm_is_finished_by_the_next_one(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch, replace: bool
) -> None:
    monkeypatch.setattr(state_files, "_SWTPM", str(machine.destination.parent / "swtpm"))
    state = Path(state_files._SWTPM) / UUID / "tpm2" / "tpm2-00.permall"
    state.parent.mkdir(parents=True)
    state.write_bytes(b"old")
    machine.define("<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>")
    machine.made()
    if replace:
        state.write_bytes(b"newer than the backup")
    else:
        lose(machine)
        state.unlink()
        state.parent.rmdir()

    def run_and_die(steps: list[plans.Step], *, done: bool) -> None:
        for step in steps:
            last = step.description == "restore the state of the TPM"
            if done or not last:
                step.apply()
            if last:
                raise KeyboardInterrupt

    for done in (False, True):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(plans, "run", functools.partial(run_and_die, done=done))
            bring_back(machine, replace=replace)
        # The test driver leaves the file of a volume.
        machine.image.unlink(missing_ok=True)
    bring_back(machine, replace=replace)
    assert state.read_bytes() == b"old"
    notes = list_domains(machine.conn)["web1"].notes
    assert notes is not None
    assert notes.status == READY


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"machine": "../x"}, "machine: '../x' is not the name"),
        ({"backup": "../x"}, "backup: '../x' is not the id of a backup"),
        ({"name": "a/b"}, "name"),
        ({"volume": "x"}, "volume: it names the volume of one disk"),
        ({"disk": "vda", "volume": "../x"}, "volume: '../x' is not the name of a volume"),
        ({"disk": "vda", "replace": True}, "replace: a single disk"),
        ({"disk": "vda", "started": True}, "started: a single disk"),
        ({"disk": "vda", "name": "web2"}, "name: a single disk"),
        ({"name": "web2", "replace": True}, "replace: a machine is replaced only by a backup of its own"),
    ],
)
def test_options_that_make_no_sense_are_refused(params: dict[str, t.Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(**params)


def test_a_machine_is_replaced(machine: BackupHost) -> None:
    """The note of its volume has no mark, as after a move and in those of earlier versions; its definition has it."""
    machine.write(1 << 20, 9)
    shown = preview(machine.conn, read(machine, replace=True, started=True))
    gone = "delete volume web1-system.qcow2 of pool default, a disk of before"
    assert shown.actions[-2:] == [gone, "start machine web1"]
    result = bring_back(machine, replace=True)
    assert result.actions[-1] == gone
    (now,) = machine.host.files("web1")
    assert now == os.path.basename(volume(result))
    assert now != machine.image.name
    assert images.same_content(str(backup_image(machine)), volume(result), "qcow2", threading.Event())
    assert not result.remarks
    assert machine.image.name not in machine.conn.storagePoolLookupByName("default").listVolumes()
    notes = list_domains(machine.conn)["web1"].notes
    assert notes is not None
    assert [note.name for note in notes.volumes] == [now]


@pytest.mark.parametrize("named_by", ["path", "pool and volume"])
def test_a_start_that_had_begun_keeps_the_disks_of_before(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch, named_by: str
) -> None:
    """libvirt calls a machine active some time before its QEMU opens the disks."""
    if named_by != "path":
        handle = list_domains(machine.conn)["web1"].handle
        text = handle.XMLDesc(0)
        source = f"pool='default' volume='{machine.image.name}'"
        path = list_domains(machine.conn)["web1"].xml.find("devices/disk/source").get("file")
        machine.conn.defineXML(text.replace("disk type='file'", "disk type='volume'").replace(f"file='{path}'", source))
    define = redefine.redefine

    def start_and_define(*given: t.Any) -> None:
        monkeypatch.setattr(redefine, "redefine", define)
        machine.conn.lookupByName("web1").create()
        define(*given)

    before = machine.conn.lookupByName("web1").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    monkeypatch.setattr(redefine, "redefine", start_and_define)
    with pytest.raises(ConflictError, match="web1 was started while it was being restored, and is on its disks of"):
        bring_back(machine, replace=True)
    after = machine.conn.lookupByName("web1").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    assert re.findall("<source.*", after) == re.findall("<source.*", before)
    assert machine.image.exists()


def test_what_a_killed_run_has_not_deleted_goes_with_the_next(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The definition is the backup's by then, and does not name it any more."""

    def killed(*_args: t.Any, **_options: t.Any) -> None:
        raise KeyboardInterrupt

    machine.mark()
    with monkeypatch.context() as patched:
        patched.setattr(restore_machine, "delete_unused", killed)
        with pytest.raises(KeyboardInterrupt):
            bring_back(machine, replace=True)
    notes = list_domains(machine.conn)["web1"].notes
    assert notes is not None
    assert [note.replaced for note in notes.volumes] == [False, True]
    (between,) = machine.host.files("web1")
    assert machine.image.exists()
    result = bring_back(machine, replace=True)
    assert not result.remarks
    (now,) = machine.host.files("web1")
    names = machine.conn.storagePoolLookupByName("default").listVolumes()
    assert [name for name in names if name in {now, between, machine.image.name}] == [now]
    notes = list_domains(machine.conn)["web1"].notes
    assert notes is not None
    assert [(note.name, note.replaced) for note in notes.volumes] == [(now, False)]


def test_a_machine_is_replaced_by_a_backup_of_before_its_name_was_changed(machine: BackupHost) -> None:
    """virsh domrename, and mv for the directory."""
    (machine.destination / "web1").rename(machine.destination / "web9")
    machine.conn.lookupByName("web1").undefine()
    text = machine.define().XMLDesc(0)
    machine.conn.lookupByName("web1").undefine()
    machine.conn.defineXML(text.replace("<name>web1<", "<name>web9<"))
    result = bring_back(machine, machine="web9", replace=True)
    assert (result.plan.identity, result.plan.renewed) == (UUID, False)
    assert list_domains(machine.conn)["web9"].handle.UUIDString() == UUID


def test_what_a_machine_was_given_since_is_said_to_go(machine: BackupHost) -> None:
    domain = list_domains(machine.conn)["web1"]
    assert domain.notes is not None
    write_notes(domain.handle, dataclasses.replace(domain.notes, tags=("new",), order=3))
    words = "its tags, order become those of the backup"
    assert words in preview(machine.conn, read(machine, replace=True)).remarks
    result = bring_back(machine, replace=True)
    assert words in result.remarks
    notes = list_domains(machine.conn)["web1"].notes
    assert notes is not None
    assert (notes.tags, notes.order) == (domain.notes.tags, domain.notes.order)


def test_what_another_run_is_just_adding_to_a_replaced_machine_is_not_forgotten(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the hypervisor's lock, and not the machine's."""
    added = VolumeNote("default", "web1-more.qcow2", "disk", format="qcow2", identity="x")
    runs = [added]

    def lock(_what: str, **_settings: t.Any) -> t.ContextManager[None]:
        domain = list_domains(machine.conn)["web1"]
        if runs and domain.notes is not None:
            volumes_now = (*domain.notes.volumes, runs.pop())
            write_notes(domain.handle, dataclasses.replace(domain.notes, volumes=volumes_now))
        return contextlib.nullcontext()

    monkeypatch.setattr(restore_machine, "hypervisor_lock", lock)
    bring_back(machine, replace=True)
    notes = list_domains(machine.conn)["web1"].notes
    assert notes is not None and added in notes.volumes


def test_a_machine_that_is_replaced_is_no_failure_for_what_it_had_before(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as where another run is at work on the hypervisor for longer than this one waits."""
    taken: list[str] = []
    machine.mark()

    def lock(what: str, **_settings: t.Any) -> t.ContextManager[None]:
        taken.append(what)
        # To plan, to make the volume, to replace the machine, and then to delete what it had.
        if len(taken) == 4:
            raise ConflictError("another run has been at work on this hypervisor for more than 0 s")
        return contextlib.nullcontext()

    with monkeypatch.context() as patch:
        patch.setattr(restore_machine, "hypervisor_lock", lock)
        result = bring_back(machine, replace=True)
    assert result.remarks == [
        "the volumes of before stay until it is restored again or purged: another run has been at work on this "
        "hypervisor for more than 0 s"
    ]
    assert machine.image.name in machine.conn.storagePoolLookupByName("default").listVolumes()
    bring_back(machine, replace=True)
    assert machine.image.name not in machine.conn.storagePoolLookupByName("default").listVolumes()


def test_of_a_replaced_machine_the_disk_on_a_share_goes_if_the_others_were_asked(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that it stays, is named, and is still its own; a later run removes it."""
    monkeypatch.setattr(shared_pools, "file_system_type", lambda _path: "nfs4")
    machine.mark()
    old = machine.image.name
    shown = preview(machine.conn, read(machine, replace=True, used_elsewhere={})).as_result(read())
    (shared,) = shown["shared"]
    assert (shared["pool"], shared["volume"], shared["inode"]) == ("default", old, machine.image.stat().st_ino)
    assert shown["remarks"] == []

    def answer(*users: str) -> dict[str, t.Any]:
        return {"hv2": {"volumes": [{"pool": "default", "volume": old, "users": list(users), "unknown": []}]}}

    for said, why in (
        (None, "what machines of other hypervisors use there cannot be seen from this one"),
        ({"hv2": "did not answer"}, "hv2, which may use it too, did not say: did not answer"),
        (answer("machine web9"), "it is used by machine web9 on hv2"),
    ):
        announced = preview(machine.conn, read(machine, replace=True, used_elsewhere=said)).remarks
        assert [remark.startswith(f"the volume {old} of before stays: ") for remark in announced] == [True]
        assert why in announced[0]
    result = bring_back(machine, replace=True)
    assert any(remark.startswith(f"the volume {old} of before stays: ") for remark in result.remarks)
    notes = list_domains(machine.conn)["web1"].notes
    assert notes is not None and machine.image.exists()
    assert [(note.name, note.replaced) for note in notes.volumes if note.name == old] == [(old, True)]
    between = os.path.basename(volume(result))
    everything = answer()["hv2"]["volumes"] + [{**answer()["hv2"]["volumes"][0], "volume": between}]
    result = bring_back(machine, replace=True, used_elsewhere={"hv2": {"volumes": everything}})
    assert result.remarks == [] and "shared" not in result.as_result(read())
    left = machine.conn.storagePoolLookupByName("default").listVolumes()
    assert not {old, between} & set(left)


def test_of_a_replaced_machine_what_is_in_the_place_of_its_volume_stays(machine: BackupHost) -> None:
    domain = list_domains(machine.conn)["web1"]
    assert domain.notes is not None
    (note,) = domain.notes.volumes
    write_notes(domain.handle, dataclasses.replace(domain.notes, volumes=(dataclasses.replace(note, identity="gone"),)))
    announced = preview(machine.conn, read(machine, replace=True)).remarks
    result = bring_back(machine, replace=True)
    (remark,) = result.remarks
    assert announced == [remark]
    assert "another volume may have the name web1-system.qcow2 in pool default now" in remark
    assert machine.image.exists()
    notes = list_domains(machine.conn)["web1"].notes
    assert notes is not None
    assert machine.image.name in [note.name for note in notes.volumes]


@pytest.mark.parametrize("marked", [True, False])
def test_a_note_alone_deletes_no_volume_that_the_machine_does_not_have(machine: BackupHost, marked: bool) -> None:
    """Whoever has written that a disk of a backup has come in its place: it has to be the one that was made for it."""
    pool = Hypervisor(machine.conn, image_pool="images").pools.get("default")
    volumes.create_empty(pool, "precious.qcow2", size_bytes=1 << 20, image_format="qcow2", mark="other")
    domain = list_domains(machine.conn)["web1"]
    assert domain.notes is not None
    note = VolumeNote(
        "default", "precious.qcow2", "disk", format="qcow2", identity="other" if marked else "", replaced=True
    )
    write_notes(domain.handle, dataclasses.replace(domain.notes, volumes=(*domain.notes.volumes, note)))
    announced = preview(machine.conn, read(machine, replace=True)).remarks
    result = bring_back(machine, replace=True)
    why = "nothing proves that it is the volume that was created for this machine"
    assert announced == result.remarks == ([] if marked else [f"the volume precious.qcow2 of before stays: {why}"])
    names = machine.conn.storagePoolLookupByName("default").listVolumes()
    assert ("precious.qcow2" in names, machine.image.name in names) == (not marked, False)


def test_of_a_replaced_machine_a_disk_that_is_not_in_the_backup_stays(machine: BackupHost) -> None:
    bring_back(machine, name="web2")
    domain = list_domains(machine.conn)["web2"]
    # A backup of a machine whose volumes have marks.
    (made,) = machine.back_up("web2")
    assert made.error is None
    assert domain.notes is not None
    pool = Hypervisor(machine.conn, image_pool="images").pools.get("default")
    volumes.create_empty(pool, "later.qcow2", size_bytes=1 << 20, image_format="qcow2", mark="later")
    note = VolumeNote("default", "later.qcow2", "disk", format="qcow2", identity="later")
    disk = machine.disk("vdb", pool.volume_path("later.qcow2"))
    xml = domain.handle.XMLDesc(0).replace("</devices>", f"{disk}</devices>")
    handle = machine.conn.defineXML(xml)
    write_notes(handle, dataclasses.replace(domain.notes, volumes=(*domain.notes.volumes, note)))
    announced = preview(machine.conn, read(machine, machine="web2", replace=True)).remarks
    result = bring_back(machine, machine="web2", replace=True)
    (remark,) = result.remarks
    assert announced == [remark]
    assert "the volume later.qcow2 of before stays: backup" in remark
    names = machine.conn.storagePoolLookupByName("default").listVolumes()
    assert "later.qcow2" in names
    assert "web2-system.qcow2" not in names
    notes = list_domains(machine.conn)["web2"].notes
    assert notes is not None
    assert note in notes.volumes


def test_of_a_replaced_machine_a_disk_that_was_not_made_for_it_is_named_as_it_stays(machine: BackupHost) -> None:
    """As of an adopted machine: nothing else says whose it is."""
    bring_back(machine, name="web2")
    (made,) = machine.back_up("web2")
    assert made.error is None
    domain = list_domains(machine.conn)["web2"]
    assert domain.notes is not None
    (before,) = machine.host.files("web2")
    write_notes(domain.handle, dataclasses.replace(domain.notes, volumes=()))
    announced = preview(machine.conn, read(machine, machine="web2", replace=True)).remarks
    result = bring_back(machine, machine="web2", replace=True)
    place = machine.image.parent / before
    assert result.remarks == [f"the disk vda of before, {place}, stays: it was not created for this machine"]
    assert announced == result.remarks
    assert place.exists()


def test_of_a_replaced_machine_a_disk_that_something_uses_stays(machine: BackupHost, tmp_path: Path) -> None:
    bring_back(machine, name="web2")
    (made,) = machine.back_up("web2")
    assert made.error is None
    (before,) = machine.host.files("web2")
    overlay = tmp_path / "overlay.qcow2"
    below = ["-b", str(machine.image.parent / before), "-F", "qcow2"]
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *below, str(overlay)], check=True)
    machine.define_other(str(overlay))
    announced = preview(machine.conn, read(machine, machine="web2", replace=True)).remarks
    result = bring_back(machine, machine="web2", replace=True)
    (remark,) = result.remarks
    assert announced == [remark]
    assert f"the volume {before} of before stays: volume {before} of pool default is kept: it is used by" in remark
    assert "machine other" in remark
    assert before in machine.conn.storagePoolLookupByName("default").listVolumes()
    notes = list_domains(machine.conn)["web2"].notes
    assert notes is not None
    assert before in [note.name for note in notes.volumes]


def test_uefi_variables_of_two_machines_are_refused_before_anything_is_copied(
    machine: BackupHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_files, "_NVRAM", str(tmp_path))
    variables = tmp_path / "web1_VARS.fd"
    variables.write_bytes(b"variables")
    more = f"<loader readonly='yes' type='pflash'>/fw/CODE.fd</loader><nvram>{variables}</nvram></os>"
    text = machine.define().XMLDesc(0)
    machine.conn.defineXML(text.replace("</os>", more))
    machine.made()
    machine.define_other(str(tmp_path / "other.qcow2"))
    preview(machine.conn, read(machine, replace=True, trust_definition=True))
    machine.conn.defineXML(machine.conn.lookupByName("other").XMLDesc(0).replace("</os>", more))
    with pytest.raises(ConflictError, match="variables of machine web1 are in, is used by machine other too"):
        preview(machine.conn, read(machine, replace=True, trust_definition=True))


def test_each_part_of_the_work_is_told(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the lines that are shown while it takes long."""
    told: list[str] = []
    monkeypatch.setattr(ProgressMeter, "at", lambda _meter, phase, _done, _total: told.append(phase))
    monkeypatch.setattr(ProgressMeter, "at_percent", lambda _meter, phase, _percent: told.append(phase))
    bring_back(machine, name="web2")
    assert list(dict.fromkeys(told)) == ["checksums", "disk vda", "comparing disk vda"]


def test_another_machine_of_its_name_is_not_rolled_back_with_it(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as somebody makes with virsh meanwhile: in the same places, and even with the mark that the files had."""
    lose(machine)
    taken: list[str] = []

    def differs(_backup: str, target: str, *_more: t.Any) -> bool:
        machine.conn.lookupByName("web1").undefine()
        disk = machine.disk("vda", target)
        machine.conn.defineXML(MACHINE.format(name="web1", uuid=str(uuid.uuid4()), devices=disk, notes=""))
        taken.append(target)
        return False

    monkeypatch.setattr(images, "same_content", differs)
    with pytest.raises(HostError, match="differs from backup"):
        bring_back(machine)
    # The test driver leaves the file in any case.
    assert os.path.basename(taken[0]) in machine.conn.storagePoolLookupByName("default").listVolumes()


def test_nothing_is_written_into_another_machine_of_its_name(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(machine)
    same = images.same_content
    other = str(uuid.uuid4())

    def replaced(backup: str, target: str, *more: t.Any) -> bool:
        machine.conn.lookupByName("web1").undefine()
        disk = machine.disk("vda", target)
        machine.conn.defineXML(MACHINE.format(name="web1", uuid=other, devices=disk, notes=""))
        return same(backup, target, *more)

    monkeypatch.setattr(images, "same_content", replaced)
    with pytest.raises(HostError, match="machine web1 is not the one that is being restored any more"):
        bring_back(machine)
    found = list_domains(machine.conn)["web1"]
    assert (found.handle.UUIDString(), found.notes) == (other, None)
