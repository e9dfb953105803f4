# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with a kernel of its own: a virtual machine, for what the containers' common kernel may lack.

It has Debian's kernel, so VLANs, bonds, device mapper, NFS, iSCSI and netem, and boots by itself. Where this machine
has no KVM all in it is emulated, and takes several times as long: only scenarios of `make test-full` need it.
"""

from __future__ import annotations

import time

from .cloud import SUDO_HOST, Cloud, must

# After the two of most scenarios, and the one of a later release.
HOST = "hv4"
RELEASES = "bookworm,bookworm,trixie,bookworm"
KINDS = "container,container,container,vm"
# Beside the card that has the address, in the same network and without a configuration.
CARDS = ("enp0s4", "enp0s5")
# Beside the system's. Empty, and with no more blocks on this machine than are written.
DISKS = ("/dev/disk/by-id/virtio-disk1", "/dev/disk/by-id/virtio-disk2")
# Under emulation, and the machine may have other work.
_BOOT_SECONDS = 400


def start(cloud: Cloud) -> None:
    """Bring the host up, beside all before it. The inventory has it alone from now on."""
    hardware = ["--nics", str(1 + len(CARDS)), "--disks", str(len(DISKS)), "--prepared"]
    new = ["--release", RELEASES, "--kind", KINDS, "--sudo", SUDO_HOST, *hardware]
    cloud.lab_well("up", "--hosts", HOST.removeprefix("hv"), *([] if HOST in cloud.lab_hosts() else new))
    cloud.use((HOST,))


def reboot(cloud: Cloud) -> None:
    """Boot the host anew, in good order, and wait until it has come to the end of its boot."""
    before = _boot_id(cloud)
    must(bool(before), f"{HOST} does not answer")
    # The connection may end before the command does.
    cloud.lab("ssh", HOST, "systemctl reboot")
    end = time.monotonic() + _BOOT_SECONDS
    while _boot_id(cloud) in ("", before):
        must(time.monotonic() < end, f"{HOST} has not booted within {_BOOT_SECONDS} s")
        time.sleep(2)
    cloud.lab_well("up", "--hosts", str(len(cloud.lab_hosts())))


def _boot_id(cloud: Cloud) -> str:
    """Which boot this is; nothing when the host does not answer."""
    lab = str(cloud.root / "tests/lab/lab")
    answer = cloud.run("timeout", "40", lab, "ssh", HOST, "cat /proc/sys/kernel/random/boot_id")
    return answer.text.strip() if answer.status == 0 else ""
