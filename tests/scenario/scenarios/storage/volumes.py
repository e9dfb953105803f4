# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes as data on a real hypervisor: what libvirt itself makes, fills, grows and deletes."""

from __future__ import annotations

import hashlib
import json
import os
import typing as t

from ...cloud import Answer, Cloud, must
from ...needs import TINY
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
HOST = "hv1"
FOLDER = "/var/lib/libvirt/images"
MIB = 1 << 20
ISO = bytes(32769) + b"CD001" + os.urandom(2048 * 64 - 32774)
DATA = os.urandom(5 * MIB)
NAMES = ("vol-empty.qcow2", "vol-raw", "vol-sent.iso", "vol-sent.qcow2", "vol-sent.raw")
GUEST = "volumes1"
# A directory pool on a file system of its own.
LATE = "vol-late"
# As plugins/module_utils/_host/identity.py knows the host and this start of it.
_LEAVE_MARK = """
import hashlib, json, os, subprocess, sys

def line(path):
    return open(path).readline().strip() if os.path.exists(path) else ""

seen = f"{line('/etc/machine-id')} {line('/sys/class/dmi/id/product_uuid')}"
mark = {
    "token": "0" * 32,
    "host": subprocess.check_output(["virsh", "hostname"], text=True).strip(),
    "boot": f"{line('/proc/sys/kernel/random/boot_id')}:{os.stat('/proc/self/ns/pid').st_ino}",
    "pid": 2**22 + 1,
    "started": 1,
    "machine": hashlib.sha256(seen.encode()).hexdigest()[:32],
}
with open(sys.argv[1], "r+b") as file:
    file.write((b"\\0\\0\\0\\0brine.virt upload\\n" + json.dumps(mark).encode() + b"\\n").ljust(512, b"\\0"))
"""


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    files = cloud.build / "volumes"
    try:
        files.mkdir(exist_ok=True)
        scenario.step("empty ones, made once", lambda: _empty(cloud))
        scenario.step("files of the controller, sent once and compared by their checksums", lambda: _sent(cloud))
        scenario.step("one that is off grows, in its own format", lambda: _grow(cloud))
        scenario.step("one of a machine that runs grows under it", lambda: _grow_running(cloud))
        scenario.step("what the machine has is neither deleted nor replaced", lambda: _used(cloud))
        scenario.step("other content is refused, and replaced if it may be", lambda: _replaced(cloud))
        scenario.step("an upload whose sender is gone is cleared and made again", lambda: _interrupted(cloud))
        scenario.step("all of them go, once", lambda: _gone(cloud))
        scenario.step("nothing is created below a mount point that has nothing mounted", lambda: _unmounted(cloud))
    finally:
        _clear(cloud)


def _volume(cloud: Cloud, *words: str, **options: t.Any) -> tuple[Answer, dict[str, t.Any]]:
    answer = cloud.ansible(HOST, "brine.virt.virt_volume", json.dumps(options), *words)
    start = answer.text.find("=> {")
    must(start >= 0, answer.text)
    return answer, json.JSONDecoder().raw_decode(answer.text[start + 3 :])[0]


def _have(cloud: Cloud, **options: t.Any) -> dict[str, t.Any]:
    """It changes something, and the second time nothing; check mode says both before."""
    for changes in (True, False):
        for words in (("--check",), ()):
            answer, result = _volume(cloud, *words, **options)
            must(answer.status == 0 and result["changed"] is changes, answer.text)
    return result


def _refused(cloud: Cloud, words: str, **options: t.Any) -> None:
    before = cloud.state(HOST)
    for check in (("--check",), ()):
        answer, result = _volume(cloud, *check, **options)
        must(answer.status != 0 and words in result["msg"], answer.text)
    must(cloud.state(HOST) == before, "something has changed")


def _info(cloud: Cloud, name: str) -> tuple[str, int]:
    said = json.loads(cloud.on(HOST, f"qemu-img info --force-share --output=json {FOLDER}/{name}"))
    return said["format"], said["virtual-size"]


def _file(cloud: Cloud, name: str, content: bytes) -> str:
    path = cloud.build / "volumes" / name
    path.write_bytes(content)
    return str(path)


def _holds(cloud: Cloud, name: str, content: bytes) -> None:
    have = cloud.on(HOST, f"head -c {len(content)} {FOLDER}/{name} | sha256sum").split()[0]
    must(have == hashlib.sha256(content).hexdigest(), f"{name} has another content")


def _empty(cloud: Cloud) -> None:
    raw = {"name": "vol-raw", "format": "raw", "size": 16, "mode": "0640", "owner": "root", "group": "root"}
    _have(cloud, volumes=[{"name": "vol-empty.qcow2", "size": "64MiB"}, raw])
    must(_info(cloud, "vol-empty.qcow2") == ("qcow2", 64 * MIB), "the qcow2 volume is another one")
    must(_info(cloud, "vol-raw") == ("raw", 16 * MIB), "the raw volume is another one")
    stat = cloud.on(HOST, f"stat -c '%a %U %G' {FOLDER}/vol-raw").split()
    must(stat == ["640", "root", "root"], f"its file has {stat}")


def _sent(cloud: Cloud) -> None:
    _have(cloud, name="vol-sent.iso", format="iso", src=_file(cloud, "sent.iso", ISO))
    _holds(cloud, "vol-sent.iso", ISO)
    _have(cloud, name="vol-sent.raw", src=_file(cloud, "sent.raw", DATA), size=32)
    _holds(cloud, "vol-sent.raw", DATA)
    must(_info(cloud, "vol-sent.raw") == ("raw", 32 * MIB), "it is not as large as it is to be")
    image = cloud.images["tiny"]
    answer, result = _volume(cloud, name="vol-sent.qcow2", src=image, size="3GiB")
    must(answer.status == 0 and result["changed"], answer.text)
    must(_info(cloud, "vol-sent.qcow2") == ("qcow2", 3 << 30), "the image has not grown")
    cloud.on(HOST, f"qemu-img check {FOLDER}/vol-sent.qcow2")


def _grow(cloud: Cloud) -> None:
    _have(cloud, name="vol-empty.qcow2", size="80MiB")
    _have(cloud, name="vol-raw", size="24MiB")
    must(_info(cloud, "vol-empty.qcow2") == ("qcow2", 80 * MIB), "it has not grown")
    must(_info(cloud, "vol-raw") == ("raw", 24 * MIB), "it has not grown")
    _refused(cloud, "Volumes are never shrunk", name="vol-raw", size="23MiB")


def _grow_running(cloud: Cloud) -> None:
    cdrom = {"name": "iso", "device": "cdrom", "source": "vol-sent.iso"}
    disks = [*TINY["disks"], {"name": "data", "source": "vol-empty.qcow2"}, cdrom]
    answer, _result = cloud.init(HOST, **{**TINY, "name": GUEST, "disks": disks})
    must(answer.status == 0, answer.text)
    _have(cloud, name="vol-empty.qcow2", size="96MiB")
    must(str(96 * MIB) in cloud.on(HOST, f"virsh domblkinfo {GUEST} vdb"), "QEMU has not been told")
    must(_info(cloud, "vol-empty.qcow2") == ("qcow2", 96 * MIB), "the file has not grown")


def _used(cloud: Cloud) -> None:
    for name in ("vol-empty.qcow2", "vol-sent.iso"):
        _refused(cloud, f"it is used by machine {GUEST}", name=name, state="absent")
    other = _file(cloud, "other.iso", ISO[:-1] + b"!")
    _refused(cloud, f"it is used by machine {GUEST}", name="vol-sent.iso", src=other, replace=True)
    answer, result = _volume(cloud, name="vol-empty.qcow2", src=cloud.images["tiny"], replace=True)
    must(answer.status == 0 and not result["changed"], answer.text)
    must(GUEST in result["volumes"][0]["unchecked"], answer.text)
    system = f"{GUEST}-system.qcow2"
    _refused(cloud, f"it belongs to machine {GUEST}", name=system, state="absent")
    _refused(cloud, f"it belongs to machine {GUEST}", name=system, size="1GiB")


def _replaced(cloud: Cloud) -> None:
    content = os.urandom(3 * MIB)
    path = _file(cloud, "sent.raw", content)
    _refused(cloud, "has other content than", name="vol-sent.raw", src=path)
    _have(cloud, name="vol-sent.raw", src=path, replace=True)
    _holds(cloud, "vol-sent.raw", content)
    must(_info(cloud, "vol-sent.raw") == ("raw", 3 * MIB), "it has the size of the one before")


def _interrupted(cloud: Cloud) -> None:
    """What the killed process would have left: its mark, with a number that no process has."""
    cloud.on(HOST, f"python3 - {FOLDER}/vol-sent.raw << 'END'\n{_LEAVE_MARK}END")
    answer, result = _volume(cloud, name="vol-sent.raw", src=_file(cloud, "sent.raw", DATA))
    must(answer.status == 0, answer.text)
    must("unfinished" in result["volumes"][0]["actions"][0], answer.text)
    _holds(cloud, "vol-sent.raw", DATA)


def _gone(cloud: Cloud) -> None:
    answer = cloud.ansible(HOST, "brine.virt.virt_purge", json.dumps({"name": [GUEST], "force": True}))
    must(answer.status == 0, answer.text)
    _have(cloud, volumes=[{"name": name, "state": "absent"} for name in NAMES])
    must("vol-" not in cloud.on(HOST, f"virsh vol-list default; ls {FOLDER}"), "something is left")


def _unmounted(cloud: Cloud) -> None:
    """libvirt starts the pool all the same."""
    pool = f"virsh pool-define-as {LATE} dir --target /srv/{LATE} && virsh pool-start {LATE}"
    cloud.on(HOST, f"mkdir -p /srv/{LATE} && echo 'tmpfs /srv/{LATE} tmpfs size=64m 0 0' >> /etc/fstab && {pool}")
    new = {"pool": LATE, "name": "vol-late", "format": "raw", "size": 16}
    _refused(
        cloud,
        f"nothing is mounted at /srv/{LATE}, where /etc/fstab or systemd has the file system of storage pool",
        **new,
    )
    must(cloud.on(HOST, f"ls -A /srv/{LATE}") == "", "something was created")
    cloud.on(HOST, f"mount /srv/{LATE}")
    _have(cloud, **new)
    _have(cloud, **new, state="absent")


def _clear(cloud: Cloud) -> None:
    cloud.on(HOST, f"virsh -q destroy {GUEST}; virsh -q undefine {GUEST}; rm -f {FOLDER}/{GUEST}-*; true")
    cloud.on(HOST, f"cd {FOLDER} && rm -f {' '.join(NAMES)}; virsh -q pool-refresh default")
    late = f"virsh -q pool-destroy {LATE}; virsh -q pool-undefine {LATE}; umount /srv/{LATE}"
    cloud.on(HOST, f"{{ {late}; }} 2>/dev/null; rm -rf /srv/{LATE}; sed -i '/{LATE}/d' /etc/fstab")
