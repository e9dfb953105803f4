# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools on devices: the role makes a volume group of one, and a file system of another; volumes and machines in them,
growth, a boot, and nothing is lost."""

from __future__ import annotations

import json
import typing as t

from ...cloud import Cloud, must
from ...driving.consoles import ADDRESS, clear, tell, wait_until_up
from ...driving.tasks import have, module, pool_is_up, refused, role_well
from ...needs import TINY, store_tiny
from ...own_kernel import DISKS, HOST, reboot
from ...runner import ScenarioRun

NEEDS = ("own_kernel",)
GROUP, MACHINE = "brine_lvm", "lvm1"
POOL: dict[str, t.Any] = {
    "name": "fast",
    "type": "logical",
    "volume_group": GROUP,
    "devices": [DISKS[0]],
    "build": True,
}
# With those that the role has without being told.
POOLS = [
    {"name": "default", "path": "/var/lib/libvirt/images"},
    {"name": "images", "path": "/var/lib/libvirt/virt-images"},
    POOL,
]
VOLUME: dict[str, t.Any] = {"name": "archive", "pool": "fast"}
# A pool on a file system.
FILES, FILES_PLACE, FILE_MACHINE = "files", "/srv/scenario-files", "fs1"
FILE_POOL: dict[str, t.Any] = {"name": FILES, "type": "fs", "device": DISKS[1], "path": FILES_PLACE, "format": "ext4"}
MIB = 1 << 20
WORDS = "what-must-not-be-lost"


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("the role makes a volume group of a device, and its pool", lambda: _make(cloud), vital=True)
        scenario.step("the role again: nothing to change", lambda: _again(cloud))
        scenario.step("a device that has something on it is refused, and stays as it is", lambda: _taken(cloud))
        scenario.step("a pool with a file system on a device, and a machine in it", lambda: _files(cloud))
        scenario.step("a volume in it, which grows", lambda: _volume(cloud))
        scenario.step("a volume in the place of a deleted one has nothing of it", lambda: _wiped(cloud))
        scenario.step("a machine boots from a disk in it", lambda: _machine(cloud))
        scenario.step("the disk grows under it", lambda: _grow(cloud))
        scenario.step(
            "the host boots: the group, the pools, the bridge and the machine are there", lambda: _reboot(cloud)
        )
        scenario.step("the pool stays while the machine has a disk in it", lambda: _kept(cloud))
        scenario.step("the pool goes, and comes back with all that was in it", lambda: _gone(cloud))
        scenario.step("so does the file system", lambda: _files_gone(cloud))
    finally:
        _clear(cloud)


def _make(cloud: Cloud) -> None:
    role_well(cloud, "virt_hypervisor", HOST, changes=True, virt_hypervisor_pools=POOLS)
    pool_is_up(cloud, HOST, "fast")
    device, group = cloud.on(HOST, "pvs --noheadings -o pv_name,vg_name").split()
    must(group == GROUP and device == cloud.on(HOST, f"realpath {DISKS[0]}").strip(), f"{device} is in {group}")


def _again(cloud: Cloud) -> None:
    role_well(cloud, "virt_hypervisor", HOST, changes=False, virt_hypervisor_pools=POOLS)


def _taken(cloud: Cloud) -> None:
    cloud.on(HOST, f"mkfs.ext4 -q {DISKS[1]}")
    uuid = cloud.on(HOST, f"blkid -p -s UUID -o value {DISKS[1]}")
    other = {"name": "other", "type": "logical", "build": True}
    refused(cloud, HOST, "virt_pool", "is not empty: it has ext4", **other, devices=[DISKS[1]])
    # The group's own: no second one is made of it, whatever its name.
    refused(cloud, HOST, "virt_pool", "is not empty: it has LVM2_member", **other, devices=[DISKS[0]])
    # And no second pool is made of a group that has one.
    refused(cloud, HOST, "virt_pool", f"the storage pool fast is at {GROUP} already", **{**POOL, "name": "other"})
    must(cloud.on(HOST, f"blkid -p -s UUID -o value {DISKS[1]}") == uuid, "the file system is another one")
    must("other" not in cloud.on(HOST, "virsh pool-list --all --name; vgs --noheadings -o name").split(), "it is there")


def _files(cloud: Cloud) -> None:
    # Never over what is there. One of its own kind would be taken as it is.
    refused(cloud, HOST, "virt_pool", "is not empty: it has ext4", **{**FILE_POOL, "format": "xfs"}, build=True)
    cloud.on(HOST, f"wipefs --all --quiet {DISKS[1]}")
    answer, _result = module(cloud, HOST, "virt_pool", **FILE_POOL)
    must(answer.status != 0, answer.text)
    must(FILES not in cloud.on(HOST, "virsh pool-list --all --name").split(), "there is a pool of nothing")
    have(cloud, HOST, "virt_pool", **FILE_POOL, build=True)
    _files_are_there(cloud)
    have(cloud, HOST, "virt_volume", name="notes", pool=FILES, size=16, format="raw")
    cloud.on(
        HOST, f"echo {WORDS} | dd of=$(virsh vol-path --pool {FILES} $(ls {FILES_PLACE} | grep ^notes)) conv=notrunc"
    )
    store_tiny(cloud, HOST)
    spec = {**TINY, "name": FILE_MACHINE, "disks": [{"name": "system", "size": 128, "pool": FILES}]}
    for changes in (True, False):
        answer, result = cloud.init(HOST, **spec)
        must(answer.status == 0 and result["changed"] is changes, answer.text)
    wait_until_up(cloud, HOST, FILE_MACHINE)
    refused(cloud, HOST, "virt_pool", f"is kept: it is used by machine {FILE_MACHINE}", name=FILES, state="absent")
    cloud.play_well("purge", "-e", f"vm={FILE_MACHINE}", "-e", "force=true")
    must(FILE_MACHINE not in cloud.on(HOST, f"ls {FILES_PLACE}"), "its disk is still there")


def _files_are_there(cloud: Cloud) -> None:
    mounted = cloud.on(HOST, f"findmnt --noheadings --output FSTYPE {FILES_PLACE}").strip()
    pool_is_up(cloud, HOST, FILES)
    must(mounted == "ext4", mounted)


def _files_gone(cloud: Cloud) -> None:
    have(cloud, HOST, "virt_pool", name=FILES, state="absent")
    must(not cloud.on(HOST, f"ls {FILES_PLACE}").split(), "it is still mounted")
    have(cloud, HOST, "virt_pool", **FILE_POOL)
    _files_are_there(cloud)
    must(cloud.on(HOST, f"head -q -n 1 {FILES_PLACE}/notes*").strip("\0\n") == WORDS, "its content has gone")


def _size_mib(cloud: Cloud, name: str) -> int:
    return int(cloud.on(HOST, f"lvs --noheadings --nosuffix --units b -o lv_size {GROUP}/{name}").strip()) // MIB


def _volume(cloud: Cloud) -> None:
    have(cloud, HOST, "virt_volume", **VOLUME, size=64)
    must(_size_mib(cloud, "archive") == 64, "it has another size")
    cloud.on(HOST, f"echo {WORDS} > /dev/{GROUP}/archive")
    have(cloud, HOST, "virt_volume", **VOLUME, size="96MiB")
    must(_size_mib(cloud, "archive") == 96, "it has another size")
    refused(cloud, HOST, "virt_volume", "never", **VOLUME, size=32)
    _has_words(cloud)


def _wiped(cloud: Cloud) -> None:
    old, new = {"name": "old", "pool": "fast"}, {"name": "new", "pool": "fast"}
    have(cloud, HOST, "virt_volume", **old, size=24)
    cloud.on(HOST, f"yes {WORDS} | head -c {24 * MIB} > /dev/{GROUP}/old; sync")
    have(cloud, HOST, "virt_volume", **old, state="absent")
    # The second time it grows into the rest of that place.
    for size in (16, 24):
        have(cloud, HOST, "virt_volume", **new, size=size)
        cloud.on(HOST, f"cmp --bytes {size * MIB} /dev/{GROUP}/new /dev/zero")
    have(cloud, HOST, "virt_volume", **new, state="absent")


def _has_words(cloud: Cloud) -> None:
    must(cloud.on(HOST, f"head -c {len(WORDS)} /dev/{GROUP}/archive") == WORDS, "its content has gone")


def _spec(size_mib: int) -> dict[str, t.Any]:
    disk = {"name": "system", "size": size_mib, "pool": "fast", "clone": "copy"}
    return {**TINY, "name": MACHINE, "autostart": True, "disks": [disk]}


def _init(cloud: Cloud, size_mib: int) -> None:
    for changes in (True, False):
        answer, result = cloud.init(HOST, **_spec(size_mib))
        must(answer.status == 0 and result["changed"] is changes, answer.text)
    blocks = cloud.on(HOST, f"virsh domblklist {MACHINE} --details")
    must(f"block   disk     vda      /dev/{GROUP}/{MACHINE}-system" in " ".join(blocks.split("\n")), blocks)
    must(_size_mib(cloud, f"{MACHINE}-system") == size_mib, "its disk has another size")


def _machine(cloud: Cloud) -> None:
    store_tiny(cloud, HOST)
    _init(cloud, 256)
    wait_until_up(cloud, HOST, MACHINE)


def _grow(cloud: Cloud) -> None:
    _init(cloud, 320)
    status, said = tell(cloud, HOST, MACHINE, "cat /sys/block/vda/size")
    must(status == 0 and int(said.split()[0]) * 512 == 320 * MIB, said)


def _reboot(cloud: Cloud) -> None:
    clear(cloud, HOST, MACHINE)
    reboot(cloud)
    pool_is_up(cloud, HOST, "fast")
    _has_words(cloud)
    _files_are_there(cloud)
    cloud.on(HOST, "virsh pool-info default && virsh pool-info images")
    cloud.on(HOST, 'ip -4 -brief address show dev br0 | grep -q "$(echo $SSH_CONNECTION | cut -d" " -f3)"')
    wait_until_up(cloud, HOST, MACHINE, ADDRESS)


def _kept(cloud: Cloud) -> None:
    refused(cloud, HOST, "virt_pool", f"is kept: it is used by machine {MACHINE}", name="fast", state="absent")
    refused(cloud, HOST, "virt_pool", MACHINE, name="fast", state="inactive")
    pool_is_up(cloud, HOST, "fast")


def _gone(cloud: Cloud) -> None:
    cloud.on(HOST, f"virsh destroy {MACHINE} && virsh undefine {MACHINE} --nvram")
    volumes = f"lvs --noheadings -o lv_name,lv_size,lv_uuid {GROUP}"
    before = cloud.on(HOST, volumes)
    must("archive" in before and f"{MACHINE}-system" in before, before)
    have(cloud, HOST, "virt_pool", name="fast", state="absent")
    must(cloud.on(HOST, volumes) == before, "volumes have gone")
    answer, result = module(cloud, HOST, "virt_pool", **POOL)
    must(answer.status == 0 and result["changed"] is True, answer.text)
    must(cloud.on(HOST, volumes) == before, "volumes have gone")
    _has_words(cloud)
    listed = json.dumps(cloud.on(HOST, "virsh vol-list fast --details").split())
    must('"archive"' in listed and f'"{MACHINE}-system"' in listed, listed)


def _clear(cloud: Cloud) -> None:
    cloud.on(
        HOST,
        f"virsh destroy {MACHINE}; virsh undefine {MACHINE} --nvram; virsh pool-destroy fast; virsh pool-undefine fast;"
        f" virsh destroy {FILE_MACHINE}; virsh undefine {FILE_MACHINE} --nvram; virsh pool-destroy {FILES};"
        f" virsh pool-undefine {FILES}; rmdir {FILES_PLACE};"
        f" virsh pool-destroy other; virsh pool-undefine other; vgremove --force --force --yes {GROUP} other;"
        f" pvremove --force --force --yes {DISKS[0]}; wipefs --all --quiet {' '.join(DISKS)}; true",
    )
