# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running machine whose devices are not those in the definition. The test driver plugs nothing; that is played
here."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError, NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, need, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.facts import networks
from ansible_collections.brine.virt.plugins.module_utils._host.machines import domains
from ansible_collections.brine.virt.plugins.module_utils._host.storage import volumes
from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import Existing, read_values
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.create.decision import read_decision
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import (
    check_still_chosen,
    make_plans,
    run_plans,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import BASE, Host, one

pytestmark = pytest.mark.medium

FOREIGN = "<disk type='file' device='disk'><source file='/srv/theirs.img'/><target dev='vdb' bus='virtio'/></disk>"


class Guest:
    """The running half of machine ``a``: what QEMU would have."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        handle = host.conn.lookupByName("a")
        self.xml = parse_xml(handle.XMLDesc(0))
        self.devices = need(self.xml, "devices")
        for index, device in enumerate(self._devices()):
            etree.SubElement(device, "alias", name=f"device{index}")
        self.lets_go = True
        self.refuses_to_attach = False
        self.calls: list[str] = []
        kind, defined = type(handle), type(handle).XMLDesc

        def describe(domain: t.Any, flags: int = 0) -> str:
            is_running = domain.name() == "a" and not flags & libvirt.VIR_DOMAIN_XML_INACTIVE
            return etree.tostring(self.xml, encoding="unicode") if is_running else str(defined(domain, flags))

        monkeypatch.setattr(kind, "XMLDesc", describe)
        for name in ("attachDeviceFlags", "detachDeviceFlags", "updateDeviceFlags"):
            monkeypatch.setattr(kind, name, self._call(name))

    def _call(self, name: str) -> t.Callable[[t.Any, str, int], None]:
        def call(_domain: t.Any, xml: str, _flags: int) -> None:
            device = parse_xml(xml)
            self.calls.append(f"{name[:6]} {self._key(device)}")
            there = next((one for one in self._devices() if self._key(one) == self._key(device)), None)
            if name[:6] == "attach" and (there is not None or self.refuses_to_attach):
                error = libvirt.libvirtError("")
                error.err = (libvirt.VIR_ERR_OPERATION_INVALID, 20, "target already exists", 2, "", "", "", 0, 0)
                raise error
            if name[:6] != "attach" and there is not None and self.lets_go:
                self.devices.remove(there)
            if name[:6] != "detach":
                self.devices.append(device)

        return call

    def plug_in(self, xml: str) -> None:
        self.devices.append(parse_xml(xml))

    def _devices(self) -> list[t.Any]:
        return [*self.xml.iterfind("devices/disk"), *self.xml.iterfind("devices/interface")]

    @staticmethod
    def _key(device: t.Any) -> str:
        return str(device.find("target").get("dev"))

    @property
    def files(self) -> dict[str, str | None]:
        sources = {self._key(one): one.find("source") for one in self._devices()}
        return {key: None if source is None else source.get("file") for key, source in sources.items()}


def error_of(host: Host, spec: dict[str, t.Any]) -> str:
    return str(run_plans(host.plan(spec), concurrency=1)[0].error)


def test_a_new_disk_gets_no_target_that_only_the_running_machine_has(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.make(one("a", {"size": "1MiB"}, start=True))
    guest = Guest(host, monkeypatch)
    guest.plug_in(FOREIGN)
    host.make(one("a", {"size": "1MiB"}, {"size": "1MiB"}))
    assert guest.calls == ["attach vdc"]
    assert guest.files["vdb"] == "/srv/theirs.img"


def test_a_disk_on_an_io_thread_that_a_running_machine_lacks_comes_with_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.make(one("a", {"size": "1MiB"}, start=True))
    guest = Guest(host, monkeypatch)
    spec = {**one("a", {"size": "1MiB"}, {"size": "1MiB", "iothread": 1}), "cpu": {"iothreads": 1}}
    (outcome,) = run_plans(host.plan(spec), concurrency=1)
    assert outcome.error is None
    assert guest.calls == []
    assert outcome.pending == ["cpu", "disks.e"]


def test_a_change_that_was_pending_and_is_taken_back_is_not_pending(host: Host) -> None:
    """The machine has run as it is to be all the time."""
    host.make(one("a", start=True, memory=512))
    for memory, pending in ((768, ["memory"]), (512, [])):
        (outcome,) = run_plans(host.plan(one("a", start=True, memory=memory)), concurrency=1)
        assert (outcome.error, outcome.pending) == (None, pending)
    assert host.plan(one("a", start=True, memory=512))[0].actions == []


@pytest.mark.parametrize(("number", "calls", "pending"), [(5, ["attach vdb"], []), (1, [], ["disks.e"])])
def test_io_threads_may_have_any_numbers(
    host: Host, monkeypatch: pytest.MonkeyPatch, number: int, calls: list[str], pending: list[str]
) -> None:
    host.make(one("a", {"size": "1MiB"}))
    threads = "<iothreads>1</iothreads><iothreadids><iothread id='5'/></iothreadids><os>"
    host.conn.defineXML(host.conn.lookupByName("a").XMLDesc(2).replace("<os>", threads))
    host.conn.lookupByName("a").create()
    guest = Guest(host, monkeypatch)
    values = read_values(parse_xml(host.conn.lookupByName("a").XMLDesc(2)))
    spec = {**BASE, **one("a", {"size": "1MiB"}, {"size": "1MiB", "iothread": number})}
    machine = read_machine(spec, existing=lambda _name: Existing(values))
    plans = make_plans([machine], Hypervisor(host.conn, image_pool="images"), "machines")
    (outcome,) = run_plans(plans, concurrency=1)
    assert outcome.error is None
    assert (guest.calls, outcome.pending) == (calls, pending)


def test_a_failed_attachment_takes_nobody_elses_disk_out(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.make(one("a", {"size": "1MiB"}, start=True))
    guest = Guest(host, monkeypatch)
    plans = host.plan(one("a", {"size": "1MiB"}, {"size": "1MiB"}))
    # Between the plan and the deed, somebody plugs in a disk of theirs.
    guest.plug_in(FOREIGN)
    outcome = run_plans(plans, concurrency=1)[0]
    assert "target already exists" in str(outcome.error)
    assert "could not be rolled back" not in str(outcome.error)
    assert guest.calls == ["attach vdb"]
    assert guest.files["vdb"] == "/srv/theirs.img"


@pytest.mark.parametrize("change", [{"state": "absent"}, {"size": "2MiB"}])
def test_another_disk_in_the_place_of_one_defined(
    host: Host, monkeypatch: pytest.MonkeyPatch, change: dict[str, t.Any]
) -> None:
    host.make(one("a", {"size": "1MiB"}, {"size": "1MiB"}, start=True))
    guest = Guest(host, monkeypatch)
    guest.devices.remove(need(guest.devices, "disk/target[@dev='vdb']/.."))
    guest.plug_in(FOREIGN)
    assert host.refused({"name": "a", "disks": [{"name": "e", "size": "1MiB", **change}]}) == (
        f"machines[0].disks[0]: the running machine has /srv/theirs.img as vdb, and its definition has "
        f"{host.directory}/default/a-e.qcow2 there. Somebody has changed one of the two. Power it off and on first, or "
        "detach that disk with virsh detach-disk"
    )


def test_a_guest_that_does_not_let_go_of_a_disk(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.make(one("a", {"size": "1MiB"}, {"size": "1MiB"}, start=True))
    guest = Guest(host, monkeypatch)
    guest.lets_go = False
    monkeypatch.setattr(domains, "_DETACH_SECONDS", 0.2)
    error = error_of(host, {"name": "a", "disks": [{"name": "e", "state": "absent"}]})
    assert "has not released its disk" in error
    # It has the disk still, and nothing has to be given back to it.
    assert "could not be rolled back" not in error
    assert guest.calls == ["detach vdb"]
    assert host.files("a") == ["a-d.qcow2", "a-e.qcow2"]


def test_each_run_names_the_disk_that_goes_when_the_machine_is_powered_off(host: Host) -> None:
    host.make(one("a", {"size": "1MiB"}, {"size": "1MiB", "model": "sata"}, start=True))
    absent = {"name": "a", "disks": [{"name": "e", "state": "absent"}]}
    (first,) = host.plan(absent)
    assert run_plans([first], concurrency=1)[0].error is None
    (second,) = host.plan(absent)
    (third,) = host.plan({"name": "a"})
    # Its name is forgotten by then.
    assert [list(plan.pending) for plan in (first, second, third)] == [["disks.e"], ["disks.sda"], ["disks.sda"]]
    assert not second.steps


def test_a_medium_that_is_defined_alone(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed between the record and the running machine."""
    cdrom = {"device": "cdrom", "source": "x.qcow2"}
    host.add_volume("y.qcow2")
    host.make(one("a", cdrom, start=True))
    guest = Guest(host, monkeypatch)
    changed = {**cdrom, "source": "y.qcow2"}
    plans = host.plan(one("a", changed))
    plans[0].steps[0].apply()
    assert guest.files == {"sda": str(host.path)}
    host.make(one("a", changed))
    assert guest.files == {"sda": f"{host.directory}/default/y.qcow2"}
    assert not host.plan(one("a", changed))[0].steps
    host.make(one("a", {"device": "cdrom", "source": "none"}))
    assert guest.files == {"sda": None}
    assert not host.plan(one("a", {"device": "cdrom", "source": "none"}))[0].steps


@pytest.mark.parametrize("key", ["vcpus", "memory"])
def test_more_than_the_running_machine_can_have_waits(host: Host, key: str) -> None:
    amounts = {"vcpus": (1, 4, 3), "memory": (64, 128, 96)}
    now, most, current = amounts[key]
    host.make(one("a", start=True))
    host.make(one("a", **{key: {"maximum": most, "current": now}}))
    todo = host.plan(one("a", **{key: {"maximum": most, "current": current}}))[0]
    assert [step.description for step in todo.steps] == [f"change the definition of a: {key}"]
    assert list(todo.pending) == [key]


@pytest.mark.parametrize("is_new", [False, True])
def test_the_vlan_of_a_nic_changes_at_once_where_libvirt_can(
    host: Host, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    version = host.conn.getLibVersion()
    monkeypatch.setattr(networks, "_VLANS_SINCE", version)
    host.conn.networkCreateXML("<network><name>n1</name><bridge name='vb1'/></network>")
    nic = {"name": "eth0", "bridge": "vb1", "mac": "52:54:00:00:00:01", "vlan": 30}
    host.make(one("a", nics=[nic], start=True))
    guest = Guest(host, monkeypatch)
    monkeypatch.setattr(networks, "_VLANS_SINCE", version + (0 if is_new else 1))
    todo = host.plan(one("a", nics=[{**nic, "vlan": [20, 30]}]))[0]
    assert list(todo.pending) == ([] if is_new else ["nics.eth0.vlan"])
    for step in todo.steps:
        step.apply()
    tags = [tag.get("id") for tag in guest.xml.iterfind("devices/interface/vlan/tag")]
    assert tags == (["20", "30"] if is_new else ["30"])


def test_a_new_nic_with_the_address_of_another_one(host: Host) -> None:
    for number in (1, 2):
        host.conn.networkCreateXML(f"<network><name>n{number}</name><bridge name='vb{number}'/></network>")
    host.make(one("a", nics=[{"name": "eth0", "network": "n1", "mac": "52:54:00:00:00:01"}]))
    assert host.refused(one("a", nics=[{"name": "eth1", "network": "n2", "mac": "52:54:00:00:00:01"}])) == (
        "machines[0].nics[0].mac: the MAC address 52:54:00:00:00:01 belongs to nic eth0 of this machine. Give another "
        "one with mac, or leave it out"
    )


@pytest.mark.parametrize("there", [False, True])
def test_a_port_group_that_the_network_has_not(host: Host, there: bool) -> None:
    """libvirt takes it for none, and the nic would be in no VLAN."""
    host.conn.networkCreateXML(
        "<network><name>n1</name><bridge name='vb1'/><portgroup name='dmz'/><portgroup name='lan'/></network>"
    )
    nic = {"name": "eth0", "network": "n1", "mac": "52:54:00:00:00:01", "portgroup": "dmz"}
    if there:
        host.make(one("a", nics=[nic]))
    with pytest.raises(NotFoundError) as caught:
        host.plan(one("a", nics=[{**nic, "portgroup": "dzm"}]))
    assert str(caught.value).startswith("machines[0].nics[0].portgroup: network n1 has no port group 'dzm'")
    assert "dmz" in str(caught.value.hint)
    assert host.plan(one("a", nics=[{**nic, "portgroup": "lan"}]))[0].steps


@pytest.mark.parametrize("there", [False, True])
def test_two_machines_of_a_task_with_one_address(host: Host, there: bool) -> None:
    host.conn.networkCreateXML("<network><name>n1</name><bridge name='vb1'/></network>")
    if there:
        host.make(one("a"), one("b"))
    nics = [{"name": "eth0", "network": "n1", "mac": "52:54:00:00:00:01"}]
    assert host.refused(one("a", nics=nics), one("b", nics=nics)) == (
        "machines[1].nics[0].mac: the MAC address 52:54:00:00:00:01 belongs to machine a. Give another one with mac"
    )


def test_a_disk_beside_one_of_the_tasks_own_xml(host: Host) -> None:
    host.make(one("a", {"size": "1MiB"}))
    xml = "<devices><disk type='file'><source file='/srv/more.img'/><target dev='vdb' bus='virtio'/></disk></devices>"
    host.make(one("a", {"size": "1MiB"}, {"size": "1MiB"}, xml=xml))
    targets = parse_xml(host.conn.lookupByName("a").XMLDesc(2)).iterfind("devices/disk/target")
    assert sorted(target.get("dev", "") for target in targets) == ["vda", "vdb", "vdc"]


def killed_after_the_definition(host: Host, spec: dict[str, t.Any]) -> None:
    """A run that is killed before it comes to the running machine."""
    host.plan(spec)[0].steps[0].apply()


def test_a_nic_that_a_killed_run_left_in_the_running_machine(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.conn.networkCreateXML("<network><name>n1</name><bridge name='vb1'/></network>")
    nics = [{"name": name, "network": "n1"} for name in ("eth0", "eth1")]
    host.make(one("a", nics=nics, start=True))
    guest = Guest(host, monkeypatch)
    for index, nic in enumerate(guest.devices.iterfind("interface")):
        need(nic, "target").set("dev", f"vnet{index}")
    absent = one("a", nics=[{"name": "eth1", "state": "absent"}])
    killed_after_the_definition(host, absent)
    assert host.conn.lookupByName("a").XMLDesc(2).count("<interface") == 1
    host.make(absent)
    assert guest.calls == ["detach vnet1"]
    assert not host.plan(absent)[0].steps
    assert "eth1" not in host.conn.lookupByName("a").XMLDesc(2)


def test_a_disk_that_a_killed_run_left_in_the_running_machine(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.make(one("a", {"size": "1MiB"}, {"size": "1MiB"}, start=True))
    guest = Guest(host, monkeypatch)
    absent = {"name": "a", "disks": [{"name": "e", "state": "absent"}]}
    killed_after_the_definition(host, absent)
    assert host.files("a") == ["a-d.qcow2"]
    host.make(absent)
    assert guest.calls == ["detach vdb"]
    assert not host.plan(absent)[0].steps
    # Its volume is there, and no longer the machine's own.
    assert "a-e.qcow2" in host.conn.storagePoolLookupByName("default").listVolumes()
    assert "a-e.qcow2" not in host.conn.lookupByName("a").XMLDesc(2)


@pytest.mark.parametrize("own", [True, False])
def test_a_disk_of_somebody_elses_in_its_place_stays(host: Host, monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    host.make(one("a", {"size": "1MiB"}, {"size": "1MiB"} if own else {"source": "x.qcow2"}, start=True))
    guest = Guest(host, monkeypatch)
    absent = {"name": "a", "disks": [{"name": "e", "state": "absent"}]}
    killed_after_the_definition(host, absent)
    guest.devices.remove(need(guest.devices, "disk/target[@dev='vdb']/.."))
    guest.plug_in(FOREIGN)
    todo = host.plan(absent)[0]
    host.make(absent)
    # What was not made for the machine nobody can tell from another one: it is there until the next boot.
    assert (guest.calls, list(todo.pending)) == ([], [] if own else ["disks.e"])


def test_a_disk_that_is_defined_alone_grows_before_it_is_plugged_in(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.make(one("a", {"size": "1MiB"}, start=True))
    guest = Guest(host, monkeypatch)
    # The record of the new disk, its volume and the definition.
    for step in host.plan(one("a", {"size": "1MiB"}, {"size": "1MiB"}))[0].steps[:3]:
        step.apply()
    assert (host.files("a"), list(guest.files)) == (["a-d.qcow2", "a-e.qcow2"], ["vda"])
    grown: list[str] = []
    monkeypatch.setattr(
        volumes, "grow_volume", lambda _pool, name, size, **_format: grown.append(f"{name} {size >> 20} {guest.calls}")
    )
    host.make(one("a", {"size": "1MiB"}, {"size": "2MiB"}))
    assert grown == ["a-e.qcow2 2 []"]
    assert guest.calls == ["attach vdb"]


FOREIGN_MACHINE = """<domain type='test'><name>other</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>
  <devices><disk type='block' device='disk'><source dev='/dev/vg/a-d'/><target dev='vda'/></disk></devices></domain>"""


def test_what_a_disk_grows_by_is_to_be_free_before_anything_is_changed(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pools that give all of a volume's space at once. Else what is written later is nobody's to know."""
    source = "<source><name>vg</name></source><target><path>/dev/vg</path></target>"
    host.conn.storagePoolCreateXML(f"<pool type='logical'><name>vg</name>{source}</pool>", 0)
    monkeypatch.setattr(volumes, "zero_logical", lambda *_arguments: None)
    host.make(one("a", {"size": "2MiB", "pool": "vg"}, {"size": "2MiB"}))
    with pytest.raises(ConflictError, match=r"pool 'vg' has .* free, the new volumes need .* at once"):
        host.plan(one("a", {"size": "9TiB", "pool": "vg"}))
    thin = one("a", {"size": "2MiB", "pool": "vg"}, {"size": "9TiB"})
    assert host.plan(thin)[0].actions == ["grow disk e of a to 9437184 MiB"]


def test_where_a_hypervisor_is_chosen_by_what_is_free_no_disk_grows_beyond_that(host: Host) -> None:
    """Also where a disk takes no space before it is written to: it is never shrunk again."""
    host.make(one("a", {"size": "2MiB"}, {"size": "2MiB"}))

    def plan(*sizes: str) -> list[str]:
        hypervisor = host.hypervisor()
        check_still_chosen([], hypervisor, read_decision({"machines": {"a": None}}, "decision"))
        return list(host.plan(one("a", *({"size": size} for size in sizes)), hypervisor=hypervisor)[0].actions)

    free_mib = host.hypervisor().pools.get("default").available_bytes >> 20
    half = f"{free_mib // 2 + 3}MiB"
    assert len(plan(half, "2MiB")) == 1
    with pytest.raises(ConflictError, match=r"machines\[0\]\.disks\[0\]\.size.*to grow by .* pool default has .* free"):
        plan(f"{free_mib + 3}MiB", "2MiB")
    with pytest.raises(ConflictError, match=r"machines\[0\]\.disks\[1\]\.size.* with what others grow by"):
        plan(half, half)


def test_a_device_that_has_grown_without_its_machine_knowing_is_finished(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run was killed between lvextend and telling QEMU."""
    source = "<source><name>vg</name></source><target><path>/dev/vg</path></target>"
    host.conn.storagePoolCreateXML(f"<pool type='logical'><name>vg</name>{source}</pool>", 0)
    # The test driver makes no device.
    monkeypatch.setattr(volumes, "zero_logical", lambda *_arguments: None)
    monkeypatch.setattr(volumes, "_is_thin", lambda _path: False)
    host.make(one("a", {"size": "2MiB", "pool": "vg"}, start=True))
    mib, told = {"vda": 1}, []

    def resize(_domain: t.Any, target: str, size: int, _flags: int) -> None:
        told.append((target, size >> 20))
        mib[target] = size >> 20

    kind = type(host.conn.lookupByName("a"))
    monkeypatch.setattr(kind, "blockInfo", lambda _domain, target, *_flags: [mib[target] << 20, 0, 0])
    monkeypatch.setattr(kind, "blockResize", resize)
    real, known = volumes.grow_volume, []

    def grow(*arguments: t.Any, guest_bytes: int | None = None, **settings: t.Any) -> bool:
        known.append((guest_bytes, list(told)))
        return real(*arguments, guest_bytes=guest_bytes, **settings)

    monkeypatch.setattr(volumes, "grow_volume", grow)
    wanted = one("a", {"size": "2MiB", "pool": "vg"})
    assert host.plan(wanted)[0].actions == ["grow disk d of a to 2 MiB"]
    host.make(wanted)
    assert told == [("vda", 2)]
    # What is behind that, the machine has not written; it is wiped before the machine is told.
    assert known == [(1 << 20, [])]
    assert host.plan(wanted)[0].actions == []
    # Another machine may know of it, and have written there.
    mib["vda"] = 1
    host.conn.defineXML(FOREIGN_MACHINE)
    host.make(wanted)
    assert known[1:] == [(None, [("vda", 2)])]
    # A driver that cannot tell has nothing unfinished.
    monkeypatch.undo()
    assert host.plan(wanted)[0].actions == []


def test_a_disk_that_qemu_maps_is_not_made_one_that_several_write_to(host: Host) -> None:
    host.make(one("a", {"size": "1MiB"}))
    with pytest.raises(InputError, match="a qcow2 volume cannot be shared by machines that write to it"):
        host.plan(one("a", {"size": "1MiB", "shareable": True}))
    host.make(one("a", {"size": "1MiB", "shareable": True, "readonly": True}))
    with pytest.raises(InputError, match="a qcow2 volume cannot be shared"):
        host.plan(one("a", {"size": "1MiB", "readonly": False}))
