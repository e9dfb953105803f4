# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots on two releases: taken, reverted, deleted, refused, kept by number, killed, and moved with their machine.

What a guest has in its memory is a variable of the shell on its console, what it has on its disk some random blocks.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ...cloud import Answer, Cloud, must
from ...driving.consoles import clear, tell, wait_until_up
from ...driving.tasks import module, refused
from ...kill_runs import KillDriver
from ...moving import has_moved, migrate, volumes
from ...needs import NEWER, TINY, store_tiny
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "alone", "tiny", "newer")
OLDER, SECOND = "hv1", "hv2"
# By name the host.
MACHINES = {"snap1": OLDER, "snap3": NEWER}
RAW = "raw3"
_DIRECTORY = "/var/tmp/brine-snapshots"
_BACKUPS = "/var/tmp/brine-snapshot-backups"
_WRITE = "dd if=/dev/urandom of=/dev/vda bs=4k seek=8000 count=20 2>/dev/null && sync"
_READ = "dd if=/dev/vda bs=4k skip=8000 count=20 2>/dev/null | md5sum"
_POOL = "/var/lib/libvirt/images"


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step("a small machine on each release", lambda: _machines(cloud), vital=True)
    for name in MACHINES:
        scenario.step(f"{name} with its memory: check, take, again, revert", functools.partial(_memory, cloud, name))
        scenario.step(f"{name} off: take, revert, delete", functools.partial(_off, cloud, name))
        scenario.step(
            f"{name} between backups: reverted while it runs and off", functools.partial(_backed_up, cloud, name)
        )
        scenario.step(f"{name} with bitmaps that only QEMU knows: reverted", functools.partial(_brought, cloud, name))
        scenario.step(f"{name}: the newest two are kept, and a foreign one", functools.partial(_kept, cloud, name))
    for host in (OLDER, NEWER):
        scenario.step(f"with UEFI: one goes from the disk too ({host})", functools.partial(_uefi, cloud, host))
    scenario.step("refused: what could not be reverted, and what would be lost", lambda: _refused(cloud))
    scenario.step("the newer release: disks alone, reverted, deleted", lambda: _external(cloud))
    scenario.step("a raw disk on the newer release, with memory", lambda: _raw(cloud))
    scenario.step("killed in each step on the newer release, run again", lambda: _killed(cloud))
    scenario.step("a deletion that is cut off while files are merged", lambda: _half_deleted(cloud))
    scenario.step("libvirtd is killed as QEMU goes over to the file below", lambda: _switched_unseen(cloud))
    scenario.step("a disk that has grown since is as it was", lambda: _grown(cloud))
    scenario.step("three snapshots move with their machine, and one is reverted there", lambda: _move(cloud))
    scenario.step("a move that was cut off with its snapshots set aside", lambda: _cut_off(cloud))
    scenario.step("purge leaves nothing", lambda: _purge(cloud))


def _snapshot(
    cloud: Cloud, machine: str, /, *words: str, host: str | None = None, **options: t.Any
) -> dict[str, t.Any]:
    """The module on one machine, which has to end well: its result for that machine."""
    answer, result = module(cloud, host or MACHINES[machine], "virt_snapshot", *words, vm=machine, **options)
    must(answer.status == 0, answer.text)
    (found,) = result["machines"]
    return dict(found)


def _machines(cloud: Cloud) -> None:
    store_tiny(cloud)
    for name, host in MACHINES.items():
        answer, _result = cloud.init(host, **TINY, name=name, tags=["first"])
        must(answer.status == 0, answer.text)
    for name, host in MACHINES.items():
        wait_until_up(cloud, host, name)


def _tell(cloud: Cloud, name: str, command: str, host: str | None = None) -> str:
    status, said = tell(cloud, host or MACHINES[name], name, command)
    must(status == 0, f"{name}: {command}: {status}, {said}")
    return said.strip()


def _start(cloud: Cloud, name: str, host: str | None = None) -> None:
    clear(cloud, host or MACHINES[name], name)
    cloud.on(host or MACHINES[name], f"virsh start {name}")
    wait_until_up(cloud, host or MACHINES[name], name)


def _stop(cloud: Cloud, name: str, host: str | None = None) -> None:
    cloud.on(host or MACHINES[name], f"virsh destroy {name}")


def _listed(cloud: Cloud, name: str, host: str | None = None) -> list[str]:
    return sorted(cloud.on(host or MACHINES[name], f"virsh snapshot-list {name} --name").split())


def _state(cloud: Cloud, name: str) -> str:
    return cloud.on(MACHINES[name], f"virsh domstate {name}").strip()


def _memory(cloud: Cloud, name: str) -> None:
    _tell(cloud, name, f"WHEN=before; {_WRITE}")
    before = _tell(cloud, name, _READ)
    ahead = _snapshot(cloud, name, "--check", name="memory", description="before & <after>")
    must(_listed(cloud, name) == [], "check mode has taken it")
    done = _snapshot(cloud, name, name="memory", description="before & <after>")
    must(ahead["actions"] == done["actions"] and done["changed"], f"{ahead} and {done}")
    must((done["kind"], done["memory"]) == ("internal", True), str(done))
    for words in ((), ("--check",)):
        must(_snapshot(cloud, name, *words, name="memory")["changed"] is False, f"it is taken twice {words}")
    _tell(cloud, name, f"WHEN=after; {_WRITE}")
    must(_tell(cloud, name, _READ) != before, "the disk has not changed")
    answer, _result = cloud.init(MACHINES[name], **TINY, name=name, tags=["second"])
    must(answer.status == 0, answer.text)
    _snapshot(cloud, name, name="memory", state="reverted", force=True)
    must(_tell(cloud, name, "echo $WHEN") == "before", "its memory is another one")
    must(_tell(cloud, name, _READ) == before, "its disk is another one")
    must("<brine:tag>second<" in cloud.on(MACHINES[name], f"virsh dumpxml --inactive {name}"), "it has its old tags")
    (record,) = module(cloud, MACHINES[name], "virt_info", name=name, gather_subset=["snapshots"])[1]["machines"]
    (found,) = record["snapshots"]
    expected = {"name": "memory", "kind": "internal", "memory": True, "own": True, "state": "running"}
    must(expected.items() <= found.items() and found["description"] == "before & <after>", str(found))
    _snapshot(cloud, name, name="memory", state="absent")
    must(_listed(cloud, name) == [], "it is still there")


def _off(cloud: Cloud, name: str) -> None:
    before = _tell(cloud, name, _READ)
    _stop(cloud, name)
    done = _snapshot(cloud, name, name="off")
    must((done["kind"], done["memory"]) == ("internal", False), str(done))
    _start(cloud, name)
    _tell(cloud, name, _WRITE)
    ahead = _snapshot(cloud, name, "--check", name="off", state="reverted", force=True)
    must(ahead["actions"][-1] == f"revert {name} to snapshot off (running -> shutoff)", str(ahead))
    _snapshot(cloud, name, name="off", state="reverted", force=True)
    must(_state(cloud, name) == "shut off", f"it is {_state(cloud, name)}")
    _start(cloud, name)
    must(_tell(cloud, name, _READ) == before, "its disk is another one")
    must(_snapshot(cloud, name, name=["off", "never"], state="absent")["deleted"] == ["off"], "it is still there")
    for words in ((), ("--check",)):
        must(_snapshot(cloud, name, *words, name="off", state="absent")["changed"] is False, f"it goes twice {words}")


def _backed_up(cloud: Cloud, name: str) -> None:
    """A backup leaves bitmaps, with which QEMU reverts nothing: in its memory, or in the disk once it has ended."""
    host = MACHINES[name]
    cloud.on(host, f"mkdir -p {_BACKUPS}")
    for off in (False, True):
        before = _tell(cloud, name, _READ)
        _back_up(cloud, name)
        must(bool(_checkpoints(cloud, name)), "it has no checkpoint")
        _snapshot(cloud, name, name="backed")
        _tell(cloud, name, _WRITE)
        must(_back_up(cloud, name)["kind"] == "incremental", "a snapshot alone has ended the chain")
        if off:
            _stop(cloud, name)
        wanted: dict[str, t.Any] = {"name": "backed", "state": "reverted", "force": True}
        ahead = _snapshot(cloud, name, "--check", **wanted)
        must(bool(_checkpoints(cloud, name)), "check mode has deleted its checkpoint")
        done = _snapshot(cloud, name, **wanted)
        must(ahead["actions"] == done["actions"], f"{ahead} and {done}")
        must(done["actions"][0].startswith("delete the checkpoints of the backups of"), str(done))
        must(_tell(cloud, name, _READ) == before, "its disk is another one")
        cloud.on(host, f"virsh checkpoint-create-as {name} theirs")
        words = "it has checkpoints that virt_backup has not made (theirs)"
        refused(cloud, host, "virt_snapshot", words, vm=[name], **wanted)
        must(_state(cloud, name) == "running", f"it is {_state(cloud, name)}")
        cloud.on(host, f"virsh checkpoint-delete {name} theirs")
        _snapshot(cloud, name, name="backed", state="absent")
        made = _back_up(cloud, name)
        must(made["kind"] == "full" and "or a revert to a snapshot" in made["reason"], str(made))
    for one in _checkpoints(cloud, name):
        cloud.on(host, f"virsh checkpoint-delete {name} {one}")
    cloud.on(host, f"rm -r {_BACKUPS}")


def _brought(cloud: Cloud, name: str) -> None:
    """As after a move while it runs, which takes the bitmaps of its backups along, and not their checkpoints."""
    host = MACHINES[name]
    cloud.on(host, f"mkdir -p {_BACKUPS}")
    before = _tell(cloud, name, _READ)
    _back_up(cloud, name)
    _snapshot(cloud, name, name="brought")
    _tell(cloud, name, _WRITE)
    for one in _checkpoints(cloud, name):
        cloud.on(host, f"virsh checkpoint-delete {name} {one} --metadata")
    must(_snapshot(cloud, name, name="brought", state="reverted", force=True)["changed"], "it was not reverted")
    must(_state(cloud, name) == "running" and _tell(cloud, name, _READ) == before, "its disk is another one")
    must("brine-backup" not in cloud.on(host, f"qemu-img info -U {_POOL}/{name}-system.qcow2"), "the bitmap has stayed")
    _snapshot(cloud, name, name="brought", state="absent")
    cloud.on(host, f"rm -r {_BACKUPS}")


def _uefi(cloud: Cloud, host: str) -> None:
    """QEMU deletes none while its variables are written to, which are in a raw file; libvirt 9.0 does not notice it."""
    name, file = "snapefi", f"{_POOL}/snapefi-system.qcow2"
    bare = {"vcpus": 1, "memory": 128, "disk_profile": "none", "nic_profile": "none", "seed": {"method": "none"}}
    more: dict[str, t.Any] = {"firmware": "efi", "start": False, "disks": [{"name": "system", "size": 16}], **bare}
    answer, _result = cloud.init(host, name=name, **more)
    must(answer.status == 0, answer.text)
    _snapshot(cloud, name, host=host, name="off")
    cloud.on(host, f"virsh start {name}")
    if host == OLDER:
        refused(cloud, host, "virt_snapshot", "libvirt 9.0.0 takes no notice", vm=name, name="off", state="absent")
        _stop(cloud, name, host)
    _snapshot(cloud, name, host=host, name="off", state="absent")
    must("off" not in cloud.on(host, f"qemu-img snapshot -U -l {file}"), "it is still in the disk")
    if host == NEWER:
        _stop(cloud, name, host)
    cloud.on(host, f"qemu-img snapshot -c off {file}")
    words = "has a snapshot off already, which libvirt does not know"
    refused(cloud, host, "virt_snapshot", words, vm=name, name="off")
    _purged(cloud, name, host)


def _back_up(cloud: Cloud, name: str) -> dict[str, t.Any]:
    answer, result = module(cloud, MACHINES[name], "virt_backup", name=[name], dest=_BACKUPS)
    must(answer.status == 0, answer.text)
    return dict(result["machines"][0])


def _checkpoints(cloud: Cloud, name: str) -> list[str]:
    return cloud.on(MACHINES[name], f"virsh checkpoint-list --name {name}").split()


def _kept(cloud: Cloud, name: str) -> None:
    cloud.on(MACHINES[name], f"virsh snapshot-create-as {name} theirs")
    for number in range(4):
        _snapshot(cloud, name, name=f"kept{number}", keep={"last": 2})
    must(_listed(cloud, name) == ["kept2", "kept3", "theirs"], str(_listed(cloud, name)))
    for words in ((), ("--check",)):
        found = _snapshot(cloud, name, *words, state="absent", keep={"last": 2, "days": 1})
        must(found["changed"] is False, f"more have gone {words}")
    _snapshot(cloud, name, state="absent", name=["theirs", "kept2", "kept3"])


def _refused(cloud: Cloud) -> None:
    words = "External: libvirt 9.0.0 cannot revert them (9.9 and later can). Set memory: auto to keep the memory too"
    refused(cloud, OLDER, "virt_snapshot", words, vm="snap1", name="no", memory=False)
    words = "its guest agent has not connected, so nobody can freeze its file systems"
    refused(cloud, NEWER, "virt_snapshot", words, vm="snap3", name="no", memory=False, quiesce=True)
    _snapshot(cloud, "snap1", name="yes")
    words = "it is running, and what it does now would be lost"
    refused(cloud, OLDER, "virt_snapshot", words, vm="snap1", name="yes", state="reverted")
    words = "has snapshots (yes), which libvirt cannot move with it while it runs. Shut it down first"
    answer, result = migrate(cloud, OLDER, name="snap1", target=SECOND)
    must(answer.status != 0 and words in result["msg"], answer.text)
    cloud.on(OLDER, f"qemu-img create -q -f qcow2 {_POOL}/more.qcow2 1M && virsh pool-refresh default")
    cloud.on(OLDER, f"virsh attach-disk snap1 {_POOL}/more.qcow2 vdy --subdriver qcow2 --persistent")
    words = "its disk vdy was attached after snapshot yes, and a revert would take it away"
    refused(cloud, OLDER, "virt_snapshot", words, vm="snap1", name="yes", state="reverted", force=True)
    cloud.on(OLDER, "virsh detach-disk snap1 vdy --persistent; sleep 3; virsh vol-delete more.qcow2 default")
    answer, result = module(cloud, OLDER, "virt_snapshot", vm=["snap1", "snap9"], name="no")
    must(answer.status != 0 and "there is no machine 'snap9' on this hypervisor" in result["msg"], answer.text)
    must(_listed(cloud, "snap1") == ["yes"], str(_listed(cloud, "snap1")))
    _snapshot(cloud, "snap1", name="yes", state="absent")


def _own(cloud: Cloud) -> tuple[set[str], set[str]]:
    """The volumes of the newer release's machine: those that there are, and those that its metadata list."""
    xml = cloud.on(NEWER, "virsh dumpxml --inactive snap3")
    return volumes(cloud, NEWER, "snap3"), set(re.findall(r"<brine:volume pool=.default. name=.(snap3[^'\"]+)", xml))


def _must_be_noted(cloud: Cloud) -> None:
    there, noted = _own(cloud)
    must(there == noted, f"there are {there}, and its own are {noted}")
    disks = cloud.on(NEWER, "virsh domblklist snap3")
    must("snap3-seed.iso" in disks, f"its seed is another one: {disks}")


def _external(cloud: Cloud) -> None:
    before = _tell(cloud, "snap3", _READ)
    done = _snapshot(cloud, "snap3", name="disks1", memory=False)
    must((done["kind"], done["memory"], done["quiesced"]) == ("external", False, False), str(done))
    _tell(cloud, "snap3", _WRITE)
    between = _tell(cloud, "snap3", _READ)
    _snapshot(cloud, "snap3", name="disks2", memory=False)
    _tell(cloud, "snap3", _WRITE)
    _must_be_noted(cloud)
    answer, result = cloud.init(NEWER, **TINY, name="snap3", tags=["second"])
    must(answer.status == 0 and not result["changed"], answer.text)
    words = "snapshot disks1 is external, and others follow it, whose files depend on its files: disks2. Delete those"
    refused(cloud, NEWER, "virt_snapshot", words, vm="snap3", name="disks1", state="reverted", force=True)
    for _again in range(2):
        _snapshot(cloud, "snap3", name="disks2", state="reverted", force=True)
        must(_state(cloud, "snap3") == "shut off", _state(cloud, "snap3"))
        _must_be_noted(cloud)
        _start(cloud, "snap3")
        must(_tell(cloud, "snap3", _READ) == between, "its disk is another one")
        _tell(cloud, "snap3", _WRITE)
    _snapshot(cloud, "snap3", name="disks2", state="absent")
    _must_be_noted(cloud)
    _snapshot(cloud, "snap3", name="disks1", state="reverted", force=True)
    _start(cloud, "snap3")
    must(_tell(cloud, "snap3", _READ) == before, "its disk is another one")
    _snapshot(cloud, "snap3", name="disks1", state="absent")
    _must_be_noted(cloud)
    must(len(_own(cloud)[0]) == 2, f"there are {_own(cloud)}")


def _raw(cloud: Cloud) -> None:
    """libvirt can revert it with its memory, as there is nothing that it only reads."""
    disks = [{"name": "system", "size": 256, "format": "raw", "clone": "copy"}]
    answer, _result = cloud.init(NEWER, **{**TINY, "disks": disks}, name=RAW, seed={"method": "none"})
    must(answer.status == 0, answer.text)
    wait_until_up(cloud, NEWER, RAW)
    _tell(cloud, RAW, f"WHEN=before; {_WRITE}", NEWER)
    before = _tell(cloud, RAW, _READ, NEWER)
    done = _snapshot(cloud, RAW, host=NEWER, name="raw")
    must((done["kind"], done["memory"]) == ("external", True), str(done))
    _tell(cloud, RAW, f"WHEN=after; {_WRITE}", NEWER)
    for _again in range(2):
        _snapshot(cloud, RAW, host=NEWER, name="raw", state="reverted", force=True)
        must(_tell(cloud, RAW, "echo $WHEN", NEWER) == "before", "its memory is another one")
        must(_tell(cloud, RAW, _READ, NEWER) == before, "its disk is another one")
    _snapshot(cloud, RAW, host=NEWER, name="raw", state="absent")
    must(_tell(cloud, RAW, _READ, NEWER) == before, "its disk is another one")
    _snapshot(cloud, RAW, host=NEWER, name="last")
    _purged(cloud, RAW, NEWER)


def _killed(cloud: Cloud) -> None:
    driver = KillDriver(NEWER, _DIRECTORY)
    driver.install(cloud)
    try:
        for words, steps in (("present:snap3:k1", 2), ("reverted:snap3:k1", 4), ("absent:snap3:k1", 2)):
            for step in range(steps):
                # Before the first one, nothing has happened.
                _kill(cloud, driver, words, step, "before" if step else "during")
    finally:
        driver.remove(cloud)
    must(_listed(cloud, "snap3") == [], str(_listed(cloud, "snap3")))


def _kill(cloud: Cloud, driver: KillDriver, words: str, step: int, moment: str) -> None:
    """From a known state: kill it in one step, run it again, and the machine starts with the right disk."""
    state = words.partition(":")[0]
    if _state(cloud, "snap3") == "shut off":
        _start(cloud, "snap3")
    # The one before that was killed may have it, or not.
    _snapshot(cloud, "snap3", name="k1", state="absent")
    before = _tell(cloud, "snap3", _READ)
    if state != "present":
        _snapshot(cloud, "snap3", name="k1", memory=False)
        _tell(cloud, "snap3", _WRITE)
    after = _tell(cloud, "snap3", _READ)
    driver.run_killed(cloud, words, str(step), moment)
    more: dict[str, t.Any] = {"present": {"memory": False}, "reverted": {"force": True}}.get(state, {})
    _snapshot(cloud, "snap3", name="k1", state=state, **more)
    # The files of one that was killed before it could note them are noted by whoever comes next.
    _snapshot(cloud, "snap3", name="next", memory=False)
    _snapshot(cloud, "snap3", name="next", state="absent")
    _must_be_noted(cloud)
    if _state(cloud, "snap3") == "shut off":
        _start(cloud, "snap3")
    expected = before if state == "reverted" else after
    must(_tell(cloud, "snap3", _READ) == expected, f"killed {moment} step {step} of {words}: its disk is another one")
    must(_listed(cloud, "snap3") == ([] if state == "absent" else ["k1"]), str(_listed(cloud, "snap3")))
    _snapshot(cloud, "snap3", name="k1", state="absent")
    _must_be_noted(cloud)
    must(len(_own(cloud)[0]) == 2, f"there are {_own(cloud)}")


def _half_deleted(cloud: Cloud) -> None:
    """libvirtd and its QEMU are killed while they merge, of a machine that is off: the file below is half overwritten
    then, and a revert would delete the only whole one."""
    name = "half3"
    answer, _result = cloud.init(NEWER, **{**TINY, "disks": [{"name": "system", "size": 1024}]}, name=name)
    must(answer.status == 0, answer.text)
    _snapshot(cloud, name, host=NEWER, name="begun", memory=False)
    _stop(cloud, name, NEWER)
    upper, lower = f"{_POOL}/{name}-vda.begun.qcow2", f"{_POOL}/{name}-system.qcow2"
    cloud.on(NEWER, f"qemu-io -f qcow2 -c 'write -P 0x22 4M 400M' {upper}")
    kill = (
        f"until [ $(stat -c %b {lower}) -gt 1000 ]; do sleep 0.02; done;"
        f" systemctl kill -s KILL libvirtd; pkill -KILL -f [g]uest={name},; sleep 3; virsh list --all"
    )
    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(cloud.on, NEWER, f"timeout 120 bash -c '{kill}'")
        answer, _result = module(cloud, NEWER, "virt_snapshot", vm=name, name="begun", state="absent")
        killing.result()
    must(answer.status != 0, f"it was over before it was killed: {answer.text}")
    words = "the deletion of snapshot begun was interrupted"
    refused(cloud, NEWER, "virt_snapshot", words, vm=[name], name="begun", state="reverted")
    must(_snapshot(cloud, name, host=NEWER, name="begun", state="absent")["deleted"] == ["begun"], "it is there still")
    found = cloud.on(NEWER, f"qemu-io -f qcow2 -r -c 'read -P 0x22 4M 400M' {lower}; ls {_POOL}")
    must("verification failed" not in found and ".begun." not in found, found)
    must("snapshotting" not in cloud.on(NEWER, f"virsh dumpxml --inactive {name}"), "the note has stayed")
    _purged(cloud, name, NEWER)


def _switched_unseen(cloud: Cloud) -> None:
    """libvirt then says that one of two disks is on the snapshot's file; the guest writes to the one below."""
    name, attempts = "half4", ("first", "second", "third", "fourth")
    disks = [{"name": "system", "size": 256}, {"name": "data", "size": 256}]
    answer, _result = cloud.init(NEWER, **{**TINY, "disks": disks}, name=name)
    must(answer.status == 0, answer.text)
    wait_until_up(cloud, NEWER, name)
    snapshot = next((one for one in attempts if _kill_at_switch(cloud, name, one)), None)
    must(snapshot is not None, "libvirt knew it each time")
    wanted = _tell(cloud, name, _READ.replace("vda", "vdb"), NEWER)
    refused(cloud, NEWER, "virt_power", "libvirt does not know it", name=[name], state="stopped", force=True)
    answer, result = module(cloud, NEWER, "virt_snapshot", vm=name, name=snapshot, state="absent")
    must(answer.status != 0 and "Shut the machine down" in result["msg"], answer.text)
    must(f"{_POOL}/{name}-data.qcow2" in cloud.on(NEWER, f"virsh domblklist --inactive {name}"), "not corrected")
    answer, _result = module(cloud, NEWER, "virt_power", name=[name], state="stopped", force=True, timeout=5)
    must(answer.status == 0, answer.text)
    must(_snapshot(cloud, name, host=NEWER, name=snapshot, state="absent")["deleted"] == [snapshot], "it is there")
    found = cloud.on(NEWER, f"ls {_POOL}; virsh snapshot-list {name} --name; virsh dumpxml {name}")
    must(f".{snapshot}." not in found and "snapshotting" not in found, found)
    _start(cloud, name, NEWER)
    must(_tell(cloud, name, _READ.replace("vda", "vdb"), NEWER) == wanted, "what it has written last is lost")
    _purged(cloud, name, NEWER)


def _kill_at_switch(cloud: Cloud, name: str, snapshot: str) -> bool:
    """Whether the guest then wrote to the file below, of which libvirt knows nothing."""
    _snapshot(cloud, name, host=NEWER, name=snapshot, memory=False)
    _tell(cloud, name, _WRITE.replace("vda", "vdb"), NEWER)
    upper = f"{_POOL}/{name}-vdb.{snapshot}.qcow2"
    killer = f"""
import os, signal, time
process = open("/run/libvirt/qemu/{name}.pid").read().strip()
daemons = [int(one) for one in os.listdir("/proc") if one.isdigit()
           and open(f"/proc/{{one}}/cmdline").read().startswith("/usr/sbin/libvirtd")]
def has_it():
    folder = f"/proc/{{process}}/fd"
    return any(os.path.realpath(f"{{folder}}/{{one}}") == "{upper}" for one in os.listdir(folder))
end = time.monotonic() + 60
while has_it() and time.monotonic() < end:
    pass
for one in daemons:
    os.kill(one, signal.SIGKILL)
"""
    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(cloud.on, NEWER, f"python3 -c {shlex.quote(killer)}")
        module(cloud, NEWER, "virt_snapshot", vm=name, name=snapshot, state="absent")
        killing.result()
    _tell(cloud, name, _WRITE.replace("vda", "vdb"), NEWER)
    unseen = upper in cloud.on(NEWER, f"virsh domblklist {name}")
    if not unseen and snapshot in _listed(cloud, name, NEWER):
        _snapshot(cloud, name, host=NEWER, name=snapshot, state="absent")
    return unseen


def _grown(cloud: Cloud) -> None:
    for name in MACHINES:
        _snapshot(cloud, name, name="small")
        answer, _result = cloud.init(
            MACHINES[name], **{**TINY, "disks": [{"name": "system", "size": 300}]}, name=name, tags=["second"]
        )
        must(answer.status == 0, answer.text)
        must(_tell(cloud, name, "cat /sys/block/vda/size") == str(300 * 2048), "it has not grown")
        before = _tell(cloud, name, _READ)
        _snapshot(cloud, name, name="small", state="reverted", force=True)
        must(_tell(cloud, name, "cat /sys/block/vda/size") == str(256 * 2048), "its disk has another size")
        must(_tell(cloud, name, _READ) == before, "its disk is another one")
        check = cloud.on(MACHINES[name], f"qemu-img check -U {_POOL}/{name}-system.qcow2 || [ $? = 3 ]")
        # The machine runs: what its QEMU has not written yet looks like clusters that have leaked.
        must("No errors were found" in check or ("leaked" in check and "corrupted" not in check), check)
        _snapshot(cloud, name, name="small", state="absent")


def _tree(cloud: Cloud, name: str, host: str) -> str:
    return cloud.on(host, f"virsh snapshot-list {name} --tree; virsh snapshot-current {name} --name")


def _move(cloud: Cloud) -> None:
    _tell(cloud, "snap1", f"WHEN=first; {_WRITE}")
    first = _tell(cloud, "snap1", _READ)
    _snapshot(cloud, "snap1", name="one")
    _tell(cloud, "snap1", _WRITE)
    second = _tell(cloud, "snap1", _READ)
    _stop(cloud, "snap1")
    for name in ("two", "three"):
        _snapshot(cloud, "snap1", name=name)
    before = _tree(cloud, "snap1", OLDER)
    had = volumes(cloud, OLDER, "snap1")
    answer, _result = migrate(cloud, OLDER, name="snap1", target=SECOND)
    must(answer.status == 0, answer.text)
    has_moved(cloud, "snap1", OLDER, SECOND, had)
    must(_tree(cloud, "snap1", SECOND) == before, _tree(cloud, "snap1", SECOND))
    must("snapshots:1" not in cloud.on(SECOND, "virsh dumpxml --inactive snap1"), "some are set aside still")
    _snapshot(cloud, "snap1", host=SECOND, name="one", state="reverted")
    must(_tell(cloud, "snap1", "echo $WHEN", SECOND) == "first", "its memory is another one")
    must(_tell(cloud, "snap1", _READ, SECOND) == first, "its disk is another one")
    _snapshot(cloud, "snap1", host=SECOND, name="two", state="reverted", force=True)
    _start(cloud, "snap1", SECOND)
    must(_tell(cloud, "snap1", _READ, SECOND) == second, "its disk is another one")
    _stop(cloud, "snap1", SECOND)


def _cut_off(cloud: Cloud) -> None:
    """It is on the second host since it moved."""
    before = _tree(cloud, "snap1", SECOND)
    driver = KillDriver(SECOND, _DIRECTORY)
    driver.install(cloud)
    try:
        for goes in (False, True):
            answer = driver.run(cloud, "aside:snap1", "none")
            must(answer.status == 0 and _listed(cloud, "snap1", SECOND) == [], answer.text)
            if not goes:
                done = _snapshot(cloud, "snap1", host=SECOND, name="four")
                must(done["actions"][0].startswith("put back the snapshots of snap1"), str(done))
                _snapshot(cloud, "snap1", host=SECOND, name="four", state="absent")
            else:
                answer, _result = migrate(cloud, SECOND, name="snap1", target=OLDER)
                must(answer.status == 0, answer.text)
            after = _tree(cloud, "snap1", OLDER if goes else SECOND)
            must(after.split()[:-1] == before.split()[:-1], after)
    finally:
        driver.remove(cloud)


def _purge(cloud: Cloud) -> None:
    _snapshot(cloud, "snap3", name="last", memory=False)
    for name, host in MACHINES.items():
        _purged(cloud, name, host)


def _purged(cloud: Cloud, name: str, host: str) -> None:
    answer: Answer = cloud.ansible(host, "brine.virt.virt_purge", json.dumps({"name": [name], "force": True}))
    must(answer.status == 0, answer.text)
    left = cloud.on(host, f"ls {_POOL} /var/lib/libvirt/qemu/snapshot")
    must(name not in left, left)
