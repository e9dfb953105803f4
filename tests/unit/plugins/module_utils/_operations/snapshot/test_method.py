# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a snapshot is taken, by the disks, the machine's state and libvirt's version."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    InputError,
    UnsupportedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import (
    CEPH,
    EXTERNAL,
    INTERNAL,
    KnownSnapshot,
    Snapshot,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.power.view import PowerView
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.method import AUTO, NO, YES, choose
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.revert import steps_to_revert
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.view import SnapshotView, version_words

DEBIAN_12, DEBIAN_13 = 9_000_000, 11_003_000
QCOW2 = "<disk type='file'><driver type='qcow2'/><source file='/p/w-system.qcow2'/><target dev='vda'/></disk>"
RAW = "<disk type='file'><driver type='raw'/><source file='/p/w-data.raw'/><target dev='vdb'/></disk>"
LVM = "<disk type='block'><driver type='raw'/><source dev='/dev/vg/w'/><target dev='vdb'/></disk>"
RBD = "<disk type='network'><source protocol='rbd' name='p/w'/><target dev='vdb'/></disk>"
ISCSI = "<disk type='network'><source protocol='iscsi' name='iqn.x/1'/><target dev='vdb'/></disk>"
SEED = "<disk type='file'><driver type='raw'/><source file='/p/w-seed.iso'/><target dev='vdz'/><readonly/></disk>"
CDROM = "<disk type='file' device='cdrom'><target dev='sda'/></disk>"
AGENT = "<channel><target type='virtio' name='org.qemu.guest_agent.0' state='connected'/></channel>"
UEFI = "<os><loader type='pflash'>/f</loader><nvram format='{}'>/n</nvram></os>"
VCPUS = "<vcpus><vcpu id='0' enabled='yes' hotpluggable='no'/><vcpu id='1' enabled='{}' hotpluggable='{}'/></vcpus>"
ADDED_VCPUS = VCPUS.format("yes", "yes")
TPM = "<tpm><backend type='emulator'/></tpm>"


def machine(
    devices: str, state: str = "running", version: int = DEBIAN_13, other: str = "", has: tuple[str, ...] = ()
) -> SnapshotView:
    xml = parse_xml(f"<domain><name>w</name>{other}<devices>{devices}</devices></domain>")
    power = PowerView("w", None, state, active=state != "shutoff")
    snapshots = tuple(
        KnownSnapshot(None, Snapshot(f"old-{kind}", 0, "shutoff", kind, False, None, "", True), current=False)
        for kind in has
    )
    return SnapshotView(power, xml, xml, snapshots, version)


@pytest.mark.parametrize("version", [DEBIAN_12, DEBIAN_13])
@pytest.mark.parametrize("state", ["running", "paused", "shutoff"])
def test_qcow2_is_internal(version: int, state: str) -> None:
    method = choose(machine(QCOW2 + SEED + CDROM, state, version), "s", AUTO, AUTO)
    assert (method.kind, method.memory, method.quiesce) == (INTERNAL, state != "shutoff", False)
    assert (method.disks, method.left_out, method.files) == (("vda",), ("vdz", "sda"), {})


def test_without_memory_is_external() -> None:
    method = choose(machine(QCOW2 + SEED), "s", NO, AUTO)
    assert (method.kind, method.memory, method.memory_file) == (EXTERNAL, False, None)
    assert method.files == {"vda": "/p/w-vda.s.qcow2"}


def test_raw_is_external() -> None:
    method = choose(machine(QCOW2 + RAW), "s", AUTO, AUTO)
    assert (method.kind, method.memory, method.memory_file) == (EXTERNAL, True, "/p/w.s.memory")
    assert method.files == {"vda": "/p/w-vda.s.qcow2", "vdb": "/p/w-vdb.s.qcow2"}
    assert choose(machine(RAW, "shutoff"), "s", AUTO, AUTO).kind == EXTERNAL


def test_auto_leaves_the_memory_out_where_it_could_not_be_reverted() -> None:
    """libvirt would put a file before the seed of the running machine."""
    method = choose(machine(RAW + SEED + AGENT), "s", AUTO, AUTO)
    assert (method.kind, method.memory, method.quiesce, method.memory_file) == (EXTERNAL, False, True, None)
    assert choose(machine(RAW + CDROM), "s", AUTO, AUTO).memory
    with pytest.raises(
        UnsupportedError, match="with memory, a revert would put a new file before what it only reads .vdz"
    ):
        choose(machine(RAW + SEED), "s", YES, AUTO)


@pytest.mark.parametrize("version", [DEBIAN_12, DEBIAN_13])
@pytest.mark.parametrize(("state", "quiesced"), [("running", True), ("paused", False), ("shutoff", False)])
def test_disks_in_a_cluster(version: int, state: str, quiesced: bool) -> None:
    """Never with memory; and the agent of a paused guest answers nobody."""
    found = machine(RBD + SEED + CDROM + AGENT, state, version, has=(CEPH,))
    method = choose(found, "s", AUTO, AUTO)
    assert (method.kind, method.memory, method.quiesce) == (CEPH, False, quiesced)
    assert (method.disks, method.left_out, method.files) == (("vdb",), ("vdz", "sda"), {})
    assert not choose(found, "s", NO, NO).quiesce


def test_neither_uefi_nor_tpm_is_in_the_cluster() -> None:
    for state in ("running", "shutoff"):
        firmware, tpm = choose(machine(RBD + TPM, state, other=UEFI.format("qcow2")), "s", AUTO, AUTO).warnings
        assert "UEFI" in firmware and "TPM" in tpm


def test_the_agent_freezes() -> None:
    assert choose(machine(QCOW2 + AGENT), "s", NO, AUTO).quiesce
    assert choose(machine(QCOW2 + AGENT), "s", NO, YES).quiesce
    assert not choose(machine(QCOW2 + AGENT), "s", NO, NO).quiesce
    assert not choose(machine(QCOW2 + AGENT), "s", AUTO, AUTO).quiesce
    assert not choose(machine(QCOW2 + AGENT, "paused"), "s", NO, AUTO).quiesce, "it answers nobody"


def test_uefi() -> None:
    raw, qcow2 = UEFI.format("raw"), UEFI.format("qcow2")
    running = choose(machine(QCOW2, other=raw), "s", AUTO, AUTO)
    assert (running.kind, running.memory) == (EXTERNAL, True)
    assert running.warnings == ("the variables of its UEFI are not kept: a revert leaves them as they are",)
    assert choose(machine(QCOW2, "shutoff", other=raw), "s", AUTO, AUTO).kind == INTERNAL
    assert choose(machine(QCOW2, other=qcow2), "s", AUTO, AUTO).kind == INTERNAL
    assert choose(machine(QCOW2, other=qcow2, version=10_009_000), "s", AUTO, AUTO).kind == EXTERNAL
    for state in ("running", "shutoff"):
        with pytest.raises(UnsupportedError, match="UEFI"):
            choose(machine(QCOW2, state, DEBIAN_12, other=raw), "s", AUTO, AUTO)


def test_a_tpm_is_named_where_it_is_not_kept() -> None:
    assert choose(machine(QCOW2 + TPM), "s", AUTO, AUTO).warnings == ()
    (warning,) = choose(machine(QCOW2 + TPM, "shutoff"), "s", AUTO, AUTO).warnings
    assert "TPM" in warning


@pytest.mark.parametrize(
    ("found", "memory", "words"),
    [
        (
            machine(QCOW2, version=DEBIAN_12),
            NO,
            "External: libvirt 9.0.0 cannot revert them .9.9 and later can.. Set me",
        ),
        (machine(QCOW2 + RAW, version=DEBIAN_12), AUTO, "and these are not: vdb .raw.. External: libvirt 9.0.0 cannot"),
        (
            machine(QCOW2, version=DEBIAN_12, other=ADDED_VCPUS),
            AUTO,
            "it has vCPUs that were added while it runs, and libvirt 9.0.0 cannot .* Shut the machine down first",
        ),
        (machine(QCOW2 + LVM), AUTO, "External: disk vdb is not a file"),
        (machine(QCOW2 + ISCSI), AUTO, "disk vdb is of type network. External: disk vdb is not a file"),
        (
            machine(QCOW2 + RBD),
            AUTO,
            "in a Ceph cluster .vdb. and others are not .vda .file.., and there is no snapshot",
        ),
        (machine(RBD), YES, "its disks are in a Ceph cluster, whose snapshots never have the memory"),
        (machine(RBD, has=(INTERNAL,)), AUTO, "it has snapshots of another kind .old-internal., which know nothing"),
        (machine(QCOW2, has=(CEPH,)), AUTO, "it has some of disks in a Ceph cluster .old-ceph."),
        (machine(QCOW2, has=(INTERNAL,)), NO, "External: it has internal ones .old-internal., and libvirt cannot"),
        (machine(SEED + CDROM), AUTO, "it has no disk that it can write to"),
        (machine(QCOW2.replace("<target", "<shareable/><target")), AUTO, "its disk vda is shared with other machines"),
    ],
)
def test_what_could_not_be_reverted_is_refused(found: SnapshotView, memory: str, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        choose(found, "s", memory, AUTO)


@pytest.mark.parametrize(
    ("version", "vcpus", "state"),
    [
        (DEBIAN_13, ADDED_VCPUS, "running"),
        (DEBIAN_12, VCPUS.format("no", "yes"), "running"),
        (DEBIAN_12, VCPUS.format("yes", "no"), "running"),
        (DEBIAN_12, ADDED_VCPUS, "shutoff"),
    ],
)
def test_vcpus_that_a_revert_starts_with(version: int, vcpus: str, state: str) -> None:
    assert choose(machine(QCOW2, state, version, vcpus), "s", AUTO, AUTO).kind == INTERNAL


@pytest.mark.parametrize("state", ["running", "paused"])
def test_vcpus_that_a_revert_would_start_without(state: str) -> None:
    """QEMU ends, after the machine was killed; seen with libvirt 9.0. The snapshot may be of a later one."""
    found = machine(QCOW2, version=DEBIAN_12)
    then = machine(QCOW2, version=DEBIAN_12, other=ADDED_VCPUS).xml
    taken = KnownSnapshot(None, Snapshot("s", 0, state, INTERNAL, True, None, "", True, domain=then), current=True)
    with pytest.raises(UnsupportedError, match="when snapshot s was taken, it had vCPUs that were added while it ran"):
        steps_to_revert(None, found, taken, force=True)


def test_kinds_are_not_mixed() -> None:
    assert choose(machine(QCOW2, has=(EXTERNAL,)), "s", AUTO, AUTO).kind == EXTERNAL


@pytest.mark.parametrize(
    ("found", "memory", "quiesce", "error", "words"),
    [
        (machine(QCOW2, "shutoff"), YES, AUTO, ConflictError, "it is off, so it has no memory to keep"),
        (machine(QCOW2), YES, YES, InputError, "quiesce: it is for snapshots without memory"),
        (machine(QCOW2), AUTO, YES, InputError, "quiesce: it is for snapshots without memory. Set memory=false"),
        (machine(QCOW2), NO, YES, ConflictError, "its guest agent has not connected"),
        (machine(QCOW2 + AGENT, "paused"), NO, YES, ConflictError, "it is paused, so nobody can freeze"),
    ],
)
def test_wishes(found: SnapshotView, memory: str, quiesce: str, error: type[VirtError], words: str) -> None:
    with pytest.raises(error, match=words):
        choose(found, "s", memory, quiesce)


def test_versions() -> None:
    assert version_words(DEBIAN_13) == "11.3.0"
