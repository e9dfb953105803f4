# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab goes, and nothing of it is left on the machine."""

from __future__ import annotations

import os
import re

from ...cloud import Cloud, must
from ...runner import ScenarioRun

NEEDS = ()


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    if os.environ.get("KEEP_LAB") == "1":
        scenario.skipped += 1
        print("   the lab stays up, as KEEP_LAB=1 says", flush=True)
        return
    scenario.step("lab down leaves no process, interface, table or mount", lambda: _down(cloud))


def _down(cloud: Cloud) -> None:
    addresses = set(re.findall(r"ansible_host: (\d+\.\d+\.\d+)\.\d+", (cloud.inventory / "hosts.yml").read_text()))
    links = cloud.run("ip", "-brief", "-4", "address").text
    bridges = [line.split()[0] for line in links.splitlines() if any(f" {net}." in line for net in addresses)]
    must(len(bridges) == 1, f"the lab's bridge is not to be told from the others: {links}")
    cloud.lab_well("down")
    # The names of all that it has.
    mark = bridges[0].removeprefix("bv")
    for command in ("ip -brief link", "nft list tables", "ps -eo args", "cat /proc/self/mounts"):
        text = cloud.run("sh", "-c", f"{command} | grep -v grep").text
        left = [line for line in text.splitlines() if mark in line]
        must(not left, f"{command}: {left}")
    must(not (cloud.lab_files / "inventory" / "hosts.yml").exists(), "the inventory of a lab that is gone is there")
