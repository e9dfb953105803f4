# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of a machine on Ceph: of both its disks at one moment, reverted, killed, kept by number, cloned by hand,
and moved with their machine, off and running."""

from __future__ import annotations

import re
import time
import typing as t

from ...cloud import FLEET, Cloud, must
from ...driving import ceph
from ...driving.consoles import clear, tell, type_line, wait_until_up
from ...driving.tasks import module, refused
from ...kill_runs import KillDriver
from ...moving import home, migrate
from ...needs import TINY
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "alone", "tiny")
HERE, THERE = FLEET
NAME = "cephsnap"
COPY = "cephsnap-by-hand"
_DIRECTORY = "/var/tmp/brine-ceph-snapshots"
# Numbers that are on the first of the two disks before they are on the second: at no moment is the second ahead.
_COUNT = (
    "i=0; while :; do i=$((i+1)); for d in vdb vdc; do echo $i | dd of=/dev/$d conv=fsync bs=512 seek=8 2>/dev/null; "
    "done; [ $((i % 20)) = 0 ] && echo AT $i; done &"
)


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    reached = ceph.start(cloud)
    try:
        scenario.step("the role makes its pool on both", lambda: ceph.role(cloud, reached, changes=True), vital=True)
        scenario.step("a machine with its disks there", lambda: _machine(cloud), vital=True)
        scenario.step("one while it writes: both disks are of one moment", lambda: _running(cloud), vital=True)
        scenario.step("one while it is off; what is refused", lambda: _off(cloud))
        scenario.step("by hand with virsh: neither reverted nor deleted", lambda: _by_hand(cloud))
        scenario.step("reverted to each", lambda: _revert(cloud))
        scenario.step("a clone that somebody has made of it is named, and lives on", lambda: _clone(cloud))
        scenario.step("killed before libvirt knows it, and while the machine is held", lambda: _killed(cloud))
        scenario.step("killed in a revert: not started by anybody, and finished", lambda: _half(cloud))
        scenario.step("the newest are kept", lambda: _kept(cloud))
        scenario.step("three move with it while it is off, and it is reverted there", lambda: _move_off(cloud))
        scenario.step("they move with it while it runs", lambda: _move_running(cloud))
        scenario.step("a disk that has grown since is as it was", lambda: _grown(cloud))
        scenario.step("purge leaves nothing of it", lambda: _purge(cloud))
    finally:
        for host in FLEET:
            cloud.lab(
                "ssh", host, f"rm -rf {_DIRECTORY}; virsh destroy {NAME}; virsh undefine {NAME} --snapshots-metadata"
            )
        ceph.clear(cloud)


def _snapshot(cloud: Cloud, **options: t.Any) -> dict[str, t.Any]:
    """The module on the machine, which has to end well: its result for it."""
    answer, result = module(cloud, home(cloud, NAME), "virt_snapshot", vm=NAME, **options)
    must(answer.status == 0, answer.text)
    (found,) = result["machines"]
    return dict(found)


def _disks(**data: t.Any) -> list[dict[str, t.Any]]:
    more = [{"name": name, "size": 64, "pool": ceph.POOL, **data} for name in ("data", "log")]
    return [{"name": "system", "size": 256, "pool": ceph.POOL}, *more]


def _tell(cloud: Cloud, command: str) -> str:
    status, said = tell(cloud, home(cloud, NAME), NAME, command)
    must(status == 0, f"{command}: {status}, {said}")
    return said.strip()


def _start(cloud: Cloud) -> None:
    host = home(cloud, NAME)
    clear(cloud, host, NAME)
    cloud.on(host, f"virsh start {NAME}")
    wait_until_up(cloud, host, NAME)


def _stop(cloud: Cloud) -> None:
    cloud.on(home(cloud, NAME), f"virsh destroy {NAME}")


def _state(cloud: Cloud) -> str:
    return cloud.on(home(cloud, NAME), f"LC_ALL=C virsh domstate {NAME}").strip()


def _listed(cloud: Cloud) -> list[str]:
    return sorted(cloud.on(home(cloud, NAME), f"virsh snapshot-list {NAME} --name").split())


def _in_ceph(cloud: Cloud, volume: str = "data") -> list[str]:
    """The names of our snapshots of a volume of the machine, as Ceph has them."""
    names = [name for name in ceph.listed(cloud) if name.startswith(f"{NAME}-{volume}@brine-snapshot.")]
    return sorted(name.partition("@brine-snapshot.")[2].partition(".")[2] for name in names)


def _write(cloud: Cloud, word: str) -> None:
    _tell(cloud, f"for d in vdb vdc; do echo {word} > /dev/$d; done; sync")


def _says(cloud: Cloud) -> set[str]:
    return set(_tell(cloud, "for d in vdb vdc; do head -n 1 /dev/$d; done").split())


def _machine(cloud: Cloud) -> None:
    answer, _result = cloud.init(HERE, **{**TINY, "name": NAME, "disks": _disks(), "seed": {"pool": ceph.POOL}})
    must(answer.status == 0, answer.text)
    wait_until_up(cloud, HERE, NAME)
    _write(cloud, "first")


def _running(cloud: Cloud) -> None:
    type_line(cloud, HERE, NAME, _COUNT)
    time.sleep(5)
    began = time.monotonic()
    done = _snapshot(cloud, name="running", description="while it writes")
    print(f"      {time.monotonic() - began:.1f} s", flush=True)
    must((done["kind"], done["memory"], done["state"]) == ("ceph", False, "running"), str(done))
    must(_state(cloud) == "running" and "snapshotting" not in cloud.on(HERE, f"virsh dumpxml {NAME}"), "it is held")
    must(_snapshot(cloud, name="running")["changed"] is False, "it is taken twice")
    must(_in_ceph(cloud) == _in_ceph(cloud, "log") == _in_ceph(cloud, "system") == ["running"], str(ceph.listed(cloud)))
    numbers = []
    for volume in ("data", "log"):
        (snapshot,) = [name for name in ceph.listed(cloud) if name.startswith(f"{NAME}-{volume}@")]
        exported = cloud.build / "exported"
        exported.unlink(missing_ok=True)
        cloud.lab_well("ceph", "rbd", "export", "--no-progress", f"vms/{snapshot}", str(exported))
        numbers.append(int(exported.read_bytes()[8 * 512 :][:16].split()[0]))
        exported.unlink()
    must(numbers[0] - numbers[1] in (0, 1) and numbers[1] > 0, f"the disks are of different moments: {numbers}")
    (record,) = module(cloud, HERE, "virt_info", name=NAME, gather_subset=["snapshots"])[1]["machines"]
    must(record["snapshots"][0]["kind"] == "ceph" and record["snapshots"][0]["own"], str(record["snapshots"]))
    _stop(cloud)


def _off(cloud: Cloud) -> None:
    _start(cloud)
    _write(cloud, "second")
    refused(cloud, HERE, "virt_snapshot", "whose snapshots never have the memory", vm=NAME, name="m", memory=True)
    _stop(cloud)
    done = _snapshot(cloud, name="off")
    must((done["kind"], done["snapshots"][1]["parent"]) == ("ceph", "running"), str(done))
    _start(cloud)
    _write(cloud, "third")
    words = "it is running, and what it does now would be lost"
    refused(cloud, HERE, "virt_snapshot", words, vm=NAME, name="off", state="reverted")


def _by_hand(cloud: Cloud) -> None:
    for words in ("snapshot-revert", "snapshot-revert --force", "snapshot-delete"):
        verb, *more = words.split()
        answer = cloud.lab("ssh", HERE, f"virsh {verb} {NAME} running {' '.join(more)}")
        must(answer.status != 0, f"{words}: {answer.text}")
        print(f"      {words}: {answer.text.strip().splitlines()[-1]}", flush=True)
        must(_state(cloud) == "running" and _listed(cloud) == ["off", "running"], f"{words}: {_state(cloud)}")
    must(_says(cloud) == {"third"} and _in_ceph(cloud) == ["off", "running"], str(_in_ceph(cloud)))


def _revert(cloud: Cloud) -> None:
    for name, content in (("off", "second"), ("running", "first"), ("off", "second")):
        done = _snapshot(cloud, name=name, state="reverted", force=True)
        must(done["state"] == "shutoff" and _state(cloud) == "shut off", str(done))
        must(cloud.on(HERE, f"virsh snapshot-current {NAME} --name").strip() == name, "another one is current")
        _start(cloud)
        must(_says(cloud) == {content}, f"{name}: {_says(cloud)}")


def _clone(cloud: Cloud) -> None:
    """libvirt takes ours for it, if nothing was written since, and protects it. (With an older one before it, its clone
    fails: it takes the first difference that it is told of for an error.)"""
    _stop(cloud)
    _snapshot(cloud, name="cloned", keep={"last": 1})
    xml = f'<volume><name>{COPY}</name><capacity unit=\\"MiB\\">64</capacity></volume>'
    cloud.on(HERE, f'echo "{xml}" > /tmp/copy.xml; virsh pool-refresh {ceph.POOL}')
    cloud.on(HERE, f"virsh vol-create-from {ceph.POOL} /tmp/copy.xml {NAME}-data --inputpool {ceph.POOL}")
    parent = ceph.listed(cloud)[COPY]["parent"]
    print(f"      its parent: {parent}", flush=True)
    name = str(parent["snapshot"]).rpartition(".")[2]
    must(name == "cloned", f"{parent}")
    refused(cloud, HERE, "virt_snapshot", f"vms/{COPY}", vm=NAME, name=name, state="absent")
    done = _snapshot(cloud, state="absent", keep={"days": 0})
    must(any(f"snapshot {name} stays" in words for words in done["warnings"]), str(done))
    must(_listed(cloud) == [name] and not done["changed"], str(done))
    _snapshot(cloud, name=name, state="reverted")
    must("parent" in ceph.listed(cloud)[COPY], "the clone is another one")
    cloud.lab_well("ceph", "rbd", "flatten", "--no-progress", f"vms/{COPY}")
    must(_snapshot(cloud, name=name, state="absent")["deleted"] == [name], "it stays")
    must(_in_ceph(cloud) == [], str(_in_ceph(cloud)))
    cloud.on(HERE, f"virsh pool-refresh {ceph.POOL}; virsh vol-delete {COPY} {ceph.POOL}")
    _start(cloud)


def _kill(cloud: Cloud, where: str, name: str) -> None:
    host = home(cloud, NAME)
    driver = KillDriver(host, _DIRECTORY)
    driver.install(cloud)
    text = (cloud.root / "tests/scenario/driving/kill_snapshots.py").read_bytes()
    answer = cloud.run(*cloud.lab_command, "ssh", host, f"cat > {_DIRECTORY}/kill_snapshots.py", stdin=text)
    must(answer.status == 0, answer.text)
    answer = cloud.lab("ssh", host, f"cd {_DIRECTORY} && python3 kill_snapshots.py {where} {NAME} {name}")
    must(answer.status in (137, 255), f"the run was to be killed, and ended with {answer.status}: {answer.text}")
    driver.remove(cloud)


def _have_running(cloud: Cloud) -> None:
    """Whatever an earlier step has left that failed."""
    if _state(cloud) != "running":
        _start(cloud)


def _killed(cloud: Cloud) -> None:
    _have_running(cloud)
    _write(cloud, "killed")
    _kill(cloud, "described", "k")
    must((_listed(cloud), _in_ceph(cloud), _state(cloud)) == ([], ["k"], "running"), f"{_in_ceph(cloud)}")
    done = _snapshot(cloud, name="other")
    must(done["actions"][0] == f"delete what an interrupted run has left of snapshot k of {NAME}", str(done))
    must(_listed(cloud) == ["other"] == _in_ceph(cloud), str(_in_ceph(cloud)))
    must(_snapshot(cloud, name="k")["changed"] and _listed(cloud) == ["k", "other"], str(_listed(cloud)))
    _kill(cloud, "described", "k2")
    must(_snapshot(cloud, name="k2", state="absent")["changed"] and "k2" not in _in_ceph(cloud), "it is not deleted")
    host = home(cloud, NAME)
    cloud.on(host, f"virsh snapshot-delete {NAME} other --metadata")
    refused(cloud, host, "virt_snapshot", "a snapshot other of it already", vm=NAME, name="other")
    done = _snapshot(cloud, name="more")
    must(any("has a snapshot other of it, which libvirt does not know" in one for one in done["warnings"]), str(done))
    done = _snapshot(cloud, name=["more", "other"], state="absent")
    must(sorted(done["deleted"]) == ["more", "other"] and _in_ceph(cloud) == ["k"], str(done))
    _snapshot(cloud, name="other")
    _kill(cloud, "held", "k3")
    must(_state(cloud) == "paused", _state(cloud))
    done = _snapshot(cloud, name="k3")
    must(done["actions"][0].startswith(f"let {NAME} run on"), str(done))
    must(done["actions"][1].startswith("delete what an interrupted run has left of snapshot k3"), str(done))
    must(_state(cloud) == "running" and _in_ceph(cloud) == ["k", "k3", "other"], f"{_state(cloud)} {_in_ceph(cloud)}")
    must(_says(cloud) == {"killed"}, str(_says(cloud)))


def _half(cloud: Cloud) -> None:
    host = home(cloud, NAME)
    for where in ("half", "back"):
        _have_running(cloud)
        _write(cloud, "later")
        _kill(cloud, where, "k")
        started = cloud.lab("ssh", host, f"virsh start {NAME}")
        must(started.status != 0, f"it starts: {started.text}")
        print(f"      {started.text.strip().splitlines()[-1]}", flush=True)
        answer, result = module(cloud, host, "virt_power", name=NAME, state="running")
        must(
            answer.status != 0 and "it is being reverted to snapshot k, or that was interrupted" in answer.text,
            answer.text,
        )
        answer, result = migrate(cloud, host, name=NAME, target=THERE if host == HERE else HERE)
        must(answer.status != 0 and "it is being reverted to snapshot k" in result["msg"], answer.text)
        refused(cloud, host, "virt_snapshot", "it is being reverted to snapshot k", vm=NAME, name="no")
        _snapshot(cloud, name="k", state="reverted")
        _start(cloud)
        must(_says(cloud) == {"killed"}, str(_says(cloud)))


def _kept(cloud: Cloud) -> None:
    _have_running(cloud)
    for number in range(3):
        _snapshot(cloud, name=f"n{number}", keep={"last": 2})
    must(_listed(cloud) == ["n1", "n2"] == _in_ceph(cloud), f"{_listed(cloud)}, {_in_ceph(cloud)}")


def _tree(cloud: Cloud) -> str:
    host = home(cloud, NAME)
    return cloud.on(host, f"virsh snapshot-list {NAME} --tree; virsh snapshot-current {NAME} --name")


def _move_off(cloud: Cloud) -> None:
    _write(cloud, "at home")
    _snapshot(cloud, name="three")
    _write(cloud, "later")
    _stop(cloud)
    before, ours = _tree(cloud), _in_ceph(cloud)
    answer, _result = migrate(cloud, HERE, name=NAME, target=THERE)
    must(answer.status == 0 and home(cloud, NAME) == THERE, answer.text)
    must(_tree(cloud) == before and _in_ceph(cloud) == ours, f"{_tree(cloud)} {_in_ceph(cloud)}")
    must("snapshots:1" not in cloud.on(THERE, f"virsh dumpxml --inactive {NAME}"), "some are set aside still")
    for name, content in (("three", {"at", "home"}), ("n1", {"killed"})):
        _snapshot(cloud, name=name, state="reverted", force=True)
        _start(cloud)
        must(_says(cloud) == content, str(_says(cloud)))


def _move_running(cloud: Cloud) -> None:
    _tell(cloud, "WHEN=before")
    before, ours = _tree(cloud), _in_ceph(cloud)
    answer, result = migrate(cloud, THERE, name=NAME, target=HERE)
    must(answer.status == 0 and home(cloud, NAME) == HERE, answer.text)
    must({disk["method"] for disk in result["machines"][0]["disks"]} == {"shared"}, f"{result}")
    must(_tell(cloud, "echo $WHEN") == "before", "it has not moved while it ran")
    must(_tree(cloud) == before and _in_ceph(cloud) == ours, f"{_tree(cloud)} {_in_ceph(cloud)}")
    for words in ("", "--inactive"):
        must("snapshots:1" not in cloud.on(HERE, f"virsh dumpxml {words} {NAME}"), "some are set aside still")
    _snapshot(cloud, name="three", state="reverted", force=True)
    _start(cloud)
    must(_says(cloud) == {"at", "home"}, str(_says(cloud)))


def _grown(cloud: Cloud) -> None:
    answer, _result = cloud.init(HERE, **{**TINY, "name": NAME, "disks": _disks(size=96), "seed": {"pool": ceph.POOL}})
    must(
        answer.status == 0 and re.match(str(96 * 2048), _tell(cloud, "cat /sys/block/vdb/size")) is not None,
        answer.text,
    )
    _snapshot(cloud, name="three", state="reverted", force=True)
    _start(cloud)
    must(_tell(cloud, "cat /sys/block/vdb/size") == str(64 * 2048), "its disk has another size")


def _purge(cloud: Cloud) -> None:
    _kill(cloud, "described", "left")
    cloud.play_well("purge", "-e", f"vm={NAME}", "-e", "force=true")
    left = [name for name in ceph.listed(cloud) if name.startswith(NAME)]
    must(left == [], f"{left}")
