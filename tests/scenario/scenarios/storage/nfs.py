# SPDX-License-Identifier: GPL-3.0-or-later
"""NFS: one host exports a folder, both have a pool there, and a machine moves between them without its disks."""

from __future__ import annotations

import json
import re
import typing as t

from ...cloud import Answer, Cloud, must
from ...driving.consoles import clear, tell, wait_until_up
from ...driving.tasks import have, refused, role_well
from ...moving import home
from ...needs import TINY, store_tiny
from ...own_kernel import HOST, NEWER_HOST, reboot
from ...runner import ScenarioRun

NEEDS = ("two_own_kernels",)
EXPORT, PATH, POOL, MACHINE = "/srv/export", "/var/lib/libvirt/nfs", "shared", "nfs1"
EXPORTS = "/etc/exports.d/scenario.exports"
BLOB = "nfs-was-here"
DATA, SPARE = f"{MACHINE}-data.qcow2", "spare.raw"
SPEC: dict[str, t.Any] = {
    **TINY,
    "name": MACHINE,
    "autostart": True,
    "seed": {"method": "none"},
    "disks": [
        {"name": "system", "size": 256, "pool": POOL, "clone": "copy"},
        {"name": "data", "size": 64, "pool": POOL},
    ],
}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("one host exports a folder", lambda: _export(cloud), vital=True)
        scenario.step("the role mounts it as a pool on both", lambda: _pools(cloud), vital=True)
        scenario.step("the role again: nothing to change", lambda: _again(cloud))
        scenario.step("a machine runs from it", lambda: _machine(cloud), vital=True)
        scenario.step("it moves while it runs, and its disks stay where they are", lambda: _moves(cloud))
        scenario.step("it moves back", lambda: _move(cloud, HOST))
        scenario.step("its disk is not given to a machine of the other host", lambda: _not_twice(cloud))
        scenario.step("a free volume is given to one machine of the two that want it", lambda: _one_of_two(cloud))
        scenario.step("off, it moves as well", lambda: _off(cloud))
        scenario.step("the pool stays while a machine has a disk in it", lambda: _kept(cloud))
        scenario.step("a host boots: the pool is mounted, and the machine runs", lambda: _reboot(cloud))
        scenario.step("purge removes the machine and its disks, and nothing else", lambda: _purge(cloud))
    finally:
        _clear(cloud)


def _address(cloud: Cloud, host: str) -> str:
    text = (cloud.inventory / "hosts.yml").read_text(encoding="utf-8")
    found = re.search(rf"^    {host}:\n      ansible_host: (\S+)", text, re.MULTILINE)
    must(found is not None, f"{host} is not in the inventory")
    return found.group(1) if found else ""


def _export(cloud: Cloud) -> None:
    network = re.sub(r"\d+$", "0/24", _address(cloud, HOST))
    cloud.on(
        HOST,
        f"mkdir -p {EXPORT} /etc/exports.d && chmod 711 {EXPORT} && echo keep > {EXPORT}/of-somebody-else"
        # QEMU's user gets its disks by root, and root writes the pool's volumes.
        f" && echo '{EXPORT} {network}(rw,sync,no_subtree_check,no_root_squash)' > {EXPORTS}"
        f" && systemctl enable --now nfs-server && exportfs -ra && exportfs -v | grep -q {EXPORT}",
    )


def _role(cloud: Cloud, *, changes: bool) -> None:
    pool = {"name": POOL, "type": "netfs", "host": _address(cloud, HOST), "export": EXPORT, "path": PATH}
    role_well(
        cloud,
        "virt_hypervisor",
        "hypervisors",
        changes=changes,
        virt_hypervisor_extra_packages=["nfs-common"],
        virt_hypervisor_pools=[
            {"name": "default", "path": "/var/lib/libvirt/images"},
            {"name": "images", "path": "/var/lib/libvirt/virt-images"},
            {**pool, "format": "nfs"},
        ],
    )


def _pools(cloud: Cloud) -> None:
    _role(cloud, changes=True)
    for host in cloud.hosts:
        _is_mounted(cloud, host)


def _is_mounted(cloud: Cloud, host: str) -> None:
    text = cloud.on(host, f"LC_ALL=C virsh pool-info {POOL}; findmnt --noheadings --output SOURCE,FSTYPE {PATH}")
    must("running" in text and "Autostart:      yes" in text, text)
    must(f"{_address(cloud, HOST)}:{EXPORT}" in text and "nfs" in text, text)


def _again(cloud: Cloud) -> None:
    _role(cloud, changes=False)


def _files(cloud: Cloud) -> str:
    """What the server has: a file that was copied would be another inode."""
    return cloud.on(HOST, f"cd {EXPORT} && stat --format='%n %i' *")


def _machine(cloud: Cloud) -> None:
    store_tiny(cloud)
    for changes in (True, False):
        answer, result = cloud.init(HOST, **SPEC)
        must(answer.status == 0 and result["changed"] is changes, answer.text)
    wait_until_up(cloud, HOST, MACHINE)
    must(f"{MACHINE}-system" in _files(cloud) and f"{MACHINE}-data" in _files(cloud), _files(cloud))
    status, said = tell(cloud, HOST, MACHINE, f"echo {BLOB} > /run/blob; echo {BLOB} > /dev/vdb; sync")
    must(status == 0, said)


def _says(cloud: Cloud) -> None:
    """The same guest as before: what is in its memory and on its disk."""
    status, said = tell(cloud, home(cloud, MACHINE), MACHINE, "cat /run/blob; head -n 1 /dev/vdb")
    must(status == 0 and said.split() == [BLOB, BLOB], said)


def _move(cloud: Cloud, target: str) -> None:
    before = _files(cloud)
    answer = _migrate(cloud, target)
    must(answer.recap("changed") > 0 and home(cloud, MACHINE) == target, answer.text)
    must(cloud.on(target, f"LC_ALL=C virsh domstate {MACHINE}").strip() == "running", "it does not run")
    must(_files(cloud) == before, f"other files than before: {before} {_files(cloud)}")
    for host in cloud.hosts:
        own = cloud.on(host, "ls /var/lib/libvirt/images")
        must(MACHINE not in own, f"{host} has {own}")
    _says(cloud)


def _moves(cloud: Cloud) -> None:
    _move(cloud, NEWER_HOST)
    again = _migrate(cloud, NEWER_HOST)
    must(again.recap("changed") == 0, again.text)


def _migrate(cloud: Cloud, target: str) -> Answer:
    return cloud.play_well("migrate", "-e", f"vm={MACHINE}", "-e", f"to={target}", live=False)


def _with_volume(cloud: Cloud, volume: str, *hosts: str) -> Answer:
    """Provision a machine on each of the hosts that has this volume as its only disk."""
    base = {"vcpus": 1, "memory": 128, "disk_profile": "none", "nic_profile": "none", "start": False}
    disk = {"name": "data", "pool": POOL, "source": volume}
    machines = [
        {**base, "name": f"has-{host}", "seed": {"method": "none"}, "hypervisor": host, "disks": [disk]}
        for host in hosts
    ]
    return cloud.play("provision", "-e", json.dumps({"virt_vms": machines}), live=False)


def _is_refused(cloud: Cloud, answer: Answer, words: str) -> None:
    must(answer.status != 0 and words in answer.text and "Nothing was changed" in answer.text, answer.text)
    for host in cloud.hosts:
        must("has-" not in cloud.on(host, "virsh list --all --name"), f"{host} has a machine with the volume")


def _not_twice(cloud: Cloud) -> None:
    answer = _with_volume(cloud, DATA, NEWER_HOST)
    _is_refused(cloud, answer, f"disks[0].source: volume {DATA} is used by machine {MACHINE} on {HOST}")
    _says(cloud)


def _one_of_two(cloud: Cloud) -> None:
    have(cloud, HOST, "virt_volume", name=SPARE, pool=POOL, size=16, format="raw")
    cloud.on(NEWER_HOST, f"virsh pool-refresh {POOL}")
    answer = _with_volume(cloud, SPARE, HOST, NEWER_HOST)
    _is_refused(cloud, answer, f"volume {SPARE} of pool {POOL} is also requested for machine has-")
    for changes in (True, False):
        answer = _with_volume(cloud, SPARE, NEWER_HOST)
        must(answer.status == 0 and (answer.recap("changed") > 0) is changes, answer.text)
    answer = _with_volume(cloud, SPARE, HOST)
    must(answer.status != 0 and f"is used by machine has-{NEWER_HOST} on {NEWER_HOST}" in answer.text, answer.text)
    cloud.play_well("purge", "-e", f"vm=has-{NEWER_HOST}", live=False)
    must(SPARE in _files(cloud), "the volume went with the machine that it was given to")
    have(cloud, HOST, "virt_volume", name=SPARE, pool=POOL, state="absent", used_elsewhere={})


def _off(cloud: Cloud) -> None:
    cloud.on(HOST, f"virsh destroy {MACHINE}")
    before = _files(cloud)
    _migrate(cloud, NEWER_HOST)
    must(home(cloud, MACHINE) == NEWER_HOST and _files(cloud) == before, _files(cloud))
    cloud.on(NEWER_HOST, f"virsh start {MACHINE}")


def _kept(cloud: Cloud) -> None:
    refused(cloud, NEWER_HOST, "virt_pool", f"is kept: it is used by machine {MACHINE}", name=POOL, state="absent")
    _is_mounted(cloud, NEWER_HOST)


def _reboot(cloud: Cloud) -> None:
    clear(cloud, NEWER_HOST, MACHINE)
    reboot(cloud, NEWER_HOST)
    _is_mounted(cloud, NEWER_HOST)
    wait_until_up(cloud, NEWER_HOST, MACHINE)


def _purge(cloud: Cloud) -> None:
    cloud.play_well("purge", "-e", f"vm={MACHINE}", "-e", "force=true", live=False)
    must(_files(cloud).split()[::2] == ["of-somebody-else"], _files(cloud))


def _clear(cloud: Cloud) -> None:
    for host in reversed(cloud.hosts):
        cloud.lab(
            "ssh",
            host,
            f"virsh destroy {MACHINE}; virsh undefine {MACHINE} --nvram; virsh undefine has-{host} --nvram;"
            f" virsh pool-destroy {POOL};"
            f" virsh pool-undefine {POOL}; umount -f {PATH}; rmdir {PATH}",
        )
    cloud.lab("ssh", HOST, f"rm -f {EXPORTS}; exportfs -ra; systemctl disable --now nfs-server; rm -rf {EXPORT}")
