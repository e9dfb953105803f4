# SPDX-License-Identifier: GPL-3.0-or-later
"""Others act on the same machines, volumes and images while a move is under way, or after it was killed."""

from __future__ import annotations

import contextlib
import json
import typing as t

from ...cloud import Answer, Cloud, must
from ...moving import Move, forget, has_moved, migrate, result_of, rolled_back, volumes
from ...needs import TINY
from ...runner import ScenarioRun
from ...trouble import slow
from .failed_migrations import MODULE

NEEDS = ("hypervisors", "tiny")
NAME, BALLAST, BACKED = "halted", "ballast", "backed"
# So slow that what is sent takes about a quarter of a minute; an image, longer than Ansible needs for two tasks.
LINK_MBIT, SLOWER_MBIT = 20, 8
HALTED: dict[str, t.Any] = {
    **TINY,
    "name": NAME,
    "start": False,
    "disks": [*TINY["disks"], {"name": "data", "size": 64, "format": "raw"}],
}
PROBE = "/var/lib/libvirt/images/probe"
DATA = "/var/lib/libvirt/images/halted-data.raw"
BULKY = "/var/tmp/bulky.qcow2"


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    here, there = cloud.hosts
    scenario.step("a machine cannot be started while its disks are copied", lambda: _start(cloud, here, there))
    scenario.step("what is written to its disks meanwhile is not lost", lambda: _written(cloud, here, there))
    scenario.step("a copied disk is on the target's disk, not in its memory", lambda: _on_disk(cloud, here, there))
    scenario.step("virt_init does not change it while it is copied", lambda: _refused_to_change(cloud, here, there))
    scenario.step("what others change meanwhile ends the move", lambda: _changed(cloud, here, there))
    scenario.step("the target goes into maintenance meanwhile: it stays", lambda: _maintained(cloud, here, there))
    scenario.step(
        "a running one comes to a target in maintenance: it is waited for",
        lambda: _comes(cloud, here, there),
    )
    scenario.step("killed; somebody else's volume of that name stays", lambda: _stranger(cloud, here, there))
    scenario.step("virt_image stores the image that a failing move brings", lambda: _image(cloud, here, there))
    scenario.step("an image that a move brings is on the target's disk", lambda: _image_on_disk(cloud, here, there))
    for host in cloud.hosts:
        cloud.on(host, f"rm -f {BULKY}")


def _images(cloud: Cloud, host: str) -> str:
    """The directory of the image store."""
    return cloud.on(host, "virsh pool-dumpxml images | sed -n 's:.*<path>\\(.*\\)</path>.*:\\1:p'").strip()


def _make(cloud: Cloud, host: str, mib: int = 16) -> None:
    """The machine as each step wants it: off, new, with so much on its second disk."""
    forget(cloud, NAME)
    answer, _result = cloud.init(host, **HALTED)
    must(answer.status == 0, answer.text)
    cloud.on(host, f"dd if=/dev/urandom of={DATA} bs=1M count={mib} conv=notrunc status=none")


@contextlib.contextmanager
def _under_way(cloud: Cloud, source: str, target: str, name: str, path: str, mbit: int = LINK_MBIT) -> t.Iterator[Move]:
    """A move of a machine that is off, of which so much of a file has come to the target that more is to come."""
    with slow(cloud, target, mbit):
        move = Move(cloud, source, name, {"target": target})
        try:
            grows = f"[ $(du -m $(ls {path} | head -1) | cut -f1) -ge 2 ]"
            answer = cloud.lab("ssh", target, f"for i in $(seq 120); do {grows} && exit; sleep 0.5; done; exit 1")
            if answer.status != 0:
                raise AssertionError(f"nothing comes: {move.end().text}")
            yield move
        finally:
            move.stop()


def _sum(cloud: Cloud, host: str, path: str) -> str:
    return cloud.on(host, f"sha256sum {path}").split()[0]


def _start(cloud: Cloud, here: str, there: str) -> None:
    _make(cloud, here)
    digest, had = _sum(cloud, here, DATA), volumes(cloud, here, NAME)
    with _under_way(cloud, here, there, NAME, DATA) as move:
        answer = cloud.lab("ssh", here, f"virsh start {NAME}")
        must(answer.status != 0 and "lock" in answer.text, f"it was started: {answer.text}")
        answer = move.end()
        must(answer.status == 0, answer.text)
    has_moved(cloud, NAME, here, there, had)
    must(_sum(cloud, there, DATA) == digest, "the disk has another content")


def _written(cloud: Cloud, here: str, there: str) -> None:
    _make(cloud, here)
    before = cloud.states(here, there)
    with _under_way(cloud, here, there, NAME, DATA) as move:
        cloud.on(here, f"echo written | dd of={DATA} conv=notrunc status=none")
        digest = _sum(cloud, here, DATA)
        answer = move.end()
        must(answer.status != 0 and "was changed while it was being copied" in answer.text, answer.text)
    rolled_back(cloud, here, there, before)
    must(_sum(cloud, here, DATA) == digest, "the disk has another content")


def _in_memory(cloud: Cloud, host: str, path: str) -> bool:
    """Whether some of a file has no place on the disk yet; only a file system that waits with that tells it (ext4)."""
    return "delalloc" in cloud.on(host, f"filefrag -v {path}")


def _nothing_is_left_of_flushes(cloud: Cloud, host: str) -> None:
    found = cloud.on(host, "virsh list --all --name; ls /var/lib/libvirt/*images")
    must("brine-virt-sync" not in found, f"what had the files written is left on {host}: {found}")


def _on_disk(cloud: Cloud, here: str, there: str) -> None:
    _make(cloud, here)
    had = volumes(cloud, here, NAME)
    cloud.on(there, f"dd if=/dev/urandom of={PROBE} bs=1M count=2 status=none")
    must(_in_memory(cloud, there, PROBE), "this file system does not show what is in memory only")
    answer, _result = migrate(cloud, here, name=NAME, target=there)
    must(answer.status == 0, answer.text)
    for path in (DATA, DATA.replace("data.raw", "system.qcow2")):
        must(not _in_memory(cloud, there, path), f"the source's {path} was deleted, and the target's is in memory only")
    has_moved(cloud, NAME, here, there, had)
    _nothing_is_left_of_flushes(cloud, there)
    cloud.on(there, f"rm {PROBE}")


def _refused_to_change(cloud: Cloud, here: str, there: str) -> None:
    # Long enough for two tasks of Ansible.
    _make(cloud, here, 40)
    had = volumes(cloud, here, NAME)
    system, data = HALTED["disks"]
    more = {**HALTED, "disks": [system, data, {"name": "more", "size": 16}]}
    less = {**HALTED, "disks": [system, {**data, "state": "absent"}]}
    with _under_way(cloud, here, there, NAME, DATA, SLOWER_MBIT) as move:
        for wanted in (more, less):
            answer, result = cloud.init(here, **wanted)
            must(answer.status != 0 and "is being moved to" in result["msg"], answer.text)
        answer = move.end()
        must(answer.status == 0, answer.text)
    has_moved(cloud, NAME, here, there, had)
    answer, result = cloud.init(there, **more)
    must(answer.status == 0 and result["changed"], answer.text)


def _changed(cloud: Cloud, here: str, there: str) -> None:
    _make(cloud, here)
    before = cloud.states(here, there)
    with _under_way(cloud, here, there, NAME, DATA) as move:
        cloud.on(here, f"virsh desc {NAME} --config --title --new-desc changed")
        answer = move.end()
        must(answer.status != 0 and "has been changed since its move was planned" in answer.text, answer.text)
    cloud.on(here, f"virsh desc {NAME} --config --title --new-desc ''")
    rolled_back(cloud, here, there, before)


def _maintained(cloud: Cloud, here: str, there: str) -> None:
    _make(cloud, here, 32)
    before = cloud.states(here, there)
    try:
        with _under_way(cloud, here, there, NAME, DATA) as move:
            answer = cloud.ansible(there, "brine.virt.virt_maintenance", json.dumps({"reason": "new disks"}))
            must(answer.status == 0 and "WARNING" not in answer.text, answer.text)
            answer = move.end()
            must(
                answer.status != 0 and "in maintenance since" in answer.text and "new disks" in answer.text, answer.text
            )
        rolled_back(cloud, here, there, before)
        answer, result = migrate(cloud, here, name=NAME, target=there)
        must(answer.status != 0 and "in maintenance since" in result["msg"], answer.text)
    finally:
        answer = cloud.ansible(there, "brine.virt.virt_maintenance", json.dumps({"state": "absent"}))
    must(
        answer.status == 0 and "maintenance" not in cloud.on(there, "virsh secret-list; ls /var/lib/brine-virt"),
        answer.text,
    )


def _comes(cloud: Cloud, here: str, there: str) -> None:
    _make(cloud, here, 48)
    cloud.on(here, f"virsh start {NAME}")
    had = volumes(cloud, here, NAME)
    try:
        with slow(cloud, there, LINK_MBIT):
            move = Move(cloud, here, NAME, {"target": there})
            try:
                move.wait_until_it_flows()
                # Not for as long as it takes.
                answer = _maintain(cloud, there, lock_timeout=2)
                must(f"{NAME} is still being moved here" in answer.one_line, answer.text)
                must(result_of(answer)["arriving"] == [NAME], answer.text)
                answer = cloud.play("evacuate", "-e", f"from={there}", "--check", live=False)
                must(f"{NAME} is still being moved to {there}: evacuate would wait" in answer.one_line, answer.text)
                answer = _maintain(cloud, there)
                must(result_of(answer)["arriving"] == [], answer.text)
                # Its move's note has gone too, so that it can be moved away at once.
                state = cloud.on(there, f"virsh domstate {NAME}; virsh dumpxml {NAME} | grep -c brinemove || true")
                must(state.split() == ["running", "0"], state)
                answer = move.end()
                must(answer.status == 0, answer.text)
            finally:
                move.stop()
        has_moved(cloud, NAME, here, there, had)
    finally:
        _maintain(cloud, there, state="absent")


def _maintain(cloud: Cloud, host: str, **options: t.Any) -> Answer:
    # Not an empty mapping, which Ansible would take for text.
    answer = cloud.ansible(host, "brine.virt.virt_maintenance", json.dumps({"state": "present", **options}))
    must(answer.status == 0, answer.text)
    return answer


def _stranger(cloud: Cloud, here: str, there: str) -> None:
    _make(cloud, here)
    had = volumes(cloud, here, NAME)
    with _under_way(cloud, here, there, NAME, DATA) as move:
        cloud.on(here, f"pkill -KILL -f {MODULE}")
        must(move.end().status != 0, "it was not killed")
    cloud.on(
        there, "virsh vol-delete halted-data.raw default && virsh vol-create-as default halted-data.raw 1M --format raw"
    )
    cloud.on(there, f"echo precious | dd of={DATA} conv=notrunc status=none")
    digest = _sum(cloud, there, DATA)
    answer, result = migrate(cloud, here, name=NAME, target=there)
    must(answer.status != 0 and "has a volume halted-data.raw already" in result["msg"], answer.text)
    must(_sum(cloud, there, DATA) == digest, "somebody else's volume has changed")
    cloud.on(there, "virsh vol-delete halted-data.raw default")
    answer, result = migrate(cloud, here, name=NAME, target=there)
    must(answer.status == 0 and result["changed"], answer.text)
    has_moved(cloud, NAME, here, there, had)


def _image(cloud: Cloud, here: str, there: str) -> None:
    make = f"qemu-img create -q -f qcow2 {BULKY} 64M && qemu-io -f qcow2 -c 'write -q -P 90 0 48M' {BULKY}"
    for host in (here, there):
        cloud.on(host, make)
    options = json.dumps({"name": "bulky", "path": BULKY})
    answer = cloud.ansible(here, "brine.virt.virt_image", options)
    must(answer.status == 0, answer.text)
    answer, _result = cloud.init(here, **{**TINY, "name": BALLAST, "image": "bulky", "start": False})
    must(answer.status == 0, answer.text)
    stored = f"{_images(cloud, there)}/bulky-*"
    with _under_way(cloud, here, there, BALLAST, stored, SLOWER_MBIT) as move:
        answer = cloud.ansible(there, "brine.virt.virt_image", options)
        must(answer.status == 0, answer.text)
        answer, _result = cloud.init(there, **{**TINY, "name": BACKED, "image": "bulky", "start": False})
        must(answer.status == 0, answer.text)
        cloud.on(here, f"kill -KILL $(pgrep --oldest -f {MODULE})")
        must(move.end().status != 0, "it was not stopped")
    cloud.on(here, f"for i in $(seq 60); do pgrep -f {MODULE} >/dev/null || break; sleep 1; done")
    digest, path = cloud.on(there, f"sha256sum {stored}").split()
    must(path.endswith(f"bulky-{digest[:16]}.qcow2"), f"{path} has the sha256 {digest}")
    cloud.on(there, f"qemu-img check -q /var/lib/libvirt/images/{BACKED}-system.qcow2")
    must(BALLAST in cloud.on(here, "virsh list --all --name").split(), f"{BALLAST} has gone")


def _image_on_disk(cloud: Cloud, here: str, there: str) -> None:
    forget(cloud, BACKED)
    stored = f"{_images(cloud, there)}/bulky-*"
    cloud.on(there, f"rm {stored}; virsh pool-refresh images")
    answer, _result = migrate(cloud, here, name=BALLAST, target=there)
    must(answer.status == 0, answer.text)
    must(not _in_memory(cloud, there, stored), "the image is in the target's memory only")
    digest, path = cloud.on(there, f"sha256sum {stored}").split()
    must(path.endswith(f"bulky-{digest[:16]}.qcow2"), f"{path} has the sha256 {digest}")
    _nothing_is_left_of_flushes(cloud, there)
