# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of a machine go to other pools of its hypervisor, and to those of another one, while its guest writes."""

from __future__ import annotations

import json
import re
import shlex
import time
import typing as t

from ...cloud import FLEET, Cloud, must
from ...driving.consoles import clear, tell, tell_all, wait_until_up
from ...driving.tasks import have, module, refused
from ...moving import UnderWay, forget, has_moved, volumes
from ...needs import MOVER
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
HOST, OTHER = FLEET
MACHINE = "drifter"
FAST, SMALL = "scenario-fast", "scenario-small"
PLACES = {FAST: "/srv/scenario-fast", SMALL: "/srv/scenario-small"}
# A file for each pool, so that a place with little room is one.
SMALL_SIZE = "40m"
# The last quarter of the data disk is written to all the time, the rest holds still.
STILL_MIB, DISK_MIB = 48, 64
# So that the copy takes about a quarter of a minute.
SLOW_MIB = 3


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("a machine runs, and pools are there", lambda: _begin(cloud), vital=True)
        scenario.step("its disks move while its guest writes", lambda: _move(cloud))
        scenario.step("no room is refused, with the bytes", lambda: _no_room(cloud))
        scenario.step("room that goes while it copies: it stays", lambda: _fill(cloud))
        scenario.step("a time limit: it stays, and nothing is left", lambda: _time_limit(cloud))
        scenario.step("Ctrl-C: the same, and the guest goes on", lambda: _interrupt(cloud))
        scenario.step("somebody aborts the copy with virsh: the same", lambda: _abort(cloud))
        scenario.step("killed at any time: the next run finishes it", lambda: _kill(cloud))
        scenario.step("the next backup is a full one", lambda: _back_up(cloud))
        scenario.step("off, its disks move as well", lambda: _off(cloud))
        scenario.step("the playbook does it as well", lambda: _play(cloud))
        scenario.step("to the other hypervisor, into another pool", lambda: _elsewhere(cloud))
    finally:
        _clear(cloud)


def _begin(cloud: Cloud) -> None:
    for host in FLEET:
        for pool, place in PLACES.items():
            cloud.on(host, f"mkdir -p {place} && chmod 711 {place}")
            if pool == SMALL:
                cloud.on(host, f"mount -t tmpfs -o size={SMALL_SIZE},mode=0711 tmpfs {place}")
            cloud.on(host, f"virsh pool-define-as {pool} dir --target {place} && virsh pool-start {pool}")
    forget(cloud, MACHINE)
    answer, _result = cloud.init(HOST, **{**MOVER, "name": MACHINE})
    must(answer.status == 0, answer.text)
    wait_until_up(cloud, HOST, MACHINE)
    _tell(cloud, f"dd if=/dev/urandom of=/dev/vdb bs=1M count={STILL_MIB}; sync")
    _lay_writer_down(cloud)


def _tell(cloud: Cloud, command: str, host: str = HOST) -> str:
    status, said = tell(cloud, host, MACHINE, command)
    must(status == 0, said)
    return said


def _sum(cloud: Cloud, host: str = HOST) -> str:
    """What the guest reads from its disk, in the part that holds still."""
    command = f"sync; echo 3 > /proc/sys/vm/drop_caches; dd if=/dev/vdb bs=1M count={STILL_MIB} 2>/dev/null | md5sum"
    found = re.search(r"[0-9a-f]{32}", _tell(cloud, command, host))
    return found[0] if found else ""


# Numbers, each a MiB of them, and read back; what was not the same then, by its number.
_WRITER = """
n=0
while [ ! -e /tmp/end ]; do
n=$((n+1)); at=$((n%16+48))
yes $n | head -c 1048576 > /tmp/a
dd if=/tmp/a of=/dev/vdb bs=1M seek=$at conv=notrunc 2>/tmp/err; sync
echo 3 > /proc/sys/vm/drop_caches
dd if=/dev/vdb of=/tmp/b bs=1M skip=$at count=1 2>>/tmp/err
[ "$(md5sum < /tmp/a)" = "$(md5sum < /tmp/b)" ] || echo $n >> /tmp/wrong
echo $n > /tmp/count
done
"""


def _lay_writer_down(cloud: Cloud) -> None:
    # Line by line: the console loses some of a long one.
    lines = [f"echo {shlex.quote(line)} >> /tmp/writer" for line in _WRITER.strip().splitlines()]
    for status, said in tell_all(cloud, HOST, MACHINE, ["mkdir -p /tmp; rm -f /tmp/writer", *lines]):
        must(status == 0, said)


def _write_all_the_time(cloud: Cloud) -> None:
    """The guest writes to the rest of the disk, and notes what it could not read back."""
    _tell(cloud, "rm -f /tmp/end /tmp/wrong /tmp/count; (sh /tmp/writer < /dev/null > /dev/null 2>&1 &)")


def _end_writing(cloud: Cloud) -> None:
    said = _tell(cloud, "touch /tmp/end; sleep 3; echo wrong=$(cat /tmp/wrong 2>/dev/null) count=$(cat /tmp/count)")
    must("wrong= count=" in said, f"what was written could not be read back: {said}")
    found = re.search(r"count=(\d+)", said)
    must(found is not None and int(found[1]) > 1, f"the guest has not written: {said}")


def _places(cloud: Cloud, host: str = HOST) -> set[str]:
    """The folders that its disks are in, in both of its descriptions."""
    text = "".join(cloud.on(host, f"virsh domblklist {MACHINE} {words}") for words in ("", "--inactive"))
    return set(re.findall(rf"(/\S+)/{MACHINE}-\S+", text))


def _is_in(cloud: Cloud, place: str, had: set[str]) -> None:
    """Its disks are in one folder, nothing of it is anywhere else, and no note of a move is left."""
    must(_places(cloud) == {place}, f"its disks are in {_places(cloud)}, not in {place}")
    must(volumes(cloud, HOST, MACHINE) == had, f"there are {volumes(cloud, HOST, MACHINE)}, not {had}")
    # Also what is hidden, and what has the same name in another pool.
    found = cloud.on(HOST, f"ls -A /var/lib/libvirt/images {' '.join(PLACES.values())}").split()
    must(sorted(name for name in found if name.lstrip(".").startswith(f"{MACHINE}-")) == sorted(had), f"files: {found}")
    xml = cloud.on(HOST, f"virsh dumpxml {MACHINE}; virsh dumpxml --inactive {MACHINE}")
    must("brinemove" not in xml and "<mirror" not in xml, f"something of the move is left in {xml}")


def _move(cloud: Cloud) -> None:
    had, still = volumes(cloud, HOST, MACHINE), _sum(cloud)
    answer, result = module(cloud, HOST, "virt_migrate", "--check", name=MACHINE, pool=FAST)
    must(answer.status == 0 and result["changed"] and len(result["machines"][0]["disks"]) == len(had), answer.text)
    _is_in(cloud, "/var/lib/libvirt/images", had)
    _write_all_the_time(cloud)
    have(cloud, HOST, "virt_migrate", name=MACHINE, pool=FAST)
    _end_writing(cloud)
    _is_in(cloud, PLACES[FAST], had)
    must(_sum(cloud) == still, "the disk has another content")
    cloud.on(HOST, f"qemu-img info -U {PLACES[FAST]}/{MACHINE}-system.qcow2 | grep -q 'backing file: /'")
    # One disk alone, by its name, and back.
    have(cloud, HOST, "virt_migrate", name=MACHINE, disks={"data": {"pool": "default"}})
    must(len(_places(cloud)) == len({FAST, "default"}), f"its disks are in {_places(cloud)}")
    have(cloud, HOST, "virt_migrate", name=MACHINE, pool=FAST)
    must(_sum(cloud) == still, "the disk has another content")


def _no_room(cloud: Cloud) -> None:
    had = volumes(cloud, HOST, MACHINE)
    refused(cloud, HOST, "virt_migrate", "the new volumes need", name=MACHINE, pool=SMALL)
    _is_in(cloud, PLACES[FAST], had)


def _fill(cloud: Cloud) -> None:
    had, still = volumes(cloud, HOST, MACHINE), _sum(cloud)
    cloud.on(HOST, f"mount -o remount,size=100m {PLACES[SMALL]}")
    try:
        fill = f"for i in $(seq 120); do ls {PLACES[SMALL]}/{MACHINE}-data* && break; sleep 0.5; done"
        cloud.on(HOST, f"({fill}; dd if=/dev/zero of={PLACES[SMALL]}/fill bs=1M) >/dev/null 2>&1 & :")
        answer, result = module(
            cloud, HOST, "virt_migrate", name=MACHINE, disks={"data": {"pool": SMALL}}, bandwidth=SLOW_MIB
        )
        must(answer.status != 0 and "has 0" in result["msg"], answer.text)
        _is_in(cloud, PLACES[FAST], had)
        must(_sum(cloud) == still, "the disk has another content")
    finally:
        cloud.on(HOST, f"rm -f {PLACES[SMALL]}/fill; mount -o remount,size={SMALL_SIZE} {PLACES[SMALL]}")


def _time_limit(cloud: Cloud) -> None:
    had, still = volumes(cloud, HOST, MACHINE), _sum(cloud)
    answer, result = module(cloud, HOST, "virt_migrate", name=MACHINE, pool="default", timeout=4, bandwidth=SLOW_MIB)
    must(answer.status != 0 and "did not finish within 4 s" in result["msg"], answer.text)
    _is_in(cloud, PLACES[FAST], had)
    must(_sum(cloud) == still, "the disk has another content")


def _interrupt(cloud: Cloud) -> None:
    had, still = volumes(cloud, HOST, MACHINE), _sum(cloud)
    process = cloud.on(HOST, f"cat /run/libvirt/qemu/{MACHINE}.pid")
    _write_all_the_time(cloud)
    playbook, slowly = str(cloud.bin / "ansible-playbook"), f"virt_migrate_bandwidth={SLOW_MIB}"
    words = ("brine.virt.migrate", "-e", f"vm={MACHINE}", "-e", "pool=default", "-e", slowly)
    run = UnderWay(cloud, playbook, *cloud.sources(live=False), *words)
    try:
        copies = f"virsh dumpxml {MACHINE} | grep -q '<mirror'"
        seen = cloud.lab("ssh", HOST, f"for i in $(seq 900); do {copies} && exit; sleep 0.1; done; exit 1")
        if seen.status == 0:
            time.sleep(1)
            run.interrupt()
        answer = run.end()
        must(seen.status == 0, f"nothing is copied: {answer.text}")
        must(answer.status != 0, answer.text)
    finally:
        run.stop()
    # The module ends by itself, when it sees that nobody listens any more.
    works = "pgrep -f '[A]nsiballZ_virt_migrate'"
    cloud.on(HOST, f"for i in $(seq 600); do {works} >/dev/null || exit 0; sleep 0.2; done; {works}; exit 1")
    _is_in(cloud, PLACES[FAST], had)
    _end_writing(cloud)
    must(cloud.on(HOST, f"cat /run/libvirt/qemu/{MACHINE}.pid") == process, "it is another process")
    must(_sum(cloud) == still, "the disk has another content")


def _abort(cloud: Cloud) -> None:
    had, still = volumes(cloud, HOST, MACHINE), _sum(cloud)
    copies = f"for i in $(seq 900); do virsh dumpxml {MACHINE} | grep -q '<mirror' && break; sleep 0.1; done"
    said = "/var/tmp/scenario-aborted"
    cloud.on(HOST, f"({copies}; sleep 1; virsh blockjob {MACHINE} vdb --abort) >{said} 2>&1 & :")
    options: dict[str, t.Any] = {"disks": {"data": {"pool": "default"}}, "bandwidth": SLOW_MIB}
    answer, result = module(cloud, HOST, "virt_migrate", name=MACHINE, **options)
    found = cloud.on(HOST, f"cat {said}; rm {said}")
    must(answer.status != 0 and "given up the copy of disk vdb" in result["msg"], f"{answer.text}\nvirsh: {found}")
    _is_in(cloud, PLACES[FAST], had)
    must(_sum(cloud) == still, "the disk has another content")


def _kill(cloud: Cloud) -> None:
    had, still = volumes(cloud, HOST, MACHINE), _sum(cloud)
    goals = {"default": "/var/lib/libvirt/images", FAST: PLACES[FAST]}
    for number, delay in enumerate((0.0, 0.3, 0.6, 1.0, 2.0, 4.0)):
        pool = list(goals)[number % 2]
        # From the time on when its metadata say that it moves.
        noted = f"for i in $(seq 600); do virsh dumpxml {MACHINE} | grep -q brinemove && break; sleep 0.02; done"
        # The process of this move, not of a later one.
        kill = f"process=$(pgrep -f '[A]nsiballZ_virt_migrate'); sleep {delay}; kill -9 $process"
        cloud.on(HOST, f"({noted}; {kill}) >/dev/null 2>&1 & :")
        _write_all_the_time(cloud)
        with cloud.modules_in_files():
            module(cloud, HOST, "virt_migrate", name=MACHINE, pool=pool)
        answer, _result = module(cloud, HOST, "virt_migrate", name=MACHINE, pool=pool)
        must(answer.status == 0, answer.text)
        _end_writing(cloud)
        _is_in(cloud, goals[pool], had)
        must(_sum(cloud) == still, f"killed after {delay} s, the disk has another content")


def _back_up(cloud: Cloud) -> None:
    place = "/srv/scenario-backup"
    cloud.on(HOST, f"mkdir -p {place}")
    try:
        kinds = []
        for pool in (None, "default", None):
            if pool is not None:
                had = volumes(cloud, HOST, MACHINE)
                have(cloud, HOST, "virt_migrate", name=MACHINE, disks={"data": {"pool": pool}})
                must(volumes(cloud, HOST, MACHINE) == had, "the old volume is there, or a new one is not")
            answer, result = module(cloud, HOST, "virt_backup", name=[MACHINE], dest=place)
            must(answer.status == 0, answer.text)
            made = result["machines"][0]
            kinds.append(made["kind"])
            if pool is not None:
                must("is on another volume than in" in made["reason"], str(made["reason"]))
        must(kinds == ["full", "full", "incremental"], str(kinds))
        answer, result = module(cloud, HOST, "virt_backup", name=[MACHINE], dest=place, state="verified")
        must(answer.status == 0, answer.text)
    finally:
        cloud.on(
            HOST,
            f"for c in $(virsh checkpoint-list --name {MACHINE}); do virsh checkpoint-delete {MACHINE} $c; done; "
            f"rm -rf {place}",
        )
    have(cloud, HOST, "virt_migrate", name=MACHINE, disks={"data": {"pool": FAST}})


def _off(cloud: Cloud) -> None:
    had, still = volumes(cloud, HOST, MACHINE), _sum(cloud)
    cloud.on(HOST, f"virsh destroy {MACHINE}")
    have(cloud, HOST, "virt_migrate", name=MACHINE, pool="default")
    _is_in(cloud, "/var/lib/libvirt/images", had)
    kill = "process=$(pgrep -f '[A]nsiballZ_virt_migrate'); sleep 0.5; kill -9 $process"
    noted = f"for i in $(seq 600); do virsh dumpxml {MACHINE} | grep -q brinemove && break; sleep 0.02; done"
    cloud.on(HOST, f"({noted}; {kill}) >/dev/null 2>&1 & :")
    with cloud.modules_in_files():
        module(cloud, HOST, "virt_migrate", name=MACHINE, pool=FAST)
    answer, _result = module(cloud, HOST, "virt_migrate", name=MACHINE, pool=FAST)
    must(answer.status == 0, answer.text)
    _is_in(cloud, PLACES[FAST], had)
    clear(cloud, HOST, MACHINE)
    cloud.on(HOST, f"virsh start {MACHINE}")
    wait_until_up(cloud, HOST, MACHINE)
    must(_sum(cloud) == still, "the disk has another content")


def _play(cloud: Cloud) -> None:
    had = volumes(cloud, HOST, MACHINE)
    words = ("migrate", "-e", f"vm={MACHINE}", "-e", "pool=default")
    answer = cloud.play(*words, "--check", "--diff", live=False)
    must(answer.status == 0 and f"-vdb: {FAST}/{MACHINE}-data" in answer.text, answer.text)
    _is_in(cloud, PLACES[FAST], had)
    cloud.play_well(*words, live=False)
    _is_in(cloud, "/var/lib/libvirt/images", had)
    answer = cloud.play("migrate", "-e", "vm=nobody", "-e", "pool=default", live=False)
    must(answer.status != 0 and "there is no machine 'nobody' on the hypervisors" in answer.one_line, answer.text)
    cloud.play_well("migrate", "-e", json.dumps({"vm": MACHINE, "disks": {"data": {"pool": FAST}}}), live=False)
    must(len(_places(cloud)) == len({FAST, "default"}), f"its disks are in {_places(cloud)}")


def _elsewhere(cloud: Cloud) -> None:
    had, still = volumes(cloud, HOST, MACHINE), _sum(cloud)
    options: dict[str, t.Any] = {"name": MACHINE, "target": OTHER, "pool": FAST}
    answer, result = module(cloud, HOST, "virt_migrate", **options, disks={"data": {"pool": "default"}})
    must(answer.status == 0 and result["changed"], answer.text)
    has_moved(cloud, MACHINE, HOST, OTHER, had)
    must(_places(cloud, OTHER) == {"/var/lib/libvirt/images", PLACES[FAST]}, f"it is in {_places(cloud, OTHER)}")
    must(_sum(cloud, OTHER) == still, "the disk has another content")


def _clear(cloud: Cloud) -> None:
    forget(cloud, MACHINE)
    for host in FLEET:
        for pool, place in PLACES.items():
            cloud.on(
                host,
                f"virsh pool-destroy {pool}; virsh pool-undefine {pool}; umount {place} 2>/dev/null; rm -rf {place}; :",
            )
