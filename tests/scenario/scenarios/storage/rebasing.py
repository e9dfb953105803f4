# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines get a newer version of their image below them, or none, and read what they have read before."""

from __future__ import annotations

import typing as t

from ...cloud import FLEET, Cloud, must
from ...driving.consoles import clear, tell, wait_until_up
from ...driving.tasks import have, module, refused
from ...moving import forget
from ...needs import TINY
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
HOST = FLEET[0]
MACHINE, IMAGE = "based", "scenario-base"
DISK = f"/var/lib/libvirt/images/{MACHINE}-system.qcow2"
# As long as the disk, so that all of the old content has to be copied.
NEWER_MIB = 256
# Whoever looks for a rebase goes on as long as the one is there, and says in the other what came of a start.
WATCH, SAID, TRIES = "/var/tmp/watching", "/var/tmp/started", 4
_versions: list[str] = []


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("a machine on an image that has a newer version", lambda: _begin(cloud), vital=True)
        scenario.step("it is refused while it runs, with a snapshot, and on no image", lambda: _refusals(cloud))
        scenario.step("off, it gets the newer version, and reads the same", lambda: _rebase(cloud))
        scenario.step("the old version is free to go", lambda: _prune(cloud))
        scenario.step("killed at any time, it has the one or the other", lambda: _kill(cloud))
        scenario.step("who starts it meanwhile is refused", lambda: _start_meanwhile(cloud))
        scenario.step("flat, it needs no image", lambda: _flatten(cloud))
    finally:
        _clear(cloud)


def _image(cloud: Cloud, **options: t.Any) -> dict[str, t.Any]:
    answer, result = module(cloud, HOST, "virt_image", name=IMAGE, **options)
    must(answer.status == 0, answer.text)
    return result


def _store_newer(cloud: Cloud, mib: int = NEWER_MIB) -> None:
    """Store another version, all of it noise: whatever the machine still needs of the old one must be in its disk."""
    cloud.on(HOST, f"head -c {mib}M /dev/urandom > /var/tmp/noise.raw")
    try:
        _versions.append(_image(cloud, path="/var/tmp/noise.raw")["image"]["volume"])
    finally:
        cloud.on(HOST, "rm /var/tmp/noise.raw")


def _begin(cloud: Cloud) -> None:
    forget(cloud, MACHINE)
    _versions.clear()
    stored = cloud.on(HOST, "ls /var/lib/libvirt/virt-images/tiny-* | head -n 1").strip()
    _versions.append(_image(cloud, path=stored)["image"]["volume"])
    answer, _result = cloud.init(HOST, **{**TINY, "name": MACHINE, "image": IMAGE})
    must(answer.status == 0, answer.text)
    wait_until_up(cloud, HOST, MACHINE)
    status, said = tell(cloud, HOST, MACHINE, "dd if=/dev/urandom of=/dev/vda bs=1M seek=200 count=8 && sync")
    must(status == 0, said)
    must(_newer(cloud) == [], "there is a newer version already")
    _store_newer(cloud)
    must(_newer(cloud) == [{"disk": "vda", "image": _versions[0], "newest": _versions[1]}], str(_newer(cloud)))


def _newer(cloud: Cloud) -> list[dict[str, str]]:
    answer, result = module(cloud, HOST, "virt_info", name=[MACHINE], gather_subset=["images"])
    must(answer.status == 0, answer.text)
    return list(result["machines"][0]["newer_images"])


def _base(cloud: Cloud) -> str:
    """The volume that the disk is backed by; "" for none."""
    return cloud.on(HOST, f"qemu-img info -U {DISK} | sed -n 's/^backing file: //p'").strip().rpartition("/")[2]


def _sum(cloud: Cloud) -> str:
    """What the disk reads as; the machine is off."""
    raw = "/var/tmp/based.raw"
    read = f"qemu-img convert -f qcow2 -O raw {DISK} {raw} && md5sum < {raw}"
    # What keeps it from being read is no content.
    return cloud.on(HOST, f"trap 'rm -f {raw}' EXIT; {read}").split()[0]


def _boots(cloud: Cloud) -> None:
    clear(cloud, HOST, MACHINE)
    cloud.on(HOST, f"virsh start {MACHINE}")
    wait_until_up(cloud, HOST, MACHINE)
    cloud.on(HOST, f"virsh destroy {MACHINE}")


def _refusals(cloud: Cloud) -> None:
    refused(cloud, HOST, "virt_rebase", "it is running, and its disks are in use", name=[MACHINE])
    cloud.on(HOST, f"virsh destroy {MACHINE} && virsh snapshot-create-as {MACHINE} before")
    refused(cloud, HOST, "virt_rebase", "it has snapshots (before)", name=[MACHINE])
    cloud.on(HOST, f"virsh snapshot-delete {MACHINE} before")
    refused(cloud, HOST, "virt_rebase", "there is no image 'nothing'", name=[MACHINE], image="nothing")
    must(_base(cloud) == _versions[0], _base(cloud))


def _rebase(cloud: Cloud) -> None:
    still = _sum(cloud)
    answer, result = module(cloud, HOST, "virt_rebase", "--check", "--diff", name=[MACHINE])
    must(answer.status == 0 and result["changed"] and _base(cloud) == _versions[0], answer.text)
    have(cloud, HOST, "virt_rebase", name=[MACHINE])
    _is_settled(cloud)
    must(_base(cloud) == _versions[1] and _newer(cloud) == [], _base(cloud))
    must(_sum(cloud) == still, "the disk has another content")
    _boots(cloud)


def _is_settled(cloud: Cloud, **options: t.Any) -> None:
    """Check mode has nothing to do after the real run either."""
    answer, result = module(cloud, HOST, "virt_rebase", "--check", name=[MACHINE], **options)
    must(answer.status == 0 and not result["changed"] and not result["machines"][0]["actions"], answer.text)


def _prune(cloud: Cloud) -> None:
    removed = _image(cloud, state="pruned", keep=1)
    must(removed["changed"] and _versions[0] not in cloud.on(HOST, "virsh vol-list images"), str(removed))
    _boots(cloud)


def _kill(cloud: Cloud) -> None:
    still = _sum(cloud)
    killed = 0
    for delay in (0.0, 0.2, 0.5, 1.0, 2.0):
        _store_newer(cloud)
        part = f"{DISK.replace(MACHINE, '.' + MACHINE, 1)}.rebase-*"
        began = f"for i in $(seq 600); do ls {part} && break; sleep 0.02; done"
        # Who has finished before is not killed, and neither is what the scenario reads the disk with then.
        kill = f"process=$(pgrep -f '[A]nsiballZ_virt_rebase'); sleep {delay}; kill -9 $process && pkill -9 qemu-img"
        cloud.on(HOST, f"({began}; {kill}) >/dev/null 2>&1 & :")
        with cloud.modules_in_files():
            answer, _result = module(cloud, HOST, "virt_rebase", name=[MACHINE])
        killed += answer.status != 0
        must(_sum(cloud) == still, f"killed after {delay} s, the disk has another content")
        answer, _result = module(cloud, HOST, "virt_rebase", name=[MACHINE])
        must(answer.status == 0 and _base(cloud) == _versions[-1], answer.text)
        must(_sum(cloud) == still, "the disk has another content after the run that follows a killed one")
        left = cloud.on(HOST, "ls -A /var/lib/libvirt/images")
        must(".rebase" not in left, left)
        _image(cloud, state="pruned", keep=1)
    # The others had ended before, on a host that is fast.
    must(killed >= 2, f"only {killed} runs were killed at work")
    _boots(cloud)


def _start_meanwhile(cloud: Cloud) -> None:
    still = _sum(cloud)
    # It stands still for so long. What qemu-img measures before is no change yet, and keeps nobody out.
    stopped = "pkill -STOP -f '^[q]emu-img rebase'"
    start = f"virsh start {MACHINE}; pkill -CONT -x qemu-img; rm {WATCH}"
    said = ""
    for _number in range(TRIES):
        before = _base(cloud)
        _store_newer(cloud)
        cloud.on(HOST, f"touch {WATCH}; (while test -e {WATCH}; do {stopped} && {{ {start}; }}; done) >{SAID} 2>&1 & :")
        answer, _result = module(cloud, HOST, "virt_rebase", name=[MACHINE])
        said = cloud.on(HOST, f"rm -f {WATCH}; cat {SAID}; rm {SAID}")
        must(answer.status == 0 and _base(cloud) != before, answer.text)
        must(_sum(cloud) == still, "the disk has another content")
        # Nobody has seen it where it is over within one look.
        if said:
            break
    must('Failed to get "write" lock' in said, f"it was started, or not tried: {said}")


def _flatten(cloud: Cloud) -> None:
    content = _sum(cloud)
    have(cloud, HOST, "virt_rebase", name=[MACHINE], flatten=True)
    _is_settled(cloud, flatten=True)
    must(_base(cloud) == "" and _sum(cloud) == content and _newer(cloud) == [], _base(cloud))
    _image(cloud, state="absent")
    _boots(cloud)


def _clear(cloud: Cloud) -> None:
    forget(cloud, MACHINE)
    _image(cloud, state="absent")
