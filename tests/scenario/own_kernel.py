# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with a kernel of their own, for what the containers' common kernel may lack.

They have VLANs, bonds, device mapper, NFS, iSCSI, netem and AppArmor, and boot by themselves. They are virtual machines
with Debian's kernel where this machine has KVM. Elsewhere these would be emulated, and take many times as long: there
they are User Mode Linux. Only scenarios of `make test-full` need them.
"""

from __future__ import annotations

import time

from .cloud import Cloud, must

# In a lab of their own. The second has a libvirt that gives nics their VLANs.
HOST, NEWER_HOST = "hv1", "hv2"
_RELEASES = "bookworm,trixie"
# Beside the card that has the address, in the same network and without a configuration.
CARDS = ("enp0s4", "enp0s5", "enp0s6")
# Beside the system's. Empty, and with no more blocks on this machine than are written.
DISKS = ("/dev/disk/by-id/virtio-disk1", "/dev/disk/by-id/virtio-disk2")
# The machine may have other work.
_BOOT_SECONDS = 400


def start(cloud: Cloud, *hosts: str, zfs: bool = False) -> None:
    """Bring these up, and one that comes before them. The inventory has them alone from now on.

    zfs: with ZFS, which User Mode Linux cannot have.
    """
    hardware = ["--nics", str(1 + len(CARDS)), "--disks", str(len(DISKS)), "--prepared", *(["--zfs"] if zfs else [])]
    kind = "vm" if zfs or cloud.lab("kvm").status == 0 else "uml"
    new = ["--release", _RELEASES, "--kind", kind, *hardware]
    there = cloud.lab_hosts()
    count = max(len(there), *(int(host.removeprefix("hv")) for host in hosts))
    cloud.lab_well("up", "--hosts", str(count), *([] if set(hosts) <= set(there) else new))
    cloud.use(hosts)


def reboot(cloud: Cloud, host: str = HOST) -> None:
    """Boot the host anew, in good order, and wait until it has come to the end of its boot."""
    before = _boot_id(cloud, host)
    must(bool(before), f"{host} does not answer")
    # The connection may end before the command does.
    cloud.lab("ssh", host, "systemctl reboot")
    end = time.monotonic() + _BOOT_SECONDS
    while _boot_id(cloud, host) in ("", before):
        must(time.monotonic() < end, f"{host} has not booted within {_BOOT_SECONDS} s")
        time.sleep(2)
    cloud.lab_well("up", "--hosts", str(len(cloud.lab_hosts())))


def _boot_id(cloud: Cloud, host: str) -> str:
    """Which boot this is; nothing when the host does not answer."""
    answer = cloud.run("timeout", "40", *cloud.ssh(host, "cat /proc/sys/kernel/random/boot_id"))
    return answer.text.strip() if answer.status == 0 else ""
