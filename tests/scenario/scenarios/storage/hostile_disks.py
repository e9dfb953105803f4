# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that owns a raw disk writes into it what a host's tools take for another format: nothing of it counts."""

from __future__ import annotations

import functools
import typing as t

from ...cloud import Cloud, must
from ...runner import ScenarioRun
from ...trouble import small_pool

NEEDS = ("hypervisors", "tiny")
HOST = "hv1"
POOL = "hostile"
PLACE = "/var/lib/brine-hostile"
SECRET = "/root/brine-hostile-secret"
DISK = f"{PLACE}/hostile1-data.raw"
MIB = 1 << 20
# What the guest writes into its first cluster; the files that it leads to are the host's.
HEADERS = {
    "a data file": f"-o data_file={SECRET},data_file_raw=on header 8M",
    "a backing file": f"-b {SECRET} -F raw header",
    "64 TiB": "header 64T",
}
BASE: dict[str, t.Any] = {"vcpus": 1, "memory": 128, "start": False, "seed": {"method": "none"}, "disk_profile": "none"}
DATA: dict[str, t.Any] = {"name": "data", "pool": POOL, "format": "raw", "size": 64}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("a machine with a raw disk, and a secret of the host", lambda: _make(cloud), vital=True)
        for what in HEADERS:
            scenario.step(f"{what} in it, off: the same task changes nothing", functools.partial(_same, cloud, what))
        scenario.step("with a data file, off: it grows as the raw disk that it is", lambda: _grow(cloud))
        scenario.step("with a backing file, running: the same task changes nothing", lambda: _running(cloud))
        scenario.step("detached by virsh, it is attached again as raw", lambda: _detached(cloud))
        scenario.step("nobody makes an overlay on it", lambda: _backing(cloud))
        scenario.step("taken out and named as a source, it is refused, or raw", lambda: _source(cloud))
        scenario.step("volumes from elsewhere lead to volumes of pools only", lambda: _outside(cloud))
        scenario.step("a full pool is named with what is free and what is needed", lambda: _full(cloud))
    finally:
        _clear(cloud)


def _init(cloud: Cloud, changed: bool, *disks: dict[str, t.Any], name: str = "hostile1") -> None:
    answer, result = cloud.init(HOST, **BASE, name=name, disks=list(disks))
    must(answer.status == 0 and result["changed"] is changed, answer.text)


def _refused(cloud: Cloud, words: str, *disks: dict[str, t.Any], name: str = "hostile2") -> None:
    before = cloud.state(HOST)
    for check in (True, False):
        answer, result = cloud.init(HOST, check=check, **BASE, name=name, disks=list(disks))
        must(answer.status != 0 and words in result["msg"], answer.text)
    must(cloud.state(HOST) == before, "something has changed")


def _make(cloud: Cloud) -> None:
    cloud.on(
        HOST,
        f"mkdir -p {PLACE} && virsh -q pool-define-as {POOL} dir --target {PLACE} && virsh -q pool-start {POOL}",
    )
    _init(cloud, True, DATA)
    _write_secret(cloud)


def _write_secret(cloud: Cloud) -> None:
    cloud.on(HOST, f"rm -f {SECRET}; install -m 0600 /dev/null {SECRET}; yes secret | head -c {8 * MIB} > {SECRET}")


def _write_header(cloud: Cloud, what: str, path: str = DISK) -> None:
    """As the guest would; and libvirt has refreshed the pool since, as it does when it is restarted."""
    # qemu-img recreates the data file.
    cloud.on(HOST, f"cd /tmp && rm -f header && qemu-img create -q -f qcow2 {HEADERS[what]}")
    _write_secret(cloud)
    cloud.on(HOST, f"dd status=none if=/tmp/header of={path} conv=notrunc && virsh -q pool-refresh {POOL}")


def _must_be_safe(cloud: Cloud) -> None:
    """The secret is as it was: content, size, mode and owner."""
    want = cloud.on(HOST, f"yes secret | head -c {8 * MIB} | sha256sum").split()[0]
    have = cloud.on(HOST, f"sha256sum < {SECRET}; stat -c '%s %a %U' {SECRET}").split()
    must(have == [want, "-", str(8 * MIB), "600", "root"], f"the host's file is now {have}")


def _size(cloud: Cloud) -> int:
    return int(cloud.on(HOST, f"stat -c %s {DISK}"))


def _formats(cloud: Cloud, name: str) -> list[str]:
    """What the machine takes its disks for."""
    xml = cloud.on(HOST, f"virsh dumpxml --inactive {name}")
    return [line.split(" type='")[1].split("'")[0] for line in xml.splitlines() if "<driver name='qemu'" in line]


def _same(cloud: Cloud, what: str) -> None:
    _write_header(cloud, what)
    for _time in range(2):
        _init(cloud, False, DATA)
    must(_size(cloud) == 64 * MIB, "the disk has changed")
    _must_be_safe(cloud)


def _grow(cloud: Cloud) -> None:
    _write_header(cloud, "a data file")
    _init(cloud, True, {**DATA, "size": 96})
    must(_size(cloud) == 96 * MIB, f"the disk has {_size(cloud)} bytes")
    _init(cloud, False, {**DATA, "size": 96})
    cloud.on(HOST, f"cmp -n 512 /tmp/header {DISK}")
    _must_be_safe(cloud)


def _running(cloud: Cloud) -> None:
    _write_header(cloud, "a backing file")
    cloud.on(HOST, "virsh -q start hostile1")
    try:
        for _time in range(2):
            _init(cloud, False, {**DATA, "size": 96})
        must(
            SECRET not in cloud.on(HOST, "ls -l /proc/$(cat /run/libvirt/qemu/hostile1.pid)/fd"),
            "QEMU has the secret open",
        )
    finally:
        cloud.on(HOST, "virsh -q destroy hostile1")
    _must_be_safe(cloud)


def _detached(cloud: Cloud) -> None:
    _write_header(cloud, "a backing file")
    cloud.on(HOST, "virsh -q detach-disk hostile1 vda --config")
    _init(cloud, True, {**DATA, "size": 96})
    must(_formats(cloud, "hostile1") == ["raw"], f"its format is {_formats(cloud, 'hostile1')}")
    _running(cloud)


def _backing(cloud: Cloud) -> None:
    overlay = {"name": "data", "pool": POOL, "backing": "hostile1-data.raw"}
    _refused(cloud, "writes to volume hostile1-data.raw", overlay)


def _source(cloud: Cloud) -> None:
    _init(cloud, True, {"name": "data", "state": "absent"})
    again = {"name": "again", "pool": POOL, "source": "hostile1-data.raw"}
    for what in HEADERS:
        _write_header(cloud, what)
        _refused(cloud, "looks like qcow2 by its first bytes", again)
        _refused(cloud, "looks like qcow2 by its first bytes", {**again, "source": DISK})
        _refused(
            cloud,
            "looks like qcow2 by its first bytes",
            {"name": "data", "pool": POOL, "backing": "hostile1-data.raw"},
        )
    _write_header(cloud, "a backing file")
    _refused(cloud, "not a volume of a storage pool here", {**again, "format": "qcow2"})
    _init(cloud, True, {**again, "format": "raw"})
    must(_formats(cloud, "hostile1") == ["raw"], f"its format is {_formats(cloud, 'hostile1')}")
    # Now a machine says what it is.
    _init(cloud, False, again)
    _must_be_safe(cloud)


def _outside(cloud: Cloud) -> None:
    cloud.on(
        HOST,
        f'cd {PLACE} && make() {{ qemu-img create -q -f qcow2 "$@"; }} && make base.qcow2 16M'
        " && make -b base.qcow2 -F qcow2 over.qcow2 && cp over.qcow2 over.img"
        f" && make -b {SECRET} -F raw away.qcow2 && make -o data_file={PLACE}/aside data.qcow2 1M"
        f" && virsh -q pool-refresh {POOL}",
    )
    disk = {"name": "data", "pool": POOL}
    _refused(cloud, "not a volume of a storage pool here", {**disk, "source": "away.qcow2"})
    _refused(cloud, "not a volume of a storage pool here", {**disk, "backing": "away.qcow2"})
    _refused(cloud, "has its data in another file", {**disk, "source": "data.qcow2"})
    _refused(cloud, "looks like an overlay on base.qcow2", {**disk, "source": "over.img"})
    _init(cloud, True, {**disk, "source": "over.qcow2"}, name="hostile2")
    must(_formats(cloud, "hostile2") == ["qcow2"], f"its format is {_formats(cloud, 'hostile2')}")


def _full(cloud: Cloud) -> None:
    with small_pool(cloud, HOST, "hostile-small", 4) as directory:
        cloud.on(HOST, f"dd status=none if=/dev/zero of={directory}/filler bs=64k; df {directory}")
        disk = {"name": "data", "pool": "hostile-small", "size": "2MiB"}
        answer, result = cloud.init(HOST, **BASE, name="hostile3", disks=[disk])
        message = result["msg"]
        must(answer.status != 0, answer.text)
        for words in (f"storage pool hostile-small ({directory}) is full, 0.0B are free", "up to 2.0M are needed"):
            must(words in message, message)
        must("qemu-img" not in message, message)
        cloud.on(HOST, "! virsh dominfo hostile3")


def _clear(cloud: Cloud) -> None:
    cloud.on(
        HOST,
        "for name in $(virsh -q list --all --name | grep '^hostile'); do virsh destroy $name; virsh undefine $name;"
        f" done; virsh pool-destroy {POOL}; virsh pool-undefine {POOL}; rm -rf {PLACE} {SECRET} /tmp/header",
    )
