# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings up one host of the lab, makes it a hypervisor as a user would, measures on it, and prints the table.

The clock runs on the host, around the very program that Ansible sends there, so that SSH is not in it; how long the
whole task takes is shown beside. A limit that is missed is said, and is no failure: how fast this machine is today is
not the collection's doing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from ..scenario.cloud import FLEET, Cloud, Failure, must
from . import first_login, moves, provisions
from .table import table

HOST = "hv1"
# Where Ansible leaves what it sends, and the measuring program is put.
PLACE = "/root/brine-benchmark"
MEMORY_MIB = 128
SIZE_MIB = 512
TASKS = ("empty", "overlays", "seeded")
TASK_ROUNDS = 3


class Benchmark:
    """The benchmark in the lab of this checkout."""

    def __init__(self, cloud: Cloud, machines: int, rounds: int) -> None:
        self._cloud = cloud
        self._rounds = rounds
        self.names = [f"bench{number:02}" for number in range(1, machines + 1)]

    def prepare(self) -> None:
        """A hypervisor with the image, and the peer beside."""
        say("the collection, built and installed from its tarball")
        self._cloud.install()
        say("one bare host (the lab)")
        self._cloud.lab_well("up", "--hosts", "1")
        self._cloud.use(FLEET[:1])
        say("the host becomes a hypervisor")
        self._cloud.play_well("hypervisors", "--limit", HOST, live=False)
        say("the image and virt-install are brought there")
        self._cloud.on(HOST, "DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends virtinst")
        text = self._cloud.lab_well("images", "tiny")
        image = json.loads(text[text.index("{") :])["tiny"]
        arguments = json.dumps({"name": "tiny", "src": image["path"]})
        answer = self._cloud.ansible(HOST, "brine.virt.virt_image", arguments)
        must(answer.status == 0, answer.text)

    def task(self, name: str) -> dict[str, t.Any]:
        """The options of virt_init for one of TASKS."""
        if name == "empty":
            return {"machines": []}
        spec = {
            "vcpus": 1,
            "memory": MEMORY_MIB,
            "image": "tiny",
            "disks": [{"name": "system", "size": SIZE_MIB}],
            "start": False,
            **({} if name == "seeded" else {"seed": {"method": "none"}}),
        }
        return {"machines": [{"name": machine, **spec} for machine in self.names]}

    def whole_task(self, name: str) -> float:
        """The seconds that the command line waits for a task. Ansible leaves the program that it sent on the host."""
        command = [str(self._cloud.bin / "ansible"), *self._cloud.sources(live=False), HOST]
        command += ["-m", "brine.virt.virt_init", "-a", json.dumps(self.task(name))]
        kept = {"ANSIBLE_KEEP_REMOTE_FILES": "1", "ANSIBLE_PIPELINING": "0", "ANSIBLE_REMOTE_TMP": f"{PLACE}/{name}"}
        began = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=self._cloud.root,
            env={**self._cloud.environment, **kept},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - began
        must(done.returncode == 0, done.stdout + done.stderr)
        return seconds

    def clear(self) -> None:
        """Take away the benchmark's machines and volumes."""
        names = " ".join(self.names)
        self._cloud.on(
            HOST,
            f"for name in {names}; do virsh -q undefine $name 2>/dev/null || :; done; virsh -q pool-refresh default;"
            " for volume in $(virsh -q vol-list default | awk '{print $1}' | grep '^bench'); do"
            " virsh -q vol-delete $volume default; done",
        )

    def run(self) -> dict[str, list[float]]:
        """All seconds, by what they were taken for."""
        self._cloud.on(HOST, f"rm -rf {PLACE}")
        self.clear()
        whole: dict[str, list[float]] = {"task": [], "again task": [], "empty task": []}
        say("whole tasks, from the controller")
        self.whole_task("seeded")  # for the program alone; warms the caches too
        self.clear()
        for _round in range(TASK_ROUNDS):
            whole["empty task"].append(self.whole_task("empty"))
            whole["task"].append(self.whole_task("overlays"))
            whole["again task"].append(self.whole_task("overlays"))
            self.clear()
        say(f"{self._rounds} rounds on the host itself")
        return {**self._on_the_host(), **whole}

    def _on_the_host(self) -> dict[str, list[float]]:
        programs = {
            name: self._cloud.on(HOST, f"ls -d {PLACE}/{name}/*/AnsiballZ_virt_init.py | head -n 1").split()[-1]
            for name in TASKS
        }
        interpreter = self._cloud.on(HOST, f"head -n 1 {programs['empty']}").strip().splitlines()[-1][2:]
        place = self._cloud.on(HOST, "virsh pool-dumpxml default | sed -n 's:.*<path>\\(.*\\)</path>.*:\\1:p'")
        store = self._cloud.on(HOST, "virsh pool-dumpxml images | sed -n 's:.*<path>\\(.*\\)</path>.*:\\1:p'")
        image = self._cloud.on(HOST, f"ls {store.strip()} | grep '^tiny-'").split()[-1]
        plan = {
            "uri": "qemu:///system",
            "python": interpreter,
            "programs": programs,
            "names": self.names,
            "memory_mib": MEMORY_MIB,
            "size_mib": SIZE_MIB,
            "network": "bridge=br0,model=virtio",
            "pool": "default",
            "pool_path": place.strip(),
            "image_path": f"{store.strip()}/{image}",
            "image_format": image.rpartition(".")[2],
            "rounds": self._rounds,
        }
        source = (Path(__file__).parent / "rounds.py").read_bytes()
        lab = str(self._cloud.root / "tests/lab/lab")
        written = self._cloud.run(lab, "ssh", HOST, f"cat >{PLACE}/rounds.py", stdin=source)
        must(written.status == 0, written.text)
        done = subprocess.run(
            [lab, "ssh", HOST, f"python3 {PLACE}/rounds.py"],
            cwd=self._cloud.root,
            input=json.dumps(plan).encode(),
            stdout=subprocess.PIPE,
            check=False,
        )
        must(done.returncode == 0, "the rounds on the host did not end well; what they said stands above")
        return dict(json.loads(done.stdout.decode().strip().splitlines()[-1]))


def say(text: str) -> None:
    """Say what comes now."""
    print(f"== {text}", flush=True)


def main() -> int:
    """Run what the command line says. Returns the exit status: 1 when something could not be measured."""
    parser = argparse.ArgumentParser(prog="tests/benchmark/run", description=__doc__)
    parser.add_argument("--machines", type=int, default=20, help="how many in one task (default 20)")
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is measured (default 5)")
    parser.add_argument("--moves", action="store_true", help="measure moves of a machine instead, with two hosts")
    parser.add_argument("--first-login", action="store_true", help="measure how soon a new machine answers instead")
    parser.add_argument("--provisions", action="store_true", help="measure the playbook with many machines instead")
    words = parser.parse_args()
    cloud = Cloud(Path(__file__).resolve().parents[2])
    was_up = cloud.lab("status").status == 0
    if words.moves:
        return _other("moves", moves.measure, cloud, words.rounds, was_up)
    if words.first_login:
        return _other("first-login", first_login.measure, cloud, words.rounds, was_up)
    if words.provisions:
        return _other("provisions", provisions.measure, cloud, words.rounds, was_up)
    benchmark = Benchmark(cloud, words.machines, words.rounds)
    try:
        benchmark.prepare()
        seconds = benchmark.run()
        benchmark.clear()
    except Failure as exc:
        print(f"FAILED: {exc}", file=sys.stderr)
        return 1
    finally:
        if not was_up and os.environ.get("KEEP_LAB") != "1":
            cloud.lab("down")
    (cloud.build / "benchmark.json").write_text(json.dumps(seconds, indent=1), encoding="utf-8")
    print(f"\n{words.machines} machines, each with an overlay of {SIZE_MIB} MiB, defined and not started:\n")
    print(f"{table(seconds, words.machines)}\n\nAll seconds: .build/benchmark.json", flush=True)
    return 0


def _other(
    name: str, measure: t.Callable[[Cloud, int], dict[str, list[float]]], cloud: Cloud, rounds: int, was_up: bool
) -> int:
    try:
        seconds = measure(cloud, rounds)
    except Failure as exc:
        print(f"FAILED: {exc}", file=sys.stderr)
        return 1
    finally:
        if not was_up and os.environ.get("KEEP_LAB") != "1":
            cloud.lab("down")
    (cloud.build / f"benchmark-{name}.json").write_text(json.dumps(seconds, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
