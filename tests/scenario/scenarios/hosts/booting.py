# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines in an order: started so, stopped the other way round, by playbooks, and by a host that shuts down and boots.

When each of them started and stopped stands in the log that libvirt writes of its process.
"""

from __future__ import annotations

import json
import re
import time
import typing as t
from datetime import datetime

from ...cloud import Answer, Cloud, must
from ...driving.tasks import role_well
from ...needs import TINY, current_hypervisors
from ...runner import ScenarioRun

# Machines of others with autostart would start as well.
NEEDS = ("hypervisors", "tiny", "alone")
HOST, OTHER = "hv1", "hv2"
DELAY = 5
# In their order; the last has none. All but the one on the other host start with theirs.
MACHINES: dict[str, dict[str, t.Any]] = {
    "db": {"order": 10, "delay_seconds": DELAY},
    "app": {"order": 20},
    "web": {"order": 30},
    "any": {},
}
# Of the other host, between db and app; and one of this host that does not start with it.
FAR, MANUAL = "far", "manual"
UNIT = "brine-virt-start-order"
# Monolithic or modular, whichever the host has.
DAEMON = "$(systemctl is-enabled --quiet libvirtd && echo libvirtd || echo virtqemud)"
FLAG = "/run/brine-virt/start-order"
_SECONDS = 180
_TRIES = 5


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    current_hypervisors(cloud)
    with_a_task(scenario, cloud)
    scenario.step("power starts and stops those of two hypervisors in their order", lambda: _by_power(cloud))
    scenario.step("provision starts those of two hypervisors in their order", lambda: _by_provision(cloud))
    scenario.step(
        "the end of a maintenance names what is off, and starts it in order", lambda: _after_maintenance(cloud)
    )
    with_the_host(scenario, cloud)
    scenario.step("the option is off: the units are gone, the machines run on", lambda: _option_off(cloud))


def with_a_task(scenario: ScenarioRun, cloud: Cloud) -> None:
    """The machines, which the host starts from then on."""
    scenario.step("a task starts machines in their order", lambda: _made(cloud), vital=True)


def with_the_host(scenario: ScenarioRun, cloud: Cloud) -> None:
    """What happens when the host boots, or its daemons start anew: where it matters which daemons they are."""
    scenario.step("hypervisors again, and a restart of the units: no machine changes", lambda: _restarts(cloud))
    scenario.step("the host shuts down: the machines stop in the reverse order", lambda: _stops(cloud), vital=True)
    scenario.step("the host boots: they start in their order, and no other one", lambda: _boots(cloud))
    scenario.step("what somebody stopped since then stays off", lambda: _stays_off(cloud))
    scenario.step("if the unit fails, libvirt starts them all", lambda: _without_the_script(cloud))
    scenario.step("without an order libvirt starts them, as without the unit", lambda: _without_order(cloud))


def _spec(name: str, **more: t.Any) -> dict[str, t.Any]:
    return {**TINY, "name": name, "tags": ["booting"], **more}


def _made(cloud: Cloud) -> None:
    # Not in their order.
    specs = [_spec(name, autostart=True, **MACHINES[name]) for name in ("web", "any", "db", "app")]
    answer, _result = cloud.init(HOST, machines=specs)
    must(answer.status == 0, answer.text)
    _must_be_in_order(cloud, "starting up", dict.fromkeys(MACHINES, HOST))
    must(_seconds_between(cloud, "starting up", "db", "app") >= DELAY, "app has not waited for db's delay")
    again, _result = cloud.init(HOST, machines=specs)
    must(again.status == 0 and "CHANGED" not in again.text, again.text)
    for host, spec in ((HOST, _spec(MANUAL, order=5, start=False)), (OTHER, _spec(FAR, order=15))):
        answer, _result = cloud.init(host, **spec)
        must(answer.status == 0, answer.text)


def _by_power(cloud: Cloud) -> None:
    homes = {"db": HOST, FAR: OTHER, **dict.fromkeys(("app", "web", "any"), HOST)}
    names = ",".join(homes)
    _wait_for_guests(cloud, homes)
    stopped = cloud.play_well("power", "-e", f"vm={names}", "-e", "state=stopped", live=False)
    must(stopped.recap("failed") == 0, stopped.text)
    _must_be_in_order(cloud, "shutting down", dict(reversed(homes.items())))
    cloud.play_well("power", "-e", f"vm={names}", "-e", "state=running", live=False)
    _must_be_in_order(cloud, "starting up", homes)
    again = cloud.play_well("power", "-e", f"vm={names}", "-e", "state=running", live=False)
    must(again.recap("changed") == 0, again.text)


def _by_provision(cloud: Cloud) -> None:
    homes = {"db": HOST, FAR: OTHER, **dict.fromkeys(("app", "web", "any"), HOST)}
    for name, host in homes.items():
        cloud.on(host, f"virsh destroy {name}")
    orders = {**MACHINES, FAR: {"order": 15}}
    # Not in their order.
    names = ("web", "any", FAR, "db", "app")
    machines = [_spec(name, hypervisor=homes[name], state="running", **orders[name]) for name in names]
    path = cloud.build / "scenario-booting.yml"
    path.write_text(json.dumps({"virt_vms": machines, "virt_provision_wait": False}), encoding="utf-8")
    cloud.play_well("provision", "-e", f"@{path}", live=False)
    _must_be_in_order(cloud, "starting up", homes)
    must(_seconds_between(cloud, "starting up", "db", "app") >= DELAY, "app has not waited for db's delay")
    again = cloud.play_well("provision", "-e", f"@{path}", live=False)
    must(again.recap("changed") == 0, again.text)


def _after_maintenance(cloud: Cloud) -> None:
    cloud.play_well("maintenance", "-e", f"begin={HOST}", live=False)
    cloud.on(HOST, "virsh destroy web && virsh destroy db")
    ended = cloud.play_well("maintenance", "-e", f"end={HOST}", live=False)
    must(f"db, web on {HOST}: off, with autostart" in ended.text, ended.text)
    must(f"-e end={HOST} -e start=true" in ended.one_line and MANUAL not in ended.text, ended.text)
    must(not {"db", "web"} & set(_running(cloud)), "they were started")
    started = cloud.play_well("maintenance", "-e", f"end={HOST}", "-e", "start=true", live=False)
    must(
        re.search(rf"^db +{HOST} +running .* start \(was shutoff\)$", started.text, re.MULTILINE) is not None,
        started.text,
    )
    _must_be_in_order(cloud, "starting up", {"db": HOST, "web": HOST})
    must(set(_running(cloud)) == set(MACHINES), f"running are {_running(cloud)}")


def _restarts(cloud: Cloud) -> None:
    cloud.on(HOST, "virsh destroy any")
    before = _processes(cloud)
    answer = cloud.play_well("hypervisors", live=False)
    must(answer.recap("changed") == 0, answer.text)
    cloud.on(HOST, f"systemctl restart {UNIT} && systemctl restart {UNIT}-prepare && systemctl restart {DAEMON}")
    cloud.on(HOST, f"systemctl stop {UNIT} && systemctl start {UNIT} && systemctl is-active {UNIT}")
    cloud.on(HOST, "systemctl is-active libvirt-guests && systemctl is-enabled libvirt-guests")
    time.sleep(3)
    must(_processes(cloud) == before, f"{before} have become {_processes(cloud)}")
    cloud.on(HOST, "virsh start any")


def _stops(cloud: Cloud) -> None:
    _wait_for_guests(cloud, dict.fromkeys(MACHINES, HOST))
    _reboot(cloud)
    _must_be_in_order(cloud, "shutting down", dict.fromkeys(reversed(MACHINES), HOST))
    for name in MACHINES:
        line = cloud.on(HOST, f"grep 'shutting down' /var/log/libvirt/qemu/{name}.log | tail -n 1")
        must("reason=shutdown" in line, f"{name} has not shut down by itself: {line}")


def _boots(cloud: Cloud) -> None:
    """After the reboot of the step before."""
    _wait_until_through(cloud)
    _must_be_in_order(cloud, "starting up", dict.fromkeys(MACHINES, HOST))
    must(_seconds_between(cloud, "starting up", "db", "app") >= DELAY, "app has not waited for db's delay")
    must(set(_running(cloud)) == set(MACHINES), f"running are {_running(cloud)}")
    said = cloud.on(HOST, f"journalctl --boot --unit {UNIT} --output cat")
    places = [said.find(f"started {name}") for name in MACHINES]
    must(-1 not in places and places == sorted(places), said)


def _stays_off(cloud: Cloud) -> None:
    cloud.on(HOST, "virsh destroy web")
    cloud.on(HOST, f"systemctl restart {UNIT} && systemctl restart {DAEMON}")
    time.sleep(3)
    must("web" not in _running(cloud), "web was started")


def _without_the_script(cloud: Cloud) -> None:
    folder = f"/etc/systemd/system/{UNIT}.service.d"
    cloud.on(
        HOST, f"mkdir {folder} && printf '[Service]\\nExecStart=\\nExecStart=/bin/false\\n' > {folder}/broken.conf"
    )
    try:
        _reboot(cloud)
        _wait_until_run(cloud)
        cloud.on(HOST, f"test -e {FLAG}-failed && test ! -e {FLAG}")
    finally:
        cloud.on(HOST, f"rm -r {folder} && systemctl daemon-reload")


def _without_order(cloud: Cloud) -> None:
    answer, _result = cloud.init(HOST, machines=[_spec(name, order="none") for name in (*MACHINES, MANUAL)])
    must(answer.status == 0, answer.text)
    cloud.on(HOST, f"virsh destroy {MANUAL}")
    _reboot(cloud)
    _wait_until_run(cloud)
    must(MANUAL not in _running(cloud), f"running are {_running(cloud)}")
    said = cloud.on(HOST, f"journalctl --boot --unit {UNIT} --output cat")
    must("started " not in said, said)


def _option_off(cloud: Cloud) -> None:
    before = _processes(cloud)
    role_well(cloud, "virt_hypervisor", "hypervisors", changes=True, virt_hypervisor_start_order=False)
    for host in cloud.hosts:
        cloud.on(host, f"! systemctl cat {UNIT} 2>/dev/null && test ! -e /usr/local/lib/{UNIT}.py")
        cloud.on(host, "! grep ^ON_BOOT= /etc/default/libvirt-guests")
    role_well(cloud, "virt_hypervisor", "hypervisors", changes=False, virt_hypervisor_start_order=False)
    must(_processes(cloud) == before, f"{before} have become {_processes(cloud)}")
    role_well(cloud, "virt_hypervisor", "hypervisors", changes=True)
    must(_processes(cloud) == before, f"{before} have become {_processes(cloud)}")


def _reboot(cloud: Cloud) -> None:
    """Shut the host down in good order, and boot it: a container that reboots would end all the same."""
    cloud.lab("ssh", HOST, "systemctl poweroff")
    end = time.monotonic() + _SECONDS
    while cloud.lab("ssh", HOST, "true").status == 0:
        must(time.monotonic() < end, "it does not go")
        time.sleep(1)
    answer: Answer | None = None
    for _try in range(_TRIES):
        # While it is still going, this waits, and ends badly.
        answer = cloud.lab("up", "--hosts", str(len(cloud.lab_hosts())))
        if answer.status == 0:
            return
    must(False, answer.text if answer else "")


def _running(cloud: Cloud) -> list[str]:
    return cloud.on(HOST, "virsh list --name").split()


def _processes(cloud: Cloud) -> dict[str, str]:
    """Who runs on the host, and as which process."""
    return {name: cloud.on(HOST, f"cat /run/libvirt/qemu/{name}.pid").strip() for name in _running(cloud)}


def _wait_until_through(cloud: Cloud) -> None:
    cloud.on(HOST, f"for i in $(seq {_SECONDS}); do test -e {FLAG} || exit 0; sleep 1; done; exit 1")


def _wait_until_run(cloud: Cloud) -> None:
    end = time.monotonic() + _SECONDS
    while not set(MACHINES) <= set(_running(cloud)):
        must(time.monotonic() < end, f"running are {_running(cloud)}")
        time.sleep(1)


def _wait_for_guests(cloud: Cloud, homes: dict[str, str]) -> None:
    """Until they are up: one that still boots does not hear of the power button."""
    for name, host in homes.items():
        seen = f"grep -q 'tiny guest is up' /var/log/libvirt/qemu/{name}-serial.log"
        cloud.on(host, f"for i in $(seq {_SECONDS}); do {seen} && exit; sleep 1; done; exit 1")


def _time(cloud: Cloud, what: str, name: str, host: str = HOST) -> datetime:
    """When it did so last: `2026-11-22 10:46:53.123+0000: starting up libvirt version ...`."""
    text = cloud.on(host, f"grep ': {what}' /var/log/libvirt/qemu/{name}.log | tail -n 1")
    return datetime.strptime(text.partition(f": {what}")[0].strip(), "%Y-%m-%d %H:%M:%S.%f%z")


def _seconds_between(cloud: Cloud, what: str, first: str, second: str) -> float:
    return (_time(cloud, what, second) - _time(cloud, what, first)).total_seconds()


def _must_be_in_order(cloud: Cloud, what: str, homes: dict[str, str]) -> None:
    """homes: the machines in the order that is to be seen, each with its host."""
    times = {name: _time(cloud, what, name, host) for name, host in homes.items()}
    must(list(times.values()) == sorted(times.values()), f"{what}: {times}")
