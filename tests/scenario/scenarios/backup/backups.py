# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups of a machine that runs: incremental ones between which it writes, merges, kills, a full disk, a directory
that vanishes, and restores."""

from __future__ import annotations

import re
import shlex
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ....gate.docsite.blocks import code_blocks
from ...cloud import FLEET, Cloud, must
from ...driving.consoles import clear, tell, wait_until_up
from ...driving.tasks import module, refused
from ...moving import hand_over, has_moved, home, migrate, volumes
from ...needs import MOVER, TINY
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
HOST, OTHER = FLEET
MACHINE = "saved1"
# One whose backups are measured, with a greater disk, of which so much is in use.
MEASURED, SIZES_MIB, HELD_MIB = "measured1", (1024, 4096), 384
# One with a disk of which no bitmap can be kept.
RAW, RAW_BLOCKS = "raw1", 1000
# What is written before each backup; 0 is the first one, which is full. When the disk has grown, another one is.
WRITTEN_MIB = ((0, 1, 4, 16, 64), (0, 16))
# What each has besides, such as the seed, and a full one the system disk.
BESIDES_MIB, SYSTEM_MIB = 2, 24
PLACE, SMALL = "/srv/scenario-backup", "/srv/scenario-small"
# What is mounted at SMALL while it can vanish.
BEHIND = "/srv/scenario-behind"
# Of backups of which one gets damaged.
HARMED = "/srv/scenario-harmed"
POOL, POOL_PLACE = "scenario-backups", "/srv/scenario-backup-pool"
WRITES = 5
# So many runs are killed while their backup is made, from its first moment on, at tenths of the time that one takes.
# One that comes too late is tried again, earlier.
KILLS, MOST_TRIES, EARLIER = 10, 30, 0.7
# Is there once the run was killed.
KILLED = "/tmp/scenario-killed"
# One with so much that QEMU's job is not over before anybody can say a word: it copies 64 MiB at once.
BUSY, BUSY_MIB = "saved2", 512
# Has the job crawl as soon as it is there.
CRAWL = f"""
import json, time, libvirt, libvirt_qemu
machine = libvirt.open("qemu:///system").lookupByName("{BUSY}")
def ask(command, **more):
    text = json.dumps({{"execute": command, "arguments": more}})
    return json.loads(libvirt_qemu.qemuMonitorCommand(machine, text, 0)).get("return")
def jobs():
    found = [job for job in ask("query-block-jobs") if job["status"] == "running"]
    return [job["device"] for job in found if job["device"].startswith("backup-")]
end = time.monotonic() + 60
while not jobs() and time.monotonic() < end:
    time.sleep(0.005)
for job in jobs():
    ask("block-job-set-speed", device=job, speed=262144)
raise SystemExit(not jobs())
"""
# Of runs of which one has to crawl before QEMU has copied what the guest writes to.
CRAWLS = 4
# In the guest: writes all over the rear of its disk until STOP is there, and has FAILED if a write fails.
STOP, FAILED = "/stop", "/failed"
WRITER = (
    f"n=0; while test ! -e {STOP}; do dd if=/dev/urandom of=/dev/vdb bs=65536 count=1 seek=$((4000+n%4000)) conv=fsync"
    f" || touch {FAILED}; n=$((n+7)); done"
)
# What a file of the guest has in it.
WORDS = "kept until the end"
# What the disk held at each backup, by the backup's id.
_sums: dict[str, str] = {}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("a machine runs", lambda: _begin(cloud), vital=True)
        scenario.step("a full backup, and incremental ones between which it writes", lambda: _write(cloud), vital=True)
        scenario.step("each of them holds what the disk held then", lambda: _compare(cloud))
        scenario.step("size and time go by what was written, not by the disk", lambda: _measure(cloud))
        scenario.step("a raw disk that a machine writes to, each time in full", lambda: _raw(cloud))
        scenario.step("killed at any time, a backup leaves the ones before it", lambda: _kill(cloud))
        scenario.step("the playbooks make, verify and restore them", lambda: _play(cloud))
        scenario.step("the directory of a storage pool holds them as well", lambda: _pool(cloud))
        scenario.step("a full directory leaves the ones before it", lambda: _fill(cloud))
        scenario.step("one that fills up meanwhile does not stop a machine that writes", lambda: _fill_meanwhile(cloud))
        scenario.step("one that was found damaged is built on no more, and counts as none", lambda: _harm(cloud))
        scenario.step("what libvirt has forgotten makes the next one a full one", lambda: _forget(cloud))
        scenario.step("old ones go, and what others are built on stays", lambda: _keep(cloud))
        scenario.step("a kept one is merged with those that it is built on, and these go", lambda: _merge(cloud))
        scenario.step("killed at any time, a merge leaves backups that are whole", lambda: _kill_merge(cloud))
        scenario.step("without room for a merge all of them stay", lambda: _merge_without_room(cloud))
        scenario.step("a directory that vanishes leaves the ones before it", lambda: _vanish(cloud))
        scenario.step("nothing goes over the machine; beside it there are two", lambda: _beside(cloud))
        scenario.step("the machine is put back", lambda: _replace(cloud))
        scenario.step(
            "on the other hypervisor only when this one has it no more, and only on one", lambda: _elsewhere(cloud)
        )
        scenario.step("without a hypervisor one is chosen that sees them", lambda: _placed(cloud))
        scenario.step("moved while it runs, it is backed up as a whole, and restored there", lambda: _move(cloud))
        scenario.step("qemu-img and virsh alone restore it, by the commands of the page", lambda: _by_hand(cloud))
    finally:
        _clear(cloud)


def _begin(cloud: Cloud) -> None:
    for host in FLEET:
        cloud.on(host, f"mkdir -p {PLACE} {SMALL}")
    answer, _result = cloud.init(HOST, **{**MOVER, "name": MACHINE})
    must(answer.status == 0, answer.text)
    wait_until_up(cloud, HOST, MACHINE)


def _back_up(cloud: Cloud, *words: str, host: str = HOST, **options: t.Any) -> dict[str, t.Any]:
    given = {"name": [MACHINE], **({} if "dest_pool" in options else {"dest": PLACE}), **options}
    answer, result = module(cloud, host, "virt_backup", *words, **given)
    must(answer.status == 0, answer.text)
    return dict(result["machines"][0])


def _sum_now(cloud: Cloud, host: str = HOST) -> str:
    _status, said = tell(cloud, host, MACHINE, "sync; echo 3 > /proc/sys/vm/drop_caches; md5sum /dev/vdb")
    found = re.search(r"[0-9a-f]{32}", said)
    must(found is not None, said)
    return found[0] if found else ""


def _write(cloud: Cloud) -> None:
    for number in range(WRITES + 1):
        if number:
            command = f"dd if=/dev/urandom of=/dev/vdb bs=65536 seek={number * 100} count={number * 16} && sync"
            status, said = tell(cloud, HOST, MACHINE, command)
            must(status == 0, said)
        now = _sum_now(cloud)
        made = _back_up(cloud, full_every=WRITES + 1)
        must(made["kind"] == ("incremental" if number else "full"), f"{made['kind']}: {made['reason']}")
        # It grows with what was written: a MiB for each number, and what a file of any kind needs.
        must(not number or made["bytes"] < (number + 2) << 20, f"{made['id']} has {made['bytes']} bytes")
        _sums[made["id"]] = now
    must(len(cloud.on(HOST, f"virsh checkpoint-list --name {MACHINE}").split()) == 1, "old checkpoints stay")


def _compare(cloud: Cloud) -> None:
    for backup, wanted in _sums.items():
        _require_sum(cloud, backup, wanted)


def _require_sum(cloud: Cloud, backup: str, wanted: str, host: str = HOST) -> None:
    """What a backup restores is what the disk held then."""
    answer, result = module(cloud, host, "virt_restore", src=PLACE, machine=MACHINE, disk="data", backup=backup)
    must(answer.status == 0, answer.text)
    path = result["volumes"][0]["path"]
    found = cloud.on(host, f"qemu-img convert -O raw {path} /tmp/raw && md5sum /tmp/raw; rm /tmp/raw")
    must(found.split()[0] == wanted, f"{backup} holds {found}, not {wanted}")
    cloud.on(host, f"virsh vol-delete {path}")


def _measure(cloud: Cloud) -> None:
    """The table of the page."""
    small, big = ({**TINY, "name": MEASURED, "disks": [*TINY["disks"], {"name": "data", "size": s}]} for s in SIZES_MIB)
    answer, _result = cloud.init(HOST, **small, start=False)
    must(answer.status == 0, answer.text)
    files = f"/var/lib/libvirt/images/{MEASURED}"
    cloud.on(
        HOST,
        f"head -c {HELD_MIB}M /dev/urandom > /tmp/raw && qemu-img convert -n -O qcow2 /tmp/raw {files}-data.qcow2;"
        f" rm /tmp/raw; virsh start {MEASURED}",
    )
    wait_until_up(cloud, HOST, MEASURED)
    lines = [("disk MiB", "kind", "written MiB", "backup MiB", "seconds")]
    print("      " + "  ".join(f"{word:>11}" for word in lines[0]), flush=True)
    for size, amounts in zip(SIZES_MIB, WRITTEN_MIB, strict=True):
        if size != SIZES_MIB[0]:
            answer, _result = cloud.init(HOST, **big)
            must(answer.status == 0, answer.text)
        at = 0
        for written in amounts:
            if written:
                command = f"dd if=/dev/urandom of=/dev/vdb bs=65536 seek={16 * at} count={16 * written} && sync"
                status, said = tell(cloud, HOST, MEASURED, command)
                must(status == 0, said)
            at += written
            made = _back_up(cloud, name=[MEASURED])
            must(made["kind"] == ("incremental" if written else "full"), f"{made['kind']}: {made['reason']}")
            mib = made["bytes"] / 2**20
            lines.append((str(size), made["kind"], str(written or "-"), f"{mib:.1f}", f"{made['seconds']:.1f}"))
            print("      " + "  ".join(f"{word:>11}" for word in lines[-1]), flush=True)
            least, more = (written, BESIDES_MIB) if written else (HELD_MIB, BESIDES_MIB + SYSTEM_MIB)
            must(least <= mib <= least + more, f"{mib:.1f} MiB, not {least} and a little more")
    must(len(_back_up(cloud, name=[MEASURED], state="verified")["verified"]) == len(lines) - 1, "not all are whole")
    cloud.on(
        HOST,
        f"virsh destroy {MEASURED}; virsh undefine {MEASURED} --checkpoints-metadata;"
        f" rm -r {files}-* {PLACE}/{MEASURED}; virsh pool-refresh default",
    )


def _raw(cloud: Cloud) -> None:
    """QEMU keeps no record of what changes on a raw disk, which a machine writes to while it is copied."""
    disks = [*TINY["disks"], {"name": "data", "size": 512, "format": "raw"}]
    answer, _result = cloud.init(HOST, **{**TINY, "name": RAW, "disks": disks})
    must(answer.status == 0, answer.text)
    wait_until_up(cloud, HOST, RAW)
    # All in front is at rest, and behind it writes go on.
    fill = f"dd if=/dev/urandom of=/dev/vdb bs=65536 count={RAW_BLOCKS} conv=fsync"
    status, said = tell(cloud, HOST, RAW, f"{fill} && {{ ({WRITER}) >/dev/null 2>&1 & }}")
    must(status == 0, said)
    first, second = (_back_up(cloud, name=[RAW], verify=True) for _number in range(2))
    must(second["kind"] == "full" and "raw" in second["reason"] and not second["remarks"], str(second))
    must([first["verified"], second["verified"]] == [[first["id"]], [second["id"]]], str(second["verified"]))
    status, said = tell(cloud, HOST, RAW, f"touch {STOP}; sync; test ! -e {FAILED}")
    must(status == 0, f"the guest has seen an error: {said}")
    answer, result = module(cloud, HOST, "virt_restore", src=PLACE, machine=RAW, name=f"{RAW}-old")
    must(answer.status == 0, answer.text)
    paths = [one["path"] for one in result["volumes"] if "-data" in one["path"]]
    must(len(paths) == 1 and '"raw"' in cloud.on(HOST, f"qemu-img info --output json {paths[0]}"), str(result))
    # At rest: the same as the machine still has.
    ahead = f"cmp -n {RAW_BLOCKS << 16} {paths[0]} $(virsh domblklist {RAW} | awk '$1 == \"vdb\" {{print $2}}')"
    cloud.on(HOST, ahead)
    for name in (RAW, f"{RAW}-old"):
        cloud.play_well("purge", "-e", f"vm={name}", "-e", "force=true")
    cloud.on(HOST, f"rm -r {PLACE}/{RAW}")


def _verify(cloud: Cloud) -> list[str]:
    return list(_back_up(cloud, state="verified")["verified"])


def _kill(cloud: Cloud) -> None:
    seconds = _back_up(cloud, kind="full")["seconds"]
    before = _verify(cloud)
    delays, tries = [seconds * number / KILLS for number in range(KILLS)], 0
    while delays:
        tries += 1
        must(tries <= MOST_TRIES, f"of {MOST_TRIES} runs only {KILLS - len(delays)} were killed at work")
        delay = delays.pop(0)
        if not _killed_at_work(cloud, delay):
            delays.append(EARLIER * delay)
        must(cloud.on(HOST, f"virsh domstate {MACHINE}").strip() == "running", "the machine does not run")
        must(set(before) <= set(_verify(cloud)), f"killed after {delay:.2f} s, a backup is damaged")
    print(f"      {KILLS} of {tries} runs were killed at work, in a backup of {seconds:.1f} s", flush=True)
    made = _back_up(cloud)
    there = cloud.on(HOST, f"ls -A {PLACE}/{MACHINE}")
    must("unfinished" not in there, there)
    must(made["id"] in _verify(cloud), "the new one is damaged")


def _killed_at_work(cloud: Cloud, delay: float) -> bool:
    """Kill a run so many seconds after its backup has begun; False where that had ended before."""
    left = f"ls -d {PLACE}/{MACHINE}/.unfinished-* | tail -n 1"
    # What the run before it has left is still there when a run begins.
    script = (
        f'old=$({left}); for i in $(seq 3000); do new=$({left}); if test -n "$new" -a "$new" != "$old"; then'
        f" process=$(pgrep -f '[A]nsiballZ_virt_backup'); sleep {delay};"
        f" for one in $process; do kill -9 $one && touch {KILLED}; done; break; fi; sleep 0.02; done"
    )
    cloud.on(HOST, f"rm -f {KILLED}; ({script}) >/dev/null 2>&1 & :")
    with cloud.modules_in_files():
        answer, _result = module(cloud, HOST, "virt_backup", name=[MACHINE], dest=PLACE, kind="full")
    if answer.status == 0:
        return False
    must(cloud.lab("ssh", HOST, f"test -e {KILLED}").status == 0, f"nobody killed it: {answer.text}")
    return "unfinished" in cloud.on(HOST, f"ls -A {PLACE}/{MACHINE}")


def _play(cloud: Cloud) -> None:
    """As the page has it."""
    before = _ids(cloud)
    words = ("backup", "-e", f"vm={MACHINE}", "-e", f"dest={PLACE}")
    answer = cloud.play_well(*words, "--check", live=False)
    must("would be backed up" in answer.text and _ids(cloud) == before, answer.text)
    answer = cloud.play_well(*words, live=False)
    made = sorted(set(_ids(cloud)) - set(before))
    must(len(made) == 1 and made[0] in answer.text, answer.text)
    answer = cloud.play_well(*words, "-e", "state=verified", live=False)
    must(f"{len(before) + 1} verified" in answer.text and answer.recap("changed") == 0, answer.text)
    name = f"{MACHINE}-played"
    restore = ("restore", "-e", f"vm={MACHINE}", "-e", f"src={PLACE}", "-e", f"on={HOST}")
    cloud.play_well(*restore, "-e", f"new_name={name}", live=False)
    must(name in cloud.on(HOST, "virsh list --all --name").split(), "it is not there")
    cloud.play_well("purge", "-e", f"vm={name}")
    cloud.play_well(*restore, "-e", "disk=data", "-e", f"volume={name}", live=False)
    volume = cloud.on(HOST, f"virsh vol-list default | awk '$1 ~ /^{name}/ {{print $1}}'").split()
    must(len(volume) == 1, f"there are {volume}")
    cloud.on(HOST, f"virsh vol-delete {volume[0]} default")
    answer = cloud.play(*restore, "-e", "replace=true", live=False)
    must(answer.status != 0 and f"{MACHINE} is running" in answer.one_line, answer.text)


def _pool(cloud: Cloud) -> None:
    cloud.on(
        HOST,
        f"mkdir -p -m 0711 {POOL_PLACE} && virsh -q pool-define-as {POOL} dir --target {POOL_PLACE}"
        f" && virsh -q pool-start {POOL}",
    )
    words = ("-e", f"vm={MACHINE}")
    answer = cloud.play_well("backup", *words, "-e", f"dest_pool={POOL}", live=False)
    (made,) = _ids(cloud, POOL_PLACE)
    must(made in answer.text, answer.text)
    # As libvirt sees it, and everything that goes by that.
    listed = cloud.on(HOST, f"virsh pool-refresh {POOL} >/dev/null && virsh vol-list {POOL} --details")
    must(re.search(rf"^ *{MACHINE} .* dir ", listed, re.MULTILINE) is not None, listed)
    refused(cloud, HOST, "virt_volume", "is of type dir, not a disk", name=MACHINE, pool=POOL, state="absent")
    following = _back_up(cloud, dest_pool=POOL, keep={"last": 1}, merge_above=0, verify=True)
    must(_ids(cloud, POOL_PLACE) == [following["id"]] and not following["remarks"], str(following))
    name = f"{MACHINE}-pooled"
    cloud.play_well("restore", *words, "-e", f"src_pool={POOL}", "-e", f"new_name={name}", live=False)
    must(name in cloud.on(HOST, "virsh list --all --name").split(), "it is not there")
    cloud.play_well("purge", "-e", f"vm={name}")
    must(_ids(cloud, POOL_PLACE) == [following["id"]], "the backup is gone")
    cloud.on(HOST, f"virsh pool-destroy {POOL}")
    refused(cloud, HOST, "virt_restore", "is not active", src_pool=POOL, machine=MACHINE, name=name)
    # While a pool is off, nobody knows what is built on the files of backups, and none is removed.
    cloud.on(HOST, f"virsh pool-start {POOL}")


def _fill(cloud: Cloud) -> None:
    cloud.on(HOST, f"mount -t tmpfs -o size=100m,mode=0711 tmpfs {SMALL}")
    first = _back_up(cloud, dest=SMALL, must_be_mounted=True)
    cloud.on(HOST, f"dd if=/dev/zero of={SMALL}/fill bs=1M 2>/dev/null; test -s {SMALL}/fill")
    refused(cloud, HOST, "virt_backup", f"{SMALL} is full", name=[MACHINE], dest=SMALL, kind="full")
    must(_back_up(cloud, dest=SMALL, state="verified")["verified"] == [first["id"]], "the one before is damaged")
    cloud.on(HOST, f"rm {SMALL}/fill; chmod 0700 {SMALL}")
    refused(cloud, HOST, "virt_backup", f"{SMALL} does not let other users in", name=[MACHINE], dest=SMALL)
    cloud.on(HOST, f"chmod 0711 {SMALL}; mount -o remount,ro {SMALL}")
    refused(cloud, HOST, "virt_backup", "Read-only file system", name=[MACHINE], dest=SMALL)
    cloud.on(HOST, f"umount {SMALL}")
    refused(cloud, HOST, "virt_backup", "is on the file system of /", name=[MACHINE], dest=SMALL, must_be_mounted=True)
    options = {"name": [MACHINE], "dest": SMALL, "must_be_mounted": "/srv"}
    refused(cloud, HOST, "virt_backup", "/srv is no mount point, and is on the file system of /", **options)


def _fill_meanwhile(cloud: Cloud) -> None:
    """What the guest is about to overwrite, QEMU copies there first, and where it cannot, the guest's write fails."""
    disks = [{"name": "system", "size": 256}, {"name": "data", "size": BUSY_MIB}]
    answer, _result = cloud.init(HOST, **{**MOVER, "name": BUSY, "disks": disks, "start": False})
    must(answer.status == 0, answer.text)
    data = f"$(virsh vol-path {BUSY}-data.qcow2 default)"
    cloud.on(HOST, f"qemu-io -f qcow2 -c 'write -P 7 0 {BUSY_MIB}M' {data} && virsh start {BUSY}")
    cloud.on(HOST, f"mount -t tmpfs -o size={BUSY_MIB + 150}m,mode=0711 tmpfs {SMALL}")
    try:
        wait_until_up(cloud, HOST, BUSY)
        _pause_by_backup(cloud)
        cloud.on(HOST, f"rm {SMALL}/fill")
        answer, result = module(cloud, HOST, "virt_backup", name=[BUSY], dest=SMALL, verify=True)
        must(answer.status == 0, answer.text)
        (made,) = result["machines"]
        must(made["verified"] == [made["id"]] and not made["remarks"], str(made))
        must("unfinished" not in cloud.on(HOST, f"ls -A {SMALL}/{BUSY}"), str(made))
    finally:
        cloud.on(HOST, f"virsh destroy {BUSY}; umount {SMALL}")


def _pause_by_backup(cloud: Cloud) -> None:
    """A backup whose directory is full before it has copied what the guest writes to."""
    status, said = tell(cloud, HOST, BUSY, f"{{ ({WRITER}) >/dev/null 2>&1 & }}")
    must(status == 0, said)
    script = f"python3 -c {shlex.quote(CRAWL)} && dd if=/dev/zero of={SMALL}/fill bs=1M"
    text = ""
    for _number in range(CRAWLS):
        cloud.on(HOST, f"rm -rf {SMALL}/fill {SMALL}/{BUSY}; ({script}) >/dev/null 2>&1 & :")
        answer, result = module(cloud, HOST, "virt_backup", name=[BUSY], dest=SMALL, kind="full")
        text = f"{answer.status} {result.get('msg')} {result['machines'][0]['remarks']}"
        if answer.status != 0 and "it was resumed when the backup had ended" in text:
            break
    must("an I/O error had paused it" in text, text)
    must(cloud.on(HOST, f"virsh domstate {BUSY}").strip() == "running", "the machine does not run")
    status, said = tell(cloud, HOST, BUSY, "dd if=/dev/urandom of=/dev/vdb bs=65536 count=1 conv=fsync")
    must(status == 0, said)
    status, said = tell(cloud, HOST, BUSY, f"touch {STOP}; sync; test ! -e {FAILED}")
    must(status == 0, f"the guest has seen an error: {said}")


def _forget(cloud: Cloud) -> None:
    names = cloud.on(HOST, f"virsh checkpoint-list --name {MACHINE}").split()
    cloud.on(HOST, "; ".join(f"virsh checkpoint-delete {MACHINE} {name}" for name in names))
    made = _back_up(cloud)
    must(made["kind"] == "full" and "has lost the checkpoint" in made["reason"], str(made["reason"]))
    cloud.on(HOST, f"virsh blockresize {MACHINE} vdb 80M")
    made = _back_up(cloud)
    must(made["kind"] == "full" and "disk vdb has another size" in made["reason"], str(made["reason"]))


def _keep(cloud: Cloud) -> None:
    made = _back_up(cloud, keep={"last": 1})
    must(made["kind"] == "incremental" and bool(made["removed"]), str(made))
    must([one["id"] for one in made["backups"]] == [made["id"], made["parent"]], str(made["backups"]))


def _harm(cloud: Cloud) -> None:
    cloud.on(HOST, f"mkdir -p -m 0711 {HARMED}")
    good, bad = (_back_up(cloud, dest=HARMED, kind="full")["id"] for _number in range(2))
    file = f"{HARMED}/{MACHINE}/{bad}/vdb.qcow2"
    harm = f"printf 'not of the backup' | dd of={file} bs=1 seek=$(($(stat -c %s {file}) - 17)) conv=notrunc"
    cloud.on(HOST, f"cp -a {file} {HARMED}/aside && {harm}")
    options: dict[str, t.Any] = {"name": [MACHINE], "dest": HARMED}
    answer, result = module(cloud, HOST, "virt_backup", **options, state="verified")
    must(answer.status != 0 and f"{file} has another content" in result["msg"], answer.text)
    made = _back_up(cloud, dest=HARMED, keep={"last": 2})
    must(made["kind"] == "full" and f"nothing can be built on {bad}: vdb.qcow2" in made["reason"], str(made))
    must(not made["removed"] and sorted(_ids(cloud, HARMED)) == [good, bad, made["id"]], str(made))
    must([bool(one["damaged"]) for one in made["backups"]] == [False, True, False], str(made["backups"]))
    must(len(made["remarks"]) == 1 and f"backup {bad} is damaged" in made["remarks"][0], str(made["remarks"]))
    # What is the only good one beside the new one can be restored.
    answer, result = module(cloud, HOST, "virt_restore", src=HARMED, machine=MACHINE, disk="data", backup=good)
    must(answer.status == 0, answer.text)
    cloud.on(HOST, f"virsh vol-delete {result['volumes'][0]['path']}")
    following = _back_up(cloud, dest=HARMED)
    must((following["kind"], following["parent"]) == ("incremental", made["id"]), str(following))
    cloud.on(HOST, f"mv {HARMED}/aside {file}")
    found = _back_up(cloud, dest=HARMED, state="verified")
    must(len(found["verified"]) == 4 and not any(one["damaged"] for one in found["backups"]), str(found))
    last = _back_up(cloud, dest=HARMED, keep={"last": 2})
    must(last["removed"] == [bad, good] and not last["remarks"], str(last))
    cloud.on(HOST, f"rm -r {HARMED}")


def _change(cloud: Cloud, number: int, host: str = HOST) -> str:
    """The machine writes; what its disk holds then."""
    status, said = tell(cloud, host, MACHINE, f"dd if=/dev/urandom of=/dev/vdb bs=65536 seek={number} count=16 && sync")
    must(status == 0, said)
    return _sum_now(cloud, host)


def _ids(cloud: Cloud, place: str = PLACE) -> list[str]:
    return sorted(cloud.on(HOST, f"ls {place}/{MACHINE}").split())


def _merge(cloud: Cloud) -> None:
    sums = {}
    for number in (700, 800, 900):
        now = _change(cloud, number)
        made = _back_up(cloud)
        must(made["kind"] == "incremental", str(made["reason"]))
        sums[made["id"]] = now
    options: dict[str, t.Any] = {"name": [MACHINE], "dest": PLACE, "keep": {"last": 2}, "merge_above": 0}
    before = _ids(cloud)
    answer, result = module(cloud, HOST, "virt_backup", "--check", **options)
    must(answer.status == 0 and _ids(cloud) == before, answer.text)
    foreseen = result["machines"][0]
    # It is kept beside the new one.
    kept = max(sums)
    made = _back_up(cloud, keep={"last": 2}, merge_above=0)
    must(made["merged"] == [kept] and made["removed"] == sorted(set(before) - {kept}, reverse=True), str(made))
    must(
        {key: foreseen[key] for key in ("merged", "removed")} == {key: made[key] for key in ("merged", "removed")},
        str(foreseen),
    )
    must(_ids(cloud) == [kept, made["id"]] and made["backups"][1]["kind"] == "full", str(made["backups"]))
    must(sorted(_verify(cloud)) == _ids(cloud), "not all of them are whole")
    for backup in (kept, made["id"]):
        _require_sum(cloud, backup, sums[kept])
    following = _back_up(cloud)
    must(following["kind"] == "incremental" and following["parent"] == made["id"], str(following))


def _kill_merge(cloud: Cloud) -> None:
    script = (
        f"for i in $(seq 600); do if ls -d {PLACE}/{MACHINE}/.unfinished-merged-*; then sleep {{}};"
        # Not the run after it.
        f" ls -d {PLACE}/{MACHINE}/.unfinished-merged-* && kill -9 $(pgrep -f '[A]nsiballZ_virt_backup'); break; fi;"
        " sleep 0.02; done"
    )
    killed, delays = 0, (0, 0.1, 0.3, 0.6)
    for number, delay in enumerate(delays):
        now = _change(cloud, 300 + 50 * number)
        kept = _back_up(cloud, full_every=100)["id"]
        cloud.on(HOST, f"({script.format(delay)}) >/dev/null 2>&1 & :")
        options: dict[str, t.Any] = {"keep": {"last": 2}, "merge_above": 0, "full_every": 100}
        with cloud.modules_in_files():
            answer, _result = module(cloud, HOST, "virt_backup", name=[MACHINE], dest=PLACE, **options)
        killed += answer.status != 0
        must(sorted(_verify(cloud)) == _ids(cloud), "not all of them are whole")
        _require_sum(cloud, kept, now)
    print(f"      {killed} of {len(delays)} runs were killed at work", flush=True)
    must(killed > 0, "none was killed at work")
    made = _back_up(cloud, keep={"last": 2}, merge_above=0, full_every=100)
    left = cloud.on(HOST, f"ls -A {PLACE}/{MACHINE}")
    must("unfinished" not in left and len(_ids(cloud)) == 2 and not made["remarks"], f"{left} {made}")
    must(sorted(_verify(cloud)) == _ids(cloud), "not all of them are whole")


def _merge_without_room(cloud: Cloud) -> None:
    cloud.on(HOST, f"mount -t tmpfs -o size=200m,mode=0711 tmpfs {SMALL}")
    _back_up(cloud, dest=SMALL)
    _back_up(cloud, dest=SMALL)
    before = _ids(cloud, SMALL)
    # Room for what has changed, and not for all that the disks hold.
    left = f"$(( $(stat -f -c '%a * %S' {SMALL}) - 12 * 1024 * 1024 ))"
    cloud.on(HOST, f"fallocate -l {left} {SMALL}/fill")
    made = _back_up(cloud, dest=SMALL, keep={"last": 1}, merge_above=0)
    must(made["kind"] == "incremental" and not made["merged"] and not made["removed"], str(made))
    must(len(made["remarks"]) == 1 and "is full" in made["remarks"][0], str(made["remarks"]))
    must(_ids(cloud, SMALL) == [*before, made["id"]], "a backup is gone")
    cloud.on(HOST, f"rm {SMALL}/fill")
    made = _back_up(cloud, dest=SMALL, keep={"last": 1}, merge_above=0, verify=True)
    must(_ids(cloud, SMALL) == [made["id"]] and not made["remarks"], str(made))
    cloud.on(HOST, f"umount {SMALL}")


def _vanish(cloud: Cloud) -> None:
    cloud.on(
        HOST,
        f"mkdir -p {BEHIND} && mount -t tmpfs -o size=400m,mode=0711 tmpfs {BEHIND} && mount --bind {BEHIND} {SMALL}",
    )
    first = _back_up(cloud, dest=SMALL, must_be_mounted=True)
    script = (
        f"for i in $(seq 600); do if ls -d {SMALL}/{MACHINE}/.unfinished-*; then umount --lazy {SMALL}; break; fi;"
        " sleep 0.02; done"
    )
    cloud.on(HOST, f"({script}) >/dev/null 2>&1 & :")
    answer, result = module(cloud, HOST, "virt_backup", name=[MACHINE], dest=SMALL, kind="full", must_be_mounted=True)
    must(answer.status != 0 and MACHINE in result["msg"], answer.text)
    must("\n" not in result["msg"] and "Traceback" not in answer.text, answer.text)
    must(cloud.on(HOST, f"virsh domstate {MACHINE}").strip() == "running", "the machine does not run")
    must("No such" in cloud.on(HOST, f"ls {SMALL}/{MACHINE} 2>&1; :"), "something was written where it was mounted")
    cloud.on(HOST, f"mount --bind {BEHIND} {SMALL}")
    must(_back_up(cloud, dest=SMALL, state="verified")["verified"] == [first["id"]], "the one before is damaged")
    made = _back_up(cloud, dest=SMALL, must_be_mounted=True, verify=True)
    must("unfinished" not in cloud.on(HOST, f"ls -A {SMALL}/{MACHINE}"), str(made))
    cloud.on(HOST, f"umount {SMALL}; umount {BEHIND}")


def _beside(cloud: Cloud) -> None:
    refused(cloud, HOST, "virt_restore", f"there is a machine {MACHINE} already", src=PLACE, machine=MACHINE)
    refused(cloud, HOST, "virt_restore", f"{MACHINE} is running", src=PLACE, machine=MACHINE, replace=True)
    name = f"{MACHINE}-old"
    answer, result = module(cloud, HOST, "virt_restore", src=PLACE, machine=MACHINE, name=name, started=True)
    must(answer.status == 0 and result["new_identity"], answer.text)
    wait_until_up(cloud, HOST, name)
    uuids = [cloud.on(HOST, f"virsh domuuid {one}").strip() for one in (MACHINE, name)]
    must(len(set(uuids)) == 2, f"both have the UUID {uuids}")
    cloud.play_well("purge", "-e", f"vm={name}", "-e", "force=true")


def _replace(cloud: Cloud) -> None:
    cloud.on(HOST, f"virsh destroy {MACHINE}")
    clear(cloud, HOST, MACHINE)
    answer, result = module(cloud, HOST, "virt_restore", src=PLACE, machine=MACHINE, replace=True, started=True)
    must(answer.status == 0 and not result["remarks"], answer.text)
    wait_until_up(cloud, HOST, MACHINE)
    files = cloud.on(HOST, f"ls /var/lib/libvirt/images | grep ^{MACHINE}-")
    must(len(files.split()) == len(result["volumes"]), f"of before there is still something: {files}")


def _elsewhere(cloud: Cloud) -> None:
    hand_over(cloud, HOST, OTHER, PLACE)
    words = ("-e", f"vm={MACHINE}", "-e", f"src={PLACE}", "-e", f"on={OTHER}", "-e", "started=true")
    answer = cloud.play("restore", *words, live=False)
    must(answer.status != 0 and f"machine {MACHINE} is on {HOST}" in answer.one_line, answer.text)
    cloud.play_well("purge", "-e", f"vm={MACHINE}", "-e", "force=true")
    must(MACHINE in cloud.on(HOST, f"ls {PLACE}"), "its backups are gone with the machine")
    _race(cloud)
    cloud.play_well("restore", *words, live=False)
    wait_until_up(cloud, OTHER, MACHINE)


def _race(cloud: Cloud) -> None:
    """Two runs restore it on two hypervisors at the same time. Afterwards it is on none."""
    words = ("restore", "-e", f"vm={MACHINE}", "-e", f"src={PLACE}")
    with ThreadPoolExecutor() as executor:
        runs = list(executor.map(lambda host: cloud.play(*words, "-e", f"on={host}", live=False), FLEET))
    text = "\n".join(run.text for run in runs)
    homes = [host for host in FLEET if MACHINE in cloud.on(host, "virsh list --all --name").split()]
    must(len(homes) <= 1, f"it is on {homes}\n{text}")
    for host, run in zip(FLEET, runs, strict=True):
        must((run.status == 0) is (host in homes), f"{host} says something else than what is there\n{text}")
        said = f"machine {MACHINE} is on " in run.one_line and "Nothing was restored." in run.one_line
        must(said or host in homes, f"{host} does not say why\n{text}")
        files = cloud.on(host, f"ls /var/lib/libvirt/images | grep ^{MACHINE}- || true")
        must(bool(files.split()) is (host in homes), f"{host} has files of it: {files}\n{text}")
    if homes:
        cloud.play_well("purge", "-e", f"vm={MACHINE}")


def _placed(cloud: Cloud) -> None:
    """The machine is on the other hypervisor, and both have the same backups."""
    words = ("restore", "-e", f"vm={MACHINE}", "-e", f"src={PLACE}")
    answer = cloud.play(*words, live=False)
    must(f"{MACHINE} goes to {OTHER}: {MACHINE} is there" in answer.text, answer.text)
    must(answer.status != 0 and f"there is a machine {MACHINE} already" in answer.one_line, answer.text)
    name = f"{MACHINE}-placed"
    answer = cloud.play_well(*words, "-e", f"new_name={name}", live=False)
    found = re.search(rf"{name} goes to (\S+): \w", answer.text)
    must(found is not None and found[1] in FLEET, answer.text)
    host = found[1] if found else ""
    must(name in cloud.on(host, "virsh list --all --name").split(), f"it is not on {host}")
    cloud.play_well("purge", "-e", f"vm={name}")
    cloud.on(HOST, f"mv {PLACE}/{MACHINE} {PLACE}/aside")
    try:
        answer = cloud.play_well(*words, "-e", f"new_name={name}", "--check", live=False)
    finally:
        cloud.on(HOST, f"mv {PLACE}/aside {PLACE}/{MACHINE}")
    must(f"{name} goes to {OTHER}: no other hypervisor sees the backup" in answer.text, answer.text)
    answer = cloud.play(*words, "-e", "src=/srv/nowhere", "-e", f"new_name={name}", live=False)
    must(answer.status != 0 and f"no hypervisor sees a backup of {name}" in answer.one_line, answer.text)


def _move(cloud: Cloud) -> None:
    here = home(cloud, MACHINE)
    (there,) = set(FLEET) - {here}
    sums = {}

    def back_up(host: str, number: int) -> dict[str, t.Any]:
        now = _change(cloud, number, host)
        made = _back_up(cloud, host=host)
        sums[made["id"]] = now
        return made

    before = back_up(here, 100)
    had = volumes(cloud, here, MACHINE)
    answer, _result = migrate(cloud, here, name=MACHINE, target=there)
    must(answer.status == 0, answer.text)
    has_moved(cloud, MACHINE, here, there, had)
    hand_over(cloud, here, there, PLACE)
    made = back_up(there, 200)
    reason = f"libvirt has lost the checkpoint of {before['id']}, as after a move to another hypervisor"
    must(made["kind"] == "full" and made["reason"].startswith(reason), str(made))
    # A file, which is read again when all is restored without the collection.
    status, said = tell(
        cloud, there, MACHINE, f"mkdir -p /tmp; echo {WORDS} > /tmp/a; tar -cf /dev/vdb -C /tmp a && sync"
    )
    must(status == 0, said)
    following = back_up(there, 300)
    must((following["kind"], following["parent"]) == ("incremental", made["id"]), str(following))
    _sums.update(sums)
    for backup, wanted in sums.items():
        _require_sum(cloud, backup, wanted, there)
    # No mark is known of what the move has made.
    cloud.on(there, f"virsh destroy {MACHINE}")
    answer, result = module(cloud, there, "virt_restore", src=PLACE, machine=MACHINE, replace=True)
    must(answer.status == 0 and not result["remarks"], answer.text)
    files = cloud.on(there, f"ls /var/lib/libvirt/images | grep ^{MACHINE}-")
    must(len(files.split()) == len(result["volumes"]), f"of before there is still something: {files}")


def _by_hand(cloud: Cloud) -> None:
    """By the commands of the page, each disk of the machine, which is gone."""
    host = home(cloud, MACHINE)
    newest = sorted(cloud.on(host, f"ls {PLACE}/{MACHINE}").split())[-1]
    must(newest in _sums, f"nobody knows what the disk held at {newest}")
    folder = f"{PLACE}/{MACHINE}/{newest}"
    disks = _described(cloud.on(host, f"cat {folder}/domain.xml"))
    must({"vda", "vdb", "vdz"} == set(disks), f"its disks are {disks}")
    cloud.play_well("purge", "-e", f"vm={MACHINE}", "-e", "force=true")
    clear(cloud, host, MACHINE)
    _change_folder, checksum, convert, define, start = _commands_of_page(cloud)
    for target, (path, image_format) in disks.items():
        said = cloud.on(host, f"cd {folder} && {checksum.replace('vda', target)}")
        must(said.count(said.split()[0]) == 2, f"the manifest has another checksum of {target}: {said}")
        line = convert.replace("vda.qcow2", f"{target}.qcow2").replace("-O qcow2", f"-O {image_format}")
        cloud.on(host, f"cd {folder} && {re.sub(r'/var/lib/libvirt/images/[^ ]+', path, line)}")
        cloud.on(host, f"cd {folder} && qemu-img compare -f qcow2 -F {image_format} {target}.qcow2 {path}")
    cloud.on(host, f"cd {folder} && {define} && {start}")
    wait_until_up(cloud, host, MACHINE)
    must(_sum_now(cloud, host) == _sums[newest], "its disk has another content")
    _status, said = tell(cloud, host, MACHINE, "tar -xOf /dev/vdb")
    must(WORDS in said.splitlines(), f"the file in it has another content: {said!r}")


def _described(xml: str) -> dict[str, tuple[str, str]]:
    """Of each disk of a domain, by its target, the file and the format."""
    found = {}
    for disk in re.findall(r"<disk .*?</disk>", xml, re.DOTALL):
        target, path, image_format = (
            re.search(pattern, disk)
            for pattern in (r"<target dev='(\w+)'", r"<source file='([^']+)'", r"<driver [^>]*type='(\w+)'")
        )
        if target and path and image_format:
            found[target[1]] = path[1], image_format[1]
    return found


def _commands_of_page(cloud: Cloud) -> list[str]:
    """What the page says about a restore without the collection, with the name of this machine, and without a line for
    what this one has not."""
    (block,) = (
        block
        for block in code_blocks(cloud.root / "docs/docsite/rst/backup.rst")
        if "virsh define domain.xml" in block.text
    )
    lines = [line.removeprefix("# ") for line in block.text.splitlines() if line.startswith("# ")]
    return [line.replace("web1", MACHINE) for line in lines if not line.endswith("# if there is one")]


def _clear(cloud: Cloud) -> None:
    for host in FLEET:
        cloud.on(host, f"umount {SMALL} {BEHIND} 2>/dev/null; rm -rf {PLACE} {SMALL} {BEHIND} {HARMED} {POOL_PLACE}")
    cloud.on(HOST, f"virsh -q pool-destroy {POOL} 2>/dev/null; virsh -q pool-undefine {POOL} 2>/dev/null; :")
