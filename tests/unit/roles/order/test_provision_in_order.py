# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start order of machines of several hypervisors in the role virt_provision.

On libvirt's test driver, which forgets what it did."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.provision.test_provision_role import provision

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow

DOMAIN = """
<domain type='test' xmlns:b='urn:brine:virt:1' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
<test:runstate>{state}</test:runstate><name>{name}</name>
<uuid>00000000-0000-4000-8000-0000000000{order:02}</uuid><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<metadata><b:machine status='ready'><b:start order='{order}' delay='1'/></b:machine></metadata>
<os><type arch='x86_64'>hvm</type></os></domain>"""
EMPTY = """<node><memory>1179648</memory>{}
<pool type='dir'><name>default</name><target><path>/nowhere</path></target></pool></node>"""
RUNNING, OFF = 1, 5
# web1 waits for db2, and app2 for web1. That up1 runs is of no account.
CLOUD = {"hv1": [("up1", 0, RUNNING), ("web1", 20, OFF)], "hv2": [("db2", 1, OFF), ("app2", 30, OFF)]}
MACHINE = {"vcpus": 1, "memory": 64, "disk_profile": None, "nic_profile": None, "seed": False}
VMS: list[dict[str, t.Any]] = [
    {**MACHINE, "name": "up1", "title": "Up"},
    {**MACHINE, "name": "web1", "title": "Web", "state": "running"},
    {**MACHINE, "name": "app2", "start": True},
    {**MACHINE, "name": "db2"},
]


def run(directory: Path, vms: list[dict[str, t.Any]], *options: str, fails: bool = False, **variables: t.Any) -> str:
    for host, machines in CLOUD.items():
        domains = "".join(DOMAIN.format(name=name, order=order, state=state) for name, order, state in machines)
        (directory / f"{host}.xml").write_text(EMPTY.format(domains), encoding="utf-8")
    hosts = {host: {"uri": f"test://{directory}/{host}.xml"} for host in CLOUD}
    given = {"virt_vms": vms, "virt_provision_wait": False, **variables}
    return provision(directory, hosts, given, "-v", *options, fails=fails)


def started(output: str) -> list[list[str]]:
    """The machines that each task has started, and the seconds of each pause, in their turn."""
    found = []
    for section in output.split("TASK [")[1:]:
        title, _end, text = section.partition("]")
        if "Create or update the machines of this hypervisor" in title and "checked only" not in title:
            found.append(sorted(re.findall(r'"start (\w+)"', text)))
        found += [[seconds] for seconds in re.findall(r"Pausing for (\d+) seconds", text)]
    return found


def rows(output: str) -> dict[str, str]:
    """What the table at the end says of each machine."""
    table = output[output.rindex("\nMACHINE ") :]
    return {row[1]: " ".join(row[2].split()) for row in re.finditer(r"^(\w+\d) +(\S.*)$", table, re.MULTILINE)}


def test_machines_of_several_hypervisors_start_in_their_order(tmp_path: Path) -> None:
    output = run(tmp_path, VMS)
    assert started(output) == [["db2"], ["1"], ["web1"], ["1"], ["app2"]], output
    table = {name: re.sub(r" \d+\.\d ", " - ", row) for name, row in rows(output).items()}
    assert table["up1"] == "hv1 changed - - set the title of up1"
    assert table["db2"] == "hv2 changed - - start db2"
    assert table["app2"] == "hv2 changed - - start app2"
    # All else is done before. The driver has forgotten it, so that it is done twice here.
    assert table["web1"] == "hv1 changed - - set the title of web1; set the title of web1; start web1"


@pytest.mark.parametrize(
    ("vms", "options", "starts"),
    [
        (VMS, ("--check",), []),
        ([vm for vm in VMS if vm["name"] in ("up1", "db2", "app2")], (), [["app2", "db2"]]),
        ([{**vm, "order": 7} for vm in VMS], (), [["app2", "db2", "web1"]]),
        ([vm if vm["name"] == "db2" else {**vm, "state": "present", "start": None} for vm in VMS], (), [["db2"]]),
    ],
    ids=["check mode", "one hypervisor", "one order", "one machine"],
)
def test_what_waits_for_nobody_is_one_task(
    tmp_path: Path, vms: list[dict[str, t.Any]], options: tuple[str, ...], starts: list[list[str]]
) -> None:
    output = run(tmp_path, vms, *options)
    assert output.count(": Create or update the machines of this hypervisor]") == 1
    assert "turn.yml" not in output
    if not options:
        assert started(output) == starts


UNDEFINED = "it was on this hypervisor when this run checked, and has since been moved or undefined"


@pytest.mark.parametrize(
    ("name", "fault", "why", "turns"),
    [
        ("db2", "sed -i 's/<name>db2</<name>other</' hv2.xml", UNDEFINED, [[], ["web1"], ["1"], ["app2"]]),
        ("web1", "sed -i 's/<name>web1</<name>other</' hv1.xml", UNDEFINED, [["db2"], ["1"], [], ["app2"]]),
        # All that its hypervisor had to do in this turn.
        ("web1", "rm hv1.xml", "cannot connect to test:///", [["db2"], ["1"], [], ["app2"]]),
    ],
)
def test_one_that_fails_holds_nobody_up(
    tmp_path: Path, name: str, fault: str, why: str, turns: list[list[str]]
) -> None:
    # The last thing before its turn.
    now = f"'{name}' in virt_provision_turn_names and '{name}' not in virt_provision_held"
    when = f"virt_provision_plan is defined and not virt_provision_only_check and {now}"
    (tmp_path / "fault.sh").write_text(f"cd {tmp_path}; {fault}; echo 8\n", encoding="utf-8")
    concurrency = f"{{{{ lookup('pipe', 'sh {tmp_path}/fault.sh') if {when} else 8 }}}}"
    output = run(tmp_path, VMS, fails=True, virt_provision_concurrency=concurrency)
    assert started(output) == turns, output
    assert re.match(rf"hv\d failed .*{re.escape(why)}", rows(output)[name]), output
    assert {one for one, row in rows(output).items() if " changed " in row} == {"up1", "web1", "db2", "app2"} - {name}
    assert len(re.findall(f"^fatal: .*{name} on hv", output, re.MULTILINE)) == 1
