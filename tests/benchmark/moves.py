# SPDX-License-Identifier: GPL-3.0-or-later
"""How long virt_migrate takes beside ``virsh migrate`` with the same flags, for a running Debian guest.

Both run on the hypervisor that the machine leaves, and the clock runs there. For virsh it runs during the one command:
the volumes that it needs on the other side are made, and those that it leaves are deleted, while no clock runs. For
virt_migrate it runs from the start of its process to the end, with all checks, volumes and clearing up.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import typing as t
from collections.abc import Mapping, Sequence

from ..scenario.cloud import Cloud, must
from ..scenario.moving import address, forget, has_moved, home, volumes

NAME = "bench-mover"
HOSTS = ("hv1", "hv2")
PLACE = "/root/brine-benchmark-moves"
MACHINE: dict[str, t.Any] = {
    "name": NAME,
    "vcpus": 1,
    "memory": 512,
    "image": "debian",
    "disks": [{"name": "system", "size": 3072}, {"name": "data", "size": 512}],
}
# Those of virt_migrate.
FLAGS = (
    "--live --p2p --persistent --undefinesource --tls --auto-converge --copy-storage-inc --abort-on-error"
    " --copy-storage-synchronous-writes"
)
BOOT_SECONDS = 400
LIMIT = 1.25


class Moves:
    """One machine that moves back and forth between two hosts."""

    def __init__(self, cloud: Cloud, rounds: int) -> None:
        self._cloud = cloud
        self._rounds = rounds
        self._seconds: dict[str, list[float]] = {"virsh": [], "virt_migrate": []}
        self._programs: dict[str, str] = {}

    def prepare(self) -> None:
        """Two hypervisors, the image on both, and a guest that has come to rest."""
        cloud = self._cloud
        cloud.install()
        cloud.lab_well("up")
        cloud.use()
        cloud.play_well("hypervisors", live=False)
        spec = json.dumps({"name": "debian", "src": cloud.images["debian"]})
        answer = cloud.ansible(",".join(HOSTS), "brine.virt.virt_image", spec)
        must(answer.status == 0, answer.text)
        answer, _result = cloud.init(HOSTS[0], **MACHINE)
        must(answer.status == 0, answer.text)
        address(cloud, HOSTS[0], NAME)
        log = re.search(r"<log file='([^']+)'", cloud.on(HOSTS[0], f"virsh dumpxml {NAME}"))
        must(log is not None, "the machine has no log of its console")
        path = log.group(1) if log else ""
        cloud.on(HOSTS[0], f"timeout {BOOT_SECONDS} sh -c 'until grep -q login: {path}; do sleep 2; done'; sleep 10")

    def clear(self) -> None:
        """Take the machine away."""
        forget(self._cloud, NAME)
        for host in HOSTS:
            self._cloud.on(host, f"rm -rf {PLACE}")

    def run(self) -> dict[str, list[float]]:
        """All seconds, by what they were taken for. Each way goes as often there as back."""
        # Not counted: warms caches, and leaves the module's program on both hosts.
        for source in HOSTS:
            self._program(source)
        # An even number: each way as often there as back.
        rounds = self._rounds + self._rounds % 2
        for number in range(rounds):
            print(f"   round {number + 1} of {rounds}", flush=True)
            ways = (self._by_virsh, self._by_module)
            for way, source in zip(ways if number % 2 else ways[::-1], HOSTS, strict=True):
                way(source, _other(source))
        return self._seconds

    def _program(self, source: str) -> None:
        """Move it by Ansible, which leaves the program that it sent."""
        words = json.dumps({"name": NAME, "target": _other(source)})
        command = [str(self._cloud.bin / "ansible"), *self._cloud.sources(live=False), source]
        kept = {"ANSIBLE_KEEP_REMOTE_FILES": "1", "ANSIBLE_PIPELINING": "0", "ANSIBLE_REMOTE_TMP": PLACE}
        done = subprocess.run(
            [*command, "-m", "brine.virt.virt_migrate", "-a", words],
            cwd=self._cloud.root,
            env={**self._cloud.environment, **kept},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        must(done.returncode == 0, done.stdout + done.stderr)
        path = self._cloud.on(source, f"ls -d {PLACE}/*/AnsiballZ_virt_migrate.py").split()[-1]
        interpreter = self._cloud.on(source, f"head -n 1 {path}").strip().removeprefix("#!")
        self._programs[source] = f"{interpreter} {path}"

    def _by_module(self, source: str, target: str) -> None:
        had = volumes(self._cloud, source, NAME)
        self._seconds["virt_migrate"].append(self._clock(source, self._programs[source]))
        has_moved(self._cloud, NAME, source, target, had)

    def _by_virsh(self, source: str, target: str) -> None:
        had, disks = self._make_volumes(source, target)
        where = self._address(target)
        self._seconds["virsh"].append(
            self._clock(
                source,
                f"virsh migrate {FLAGS} --migrate-disks {','.join(disks)} --migrateuri tcp://{where}"
                f" {NAME} qemu+tls://{where}/system",
            )
        )
        names = " ".join(sorted(had))
        self._cloud.on(source, f"for v in {names}; do virsh vol-delete $v default; done")
        has_moved(self._cloud, NAME, source, target, had)

    def _make_volumes(self, source: str, target: str) -> tuple[set[str], list[str]]:
        """What virsh needs on the target. Gives the names of all volumes, and the devices that QEMU is to copy."""
        disks = []
        listing = self._cloud.on(source, f"virsh domblklist {NAME} --details")
        for line in listing.splitlines():
            words = line.split()
            if words[:2] != ["file", "disk"]:
                continue
            device, path = words[2], words[3]
            if path.endswith(".iso"):
                content = self._cloud.on(source, f"base64 -w 0 {path}").strip()
                lab = str(self._cloud.root / "tests/lab/lab")
                answer = self._cloud.run(lab, "ssh", target, f"base64 -d > {path}", stdin=content)
                must(answer.status == 0, answer.text)
                continue
            disks.append(device)
            info = json.loads(self._cloud.on(source, f"qemu-img info -U --output json {path}"))
            backing = info.get("full-backing-filename")
            under = f"-b {backing} -F {info['backing-filename-format']}" if backing else ""
            self._cloud.on(target, f"qemu-img create -q -f {info['format']} {under} {path} {info['virtual-size']}")
        self._cloud.on(target, "virsh pool-refresh default")
        return volumes(self._cloud, source, NAME), disks

    def _clock(self, host: str, command: str) -> float:
        """The seconds that a command takes on a host, by the host's clock."""
        output = self._cloud.on(
            host,
            f"s=$(date +%s%N); {command} > {PLACE}/said 2>&1; r=$?; e=$(date +%s%N);"
            f" [ $r = 0 ] || {{ cat {PLACE}/said; exit $r; }}; echo nanoseconds $((e - s))",
        )
        return int(output.split()[-1]) / 1e9

    def _address(self, host: str) -> str:
        text = (self._cloud.inventory / "hosts.yml").read_text(encoding="utf-8")
        found = re.search(rf"^    {host}:\n      ansible_host: (\S+)$", text, re.MULTILINE)
        must(found is not None, f"the inventory has no address of {host}")
        return found.group(1) if found else ""


def table(seconds: Mapping[str, Sequence[float]]) -> str:
    """Medians, their ratio, and what it should be."""
    median = {way: statistics.median(samples) for way, samples in seconds.items()}
    ratio = median["virt_migrate"] / median["virsh"]
    lines = [
        f"{way:14}{median[way]:8.2f} s   {min(samples):.2f} to {max(samples):.2f} s in {len(samples)} runs"
        for way, samples in seconds.items()
    ]
    verdict = "met" if ratio <= LIMIT else "NOT MET"
    return "\n".join(
        [*lines, "", f"{verdict}: virt_migrate takes {ratio:.2f} times virsh migrate, the limit is {LIMIT}"]
    )


def _other(host: str) -> str:
    return HOSTS[1 - HOSTS.index(host)]


def measure(cloud: Cloud, rounds: int) -> dict[str, list[float]]:
    """Prepare, measure, take away; and print the table."""
    moves = Moves(cloud, rounds)
    try:
        moves.prepare()
        must(home(cloud, NAME) == HOSTS[0], "the machine is not where it was made")
        seconds = moves.run()
    finally:
        moves.clear()
    print(f"\nA running Debian guest, 512 MiB of memory, two disks:\n\n{table(seconds)}", flush=True)
    return seconds
