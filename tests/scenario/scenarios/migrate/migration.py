# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines move: a running one that is counted on all the while, a stopped one, and what is refused beforehand."""

from __future__ import annotations

import re

from ...cloud import Cloud, must
from ...moving import Counting, forget, has_moved, home, inside, life, migrate, refused, volumes
from ...needs import MOVER, TINY, WEB
from ...runner import ScenarioRun
from ...trouble import small_pool

NEEDS = ("hypervisors", "tiny", "web1")
BLOB = "/var/tmp/blob"


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    loop = Counting(cloud, WEB)
    scenario.step(f"migrate --check says where {WEB} would go, and moves nothing", lambda: _check(cloud))
    try:
        scenario.step(f"somebody counts in {WEB} over SSH", loop.start)
        scenario.step("it moves, and nothing in it notices", lambda: _move(cloud, loop))
        scenario.step("it is there already: nothing to change", lambda: _nothing(cloud))
        scenario.step("it moves back, and its progress is shown", lambda: _back(cloud, loop))
    finally:
        loop.stop()
    scenario.step("a machine that is off moves with its disks, and every byte of them", lambda: _stopped(cloud))
    scenario.step("what prevents a move is reported beforehand, and nothing is changed", lambda: _refused(cloud))


def _endpoints(cloud: Cloud) -> tuple[str, str]:
    """Where the guest is, and where it is to go."""
    here = home(cloud, WEB)
    return here, next(host for host in cloud.hosts if host != here)


def checksum(cloud: Cloud, name: str) -> str:
    """Of a file in the guest, read from the disk and not from memory."""
    return inside(cloud, name, f"sync; echo 3 > /proc/sys/vm/drop_caches; sha256sum {BLOB}").split()[0]


def _check(cloud: Cloud) -> None:
    here, there = _endpoints(cloud)
    before = cloud.state_of_all()
    answer = cloud.play_well("migrate", "-e", f"vm={WEB}", "-e", f"to={there}", "--check")
    must(re.search(rf"{WEB}.*{there}", answer.text) is not None and answer.recap("changed") > 0, answer.text)
    must(cloud.state_of_all() == before and home(cloud, WEB) == here, "check mode has changed something")


def _move(cloud: Cloud, loop: Counting) -> None:
    here, there = _endpoints(cloud)
    inside(cloud, WEB, f"head -c 20M /dev/urandom > {BLOB}")
    digest, had = checksum(cloud, WEB), volumes(cloud, here, WEB)
    cloud.play_well("migrate", "-e", f"vm={WEB}", "-e", f"to={there}")
    has_moved(cloud, WEB, here, there, had)
    loop.more()
    must(checksum(cloud, WEB) == digest, "the file has changed")


def _nothing(cloud: Cloud) -> None:
    there = home(cloud, WEB)
    for words in ([], ["--check"]):
        answer = cloud.play_well("migrate", "-e", f"vm={WEB}", "-e", f"to={there}", *words)
        must(answer.recap("changed") == 0 and home(cloud, WEB) == there, answer.text)


def _back(cloud: Cloud, loop: Counting) -> None:
    here, there = _endpoints(cloud)
    digest, had = checksum(cloud, WEB), volumes(cloud, here, WEB)
    answer, result = migrate(cloud, here, name=WEB, target=there, bandwidth=24)
    must(answer.status == 0 and result["changed"], answer.text)
    percents = re.findall(rf"^ *{WEB}: memory (\d+)%, .* left$", answer.text, re.MULTILINE)
    # A guest that writes to its memory makes more of it to send, so a later figure may be lower than the one before.
    must(len(percents) >= 2 and int(percents[-1]) > int(percents[0]), f"{percents} are the percents of: {answer.text}")
    has_moved(cloud, WEB, here, there, had)
    loop.more()
    must(checksum(cloud, WEB) == digest, "the file has changed")


def _stopped(cloud: Cloud) -> None:
    here, there = cloud.hosts
    answer, _result = cloud.init(here, **MOVER, start=False)
    must(answer.status == 0, answer.text)
    data = "/var/lib/libvirt/images/mover-data.qcow2"
    cloud.on(here, f"qemu-io -f qcow2 -c 'write -P 7 1M 5M' {data}")
    raw = "/var/tmp/mover.raw"
    sums = f"cd $(dirname {data}); for f in mover-*.qcow2; do qemu-img convert -O raw $f {raw}; sha256sum {raw}; done"
    content, had = cloud.on(here, sums), volumes(cloud, here, "mover")
    answer, result = migrate(cloud, here, name="mover", target=there)
    must(answer.status == 0 and result["changed"], answer.text)
    has_moved(cloud, "mover", here, there, had)
    must(cloud.on(there, f"{sums}; rm {raw}") == content, "the disks have another content than before")
    cloud.on(here, f"rm {raw}")
    answer, _result = migrate(cloud, there, name="mover", target=here)
    must(answer.status == 0, answer.text)
    cloud.on(here, "virsh start mover")


def _refused(cloud: Cloud) -> None:
    here, there = cloud.hosts
    alive = life(cloud, "mover")
    refused(cloud, "mover", there, "MiB of memory", memory_reserve_mib=10_000_000)
    _name_taken(cloud, here, there)
    _missing_bridge(cloud, here, there)
    _no_space(cloud, here, there)
    alive.goes_on(cloud)


def _name_taken(cloud: Cloud, here: str, there: str) -> None:
    """By a machine that somebody else defined there."""
    xml = "<domain type='qemu'><name>mover</name><memory unit='MiB'>64</memory><os><type>hvm</type></os></domain>"
    cloud.on(there, f'echo "{xml}" > /run/other.xml && virsh define /run/other.xml')
    try:
        before = cloud.states(here, there)
        answer, result = migrate(cloud, here, name="mover", target=there)
        must(answer.status != 0 and "another machine has its name there" in result["msg"], answer.text)
        must(cloud.states(here, there) == before, "something has changed")
    finally:
        cloud.on(there, "virsh undefine mover")


def _missing_bridge(cloud: Cloud, here: str, there: str) -> None:
    cloud.on(
        here,
        "ip link add br7 type bridge && virsh attach-interface mover bridge br7 --model virtio --mac 52:54:00:77:77:77",
    )
    try:
        refused(cloud, "mover", there, "there is no bridge 'br7'")
    finally:
        cloud.on(here, "virsh detach-interface mover bridge --mac 52:54:00:77:77:77; sleep 2; ip link delete br7")


def _no_space(cloud: Cloud, here: str, there: str) -> None:
    """A pool that both have, and there it is too small for what is in the disk."""
    spec = {
        **TINY,
        "name": "large",
        "disks": [*TINY["disks"], {"name": "data", "size": 96, "format": "raw", "pool": "small"}],
    }
    with small_pool(cloud, here, "small", 128) as directory, small_pool(cloud, there, "small", 32):
        try:
            answer, _result = cloud.init(here, **spec)
            must(answer.status == 0, answer.text)
            cloud.on(here, f"fallocate -l 64M {directory}/large-data.raw")
            refused(cloud, "large", there, "small.* free")
        finally:
            forget(cloud, "large")
