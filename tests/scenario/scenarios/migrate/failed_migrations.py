# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine is on its way to another hypervisor, and something goes wrong: it runs on where it was."""

from __future__ import annotations

import re
import time
import typing as t

from ...cloud import Cloud, must
from ...expired_certificates import expired
from ...moving import Life, forget, has_moved, home, life, migrate, on_its_way, result_of, rolled_back, volumes
from ...needs import TINY
from ...runner import ScenarioRun
from ...trouble import cut, daemon_stopped, filled, small_pool

NEEDS = ("hypervisors", "tiny", "mover")
NAME = "mover"
GIVE_UP_SECONDS = 300
# The module's own process, not the one that works on when this one is killed.
MODULE = "'^/usr/bin/python3 .*AnsiballZ_virt_migrate'"
LARGE: dict[str, t.Any] = {
    **TINY,
    "name": "large",
    "disks": [*TINY["disks"], {"name": "data", "size": 96, "format": "raw", "pool": "small"}],
}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    here, there = cloud.hosts
    scenario.step(f"{NAME} runs on {here}", lambda: _begins(cloud, here))
    scenario.step("it takes too long: it stays, and nothing is left on the target", lambda: _limit(cloud, here, there))
    scenario.step("Ctrl-C: the same", lambda: _interrupted(cloud, here, there))
    scenario.step("the module is killed: the same", lambda: _killed(cloud, here, there))
    scenario.step("it is killed with all its processes: the next run finishes", lambda: _all_killed(cloud))
    scenario.step("the disk over there gets full: it stays, nothing is left", lambda: _full(cloud, here, there))
    scenario.step(
        "a certificate over there has expired: it stays, nothing is left", lambda: _expired(cloud, here, there)
    )
    scenario.step(
        "libvirt over there ends: it stays, and the next run moves it", lambda: _no_daemon(cloud, here, there)
    )
    scenario.step("the network breaks: it stays, and the next run moves it", lambda: _no_network(cloud, here, there))


def _begins(cloud: Cloud, here: str) -> None:
    must(life(cloud, NAME).host == here, f"it is on {home(cloud, NAME)}")


def _states(cloud: Cloud, here: str, there: str) -> tuple[str, ...]:
    return cloud.states(here, there)


def _limit(cloud: Cloud, here: str, there: str) -> None:
    alive, before = life(cloud, NAME), _states(cloud, here, there)
    answer, result = migrate(cloud, here, name=NAME, target=there, bandwidth=1, timeout=6)
    must(answer.status != 0 and f"{NAME} was not moved" in result["msg"], answer.text)
    must("it did not finish within 6 s" in result["msg"], answer.text)
    must(_states(cloud, here, there) == before, "something is left, or has changed")
    alive.goes_on(cloud)


def _interrupted(cloud: Cloud, here: str, there: str) -> None:
    alive, before = life(cloud, NAME), _states(cloud, here, there)
    with on_its_way(cloud, NAME, there) as move:
        move.interrupt()
        answer = move.end()
        must(answer.status != 0, answer.text)
    rolled_back(cloud, here, there, before)
    alive.goes_on(cloud)


def _killed(cloud: Cloud, here: str, there: str) -> None:
    alive, before = life(cloud, NAME), _states(cloud, here, there)
    with on_its_way(cloud, NAME, there) as move:
        cloud.on(here, f"kill -KILL $(pgrep --oldest -f {MODULE})")
        answer = move.end()
        must(answer.status != 0, answer.text)
    rolled_back(cloud, here, there, before)
    alive.goes_on(cloud)


def _all_killed(cloud: Cloud) -> None:
    here, there = cloud.hosts
    alive, before, had = life(cloud, NAME), _states(cloud, here, there), volumes(cloud, here, NAME)
    with on_its_way(cloud, NAME, there) as move:
        cloud.on(here, f"pkill -KILL -f {MODULE}")
        answer = move.end()
        must(answer.status != 0, answer.text)
        # libvirt does its part of it with nobody waiting, and may be told to let it be.
        cloud.on(
            here,
            f"virsh domjobabort {NAME}; for i in $(seq 50); do virsh domjobinfo {NAME} | grep -q None && break; done",
        )
    alive.goes_on(cloud)
    _there_and_back(cloud, here, there, had, before)


def _there_and_back(cloud: Cloud, here: str, there: str, had: set[str], before: tuple[str, ...]) -> None:
    """The next run removes what the last one left on the target, and moves the machine; then it comes home."""
    answer, result = migrate(cloud, here, name=NAME, target=there)
    must(answer.status == 0 and result["changed"], answer.text)
    has_moved(cloud, NAME, here, there, had)
    answer, _result = migrate(cloud, there, name=NAME, target=here)
    must(answer.status == 0, answer.text)
    has_moved(cloud, NAME, there, here, had)
    must(_states(cloud, here, there)[1] == before[1], f"something is left on {there}")


def _full(cloud: Cloud, here: str, there: str) -> None:
    with small_pool(cloud, here, "small", 128) as directory, small_pool(cloud, there, "small", 128):
        try:
            answer, _result = cloud.init(here, **LARGE)
            must(answer.status == 0, answer.text)
            cloud.on(here, f"dd if=/dev/urandom of={directory}/large-data.raw bs=1M count=64 conv=notrunc status=none")
            alive, before = life(cloud, "large"), _states(cloud, here, there)
            with on_its_way(cloud, "large", there, bandwidth=4) as move, filled(cloud, there, directory):
                answer = move.end()
                must(answer.status != 0, answer.text)
                must("large was not moved" in result_of(answer)["msg"], answer.text)
            rolled_back(cloud, here, there, before)
            alive.goes_on(cloud)
        finally:
            forget(cloud, "large")


def _expired(cloud: Cloud, here: str, there: str) -> None:
    """QEMU's own, for what it is sent."""
    alive, before = life(cloud, NAME), _states(cloud, here, there)
    with expired(cloud, there, "/etc/pki/qemu/server-cert.pem", "/etc/pki/qemu/server-key.pem"):
        answer, result = migrate(cloud, here, name=NAME, target=there)
        must(answer.status != 0 and re.search("expired|ended", result["msg"]) is not None, answer.text)
    rolled_back(cloud, here, there, before)
    alive.goes_on(cloud)


def _no_daemon(cloud: Cloud, here: str, there: str) -> None:
    alive, before, had = life(cloud, NAME), _states(cloud, here, there), volumes(cloud, here, NAME)
    with on_its_way(cloud, NAME, there) as move, daemon_stopped(cloud, there):
        _stays(cloud, alive, move.end().text)
    alive.goes_on(cloud)
    _there_and_back(cloud, here, there, had, before)


def _no_network(cloud: Cloud, here: str, there: str) -> None:
    alive, before, had = life(cloud, NAME), _states(cloud, here, there), volumes(cloud, here, NAME)
    with on_its_way(cloud, NAME, there) as move, cut(cloud, here, there):
        began = time.monotonic()
        _stays(cloud, alive, move.end().text)
        # TCP alone would take a quarter of an hour to give up, and the guest's writing with it.
        must(time.monotonic() - began < GIVE_UP_SECONDS, f"it took {time.monotonic() - began:.0f} s")
    alive.goes_on(cloud)
    _there_and_back(cloud, here, there, had, before)


def _stays(cloud: Cloud, alive: Life, said: str) -> None:
    must("FAILED" in said and NAME in said and "Traceback" not in said, said)
    must(alive.pid == cloud.on(alive.host, f"cat /run/libvirt/qemu/{NAME}.pid").strip(), "it does not run any more")
    state = cloud.on(alive.host, f"virsh domstate {NAME}").strip()
    must(state == "running", f"it is {state}, and this was said: {said}")
