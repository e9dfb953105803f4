# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage on a file system that shares blocks (btrfs in a file): full copies, formats, growth, volumes of others."""

from __future__ import annotations

import json
import typing as t

from ...cloud import Cloud, must
from ...needs import store_tiny
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
HOST = "hv1"
POOL = "shared"
PLACE = "/var/lib/brine-shared"
MIB = 1 << 20
# The machines are never started: what their disks are is the matter.
BASE: dict[str, t.Any] = {
    "vcpus": 1,
    "memory": 128,
    "image": "tiny",
    "image_pool": POOL,
    "start": False,
    "seed": {"method": "none"},
}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step("a pool on a file system that shares blocks", lambda: _make(cloud), vital=True)
    scenario.step("a full copy shares its blocks with the image, and has the requested size", lambda: _copy(cloud))
    scenario.step("a full copy in another format has the same content", lambda: _convert(cloud))
    scenario.step("a disk of a machine that is off grows, and never shrinks", lambda: _grow(cloud))
    scenario.step("an existing volume is what it is said to be, whatever its name says", lambda: _existing(cloud))
    scenario.step("a copy that there is no space for is refused before anything is created", lambda: _no_space(cloud))
    scenario.step("a typo in a pool's name creates nothing", lambda: _typo(cloud))
    scenario.step("the image is as it was, and all of this goes again", lambda: _clear(cloud))


def _make(cloud: Cloud) -> None:
    apt = "DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends btrfs-progs"
    cloud.on(HOST, f"command -v mkfs.btrfs || {apt}")
    cloud.on(
        HOST,
        # A container has no nodes of loop devices of its own.
        "[ -e /dev/loop-control ] || mknod /dev/loop-control c 10 237;"
        f" truncate -s 1G {PLACE}.img && mkfs.btrfs -q -f {PLACE}.img && mkdir -p {PLACE} &&"
        " n=$(python3 -c 'import fcntl; print(fcntl.ioctl(open(\"/dev/loop-control\"), 0x4C82))') &&"
        " { [ -e /dev/loop$n ] || mknod /dev/loop$n b 7 $n; } &&"
        f" mount -o loop=/dev/loop$n {PLACE}.img {PLACE} &&"
        f" virsh -q pool-define-as {POOL} dir --target {PLACE} && virsh -q pool-start {POOL}",
    )
    store_tiny(cloud, HOST, pool=POOL)


def _init(cloud: Cloud, name: str, changed: bool = True, **options: t.Any) -> dict[str, t.Any]:
    answer, result = cloud.init(HOST, **{**BASE, "name": name, **options})
    must(answer.status == 0 and result["changed"] is changed, answer.text)
    return result


def _refused(cloud: Cloud, words: str, name: str, **options: t.Any) -> None:
    before = cloud.state(HOST)
    for check in (True, False):
        answer, result = cloud.init(HOST, check=check, **{**BASE, "name": name, **options})
        must(answer.status != 0 and words in result["msg"], answer.text)
    must(cloud.state(HOST) == before, "something has changed")


def _disk(**options: t.Any) -> dict[str, t.Any]:
    return {"disks": [{"name": "system", "pool": POOL, "clone": "copy", **options}]}


def _info(cloud: Cloud, file: str) -> dict[str, t.Any]:
    """The disk by its own format, which the domain says."""
    return dict(json.loads(cloud.on(HOST, f"qemu-img info --output json {PLACE}/{file}")))


def _copy(cloud: Cloud) -> None:
    for _time, changed in ((1, True), (2, False)):
        _init(cloud, "copy1", changed, **_disk(size=512))
    info = _info(cloud, "copy1-system.qcow2")
    must(info["format"] == "qcow2" and info["virtual-size"] == 512 * MIB, str(info))
    must("backing-filename" not in info, str(info))
    own = cloud.on(HOST, f"btrfs filesystem du -s --raw {PLACE}/copy1-system.qcow2 | tail -n 1").split()
    total, exclusive = int(own[-4]), int(own[-3])
    must(total > MIB and exclusive < total / 10, f"{exclusive} of {total} bytes are not shared")


def _convert(cloud: Cloud) -> None:
    _init(cloud, "copy2", **_disk(format="raw", size=512))
    info = _info(cloud, "copy2-system.raw")
    must(info["format"] == "raw" and info["virtual-size"] == 512 * MIB, str(info))
    said = cloud.on(HOST, f"qemu-img compare -f qcow2 -F raw {PLACE}/tiny-*.qcow2 {PLACE}/copy2-system.raw")
    must("Images are identical" in said, said)


def _grow(cloud: Cloud) -> None:
    for name, image_format in (("copy1", "qcow2"), ("copy2", "raw")):
        for _time, changed in ((1, True), (2, False)):
            _init(cloud, name, changed, **_disk(format=image_format, size=640))
        info = _info(cloud, f"{name}-system.{image_format}")
        must(info["format"] == image_format and info["virtual-size"] == 640 * MIB, str(info))
        _refused(cloud, "never shrunk", name, **_disk(format=image_format, size=512))


def _existing(cloud: Cloud) -> None:
    cloud.on(HOST, f"truncate -s 16M {PLACE}/old.qcow2; qemu-img create -q -f qcow2 {PLACE}/old.raw 16M")
    disks = [{"name": name, "pool": POOL, "source": f"old.{name}"} for name in ("qcow2", "raw")]
    _refused(cloud, "looks like raw by its first bytes", "copy3", image=None, disk_profile="none", disks=disks)
    disks = [{**disk, "format": other} for disk, other in zip(disks, ("raw", "qcow2"))]
    _init(cloud, "copy3", image=None, disk_profile="none", disks=disks)
    xml = cloud.on(HOST, "virsh dumpxml --inactive copy3")
    formats = [
        line.split("type='")[1].split("'")[0] for line in xml.splitlines() if "<driver name='qemu' type=" in line
    ]
    must(formats == ["raw", "qcow2"], f"the disks are taken for {formats}")


def _no_space(cloud: Cloud) -> None:
    cloud.on(HOST, f"virsh -q pool-define-as small dir --target {PLACE}-small; mkdir -p {PLACE}-small")
    cloud.on(HOST, f"mount -t tmpfs -o size=1M tmpfs {PLACE}-small; virsh -q pool-start small")
    try:
        _refused(cloud, "'small' has", "copy4", **_disk(pool="small"))
    finally:
        cloud.on(HOST, f"virsh -q pool-destroy small; virsh -q pool-undefine small; umount {PLACE}-small")


def _typo(cloud: Cloud) -> None:
    _refused(cloud, f"'{POOL}d'. Did you mean {POOL}?", "copy4", **_disk(pool=f"{POOL}d"))


def _clear(cloud: Cloud) -> None:
    digest, path = cloud.on(HOST, f"sha256sum {PLACE}/tiny-*.qcow2").split()[-2:]
    must(f"tiny-{digest[:16]}.qcow2" in path, f"{path} has the sha256 {digest}")
    cloud.on(HOST, "for name in $(virsh -q list --all --name | grep '^copy'); do virsh -q undefine $name; done")
    cloud.on(
        HOST, f"virsh -q pool-destroy {POOL}; virsh -q pool-undefine {POOL}; umount {PLACE}; rm -rf {PLACE} {PLACE}.img"
    )
