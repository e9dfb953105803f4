# SPDX-License-Identifier: GPL-3.0-or-later
"""How soon after its start a new Debian guest answers: to the playbook provision, and to SSH alone.

Both boot the same disk and seed for the first time: they are put back between the runs. The clock starts with QEMU. For
provision it ends when the playbook does, which has waited for the machine and pinged it; beside it stands the floor:
`virsh start`, and an SSH login that is tried over and over.
"""

from __future__ import annotations

import json
import statistics
import time
import typing as t
from collections.abc import Mapping, Sequence

from ..scenario.cloud import FLEET, Cloud, must
from ..scenario.moving import address, forget, ssh

NAME = "bench-login"
HOST = FLEET[0]
PLACE = "/root/brine-benchmark-login"
IMAGES = "/var/lib/libvirt/images"
MACHINE: dict[str, t.Any] = {
    "name": NAME,
    "hypervisor": HOST,
    "vcpus": 1,
    "memory": 512,
    "image": "debian",
    "disks": [{"name": "system", "size": 3072}],
}
BOOT_SECONDS = 400
WAYS = ("ssh", "provision")


class FirstLogin:
    """One machine that boots again and again for the first time."""

    def __init__(self, cloud: Cloud, rounds: int) -> None:
        self._cloud = cloud
        # An even number: each way comes first as often as second.
        self._rounds = rounds + rounds % 2
        self._login: list[str] = []

    def prepare(self) -> None:
        """A hypervisor with the machine, which is off and has never run."""
        cloud = self._cloud
        cloud.install()
        cloud.lab_well("up", "--hosts", "1")
        cloud.use(FLEET[:1])
        cloud.play_well("hypervisors", live=False)
        self.clear()
        self._provision(start=False)
        cloud.on(HOST, f"mkdir -p {PLACE}; cp -a --sparse=always {IMAGES}/{NAME}-* {PLACE}")

    def clear(self) -> None:
        """Take the machine away."""
        forget(self._cloud, NAME)
        self._cloud.on(HOST, f"rm -rf {PLACE}")

    def run(self) -> dict[str, list[float]]:
        """The seconds of each way."""
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        # Not counted: fills caches, and the inventory learns what it shows of a machine that runs.
        self._provision(start=True)
        self._login = ssh(self._cloud, NAME)
        for number in range(self._rounds):
            print(f"   round {number + 1} of {self._rounds}", flush=True)
            for way in WAYS if number % 2 else WAYS[::-1]:
                self._put_back()
                if way == "ssh":
                    self._log_in()
                else:
                    self._provision(start=True)
                seconds[way].append(time.time() - self._started())
        return seconds

    def _put_back(self) -> None:
        self._cloud.on(HOST, f"virsh destroy {NAME}; cp -a --sparse=always {PLACE}/* {IMAGES}")

    def _provision(self, *, start: bool) -> None:
        variables = {
            "virt_images": {"debian": {"src": self._cloud.images["debian"]}},
            "virt_vms": [{**MACHINE, "start": start}],
            "virt_provision_timeout": BOOT_SECONDS,
        }
        self._cloud.play_well("provision", "-e", json.dumps(variables))

    def _log_in(self) -> None:
        self._cloud.on(HOST, f"virsh start {NAME}")
        end = time.monotonic() + BOOT_SECONDS
        while self._cloud.run(*self._login_now(), "true").status != 0:
            must(time.monotonic() < end, f"{NAME} answers no SSH at {address(self._cloud, HOST, NAME)}")
            time.sleep(0.2)

    def _login_now(self) -> list[str]:
        """The command that logs in where the machine is now: with a new disk it gets another address."""
        program, *words, who = self._login
        user = who.partition("@")[0]
        return [program, "-o", "ConnectTimeout=1", *words, f"{user}@{address(self._cloud, HOST, NAME)}"]

    def _started(self) -> float:
        """When QEMU was started, in seconds since the epoch: the lab's hosts have this machine's clock."""
        return float(self._cloud.on(HOST, f"stat -c %.3Y /run/libvirt/qemu/{NAME}.pid"))


def table(seconds: Mapping[str, Sequence[float]]) -> str:
    """Medians, and their ratio."""
    median = {way: statistics.median(samples) for way, samples in seconds.items()}
    lines = [
        f"{way:14}{median[way]:8.1f} s   {min(samples):.1f} to {max(samples):.1f} s in {len(samples)} runs"
        for way, samples in seconds.items()
    ]
    ratio = median["provision"] / median["ssh"]
    return "\n".join([*lines, "", f"provision ends {ratio:.2f} times as late as the first login by SSH alone"])


def measure(cloud: Cloud, rounds: int) -> dict[str, list[float]]:
    """Prepare, measure, take away; and print the table."""
    logins = FirstLogin(cloud, rounds)
    try:
        logins.prepare()
        seconds = logins.run()
    finally:
        logins.clear()
    print(f"\nA new Debian guest, 512 MiB of memory, from its start to its answer:\n\n{table(seconds)}", flush=True)
    return seconds
