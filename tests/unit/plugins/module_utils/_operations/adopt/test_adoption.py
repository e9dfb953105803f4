# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine of somebody else becomes ours by its metadata alone, with those volumes that are nobody else's."""

from __future__ import annotations

import pytest
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import affect
from ansible_collections.brine.virt.plugins.module_utils._host.machines.listing import observe_machines
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import NAMESPACE
from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import Existing, read_values
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor_view import HypervisorView
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import make_plans
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.plan import plan_purge
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.volumes import PurgeOptions
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.adopt.adopt_host import AdoptHost
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import (
    POOL,
    disk,
)

pytestmark = pytest.mark.medium

NICS = """<interface type='network'><mac address='52:54:00:00:00:0{}'/><source network='default'/></interface>"""
FREE = "disks does not name it. Nothing else uses it, so it can be named"


def without_notes(text: str) -> bytes:
    """A definition without our metadata, and without the element around them where nothing else is in it."""
    root = etree.fromstring(text, etree.XMLParser(remove_blank_text=True))
    for ours in root.findall(f"metadata/{{{NAMESPACE}}}machine"):
        home = ours.getparent()
        assert home is not None
        home.remove(ours)
    for metadata in root.findall("metadata"):
        if not len(metadata):
            root.remove(metadata)
    return etree.tostring(root, method="c14n")


@pytest.mark.parametrize("running", [False, True])
def test_nothing_differs_but_our_metadata(host: AdoptHost, running: bool) -> None:
    image = host.image(host.pool / "old.qcow2")
    guest = host.guest(
        "old", disk(image), disk(host.outside / "x.raw", "vdb", image_format="raw"), *map(NICS.format, "12")
    )
    guest.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, "<a/>", "x", "urn:somebody", affect(guest))
    if running:
        guest.create()
    before, files, autostart = host.texts("old"), host.files(), guest.autostart()
    result = host.one_adopted()
    assert (result["changed"], result["state"]) == (True, "running" if running else "shutoff")
    assert result["actions"] == ["write the metadata of old"]
    assert [(d["name"], d["pool"], d["volume"], d["own"], d["reason"]) for d in result["disks"]] == [
        ("vda", "default", "old.qcow2", False, FREE),
        ("vdb", None, str(host.outside / "x.raw"), False, "it is in no active storage pool"),
    ]
    assert [nic["name"] for nic in result["nics"]] == ["eth0", "eth1"]
    after = host.texts("old")
    assert [without_notes(text) for text in after] == [without_notes(text) for text in before]
    assert all(NAMESPACE in text for text in after)
    assert (host.files(), guest.autostart(), guest.isActive()) == (files, autostart, running)
    notes = host.notes("old")
    assert (notes.status, notes.volumes, notes.seed, notes.image, notes.host_keys) == ("ready", (), None, None, ())
    assert [(note.name, note.target) for note in notes.disks] == [("vda", "vda"), ("vdb", "vdb")]
    assert [(note.name, note.mac) for note in notes.nics] == [
        ("eth0", "52:54:00:00:00:01"),
        ("eth1", "52:54:00:00:00:02"),
    ]
    again = host.adopt("old")
    assert (again["changed"], again["diff"], again["machines"][0]["actions"]) == (False, [], [])
    assert host.texts("old") == after


def test_the_difference_is_what_is_remembered(host: AdoptHost) -> None:
    host.guest("old", disk(host.image(host.pool / "old.qcow2")))
    (diff,) = host.adopt("old", disks=["vda"])["diff"]
    assert diff["before"] == ""
    assert diff["after"] == "machine: old\ndisks:\n- vda\nnics: {}\nvolumes:\n- default/old.qcow2\n"


class TestOwnVolumes:
    @pytest.mark.parametrize("word", ["vda", "default/old.qcow2"])
    def test_one_that_is_named_and_nobody_elses(self, host: AdoptHost, word: str) -> None:
        host.guest("old", disk(host.image(host.pool / "old.qcow2")))
        result = host.one_adopted(disks=[word])
        assert [(d["own"], d["reason"]) for d in result["disks"]] == [
            (True, "disks names it, and nothing else uses it")
        ]
        (note,) = host.notes("old").volumes
        assert (note.pool, note.name, note.role, note.format, note.identity) == (
            "default", "old.qcow2", "disk", "qcow2", "",
        )  # fmt: skip
        assert host.adopt("old", disks=[word])["changed"] is False
        assert host.adopt("old")["machines"][0]["disks"][0]["reason"] == "the metadata list it already"

    def test_later(self, host: AdoptHost) -> None:
        host.guest("old", disk(host.image(host.pool / "old.qcow2")))
        assert host.one_adopted()["changed"]
        assert host.one_adopted(disks=["vda"])["changed"]
        assert len(host.notes("old").volumes) == 1

    def test_of_a_machine_of_ours(self, host: AdoptHost) -> None:
        host.make(name="old")
        host.attach("old", disk(host.image(host.pool / "more.qcow2"), "vdq"))
        before = host.notes("old")
        assert host.one_adopted()["changed"] is False
        assert host.one_adopted(disks=["vdq", "vda"])["changed"] is True
        after = host.notes("old")
        assert [note.name for note in after.volumes] == ["old-system.qcow2", "more.qcow2"]
        assert (after.disks, after.nics, after.volumes[0]) == (before.disks, before.nics, before.volumes[0])

    def test_one_that_may_be_somebody_elses_is_refused(self, host: AdoptHost) -> None:
        shared = host.image(host.pool / "shared.qcow2")
        below = host.image(host.pool / "below.qcow2")
        host.image(host.pool / "above.qcow2", below=below)
        stored = host.image(host.pool / "debian-0123456789abcdef.qcow2")
        image = host.image(host.pool / "old.iso")
        host.guest("other", disk(shared))
        read_only = disk(host.image(host.pool / "ro.qcow2"), "vde").replace("</disk>", "<readonly/></disk>")
        shareable = disk(host.image(host.pool / "sh.qcow2"), "vdf").replace("</disk>", "<shareable/></disk>")
        devices = [
            disk(shared),
            disk(below, "vdb"),
            disk(stored, "vdc"),
            disk(image, "vdd", device="cdrom", image_format="raw"),
            read_only,
            shareable,
            disk(host.outside / "o.qcow2", "vdg"),
            disk(host.pool / "none.qcow2", "vdh"),
            disk(host.image(host.pool / "x.vmdk"), "vdi", image_format="vmdk"),
        ]
        host.guest("old", *devices)
        reasons = {d["target"]: d["reason"] for d in host.adopt("old", check_mode=True)["machines"][0]["disks"]}
        assert reasons == {
            "vda": "it is used by machine other",
            "vdb": "it is used by volume default/above.qcow2",
            "vdc": "it has the name of a stored image",
            "vdd": "it is a cdrom",
            "vde": "the machine may only read it",
            "vdf": "it is shareable, so that other machines may have it too",
            "vdg": "it is in no active storage pool",
            "vdh": "storage pool default has no volume none.qcow2",
            "vdi": "its format is vmdk, and not raw or qcow2",
        }
        for target, reason in reasons.items():
            assert host.refused(disks=[target]).startswith(
                f"disks[0]: disk {target} of old cannot become its own: {reason}. Leave it out"
            )

    def test_what_is_not_certain_is_refused(self, host: AdoptHost) -> None:
        host.guest("old", disk(host.image(host.pool / "old.qcow2")))
        host.conn.storagePoolDefineXML(POOL.format("asleep", "/elsewhere"), 0)
        message = host.refused(disks=["vda"])
        assert "cannot become its own: it cannot be determined whether something uses it: " in message

    def test_a_disk_of_the_running_machine_alone(self, host: AdoptHost) -> None:
        guest = host.guest("old", disk(host.image(host.pool / "old.qcow2")))
        less = guest.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        host.attach("old", disk(host.image(host.pool / "hot.qcow2"), "vdb"))
        guest.create()
        host.conn.defineXML(less)
        assert "the machine has it only until it is powered off" in host.refused(disks=["vdb"])

    def test_of_two_disks_with_one_target_the_one_of_the_definition(self, host: AdoptHost) -> None:
        guest = host.guest("old", disk(host.image(host.pool / "old.qcow2")))
        after = guest.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        host.conn.defineXML(after.replace("old.qcow2", "hot.qcow2"))
        host.image(host.pool / "hot.qcow2")
        guest.create()
        host.conn.defineXML(after)
        assert "the machine has it only until it is powered off" in host.refused(disks=["default/hot.qcow2"])
        result = host.one_adopted(disks=["vda"])
        assert [(d["volume"], d["own"]) for d in result["disks"]] == [("old.qcow2", True), ("hot.qcow2", False)]
        assert [note.name for note in host.notes("old").volumes] == ["old.qcow2"]

    def test_a_disk_that_is_not_there(self, host: AdoptHost) -> None:
        host.guest("old", disk(host.image(host.pool / "old.qcow2")))
        assert host.refused(disks=["vda", "vdx"]) == "disks[1]: 'vdx' is not a disk of machine old. Did you mean vda?"


def test_other_operations_know_it_as_one_of_ours(host: AdoptHost) -> None:
    first, second = host.image(host.pool / "one.qcow2"), host.image(host.pool / "two.qcow2")
    host.guest("old", disk(first), disk(second, "vdb"), NICS.format(1))
    host.adopt("old", disks=["vda"])
    # Purge: its own volume goes, the other one stays.
    plan = plan_purge("old", HypervisorView(host.conn), PurgeOptions())
    assert plan is not None
    assert {decision.volume: decision.action for decision in plan.decisions} == {
        "one.qcow2": "delete",
        "two.qcow2": "keep",
    }
    # Update: what is named changes, by the names that the metadata give.
    spec = {"name": "old", "vcpus": 1, "memory": 64, "seed": {"method": "none"}, "start": False, "tags": ["a"]}
    devices = {"disks": [{"name": "vdb", "cache": "none"}], "nics": [{"name": "eth0", "mtu": 9000}]}
    hypervisor = Hypervisor(host.conn, image_pool="default")
    known = Existing(read_values(hypervisor.domains["old"].xml, hypervisor.domains["old"].notes))
    (update,) = make_plans([read_machine({**spec, **devices}, existing=lambda _name: known)], hypervisor, "")
    assert update.after == {"tags": ["a"], "disks": {"vdb": {"cache": "none"}}, "nics": {"eth0": {"mtu": 9000}}}
    # Listing: managed, with names; no host key is known.
    (record,) = observe_machines(host.conn, addresses=False, names=["old"])
    assert (record["managed"], record["building"], record["host_keys"]) == (True, False, [])
    assert [device["name"] for device in (*record["disks"], *record["nics"])] == ["vda", "vdb", "eth0"]


def test_snapshots_from_before_are_named(host: AdoptHost) -> None:
    guest = host.guest("old")
    guest.snapshotCreateXML("<domainsnapshot><name>clean</name></domainsnapshot>", 0)
    result = host.one_adopted()
    assert host.warnings == result["remarks"]
    assert "old has snapshots from before (clean): after a revert to one of them" in host.warnings[0]
    host.adopt("old")
    assert host.warnings == []
