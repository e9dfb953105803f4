# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the hypervisor itself: every way to make the same machines, several times, one way after the other.

Standard input says what to make (see Plan), standard output has the seconds of every run. Needs nothing but Python 3.9,
virsh, qemu-img and virt-install. What is created is checked and removed between the runs, and no clock runs for that.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


class Plan:
    """What to make and with what.

    uri: libvirt's; python: the interpreter that Ansible runs modules with; programs: the module as Ansible sent it, one
    for each task (``empty``: no machine; ``overlays``: all of them; ``seeded``: all of them, each with a seed);
    names, memory_mib, size_mib, network: of the machines; pool, pool_path, image_path, image_format: of their disks.
    """

    def __init__(self, words: dict[str, Any]) -> None:
        self.uri: str = words["uri"]
        self.python: str = words["python"]
        self.programs: dict[str, str] = words["programs"]
        self.names: list[str] = words["names"]
        self.memory_mib: int = words["memory_mib"]
        self.size_mib: int = words["size_mib"]
        self.network: str = words["network"]
        self.pool: str = words["pool"]
        self.pool_path: str = words["pool_path"]
        self.image_path: str = words["image_path"]
        self.image_format: str = words["image_format"]
        self.rounds: int = words["rounds"]

    def disk(self, name: str) -> str:
        """The file of a machine's disk."""
        return f"{self.pool_path}/{name}-system.qcow2"


def run(*command: str) -> str:
    """Run a program that has to end well; what it wrote."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(
            f"{' '.join(command)[:400]}: exit {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        )
    return done.stdout


def virsh(plan: Plan, *words: str) -> str:
    """One virsh command."""
    return run("virsh", "--quiet", "--connect", plan.uri, *words)


def module(plan: Plan, program: str) -> dict[str, Any]:
    """The module's own process, started as Ansible starts it; its result."""
    return dict(json.loads(run(plan.python, plan.programs[program])))


def bare_tools(plan: Plan, descriptions: Path) -> None:
    """The floor: for each machine the two programs that nobody can do without."""
    size = f"{plan.size_mib}M"
    for name in plan.names:
        backing = ["-b", plan.image_path, "-F", plan.image_format]
        run("qemu-img", "create", "-q", "-f", "qcow2", *backing, plan.disk(name), size)
        virsh(plan, "define", str(descriptions / f"{name}.xml"))


def virt_install(plan: Plan) -> None:
    """The peer: overlay made, machine defined and not started."""
    for name in plan.names:
        disk = f"path={plan.disk(name)},size={plan.size_mib / 1024},format=qcow2,bus=virtio"
        backing = f"backing_store={plan.image_path},backing_format={plan.image_format}"
        options = ["--memory", str(plan.memory_mib), "--vcpus", "1", "--network", plan.network]
        quick = ["--import", "--noreboot", "--noautoconsole", "--graphics", "none", "--osinfo", "generic"]
        run("virt-install", "--connect", plan.uri, "--name", name, "--disk", f"{disk},{backing}", *options, *quick)


def check_machines(plan: Plan) -> None:
    """Every machine is defined and off, and its disk is an overlay on the image."""
    defined = set(virsh(plan, "list", "--all", "--name", "--state-shutoff").split())
    missing = [name for name in plan.names if name not in defined]
    if missing:
        raise SystemExit(f"not made: {', '.join(missing)}")
    for name in plan.names:
        info = json.loads(run("qemu-img", "info", "--output", "json", plan.disk(name)))
        if info.get("backing-filename") != plan.image_path or info["virtual-size"] != plan.size_mib * 1024 * 1024:
            raise SystemExit(f"{plan.disk(name)} is no overlay as it should be: {info}")


def clear(plan: Plan) -> None:
    """Take away all machines of the benchmark, and their volumes."""
    for name in sorted(set(virsh(plan, "list", "--all", "--name").split()) & set(plan.names)):
        virsh(plan, "undefine", name)
    virsh(plan, "pool-refresh", plan.pool)
    for line in virsh(plan, "vol-list", plan.pool).splitlines():
        volume = line.split()[0]
        if any(volume.startswith(f"{name}-") for name in plan.names):
            virsh(plan, "vol-delete", volume, plan.pool)


def measure(plan: Plan) -> dict[str, list[float]]:
    """The seconds of each way in each round. A round begins with another way than the one before it."""
    seconds: dict[str, list[float]] = {}

    def clock(what: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        answer = work()
        seconds.setdefault(what, []).append(time.perf_counter() - began)
        return answer

    def made(result: dict[str, Any], changed: bool) -> None:
        if result.get("changed") is not changed or len(result["machines"]) != len(plan.names):
            raise SystemExit(f"virt_init should have changed={changed}: {json.dumps(result)[:4000]}")

    def overlays() -> None:
        made(clock("virt_init", lambda: module(plan, "overlays")), True)
        check_machines(plan)
        made(clock("again", lambda: module(plan, "overlays")), False)

    def seeded() -> None:
        made(clock("seeded", lambda: module(plan, "seeded")), True)
        check_machines(plan)

    with tempfile.TemporaryDirectory() as place:
        descriptions = Path(place)

        def tools() -> None:
            clock("tools", lambda: bare_tools(plan, descriptions))
            check_machines(plan)

        def peer() -> None:
            clock("virt-install", lambda: virt_install(plan))
            check_machines(plan)

        clear(plan)
        # Not counted: the first of everything warms caches, and gives the XML that the bare tools define.
        module(plan, "overlays")
        for name in plan.names:
            (descriptions / f"{name}.xml").write_text(virsh(plan, "dumpxml", "--inactive", name), encoding="utf-8")
        clear(plan)
        ways: Sequence[Callable[[], None]] = (tools, peer, overlays, seeded)
        for index in range(plan.rounds):
            print(f"   round {index + 1} of {plan.rounds}", file=sys.stderr, flush=True)
            for way in (*ways[index % len(ways) :], *ways[: index % len(ways)]):
                # Often, because it is taken off the time of the others.
                clock("empty", lambda: module(plan, "empty"))
                way()
                clear(plan)
    return seconds


if __name__ == "__main__":
    print(json.dumps(measure(Plan(json.load(sys.stdin)))))
