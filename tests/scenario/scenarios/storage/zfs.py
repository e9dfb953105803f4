# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools of ZFS: the role makes one of a device, and the module a dataset in it; volumes and a machine in them, a boot,
and nothing is lost."""

from __future__ import annotations

import typing as t

from ...cloud import Cloud, must
from ...driving.consoles import ADDRESS, clear, tell, wait_until_up
from ...driving.tasks import have, module, pool_is_up, refused, role_well
from ...needs import TINY, store_tiny
from ...own_kernel import DISKS, HOST, reboot
from ...runner import ScenarioRun

NEEDS = ("zfs_host",)
ZPOOL, MACHINE = "brine_zfs", "zfs1"
POOL: dict[str, t.Any] = {"name": "tank", "type": "zfs", "dataset": ZPOOL, "devices": [DISKS[0]], "build": True}
# With those that the role has without being told.
POOLS = [
    {"name": "default", "path": "/var/lib/libvirt/images"},
    {"name": "images", "path": "/var/lib/libvirt/virt-images"},
    POOL,
]
DATASET = f"{ZPOOL}/machines"
WITHIN: dict[str, t.Any] = {"name": "within", "type": "zfs", "dataset": DATASET}
VOLUME: dict[str, t.Any] = {"name": "archive", "pool": "tank"}
MIB = 1 << 20
WORDS = "what-must-not-be-lost"


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("the role makes a ZFS pool of a device, and its storage pool", lambda: _make(cloud), vital=True)
        scenario.step("the role again: nothing to change", lambda: _again(cloud))
        scenario.step("an empty pool, which libvirt loses sight of, is there for whoever asks", lambda: _empty(cloud))
        scenario.step("a device that has something on it is refused, and stays as it is", lambda: _taken(cloud))
        scenario.step("a dataset in it, and its storage pool", lambda: _dataset(cloud))
        scenario.step("a volume in it, which grows", lambda: _volume(cloud))
        scenario.step("a machine boots from a disk in the dataset", lambda: _machine(cloud))
        scenario.step("the disk grows under it", lambda: _grow(cloud))
        scenario.step("the host boots: the pools, the volume and the machine are there", lambda: _reboot(cloud))
        scenario.step("the pool stays while the machine has a disk in it", lambda: _kept(cloud))
        scenario.step("the machine is purged with its disk, and no other volume", lambda: _purged(cloud))
        scenario.step("the pools go, and come back with all that was in them", lambda: _gone(cloud))
    finally:
        _clear(cloud)


def _make(cloud: Cloud) -> None:
    role_well(cloud, "virt_hypervisor", HOST, changes=True, virt_hypervisor_pools=POOLS)
    must(cloud.on(HOST, f"zpool get -H -o value health {ZPOOL}").strip() == "ONLINE", "there is no ZFS pool")


def _again(cloud: Cloud) -> None:
    role_well(cloud, "virt_hypervisor", HOST, changes=False, virt_hypervisor_pools=POOLS)


def _empty(cloud: Cloud) -> None:
    cloud.on(HOST, "systemctl restart libvirtd")
    answer, result = module(cloud, HOST, "virt_host_info", gather_subset=["pools"])
    must("tank" in [pool["name"] for pool in result["host"]["pools"] if pool["active"]], answer.text)
    pool_is_up(cloud, HOST, "tank")


def _taken(cloud: Cloud) -> None:
    cloud.on(HOST, f"mkfs.ext4 -q {DISKS[1]}")
    uuid = cloud.on(HOST, f"blkid -p -s UUID -o value {DISKS[1]}")
    other = {"name": "other", "type": "zfs", "build": True}
    refused(cloud, HOST, "virt_pool", "is not empty: it has ext4", **other, devices=[DISKS[1]])
    refused(cloud, HOST, "virt_pool", "is in use on this host", **other, devices=[DISKS[0]])
    refused(cloud, HOST, "virt_pool", f"the storage pool tank is at {ZPOOL} already", **{**POOL, "name": "other"})
    must(cloud.on(HOST, f"blkid -p -s UUID -o value {DISKS[1]}") == uuid, "the file system is another one")
    must("other" not in cloud.on(HOST, "virsh pool-list --all --name; zpool list -H -o name").split(), "it is there")


def _dataset(cloud: Cloud) -> None:
    refused(cloud, HOST, "virt_pool", f"this host has no ZFS dataset {DATASET}", **WITHIN)
    have(cloud, HOST, "virt_pool", **WITHIN, build=True)
    pool_is_up(cloud, HOST, "within")


def _size_mib(cloud: Cloud, volume: str) -> int:
    return int(cloud.on(HOST, f"zfs get -Hp -o value volsize {volume}").strip()) // MIB


def _volume(cloud: Cloud) -> None:
    have(cloud, HOST, "virt_volume", **VOLUME, size=64)
    must(_size_mib(cloud, f"{ZPOOL}/archive") == 64, "it has another size")
    cloud.on(HOST, f"echo {WORDS} > /dev/zvol/{ZPOOL}/archive; sync")
    have(cloud, HOST, "virt_volume", **VOLUME, size=96)
    must(_size_mib(cloud, f"{ZPOOL}/archive") == 96, "it has another size")
    refused(cloud, HOST, "virt_volume", "never", **VOLUME, size=32)
    _has_words(cloud)
    # ZFS has volumes of whole blocks only.
    have(cloud, HOST, "virt_volume", name="odd", pool="tank", size="10001KiB")
    have(cloud, HOST, "virt_volume", name="odd", pool="tank", size="20001KiB")
    have(cloud, HOST, "virt_volume", name="odd", pool="tank", state="absent")


def _has_words(cloud: Cloud) -> None:
    must(cloud.on(HOST, f"head -c {len(WORDS)} /dev/zvol/{ZPOOL}/archive") == WORDS, "its content has gone")


def _init(cloud: Cloud, size_mib: int) -> None:
    disk = {"name": "system", "size": size_mib, "pool": "within", "clone": "copy"}
    for changes in (True, False):
        answer, result = cloud.init(HOST, **TINY | {"name": MACHINE, "autostart": True, "disks": [disk]})
        must(answer.status == 0 and result["changed"] is changes, answer.text)
    must(f"/dev/zvol/{DATASET}/{MACHINE}-system" in cloud.on(HOST, f"virsh domblklist {MACHINE}"), "it is elsewhere")
    must(_size_mib(cloud, f"{DATASET}/{MACHINE}-system") == size_mib, "its disk has another size")


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
    pool_is_up(cloud, HOST, "tank")
    pool_is_up(cloud, HOST, "within")
    _has_words(cloud)
    wait_until_up(cloud, HOST, MACHINE, ADDRESS)


def _kept(cloud: Cloud) -> None:
    refused(cloud, HOST, "virt_pool", f"is kept: it is used by machine {MACHINE}", name="within", state="absent")
    pool_is_up(cloud, HOST, "within")


def _volumes(cloud: Cloud) -> str:
    return cloud.on(HOST, f"zfs list -H -r -t volume -o name,volsize,guid {ZPOOL}")


def _purged(cloud: Cloud) -> None:
    cloud.play_well("purge", "-e", f"vm={MACHINE}", "-e", "force=true")
    left = _volumes(cloud)
    must(MACHINE not in left and "archive" in left, left)


def _gone(cloud: Cloud) -> None:
    have(cloud, HOST, "virt_volume", name="more", pool="within", size=16)
    before = _volumes(cloud)
    for pool in ("within", "tank"):
        have(cloud, HOST, "virt_pool", name=pool, state="absent")
    must(_volumes(cloud) == before, "volumes have gone")
    for description in (POOL, WITHIN):
        answer, result = module(cloud, HOST, "virt_pool", **description)
        must(answer.status == 0 and result["changed"] is True, answer.text)
    must(_volumes(cloud) == before, "volumes have gone")
    _has_words(cloud)
    for pool, volume in (("tank", "archive"), ("within", "more")):
        listed = cloud.on(HOST, f"virsh vol-list {pool}").split()
        must(volume in listed, f"{pool} has {listed}")


def _clear(cloud: Cloud) -> None:
    cloud.on(
        HOST,
        f"virsh destroy {MACHINE}; virsh undefine {MACHINE} --nvram;"
        " for pool in within tank other; do virsh pool-destroy $pool; virsh pool-undefine $pool; done;"
        f" zpool destroy {ZPOOL}; zpool labelclear -f {DISKS[0]}; wipefs --all --quiet {' '.join(DISKS)}; true",
    )
