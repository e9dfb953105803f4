# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which volumes go with a machine: exactly those that it owns and nobody else uses. What stays is not touched."""

from __future__ import annotations

import dataclasses
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor_view import HypervisorView
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.plan import plan_purge
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.volumes import PurgeOptions, volumes_of
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import (
    POOL,
    PurgeHost,
    decided,
    disk,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.volume_files import DELETE, MAKE

SYSTEM = "web1-system.qcow2"
OWN = "delete: it belongs to this machine"
UNPROVEN = "nothing proves that it is the volume that was created for this machine"


def stays(host: PurgeHost, name: str, reason: str, **params: t.Any) -> dict[str, t.Any]:
    """The machine goes, this file stays as it is, and the reason is told."""
    before = host.files()[name]
    result = host.one(**params)
    assert not result["failed"], result
    assert "web1" not in host.names()
    found = decided(result)
    assert found.get(name, found.get(str(host.outside / name))) == f"keep: {reason}"
    assert host.files()[name] == before
    return result


def test_a_machine_goes_with_its_own_disks(host: PurgeHost) -> None:
    host.make(disks=[{"name": "system", "size": 64}, {"name": "data", "size": "1MiB", "format": "raw"}])
    (host.pool / "web1-data.raw").write_bytes(b"written by the guest")
    result = host.one()
    assert result == {
        "name": "web1",
        "changed": True,
        "failed": False,
        "present": True,
        "state": "shutoff",
        "power": None,
        "actions": [f"delete volume {SYSTEM} of pool default, volume web1-data.raw of pool default", "undefine web1"],
        "snapshots": [],
        "volumes": [
            {"pool": "default", "volume": name, "action": "delete", "reason": "it belongs to this machine"}
            for name in (SYSTEM, "web1-data.raw")
        ],
        "shared": [],
    }
    assert (host.names(), host.files()) == (set(), {})


def test_a_second_run_is_no_change(host: PurgeHost) -> None:
    host.make()
    host.one()
    again = host.purge()
    assert (again["changed"], again["failed"], again["machines"][0]["present"]) == (False, False, False)


class TestWhatOthersUse:
    def test_a_disk_that_another_machine_has(self, host: PurgeHost) -> None:
        host.make()
        host.guest("other", disk(host.pool / SYSTEM))
        stays(host, SYSTEM, "it is used by machine other")

    def test_a_disk_that_another_machine_has_only_while_it_runs(self, host: PurgeHost) -> None:
        host.make()
        guest = host.guest("other", disk(host.pool / SYSTEM))
        guest.create()
        xml = f"<domain type='test'><name>other</name><uuid>{guest.UUIDString()}</uuid><memory>1</memory>"
        host.conn.defineXML(f"{xml}<os><type>hvm</type></os></domain>")
        stays(host, SYSTEM, "it is used by machine other")

    def test_a_disk_that_another_machine_has_in_a_snapshot(self, host: PurgeHost) -> None:
        host.make()
        guest = host.guest("other", disk(host.pool / SYSTEM))
        guest.snapshotCreateXML("<domainsnapshot><name>s1</name></domainsnapshot>", 0)
        xml = f"<domain type='test'><name>other</name><uuid>{guest.UUIDString()}</uuid><memory>1</memory>"
        host.conn.defineXML(f"{xml}<os><type>hvm</type></os></domain>")
        stays(host, SYSTEM, "it is used by snapshot s1 of machine other")

    def test_a_disk_that_a_clone_is_linked_to(self, host: PurgeHost) -> None:
        """The overlay is in the pool, and no machine has it."""
        host.make()
        clone = host.image(host.pool / "clone.qcow2", below=host.pool / SYSTEM)
        before = clone.read_bytes()
        stays(host, SYSTEM, "it is used by volume default/clone.qcow2")
        assert clone.read_bytes() == before

    def test_a_disk_that_a_machine_is_linked_to_from_outside_of_all_pools(self, host: PurgeHost) -> None:
        host.make()
        clone = host.image(host.outside / "clone.qcow2", below=host.pool / SYSTEM)
        host.guest("other", disk(clone))
        stays(host, SYSTEM, "it is used by machine other")

    def test_an_image_that_another_overlay_needs(self, host: PurgeHost) -> None:
        base = host.image(host.pool / "base.qcow2")
        host.make(disks=[{"name": "system", "backing": "base.qcow2"}])
        host.image(host.pool / "more.qcow2", below=base)
        before = host.files()
        assert decided(host.one()) == {SYSTEM: OWN}
        assert host.files() == {name: digest for name, digest in before.items() if name != SYSTEM}

    def test_a_pool_that_is_not_active_leaves_it_unknown(self, host: PurgeHost) -> None:
        host.make()
        host.conn.storagePoolDefineXML(POOL.format("asleep", "/x"), 0)
        reason = "it cannot be determined whether something uses it: storage pool asleep is not active"
        stays(host, SYSTEM, f"{reason}. If nobody needs it: virsh vol-delete {SYSTEM} --pool default")

    def test_its_own_pool_is_not_active(self, host: PurgeHost) -> None:
        host.make()
        host.handle.destroy()
        result = stays(host, SYSTEM, "storage pool 'default' is not active")
        assert len(result["volumes"]) == 1


def test_disks_whose_file_system_may_be_missing_are_named(host: PurgeHost) -> None:
    """Nobody would know of them when it is mounted again."""
    host.make(disks=[{"name": "system", "size": 64}, {"name": "data", "size": 64}])
    for volume in host.conn.storagePoolLookupByName("default").listAllVolumes():
        volume.delete()
    found = decided(host.one())
    assert set(found) == {SYSTEM, "web1-data.qcow2"}
    assert found[SYSTEM] == (
        f"keep: it is not there: it has been deleted, or {host.pool} is not mounted. "
        f"If nobody needs it: virsh vol-delete {SYSTEM} --pool default"
    )


def test_disks_of_a_machine_of_others_whose_file_system_may_be_missing_are_named(host: PurgeHost) -> None:
    host.guest("theirs", disk(host.image(host.pool / "theirs.qcow2")))
    host.handle.storageVolLookupByName("theirs.qcow2").delete()
    (result,) = host.purge(name=["theirs"], adopt=True, force=True)["machines"]
    assert decided(result)["theirs.qcow2"].startswith(f"keep: it is not there: it has been deleted, or {host.pool} is")


def test_a_disk_that_is_gone_alone_was_deleted(host: PurgeHost) -> None:
    host.make(disks=[{"name": "system", "size": 64}, {"name": "data", "size": 64}])
    host.conn.storagePoolLookupByName("default").storageVolLookupByName("web1-data.qcow2").delete()
    assert decided(host.one()) == {SYSTEM: OWN}


class TestWhatIsNotItsOwn:
    def test_an_iso_and_a_disk_in_a_pool(self, host: PurgeHost) -> None:
        iso, shared = host.image(host.pool / "install.iso"), host.image(host.pool / "shared.qcow2")
        host.make()
        host.attach("web1", disk(iso, "sdb", device="cdrom", image_format="raw"), disk(shared, "vdb"))
        result = stays(host, "install.iso", "it was not created for this machine")
        assert decided(result)["shared.qcow2"] == "keep: it was not created for this machine"
        assert set(host.files()) == {"install.iso", "shared.qcow2"}

    def test_a_disk_that_is_in_no_pool(self, host: PurgeHost) -> None:
        host.make()
        host.attach("web1", disk(host.image(host.outside / "far.qcow2"), "vdb"))
        result = stays(host, "far.qcow2", "it is in no active storage pool")
        assert decided(result)[SYSTEM] == OWN

    @pytest.mark.parametrize("image_format", ["qcow2", "raw"])
    def test_another_volume_that_has_its_name_now(self, host: PurgeHost, image_format: str) -> None:
        host.make(disks=[{"name": "system", "size": 64, "format": image_format}])
        name = f"web1-system.{image_format}"
        (host.pool / name).unlink()
        host.image(host.pool / name)
        hint = f"another one may have its name now. If nobody needs it: virsh vol-delete {name} --pool default"
        stays(host, name, f"{UNPROVEN}: {hint}")

    def test_another_volume_goes_when_the_user_names_it(self, host: PurgeHost) -> None:
        host.make()
        (host.pool / SYSTEM).unlink()
        host.image(host.pool / SYSTEM)
        assert decided(host.one(disks=["vda"])) == {SYSTEM: "delete: disks names it"}
        assert host.files() == {}

    def test_without_a_mark_its_own_definition_has_to_say_it(self, host: PurgeHost) -> None:
        """Notes of an earlier version."""
        host.make(disks=[{"name": "system", "size": 64}, {"name": "lost", "size": "1MiB"}])
        notes = host.notes()
        volumes = tuple(dataclasses.replace(note, identity="") for note in notes.volumes)
        host.write(dataclasses.replace(notes, volumes=volumes))
        xml = host.conn.lookupByName("web1").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        begin, end = xml.rindex("<disk"), xml.rindex("</disk>") + len("</disk>")
        assert "lost" in xml[begin:end]
        host.conn.defineXML(xml[:begin] + xml[end:])
        hint = "If nobody needs it: virsh vol-delete web1-lost.qcow2 --pool default"
        word = "default/web1-lost.qcow2"
        ahead = host.purge(check_mode=True, disks=[word])["machines"][0]
        assert decided(ahead)["web1-lost.qcow2"] == "delete: disks names it"
        result = stays(host, "web1-lost.qcow2", f"the machine does not have it as a disk, and {UNPROVEN}. {hint}")
        assert decided(result)[SYSTEM] == OWN

    def test_its_own_file_under_the_name_of_another_pool_is_listed_once(self, host: PurgeHost) -> None:
        host.make()
        (host.outside.parent / "same").symlink_to(host.pool)
        host.conn.storagePoolCreateXML(POOL.format("same", host.outside.parent / "same"), 0)
        host.attach("web1", disk(host.outside.parent / "same" / SYSTEM, "vdb"))
        assert decided(host.one()) == {SYSTEM: OWN}


class TestKeepDisks:
    def test_they_stay_and_the_seed_goes(self, host: PurgeHost) -> None:
        host.make()
        host.image(host.pool / "web1-seed.iso")
        notes = host.notes()
        seed = dataclasses.replace(notes.volumes[0], name="web1-seed.iso", role="seed", format="raw", identity="")
        host.write(dataclasses.replace(notes, volumes=(*notes.volumes, seed)))
        host.attach("web1", disk(host.pool / "web1-seed.iso", "vdb", image_format="raw"))
        result = stays(host, SYSTEM, "keep_disks is set", keep_disks=True)
        assert decided(result)["web1-seed.iso"] == OWN
        assert set(host.files()) == {SYSTEM}


class TestForeignMachine:
    def test_its_disks_stay(self, host: PurgeHost) -> None:
        image = host.image(host.pool / "theirs.qcow2")
        host.guest("web1", disk(image))
        stays(host, "theirs.qcow2", "it was not created for this machine", adopt=True)

    @pytest.mark.parametrize("word", ["vda", "default/theirs.qcow2"])
    def test_one_that_is_named_goes(self, host: PurgeHost, word: str) -> None:
        disks = [disk(host.image(host.pool / "theirs.qcow2")), disk(host.image(host.pool / "data.qcow2"), "vdb")]
        host.guest("web1", *disks)
        result = stays(host, "data.qcow2", "it was not created for this machine", adopt=True, disks=[word])
        assert decided(result)["theirs.qcow2"] == "delete: disks names it"
        assert set(host.files()) == {"data.qcow2"}

    def test_one_that_is_named_and_used_stays(self, host: PurgeHost) -> None:
        image = host.image(host.pool / "theirs.qcow2")
        host.guest("web1", disk(image))
        host.guest("other", disk(image))
        stays(host, "theirs.qcow2", "it is used by machine other", adopt=True, disks=["vda"])

    def test_one_that_is_named_and_in_no_pool_stays(self, host: PurgeHost) -> None:
        host.guest("web1", disk(host.image(host.outside / "far.qcow2")))
        stays(host, "far.qcow2", "it is in no active storage pool", adopt=True, disks=["vda"])

    @pytest.mark.parametrize("word", ["vdz", "default/other.qcow2", "web1"])
    def test_a_disk_that_it_does_not_have(self, host: PurgeHost, word: str) -> None:
        host.guest("web1", disk(host.image(host.pool / "theirs.qcow2")))
        host.image(host.pool / "other.qcow2")
        before = host.files()
        result = host.one(adopt=True, disks=[word])
        assert f"disks[0]: {word!r} is not a disk of machine web1. " in result["msg"]
        assert (host.files(), host.names()) == (before, {"web1"})


def test_an_overlay_goes_before_what_backs_it(host: PurgeHost) -> None:
    """Whatever the order of the disks. In the other order, a kill would leave an overlay on nothing."""
    host.make()
    image = host.image(host.pool / "top.qcow2", below=host.pool / SYSTEM)
    host.attach("web1", disk(image, "vdb"))
    plan = plan_purge("web1", HypervisorView(host.conn), PurgeOptions(disks=("vdb",)))
    assert plan is not None
    assert [volume for _pool, volume in volumes_of(plan.decisions)] == ["top.qcow2", SYSTEM]


class TestExternalSnapshot:
    """The machine's disk is an overlay now that nobody has noted."""

    def make(self, host: PurgeHost, folder: Path | None = None) -> None:
        host.make()
        top = host.image((folder or host.pool) / "web1-system.s1", below=host.pool / SYSTEM)
        xml = host.conn.lookupByName("web1").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        source = f"<source file='{host.pool / SYSTEM}'/>"
        assert source in xml
        host.conn.defineXML(xml.replace(source, f"<source file='{top}'/>"))

    def test_both_stay(self, host: PurgeHost) -> None:
        self.make(host)
        result = stays(host, SYSTEM, "it is used by volume default/web1-system.s1")
        assert decided(result)["web1-system.s1"] == "keep: it was not created for this machine"

    @pytest.mark.parametrize("disks", [[], ["vda"]])
    def test_both_stay_where_the_overlay_is_in_no_pool(self, host: PurgeHost, disks: list[str]) -> None:
        """Nobody else uses what backs it, but the overlay is nothing without it."""
        self.make(host, host.outside)
        hint = f"If nobody needs it: virsh vol-delete {SYSTEM} --pool default"
        reason = f"it may back {host.outside}/web1-system.s1, which is kept. {hint}"
        assert set(host.files()) == {SYSTEM, "web1-system.s1"}
        stays(host, SYSTEM, reason, disks=disks)
        assert set(host.files()) == {SYSTEM, "web1-system.s1"}

    def test_both_go_when_the_disk_is_named(self, host: PurgeHost) -> None:
        self.make(host)
        assert list(decided(host.one(disks=["vda"]))) == ["web1-system.s1", SYSTEM]
        assert host.files() == {}


def test_the_stored_image_stays(host: PurgeHost) -> None:
    image = "tiny-0123456789abcdef.qcow2"
    host.image(host.pool / image)
    host.make(image="tiny")
    stays(host, image, "it is a stored image, which virt_image removes when nothing uses it")


def test_a_machine_that_has_moved_owns_what_the_move_made(host: PurgeHost) -> None:
    """No mark of it is known, but the machine has it as its disk."""
    host.make()
    notes = host.notes()
    host.write(dataclasses.replace(notes, volumes=tuple(dataclasses.replace(n, identity="") for n in notes.volumes)))
    DELETE(host.handle.storageVolLookupByName(SYSTEM))
    os.unlink(host.pool / SYSTEM)
    MAKE(host.handle, f"<volume><name>{SYSTEM}</name><capacity>67108864</capacity></volume>")
    host.image(host.pool / SYSTEM)
    assert decided(host.one()) == {SYSTEM: OWN}


def test_a_disk_named_wrongly_is_an_error_in_the_input(host: PurgeHost) -> None:
    host.make()
    with pytest.raises(InputError):
        plan_purge("web1", HypervisorView(host.conn), PurgeOptions(disks=("vdb",)))


def test_a_target_that_means_two_disks_names_none(host: PurgeHost) -> None:
    """The machine runs with another one than it would start with."""
    guest = host.guest("web1", disk(host.image(host.pool / "old.qcow2")))
    after = guest.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    host.conn.defineXML(after.replace("old.qcow2", "hot.qcow2"))
    host.image(host.pool / "hot.qcow2")
    guest.create()
    host.conn.defineXML(after)
    before = host.files()
    result = host.purge(adopt=True, force=True, disks=["vda"])["machines"][0]
    assert result["msg"] == (
        "disks[0]: 'vda' is default/old.qcow2 in the definition of machine web1 and default/hot.qcow2 while it runs. "
        "Give the pool and the volume"
    )
    assert (host.files(), host.names()) == (before, {"web1"})
    assert decided(host.one(adopt=True, force=True, disks=["default/hot.qcow2"])) == {
        "old.qcow2": "keep: it was not created for this machine",
        "hot.qcow2": "delete: disks names it",
    }
