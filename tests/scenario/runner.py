# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the scenarios one after the other and counts what they prove.

A scenario is a module with `run(scenario, cloud)`, in the folder of its feature below scenarios/. It says what it
begins with in NEEDS (names of `needs.NEEDS`), and gets it whatever was run before it. What it leaves behind, `tidy`
takes away. So each can be run alone, in any order, and a failed one keeps no other from being run. PIPELINING = False
there is for one that has modules as Ansible sends them by default.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
import time
import traceback
import types
import typing as t
from pathlib import Path

from . import needs
from .cloud import Cloud, Failure
from .tidy import tidy

# Those of `make test`, in an order in which little has to be made twice.
SCENARIOS = (
    "hypervisors",
    "provisioning",
    "machines",
    "refusals",
    "mistakes",
    "secrets",
    "deletion",
    "migration",
    "sudo_user",
    "evacuating",
    "ending",
)
# The scenarios that take long, because real guests boot in them: by the lab that they are run in, two labs at a time.
# Each lab can be run in one go by whoever has no whole day. The one without a name is that of SCENARIOS too. They begin
# in this order, the longest first, so that none of those that begin late keeps the run from its end for long.
LABS: dict[str, tuple[str, ...]] = {
    # Each begins with bare hosts, and with others than the one before.
    "bare": ("managers", "modular", "tutorial"),
    "": (
        "trust",
        "seeding",
        "killing",
        "purge",
        "description",
        "two_at_once",
        "adoption",
        "waiting",
        # After seeding has brought what it needs to a host. The next ones have its machine, until booting wants none.
        "clones",
        "visible",
        "demanding_migrations",
        "power",
        "booting",
        "states",
        "failed_migrations",
        "interrupted_migrations",
    ),
    "fleet": (
        "silence",
        "stuck",
        "events",
        "firewall",
        # Before others bring a third hypervisor, which joins here.
        "retiring",
        "fleet",
        "mixed",
        # With the third one, that is there.
        "later_release",
        "networks",
        "settings",
        "agents",
        "snapshots",
    ),
    "storage": (
        "ceph",
        "ceph_snapshots",
        "backups",
        "firmware",
        "disk_moves",
        "killed_daemons",
        "rebasing",
        "used_disks",
        "images",
        "storage",
        "pools",
        "hostile_disks",
        "volumes",
        "guide",
    ),
    # Hosts with kernels of their own.
    "kernel": (
        "kernel",
        "lvm",
        "iscsi",
        "nfs",
        "vlans",
        "confined",
    ),
    # One that is a virtual machine on every machine: User Mode Linux cannot have ZFS.
    "zfs": ("zfs",),
}
# Before the name of a lab, in place of names of scenarios: all that run in it.
LAB = "lab:"


class ScenarioRun:
    """Runs the steps of a scenario; a failing one is shown and counted, and the scenario goes on unless it is vital."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []
        self.skipped = 0
        self._name = ""

    def step(self, title: str, proof: t.Callable[[], t.Any], *, vital: bool = False) -> None:
        """One thing to prove. vital: without it the rest of the scenario makes no sense."""
        began = time.monotonic()
        print(f"   {title} ...", flush=True)
        try:
            proof()
        except Exception as exc:
            self.failed.append(f"{self._name}: {title}")
            words = str(exc) if isinstance(exc, Failure) else traceback.format_exc()
            print(f"   FAILED: {title}\n{words}", flush=True)
            if vital:
                raise ScenarioAborted(title) from exc
        else:
            self.passed += 1
            print(f"   ok: {title} ({time.monotonic() - began:.1f} s)", flush=True)

    def run(self, name: str, cloud: Cloud) -> None:
        """One scenario, with what it needs before it and nothing left of it behind it."""
        print(f"-- {name}", flush=True)
        self._name = name
        try:
            module = find_scenario(name)
            wanted: tuple[str, ...] = module.NEEDS
            # Those of `make test` have what Ansible does by default, and so have those that say it.
            cloud.pipelining = name not in SCENARIOS and getattr(module, "PIPELINING", True)
            cloud.is_up = tidy(cloud, needs.kept_for(wanted))
            for need in wanted:
                needs.provide(cloud, need)
        except Exception as exc:
            self.failed.append(f"{name}: what it needs is not there")
            words = str(exc) if isinstance(exc, Failure) else traceback.format_exc()
            print(f"   FAILED: {name} cannot begin\n{words}", flush=True)
            return
        try:
            module.run(self, cloud)
        except ScenarioAborted as exc:
            print(f"-- {name} ends here, without: {exc}", flush=True)
        except Exception:
            self.failed.append(f"{name} broke off")
            print(f"   FAILED: {name} broke off\n{traceback.format_exc()}", flush=True)


class ScenarioAborted(Exception):
    """A vital step failed."""


def lab_of(name: str) -> str:
    """The lab that the scenario of this name runs in. Raises Failure when there is no such scenario."""
    for lab, names in LABS.items():
        if name in (*names, *(() if lab else SCENARIOS)):
            return lab
    there = ", ".join(itertools.chain(SCENARIOS, *LABS.values()))
    raise Failure(f"there is no scenario {name!r}; there are: {there}")


def find_scenario(name: str) -> types.ModuleType:
    """Import the scenario of this name, whichever folder below scenarios/ it is in."""
    (path,) = Path(__file__).parent.glob(f"scenarios/*/{name}.py")
    return importlib.import_module(f"tests.scenario.scenarios.{path.parent.name}.{name}")


def chosen(words: list[str]) -> list[str]:
    """The names that these words stand for: SCENARIOS for none, all of a lab for LAB with its name, else themselves.

    Raises Failure for what is none."""
    names: list[str] = []
    for word in words:
        lab = word.removeprefix(LAB)
        names += LABS[lab] if word.startswith(LAB) and lab in LABS else [word]
    for name in names:
        lab_of(name)
    return names or list(SCENARIOS)


def main(arguments: list[str]) -> int:
    """Run the scenarios that the arguments choose, after a file for the counts. Returns the exit status."""
    report = Path(arguments[0]) if arguments else None
    try:
        names = chosen(arguments[1:])
    except Failure as exc:
        print(exc, file=sys.stderr)
        return 2
    scenario = ScenarioRun()
    clouds: dict[str, Cloud] = {}
    try:
        for name in names:
            began = time.monotonic()
            lab = lab_of(name)
            if lab not in clouds:
                clouds[lab] = Cloud(Path(__file__).resolve().parents[2], lab)
                clouds[lab].whole = f"{LAB}{lab}" in arguments
            scenario.run(name, clouds[lab])
            print(f"-- {name}: {time.monotonic() - began:.0f} s", flush=True)
    except KeyboardInterrupt:
        scenario.failed.append("interrupted")
    counts = {"passed": scenario.passed, "failed": len(scenario.failed), "skipped": scenario.skipped}
    if report:
        report.write_text(json.dumps(counts), encoding="utf-8")
    for title in scenario.failed:
        print(f"FAILED: {title}", file=sys.stderr)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped", flush=True)
    return 1 if scenario.failed else 0
