# SPDX-License-Identifier: GPL-3.0-or-later
"""What scenarios begin with. Each need makes what is missing and leaves alone what is there."""

from __future__ import annotations

import json
import typing as t

from . import own_kernel
from .cloud import FLEET, SUDO_HOST, Cloud, Failure, must

# The lab's third host, of a later release than the first two. Only scenarios that need it see it.
NEWER = "hv3"
RELEASES = "bookworm,bookworm,trixie"
# On the image that boots in seconds.
TINY: dict[str, t.Any] = {"vcpus": 1, "memory": 128, "image": "tiny", "disks": [{"name": "system", "size": 256}]}
# A machine that is up in seconds, with a disk that has something in it.
MOVER: dict[str, t.Any] = {**TINY, "name": "mover", "disks": [*TINY["disks"], {"name": "data", "size": 64}]}
# A real Debian, which answers a ping and SSH.
WEB = "web1"
# What takes minutes to make is kept between scenarios that need it.
KEPT = {"web1": WEB}
TRIES = 2
# Ends well on a host that the collection has made a hypervisor.
HYPERVISOR = "virsh pool-info default && virsh pool-info images && test -e /etc/pki/qemu/server-cert.pem"

_failed: dict[str, int] = {}


def kept_for(wanted: t.Collection[str]) -> frozenset[str]:
    """The machines that may stay when a scenario with these needs begins; "alone" keeps none."""
    return frozenset() if "alone" in wanted else frozenset(KEPT.values())


def provide(cloud: Cloud, need: str) -> None:
    """Make it be there. One that failed twice is not tried again: it would cost every scenario its minutes."""
    if _failed.get(need, 0) >= TRIES:
        raise Failure(f"{need} failed before")
    try:
        NEEDS[need](cloud)
    except Exception:
        _failed[need] = _failed.get(need, 0) + 1
        raise


def start_lab(cloud: Cloud) -> None:
    """Two hosts of one release, one for root and one for a user with sudo."""
    if not cloud.is_up or SUDO_HOST not in cloud.lab_hosts():
        cloud.lab_well("up", *(["--sudo", SUDO_HOST] if SUDO_HOST not in cloud.lab_hosts() else []))
    cloud.use()


def hypervisors(cloud: Cloud) -> None:
    """The collection as it is now, and the lab's first hosts as hypervisors."""
    if not cloud.installed:
        cloud.install()
    start_lab(cloud)
    must(bool(cloud.images), "there are no guest images")
    if not all(cloud.lab("ssh", host, HYPERVISOR).status == 0 for host in FLEET):
        cloud.play_well("hypervisors", live=False)


def current_hypervisors(cloud: Cloud) -> None:
    """The collection's role as it is now has been run on the first host: a lab that was kept may be from before."""
    roles = cloud.build / "installed/ansible_collections/brine/virt/roles"
    script = (roles / "virt_hypervisor/files/start_order.py").read_text(encoding="utf-8")
    if cloud.lab("ssh", FLEET[0], "cat /usr/local/lib/brine-virt-start-order.py").text != script:
        cloud.play_well("hypervisors", live=False)


def store_tiny(cloud: Cloud, hosts: str = "hypervisors", **options: t.Any) -> None:
    """Store the small image on hosts; options: those of virt_image that differ."""
    options = {"name": "tiny", "src": cloud.images["tiny"], **options}
    answer = cloud.ansible(hosts, "brine.virt.virt_image", json.dumps(options))
    must(answer.status == 0, answer.text)


def tiny(cloud: Cloud) -> None:
    """The small image, in the store of both."""
    store_tiny(cloud)


def tiny1(cloud: Cloud) -> None:
    """A small machine that runs on the first host."""
    answer, _result = cloud.init(FLEET[0], **TINY, name="tiny1")
    must(answer.status == 0, answer.text)


def mover(cloud: Cloud) -> None:
    """A small machine with two disks that runs on the first host."""
    answer, _result = cloud.init(FLEET[0], **MOVER)
    must(answer.status == 0, answer.text)


def web_file(cloud: Cloud) -> str:
    """The variables that describe web1, in a file."""
    path = cloud.build / "scenario-vms.yml"
    path.write_text(
        "virt_images:\n"
        f"  debian: {{src: {cloud.images['debian']}}}\n"
        "virt_disk_profiles:\n"
        "  database: [{system: {size: 3072}}, {data: {size: 512}}]\n"
        "virt_vms:\n"
        f"  - {{name: {WEB}, vcpus: 1, memory: 512, image: debian, disk_profile: database,\n"
        "     disks: [{name: data, size: 1GiB}], graphics: vnc, autostart: true, tags: [web], title: First machine,\n"
        "     variables: {role: front}}\n",
        encoding="utf-8",
    )
    return str(path)


def web1(cloud: Cloud) -> None:
    """A Debian that runs and answers."""
    if not any(WEB in cloud.on(host, "virsh list --name").split() for host in FLEET):
        cloud.play_well("provision", "-e", f"@{web_file(cloud)}")
    web_file(cloud)


def newer(cloud: Cloud) -> None:
    """A third hypervisor, of a later release, which the inventory has from now on."""
    cloud.lab_well("up", "--hosts", "3", *([] if NEWER in cloud.lab_hosts() else ["--release", RELEASES]))
    cloud.use((*FLEET, NEWER))
    if cloud.lab("ssh", NEWER, HYPERVISOR).status != 0:
        cloud.play_well("hypervisors", live=False)


def with_own_kernel(cloud: Cloud, *hosts: str) -> None:
    """A hypervisor with a kernel of its own, alone in the inventory from now on; or those that are named."""
    if not cloud.installed:
        cloud.install()
    hosts = hosts or (own_kernel.HOST,)
    # Two boot, and become hypervisors, in the time of one.
    made = (own_kernel.HOST, own_kernel.NEWER_HOST) if cloud.whole else hosts
    own_kernel.start(cloud, *made)
    if not all(cloud.lab("ssh", host, HYPERVISOR).status == 0 for host in made):
        cloud.play_well("hypervisors", live=False)
    cloud.use(hosts)


def two_own_kernels(cloud: Cloud) -> None:
    """Two of these, of two releases."""
    with_own_kernel(cloud, own_kernel.HOST, own_kernel.NEWER_HOST)


def newer_own_kernel(cloud: Cloud) -> None:
    """The one of the later release."""
    with_own_kernel(cloud, own_kernel.NEWER_HOST)


def zfs_host(cloud: Cloud) -> None:
    """A hypervisor with ZFS in its kernel, the only one of its lab; emulated where there is no KVM."""
    if not cloud.installed:
        cloud.install()
    own_kernel.start(cloud, own_kernel.HOST, zfs=True)
    if cloud.lab("ssh", own_kernel.HOST, HYPERVISOR).status != 0:
        cloud.play_well("hypervisors", live=False)
    cloud.use((own_kernel.HOST,))


def alone(cloud: Cloud) -> None:
    """No machine at all: `kept_for` has seen to it."""


# Each after those that it needs itself.
NEEDS: dict[str, t.Callable[[Cloud], None]] = {
    "hypervisors": hypervisors,
    "alone": alone,
    "tiny": tiny,
    "tiny1": tiny1,
    "mover": mover,
    "web1": web1,
    "newer": newer,
    "own_kernel": with_own_kernel,
    "two_own_kernels": two_own_kernels,
    "newer_own_kernel": newer_own_kernel,
    "zfs_host": zfs_host,
}
