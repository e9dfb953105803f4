# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a machine a hypervisor cannot take, question by question; on libvirt's test driver.

test_plan.py has the same within a whole plan.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts import networks as facts_of_networks
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import MachineNotes
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.options import MigrationOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.source_and_target import (
    MigrationTarget,
    SourceMachine,
    read_source_machine,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.preflight import (
    check_finished,
    check_free_space_on_target,
    check_source_machine,
    check_target,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.metadata.notes_text import notes_to_xml

MIB = 1024 * 1024
DOMAIN = """
<domain type='{type}'><name>web1</name><uuid>11111111-1111-1111-1111-111111111111</uuid>
<memory unit='KiB'>65536</memory><vcpu>1</vcpu><os{os}><type arch='{arch}' machine='{machine}'>hvm</type>{loader}</os>
{cpu}<devices>{devices}</devices></domain>"""
PLAIN = {"type": "test", "os": "", "arch": "", "machine": "", "loader": "", "cpu": "", "devices": ""}


@dataclasses.dataclass
class Pair:
    """A machine that can go to a target, as long as nothing of it is said otherwise."""

    machine: SourceMachine
    target: MigrationTarget

    def having(self, **special: str) -> SourceMachine:
        """The machine with other XML: what the test driver itself would not run."""
        xml = parse_xml(DOMAIN.format(**{**PLAIN, "arch": self.target.guests.arch, **special}))
        return dataclasses.replace(self.machine, running_xml=xml, defined_xml=xml)

    def refused(self, machine: SourceMachine) -> str:
        with pytest.raises(VirtError) as caught:
            check_target(machine, self.target, MigrationOptions(), "machines[0]")
        assert caught.value.where == "machines[0]"
        return str(caught.value)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    bare = "<domain type='test'><name>web1</name><memory>65536</memory><os><type>hvm</type></os></domain>"
    with ExitStack() as stack:
        conns = []
        for name, inside in (("source", bare), ("target", "<network><name>off</name><bridge name='br7'/></network>")):
            (tmp_path / f"{name}.xml").write_text(f"<node>{inside}</node>", encoding="utf-8")
            conns.append(stack.enter_context(open_connection(f"test://{tmp_path}/{name}.xml")))
        target = MigrationTarget(f"test://{tmp_path}/target.xml", conns[1])
        target.name = "hv2"
        yield Pair(read_source_machine(list_domains(conns[0])["web1"], ""), target)


def test_a_plain_machine_can_go(pair: Pair) -> None:
    check_source_machine(pair.machine, MigrationOptions(), "")
    check_target(pair.machine, pair.target, MigrationOptions(), "")
    check_target(pair.having(), pair.target, MigrationOptions(), "")


def test_one_of_which_a_snapshot_was_begun_may_be_on_other_files(pair: Pair) -> None:
    note = "<metadata><w:snapshotting xmlns:w='urn:brine:virt:snapshotting:1' snapshot='s1' work='take'/></metadata>"
    head = f"<name>web1</name><uuid>{pair.machine.uuid}</uuid>{note}<memory>65536</memory><os><type>hvm</type></os>"
    disk = "<disk type='file'><source file='/p/a.qcow2'/><target dev='vda'/></disk>"
    pair.machine.handle.connect().defineXML(f"<domain type='test'>{head}<devices>{disk}</devices></domain>")
    machine = read_source_machine(list_domains(pair.machine.handle.connect())["web1"], "")
    words = "web1 is not moved, as virt_snapshot is taking snapshot s1 of it, or was interrupted while doing so"
    with pytest.raises(ConflictError, match=words):
        check_source_machine(machine, MigrationOptions(), "")
    # It is in the snapshot's own description, with which virsh snapshot-revert brings it back.
    machine.handle.snapshotCreateXML("<domainsnapshot><name>s1</name></domainsnapshot>")
    check_finished(machine, "")


@pytest.mark.parametrize(
    ("special", "words"),
    [
        ({"arch": "riscv64"}, "it is made for riscv64, but that host is "),
        ({"type": "kvm"}, "it runs with KVM, which is not there"),
        ({"machine": "pc-q35-99.0"}, "the machine type pc-q35-99.0 is not known there"),
    ],
)
def test_a_machine_of_another_kind(pair: Pair, special: dict[str, str], words: str) -> None:
    assert f"web1 cannot go to hv2: {words}" in pair.refused(pair.having(**special))


def test_a_newer_machine_type_is_answered_with_those_that_are_there(pair: Pair) -> None:
    pair.target.guests.machine_types = {"pc-q35-7.1", "pc-q35-7.2", "pc-i440fx-7.2"}
    said = pair.refused(pair.having(machine="pc-q35-9.0"))
    assert "pc-q35-7.1, pc-q35-7.2" in said
    assert "i440fx" not in said


def test_the_ratio_counts_what_is_left_beside_the_reserve(pair: Pair) -> None:
    """As in placement: a move that it has planned is not refused, and none is made that it would not plan."""
    total_mib = pair.target.hypervisor.memory_mib
    fits = MigrationOptions(memory_ratio=0.5, memory_reserve_mib=total_mib - 150)
    check_target(pair.machine, pair.target, fits, "")
    too_little = MigrationOptions(memory_ratio=2.0, memory_reserve_mib=total_mib - 20)
    with pytest.raises(VirtError, match="it needs 64 MiB of memory, 40 MiB are free"):
        check_target(pair.machine, pair.target, too_little, "")


def in_group(name: str, groups: str, uuid: str) -> str:
    return (
        DOMAIN.format(**{**PLAIN, "arch": "i686"})
        .replace("web1", name)
        .replace("1111-111111111111", uuid)
        .replace("<memory", f"<metadata>{groups}</metadata><memory")
    )


def test_machines_of_one_group_stay_apart_also_where_another_run_puts_them(pair: Pair) -> None:
    """What a move was chosen by may be an hour old when it comes to its target."""
    web = MachineNotes(anti_affinity=("web",))
    machine = dataclasses.replace(pair.machine, notes=web)
    check_target(machine, pair.target, MigrationOptions(), "")
    pair.target.groups["web9"] = ("web",)
    assert "web1 cannot go to hv2: web9, of the same anti-affinity group web, is going there too" in pair.refused(
        machine
    )
    pair.target.groups.clear()
    pair.target.hypervisor.conn.defineXML(in_group("web2", notes_to_xml(web), "1111-111111111112"))
    target = pair.target = MigrationTarget(pair.target.uri, pair.target.hypervisor.conn)
    target.name = "hv2"
    assert pair.refused(machine) == (
        "machines[0]: web1 cannot go to hv2: it has web2, of the same anti-affinity group web. Choose another "
        "hypervisor, or let them share one: anti_affinity: prefer, or for the playbooks virt_anti_affinity: prefer"
    )
    check_target(machine, target, MigrationOptions(anti_affinity="prefer"), "")
    check_target(pair.machine, target, MigrationOptions(), "")


UEFI = {"loader": "<loader readonly='yes' type='pflash'>/fw.fd</loader>"}
TPM = {"devices": "<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>"}


@pytest.mark.parametrize(
    ("special", "words"),
    [
        (UEFI, "web1 is off, and the variables of its UEFI would stay behind"),
        ({"os": " firmware='efi'"}, "web1 is off, and the variables of its UEFI would stay behind"),
        (TPM, "web1 is off, and the state of its TPM would stay behind"),
    ],
)
def test_what_lies_in_no_pool_stays_behind_when_the_machine_is_off(
    pair: Pair, special: dict[str, str], words: str
) -> None:
    pair.machine.handle.destroy()
    off = dataclasses.replace(pair.having(**special), active=False)
    with pytest.raises(VirtError, match=words) as caught:
        check_source_machine(off, MigrationOptions(), "")
    assert "Start it first, and move it running" in str(caught.value)
    pair.machine.handle.create()
    check_source_machine(dataclasses.replace(off, active=True), MigrationOptions(), "")


KEY = "66666666-6666-4666-8666-666666666666"
ENCRYPTED = "<disk type='file'><source file='/d'>{}</source><target dev='vda'/></disk>"
LUKS = "<encryption format='luks'><secret type='passphrase' {}/></encryption>"
FILTERED = "<interface type='user'><filterref filter='clean-traffic'/></interface>"
TPM_STATE = f"<tpm><backend type='emulator'><encryption secret='{KEY}'/></backend></tpm>"


@pytest.mark.parametrize(
    ("devices", "ask", "missing", "words"),
    [
        (ENCRYPTED.format(LUKS.format(f"uuid='{KEY}'")), "secretLookupByUUIDString", "NO_SECRET", f"the secret {KEY}"),
        (ENCRYPTED.format(LUKS.format("usage='web1'")), "secretLookupByUsage", "NO_SECRET", "the secret web1"),
        (TPM_STATE, "secretLookupByUUIDString", "NO_SECRET", f"the secret {KEY}"),
        (FILTERED, "nwfilterLookupByName", "NO_NWFILTER", "the network filter clean-traffic"),
    ],
    ids=["disk, by UUID", "disk, by usage", "TPM", "filter"],
)
@pytest.mark.parametrize("active", [True, False])
def test_what_libvirt_itself_has_to_have_there(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, devices: str, ask: str, missing: str, words: str, active: bool
) -> None:
    """The test driver has neither secrets nor filters, and leaves it to libvirt to say so."""
    machine = dataclasses.replace(pair.having(devices=devices), active=active)
    check_target(machine, pair.target, MigrationOptions(), "")
    asked: list[t.Any] = []
    monkeypatch.setattr(libvirt.virConnect, ask, lambda _conn, *name: asked.append(name))
    check_target(machine, pair.target, MigrationOptions(), "")
    assert len(asked) == 1

    def fail(_conn: t.Any, *_name: t.Any) -> None:
        error = libvirt.libvirtError("not there")
        error.err = (getattr(libvirt, f"VIR_ERR_{missing}"), 0, "not there", 0, "", None, None, 0, 0)
        raise error

    monkeypatch.setattr(libvirt.virConnect, ask, fail)
    assert f"web1 cannot go to hv2: it needs {words}, which libvirt there does not have" in pair.refused(machine)


@pytest.mark.parametrize("active", [False, True])
def test_persistent_memory_stays_behind_also_when_the_machine_runs(pair: Pair, active: bool) -> None:
    pmem = {"devices": "<memory model='nvdimm'><source><path>/pmem</path></source></memory>"}
    with pytest.raises(VirtError, match="it has persistent memory in a file of the hypervisor"):
        check_source_machine(dataclasses.replace(pair.having(**pmem), active=active), MigrationOptions(), "")


def test_a_file_that_the_next_start_needs_is_to_be_there(pair: Pair, tmp_path: Path) -> None:
    kernel = {"loader": f"<kernel>{tmp_path}/boot/kernel</kernel>"}
    running = pair.having(**kernel)
    off = dataclasses.replace(running, active=False)
    # QEMU opens it there before a running machine comes.
    check_target(running, pair.target, MigrationOptions(), "")
    said = pair.refused(off)
    assert f"its kernel {tmp_path}/boot/kernel is in no storage pool there, and would stay behind" in said
    assert "virsh pool-refresh" in said
    pool = f"<pool type='dir'><name>boot</name><target><path>{tmp_path}/boot</path></target></pool>"
    there = pair.target.hypervisor.conn.storagePoolCreateXML(pool, 0)
    there.createXML("<volume><name>kernel</name><capacity>1</capacity></volume>", 0)
    check_target(off, pair.target, MigrationOptions(), "")


def test_a_saved_machine_has_its_memory_in_a_file_here(pair: Pair) -> None:
    pair.machine.handle.managedSave()
    with pytest.raises(VirtError, match="web1 is saved to a file of this hypervisor"):
        check_source_machine(dataclasses.replace(pair.machine, active=False), MigrationOptions(), "")


class Conn:
    """The target's connection with another answer to one question, which the test driver does not know."""

    def __init__(self, conn: t.Any, **answers: t.Any) -> None:
        self._conn = conn
        self.__dict__.update(answers)

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._conn, name)


def error(number: int) -> libvirt.libvirtError:
    exc = libvirt.libvirtError("it lacks avx512f")
    exc.err = (number, 0, "it lacks avx512f", 2, "", "", "", 0, 0)
    return exc


def test_a_machine_needs_its_firmware_there(pair: Pair) -> None:
    loaders = "<domainCapabilities><os><loader><value>/usr/fw2.fd</value></loader></os></domainCapabilities>"
    pair.target.hypervisor.conn = Conn(pair.target.hypervisor.conn, getDomainCapabilities=lambda *_words: loaders)
    assert "its firmware /fw.fd is not there" in pair.refused(pair.having(**UEFI))
    off = dataclasses.replace(pair.having(loader="<loader type='rom'>/bios.bin</loader>"), active=False)
    assert "its firmware /bios.bin is not there" in pair.refused(off)
    has = pair.having(loader="<loader type='pflash'>/usr/fw2.fd</loader>")
    check_target(has, pair.target, MigrationOptions(), "")


@pytest.mark.parametrize("number", [libvirt.VIR_ERR_CPU_INCOMPATIBLE, libvirt.VIR_ERR_NO_SUPPORT])
def test_a_running_machine_needs_all_of_its_cpu_there(pair: Pair, number: int) -> None:
    """Where libvirt cannot compare, its own check at the move is the one that counts."""

    def compare(*_words: t.Any) -> t.NoReturn:
        raise error(number)

    pair.target.hypervisor.conn = Conn(pair.target.hypervisor.conn, compareHypervisorCPU=compare)
    machine = pair.having(cpu="<cpu mode='custom'><model>EPYC</model></cpu>")
    if number == libvirt.VIR_ERR_CPU_INCOMPATIBLE:
        said = pair.refused(machine)
        assert "the CPU there lacks a feature of the machine's CPU: it lacks avx512f" in said
        assert "virt_cpu_baseline" in said
    else:
        check_target(machine, pair.target, MigrationOptions(), "")
    # It gets its CPU where it starts.
    check_target(dataclasses.replace(machine, active=False), pair.target, MigrationOptions(), "")


def test_a_network_that_is_off_there(pair: Pair) -> None:
    nic = "<interface type='network'><source network='off'/></interface>"
    pair.target.hypervisor.conn.networkLookupByName("off").destroy()
    said = pair.refused(pair.having(devices=nic))
    assert "libvirt network 'off' is not active" in said
    assert "virsh net-start off" in said


def networks(pair: Pair, here: str, there: str) -> None:
    """A network of one name on both, with what is in it on each."""
    for conn, inside in ((pair.machine.handle.connect(), here), (pair.target.hypervisor.conn, there)):
        conn.networkDefineXML(f"<network><name>lan</name>{inside}</network>").create()


BRIDGE = "<forward mode='bridge'/><bridge name='{}'/><virtualport type='openvswitch'/>"
NAT = "<forward mode='nat'/><bridge name='virbr9'/><ip address='192.0.2.1' netmask='255.255.255.0'/>"
ON_LAN = "<interface type='network'><source network='lan'{}/>{}</interface>"
GROUP = "<portgroup name='dmz'{}><vlan><tag id='{}'/></vlan></portgroup>"


def test_a_port_group_that_is_not_there(pair: Pair) -> None:
    """libvirt passes over the name, and the guest would be in no VLAN."""
    networks(pair, BRIDGE.format("ovs0") + GROUP.format("", 10), BRIDGE.format("ovs0") + "<portgroup name='dzm'/>")
    said = pair.refused(pair.having(devices=ON_LAN.format(" portgroup='dmz'", "")))
    assert "web1 cannot go to hv2: network lan has no port group 'dmz'" in said
    assert "dzm" in said


def test_a_running_machine_is_on_the_network_that_it_was_given(pair: Pair) -> None:
    """libvirt shows the bridge for as long as it runs. That of the target has another name, which is what networks are
    for."""
    networks(pair, BRIDGE.format("ovs0") + GROUP.format("", 10), BRIDGE.format("ovs7") + GROUP.format("", 10))
    live = "<interface type='bridge'><source network='lan' portgroup='dmz' portid='1' bridge='ovs0'/></interface>"
    check_target(pair.having(devices=live), pair.target, MigrationOptions(), "")


@pytest.mark.parametrize(
    ("here", "there", "nic", "words"),
    [
        (
            BRIDGE.format("ovs0") + GROUP.format("", 10),
            BRIDGE.format("ovs0") + GROUP.format("", 20),
            (" portgroup='dmz'", ""),
            "libvirt network 'lan' with port group dmz has VLAN 20 there, and VLAN 10 here",
        ),
        (
            BRIDGE.format("ovs0") + GROUP.format(" default='yes'", 10),
            BRIDGE.format("ovs0") + GROUP.format("", 10),
            ("", ""),
            "libvirt network 'lan' has no VLAN there, and VLAN 10 here",
        ),
        (
            BRIDGE.format("ovs0") + "<vlan trunk='yes'><tag id='5' nativeMode='untagged'/><tag id='4'/></vlan>",
            BRIDGE.format("ovs0"),
            ("", ""),
            "no VLAN there, and trunk of VLANs 4, 5, 5 without a tag here",
        ),
        (
            "<bridge name='virbr9'/>",
            NAT,
            ("", ""),
            "libvirt network 'lan' is of mode nat there, and of mode isolated here",
        ),
        (
            NAT,
            "<forward mode='bridge'/><bridge name='br0'/>",
            ("", ""),
            "libvirt network 'lan' is on the LAN of the hypervisor there, and of mode nat here",
        ),
        (
            BRIDGE.format("ovs0") + "<port isolated='yes'/>",
            BRIDGE.format("ovs0"),
            ("", ""),
            "libvirt network 'lan' keeps nics not isolated from the others there, and isolated from the others here",
        ),
    ],
)
def test_a_network_of_the_same_name_that_is_another(
    pair: Pair, here: str, there: str, nic: tuple[str, str], words: str
) -> None:
    networks(pair, here, there)
    said = pair.refused(pair.having(devices=ON_LAN.format(*nic)))
    assert words in said
    assert "virsh net-dumpxml lan" in said


def test_a_vlan_of_the_nics_own_is_the_same_everywhere(pair: Pair) -> None:
    networks(pair, BRIDGE.format("ovs0") + GROUP.format("", 10), BRIDGE.format("ovs0") + GROUP.format("", 20))
    nic = ON_LAN.format(" portgroup='dmz'", "<vlan><tag id='7'/></vlan>")
    check_target(pair.having(devices=nic), pair.target, MigrationOptions(), "")


def test_a_bridge_of_a_libvirt_that_sets_no_vlans(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    nic = "<interface type='bridge'><source bridge='{}'/><vlan><tag id='7'/></vlan>{}</interface>"
    pair.target.hypervisor.__dict__["_bridges"] = ["br0"]
    there = pair.target.hypervisor.conn.getLibVersion()
    monkeypatch.setattr(facts_of_networks, "_VLANS_SINCE", there + 1)
    said = pair.refused(pair.having(devices=nic.format("br0", "")))
    assert "cannot put a nic on the bridge br0 into a VLAN" in said
    check_target(
        pair.having(devices=nic.format("br0", "<virtualport type='openvswitch'/>")),
        pair.target,
        MigrationOptions(),
        "",
    )
    monkeypatch.setattr(facts_of_networks, "_VLANS_SINCE", there)
    check_target(pair.having(devices=nic.format("br0", "")), pair.target, MigrationOptions(), "")


def disk(**settings: t.Any) -> t.Any:
    pool = Pool("default", "/vms", 10 * MIB, None, space_source="fs1")
    volume = SimpleNamespace(allocation_bytes=4 * MIB)
    whole = {"travels": True, "target_pool": pool, "volume": volume, "flattened": False, "base": None}
    return SimpleNamespace(**{**whole, "capacity_bytes": 64 * MIB, **settings})


def test_what_travels_needs_space_there_all_of_it_together(pair: Pair) -> None:
    check_free_space_on_target([disk(), disk()], pair.target, "")
    check_free_space_on_target([disk(), disk(), disk(travels=False)], pair.target, "")
    with pytest.raises(ConflictError):
        check_free_space_on_target([disk(), disk(), disk()], pair.target, "")


def test_a_disk_that_is_flattened_or_whose_pool_gives_all_at_once_needs_its_whole_size(pair: Pair) -> None:
    thick = Pool("vg", "/dev/vg", 10 * MIB, None, type="logical", space_source="vg")
    for special in ({"flattened": True}, {"target_pool": thick}):
        with pytest.raises(ConflictError):
            check_free_space_on_target([disk(**special)], pair.target, "")
