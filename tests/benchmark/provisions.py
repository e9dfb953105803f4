# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the playbook `provision` takes for many machines that are not started, and again when nothing is to be done.

Beside it stand `qemu-img create` and `virsh define` for one machine after the other, with the same disks and the same
XML: in one loop, which the limit is for, and in a loop on each hypervisor at the same time, which is the floor.
Everything is timed on the controller, so that SSH and Ansible's own work are in it; the removal between the rounds is
not.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
import typing as t
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..scenario.cloud import FLEET, Cloud, must

PLACE = "/root/brine-benchmark-provisions"
IMAGES = "/var/lib/libvirt/images"
STORE = "/var/lib/libvirt/virt-images"
MACHINES = 100
AGAIN = 50
LIMIT = 3.0
SPEC: dict[str, t.Any] = {
    "vcpus": 1,
    "memory": 32,
    "image": "tiny",
    "disks": [{"name": "system", "size": 512}],
    "start": False,
    "seed": {"method": "none"},
}


class Provisions:
    """Machines on two hypervisors, made and removed again and again."""

    def __init__(self, cloud: Cloud, rounds: int) -> None:
        self._cloud = cloud
        # An even number: each way comes as often before another one as after it.
        self._rounds = rounds + rounds % 2
        self._names = {f"bench{number:03}": FLEET[number % len(FLEET)] for number in range(MACHINES)}
        self.tasks = 0

    def prepare(self) -> None:
        """Two hypervisors with the image, and the XML of all machines on each."""
        cloud = self._cloud
        cloud.install()
        cloud.lab_well("up")
        cloud.use()
        cloud.play_well("hypervisors", live=False)
        self.clear()
        for count in (MACHINES, AGAIN):
            self._file(count).write_text(json.dumps(self._variables(count)), encoding="utf-8")
        self._provision(MACHINES)
        for host in FLEET:
            dump = f"for m in {self._on(host)}; do virsh dumpxml --inactive $m > {PLACE}/$m.xml; done"
            self._cloud.on(host, f"mkdir -p {PLACE}; {dump}")
        self.remove()

    def clear(self) -> None:
        """Take away everything that was made here."""
        self.remove()
        for host in FLEET:
            self._cloud.on(host, f"rm -rf {PLACE}")

    def remove(self) -> None:
        """Take away the machines and their volumes."""
        for host in FLEET:
            self._cloud.on(
                host,
                f"for m in {self._on(host)}; do virsh -q undefine $m 2>/dev/null || :; done;"
                f" rm -f {IMAGES}/bench*; virsh -q pool-refresh default",
            )

    def run(self) -> dict[str, list[float]]:
        """All seconds, by what they were taken for."""
        seconds: dict[str, list[float]] = {"loop": [], "loops": [], "provision": [], "again": []}
        ways: dict[str, t.Callable[[], t.Any]] = {
            "loop": self._loop,
            "loops": lambda: self._tools(FLEET),
            "provision": lambda: self._provision(MACHINES),
        }
        for number in range(self._rounds):
            print(f"   round {number + 1} of {self._rounds}", flush=True)
            for way in list(ways) if number % 2 else reversed(ways):
                seconds[way].append(_clock(ways[way]))
                self._check()
                if way == "provision":
                    seconds["again"].append(_clock(self._again))
                self.remove()
        return seconds

    def _on(self, host: str) -> str:
        return " ".join(name for name, home in self._names.items() if home == host)

    def _file(self, count: int) -> Path:
        return self._cloud.build / f"benchmark-vms-{count}.json"

    def _variables(self, count: int) -> dict[str, t.Any]:
        machines = [{"name": name, "hypervisor": host, **SPEC} for name, host in list(self._names.items())[:count]]
        return {
            "virt_images": {"tiny": {"src": self._cloud.images["tiny"]}},
            "virt_vms": machines,
            "virt_memory_reserve_mib": 0,
            "virt_vcpu_ratio": MACHINES,
        }

    def _provision(self, count: int) -> str:
        return self._cloud.play_well("provision", "-e", f"@{self._file(count)}").text

    def _again(self) -> None:
        text = self._provision(AGAIN)
        self.tasks = text.count("\nTASK [")
        must(" changed=0 " in text and " changed=1 " not in text, f"the second run has changed something:\n{text}")

    def _loop(self) -> None:
        for host in FLEET:
            self._tools([host])

    def _tools(self, hosts: Sequence[str]) -> None:
        """The two programs that nobody can do without, for each machine of these hosts, on all of them at once."""
        lab = str(self._cloud.root / "tests/lab/lab")
        running = []
        for host in hosts:
            create = f"qemu-img create -q -f qcow2 -b $image -F qcow2 {IMAGES}/$m-system.qcow2 512M"
            script = (
                f"set -e; image=$(ls {STORE}/tiny-*.qcow2);"
                f" for m in {self._on(host)}; do {create}; virsh -q define {PLACE}/$m.xml >/dev/null; done"
            )
            running.append(subprocess.Popen([lab, "ssh", host, script], stdin=subprocess.DEVNULL, cwd=self._cloud.root))
        must(all(process.wait() == 0 for process in running), "the bare tools failed; what they said stands above")

    def _check(self) -> None:
        for host in FLEET:
            defined = self._cloud.on(host, "virsh list --all --name --state-shutoff").split()
            missing = [name for name in self._on(host).split() if name not in defined]
            must(not missing, f"not made: {missing}")


def _clock(work: t.Callable[[], t.Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def table(seconds: Mapping[str, Sequence[float]], tasks: int) -> str:
    """Medians, their ratio, and what it should be."""
    median = {way: statistics.median(samples) for way, samples in seconds.items()}
    words = {
        "loop": f"qemu-img create, virsh define: {MACHINES} machines",
        "loops": "the same in a loop on each hypervisor at once",
        "provision": f"the playbook provision: {MACHINES} machines",
        "again": f"provision of {AGAIN} machines again",
    }
    lines = [
        f"{text:48}{median[way]:8.2f} s   {min(seconds[way]):.2f} to {max(seconds[way]):.2f} s"
        f" in {len(seconds[way])} runs"
        for way, text in words.items()
    ]
    ratio, floor = (median["provision"] / median[way] for way in ("loop", "loops"))
    verdict = "met" if ratio <= LIMIT else "NOT MET"
    return "\n".join(
        [
            *lines,
            "",
            f"{verdict}: provision takes {ratio:.2f} times the bare tools in a loop, the limit is {LIMIT:g}",
            f"it takes {floor:.2f} times the loops on both hypervisors at once",
            f"a second run prints {tasks} tasks",
        ]
    )


def measure(cloud: Cloud, rounds: int) -> dict[str, list[float]]:
    """Prepare, measure, take away; and print the table."""
    provisions = Provisions(cloud, rounds)
    try:
        provisions.prepare()
        seconds = provisions.run()
    finally:
        provisions.clear()
    print(
        f"\nMachines on two hypervisors, each with an overlay, not started:\n\n{table(seconds, provisions.tasks)}",
        flush=True,
    )
    return seconds
