# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's daemon is killed, and the module with it, as a machine goes on with other disks or on another hypervisor.

The guest writes numbers all the time, and says each when it is on its disk: none of these is lost.
"""

from __future__ import annotations

import re

from ...cloud import FLEET, Cloud, must
from ...driving.consoles import clear, type_line, wait_until_up
from ...driving.tasks import module
from ...moving import forget, home, volumes
from ...needs import MOVER
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
HOST, OTHER = FLEET
MACHINE = "counter"
POOL = "scenario-other"
PLACES = {"default": "/var/lib/libvirt/images", POOL: "/srv/scenario-other"}
# After the note says that a switch is requested. Chance decides which of them the daemon does not see the end of.
DELAYS = (0.0, 0.003, 0.005, 0.01)
# By more than this a volume has to be newer, if the one that a machine was switched to is to be told by it.
_WRITE_SECONDS = 14


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    hit: list[float] = []
    try:
        scenario.step("a machine runs, and starts with its host", lambda: _begin(cloud), vital=True)
        scenario.step(
            "killed as a disk is switched: all that was written is there", lambda: _switch(cloud, hit), vital=True
        )
        scenario.step("its host loses its power besides", lambda: _power(cloud, hit))
        scenario.step("killed as the machine arrives: it runs once", lambda: _arrive(cloud))
    finally:
        _clear(cloud)


def _begin(cloud: Cloud) -> None:
    for host in FLEET:
        place = PLACES[POOL]
        cloud.on(host, f"mkdir -p {place} && chmod 711 {place} && virsh pool-define-as {POOL} dir --target {place}")
        cloud.on(host, f"virsh pool-start {POOL} && virsh pool-autostart {POOL}")
    forget(cloud, MACHINE)
    answer, _result = cloud.init(HOST, **{**MOVER, "name": MACHINE, "autostart": True})
    must(answer.status == 0, answer.text)
    wait_until_up(cloud, HOST, MACHINE)


def _write(cloud: Cloud, host: str, tag: str) -> None:
    """The guest begins to count; each number is on the disk before it says it."""
    count = (
        f"rm -f /tmp/end; (n=0; while [ ! -e /tmp/end ]; do n=$((n+1)); echo MARK-{tag}-$n > /tmp/x; "
        f"dd if=/tmp/x of=/dev/vdb bs=4096 seek=$n conv=sync,fsync 2>/dev/null && echo ACK-{tag}-$n; done) "
        "> /dev/ttyS0 2>&1 < /dev/null &"
    )
    clear(cloud, host, MACHINE)
    type_line(cloud, host, MACHINE, "mkdir -p /tmp; touch /tmp/end; sleep 1")
    type_line(cloud, host, MACHINE, count)


def _said(cloud: Cloud, tag: str) -> int:
    """The highest number that the guest has said, on whatever host."""
    text = "".join(cloud.on(host, f"cat /var/log/libvirt/qemu/{MACHINE}-serial.log 2>/dev/null; :") for host in FLEET)
    return max((int(number) for number in re.findall(rf"ACK-{tag}-(\d+)", text)), default=0)


def _stored(cloud: Cloud, host: str, tag: str) -> int:
    """The highest number in the data disk that the machine has."""
    path = _data(cloud, host)
    command = f"qemu-img convert -U -f qcow2 -O raw {path} /tmp/numbers && grep -ao 'MARK-{tag}-[0-9]*' /tmp/numbers"
    text = cloud.on(host, f"{command}; rm -f /tmp/numbers")
    return max((int(word.rpartition("-")[2]) for word in text.split()), default=0)


def _data(cloud: Cloud, host: str) -> str:
    found = re.search(r"/\S+-data\S*", cloud.on(host, f"virsh domblklist --inactive {MACHINE}"))
    return found[0] if found else ""


_KILL = """
import os, subprocess, time
def look(*words):
    return [int(one) for one in subprocess.run(["pgrep", *words], capture_output=True, text=True).stdout.split()]
def until(seen):
    end = time.time() + 120
    while not seen():
        if time.time() > end:
            raise SystemExit("never seen")
        time.sleep(0.0005)
daemons = look("-x", "libvirtd")
%s
for one in daemons + look("-f", "[A]nsiballZ_virt_migrate"):
    try:
        os.kill(one, 9)
    except ProcessLookupError:
        pass
    else:
        print("killed", one, flush=True)
"""
_AT_A_SWITCH = """
def requested():
    try:
        return b"pivot=" in open("/etc/libvirt/qemu/%s.xml", "rb").read()
    except OSError:
        return False
until(requested)
time.sleep(%s)
"""
_AS_IT_ARRIVES = """
import libvirt
domain = libvirt.openReadOnly("qemu:///system").lookupByName(%r)
until(lambda: domain.state()[0] != libvirt.VIR_DOMAIN_RUNNING)
"""


def _move_and_kill(cloud: Cloud, when: str, **options: object) -> None:
    """A move under which the daemon and the module are killed. Comes back when libvirt answers again."""
    script = _KILL % when
    cloud.on(HOST, f"cat > /tmp/kill.py <<'EOF'\n{script}\nEOF\n(python3 /tmp/kill.py >/tmp/kill.log 2>&1 & :)")
    with cloud.modules_in_files():
        module(cloud, HOST, "virt_migrate", name=MACHINE, **options)
    cloud.on(
        HOST, "for i in $(seq 50); do grep -q killed /tmp/kill.log && exit; sleep 0.1; done; cat /tmp/kill.log; exit 1"
    )
    _wait_for_libvirt(cloud)


def _wait_for_libvirt(cloud: Cloud) -> None:
    cloud.on(HOST, "for i in $(seq 60); do virsh version >/dev/null 2>&1 && exit; sleep 1; done; exit 1")


def _switch_and_kill(cloud: Cloud, delay: float) -> tuple[str, bool]:
    """The pool that its data was to go to, and whether QEMU has switched to that while libvirt says the old one."""
    had = _data(cloud, HOST)
    pool = POOL if had.startswith(PLACES["default"]) else "default"
    _move_and_kill(cloud, _AT_A_SWITCH % (MACHINE, delay), disks={"data": {"pool": pool}})
    opened = cloud.on(HOST, f"ls -l /proc/$(cat /run/libvirt/qemu/{MACHINE}.pid)/fd | grep -o '/[^ ]*-data[^ ]*'; :")
    said = cloud.on(HOST, f"virsh domblklist {MACHINE}")
    return pool, had in said and had not in opened.split()


def _finish(cloud: Cloud, pool: str) -> None:
    """Run it again; where it asks for that, with the machine off."""
    answer, result = module(cloud, HOST, "virt_migrate", name=MACHINE, disks={"data": {"pool": pool}})
    if answer.status == 0:
        return
    if f"Shut {MACHINE} down (virt_power with state: stopped)" in result["msg"]:
        power, _result = module(cloud, HOST, "virt_power", name=[MACHINE], state="stopped", force=True, timeout=20)
        must(power.status == 0, power.text)
    else:
        must("or end the process that fuser" in result["msg"], answer.text)
        cloud.on(HOST, f"pkill -9 -f '[g]uest={MACHINE},'; sleep 2")
    answer, _result = module(cloud, HOST, "virt_migrate", name=MACHINE, disks={"data": {"pool": pool}})
    must(answer.status == 0, answer.text)


def _have_all(cloud: Cloud, host: str, tag: str, at_least: int) -> None:
    """What was said is in the one volume that there is, no note is left, and it starts with its host."""
    stored = _stored(cloud, host, tag)
    must(0 < at_least <= stored, f"{tag}: {at_least} was said, {stored} is on the disk")
    files = cloud.on(host, f"ls {' '.join(PLACES.values())} | grep {MACHINE}-data").split()
    must(len(files) == 1, str(files))
    xml = cloud.on(host, f"virsh dumpxml {MACHINE}; virsh dumpxml --inactive {MACHINE}")
    must("brinemove" not in xml and "<mirror" not in xml, xml)
    must("enable" in cloud.on(host, f"virsh dominfo {MACHINE} | grep Autostart"), "it does not start with its host")


def _have_running(cloud: Cloud) -> None:
    if cloud.on(HOST, f"virsh domstate {MACHINE}").strip() != "running":
        clear(cloud, HOST, MACHINE)
        cloud.on(HOST, f"virsh start {MACHINE}")
        wait_until_up(cloud, HOST, MACHINE)


def _switch(cloud: Cloud, hit: list[float]) -> None:
    for number, delay in enumerate(DELAYS):
        tag = f"switch{number}"
        _have_running(cloud)
        _write(cloud, HOST, tag)
        pool, unseen = _switch_and_kill(cloud, delay)
        if unseen:
            hit.append(delay)
        cloud.on(HOST, f"sleep {_WRITE_SECONDS}")
        said = _said(cloud, tag)
        _finish(cloud, pool)
        _have_all(cloud, HOST, tag, said)
    print(f"      switched unseen after {hit} s", flush=True)


def _power(cloud: Cloud, hit: list[float]) -> None:
    """libvirt would start it on the old volume."""
    for number, delay in enumerate(hit or DELAYS):
        tag = f"power{number}"
        _have_running(cloud)
        _write(cloud, HOST, tag)
        pool, unseen = _switch_and_kill(cloud, delay)
        if unseen:
            break
        _finish(cloud, pool)
    cloud.on(HOST, f"sleep {_WRITE_SECONDS}")
    said = _said(cloud, tag)
    cloud.lab_well("unplug", HOST)
    cloud.lab_well("up", "--hosts", str(len(cloud.lab_hosts())))
    _wait_for_libvirt(cloud)
    state = cloud.on(HOST, f"sleep 5; virsh domstate {MACHINE}").strip()
    must(not unseen or state == "shut off", f"it is {state}")
    answer, result = module(cloud, HOST, "virt_power", name=[MACHINE], state="running")
    must(
        not unseen or (answer.status != 0 and "its disks are being moved to another pool" in result["msg"]), answer.text
    )
    _finish(cloud, pool)
    _have_all(cloud, HOST, tag, said)
    print(f"      switched unseen: {unseen}; {said} was said", flush=True)


def _arrive(cloud: Cloud) -> None:
    _have_running(cloud)
    _write(cloud, HOST, "arrive")
    had = volumes(cloud, HOST, MACHINE)
    _move_and_kill(cloud, _AS_IT_ARRIVES % MACHINE, target=OTHER)
    cloud.on(HOST, "sleep 5")
    said = _said(cloud, "arrive")
    answer, result = module(cloud, HOST, "virt_migrate", name=MACHINE, target=OTHER)
    if answer.status != 0 and f"virsh resume {MACHINE}" in result["msg"]:
        cloud.on(HOST, f"virsh resume {MACHINE}")
        answer, _result = module(cloud, HOST, "virt_migrate", name=MACHINE, target=OTHER)
    must(answer.status == 0, answer.text)
    must(home(cloud, MACHINE) == OTHER, answer.text)
    must(volumes(cloud, HOST, MACHINE) == set() and volumes(cloud, OTHER, MACHINE) == had, answer.text)
    _have_all(cloud, OTHER, "arrive", said)


def _clear(cloud: Cloud) -> None:
    forget(cloud, MACHINE)
    for host in FLEET:
        place = PLACES[POOL]
        cloud.on(host, f"virsh pool-destroy {POOL}; virsh pool-undefine {POOL}; rm -rf {place} /tmp/kill.*; :")
