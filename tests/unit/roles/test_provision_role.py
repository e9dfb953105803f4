# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role virt_provision in a play of the user's own, where it must not end well without having done anything."""

from __future__ import annotations

import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

COLLECTIONS = Path(__file__).resolve().parents[6]


def played(
    tmp_path: Path, hosts: dict[str, dict[str, str]], variables: dict[str, t.Any], serial: int = 0
) -> subprocess.CompletedProcess[str]:
    """The role in check mode, on hypervisors of libvirt's test driver."""
    connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    play = {
        "hosts": "hypervisors",
        "gather_facts": False,
        "serial": serial,
        "module_defaults": {"group/brine.virt.virt": {"uri": "{{ uri }}"}},
        "roles": [{"role": "brine.virt.virt_provision"}],
        "vars": variables,
    }
    for name, data in (("hosts.yml", {"hypervisors": {"hosts": hosts, "vars": connection}}), ("play.yml", [play])):
        (tmp_path / name).write_text(yaml.safe_dump(data), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "ansible.cli.playbook", "-i", "hosts.yml", "play.yml", "--check"],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("serial", "text"),
    [
        (0, "web1 was not provisioned: it may live on a hypervisor that did not answer"),
        (1, "this play has serial, which keeps hv2 for later. Leave serial out"),
    ],
)
def test_nothing_done_is_an_error(tmp_path: Path, serial: int, text: str) -> None:
    hosts = {name: {"uri": f"test:///{tmp_path}/{name}.xml"} for name in ("hv1", "hv2")}
    done = played(tmp_path, hosts, {"vm": "web1", "vcpus": 1, "memory": 128}, serial)
    assert text in done.stdout + done.stderr
    assert done.returncode == 2


# A machine of ours with a nic that no new machine can have, on libvirt's test driver.
NODE = """<node><memory>16777216</memory>
<domain type='test' xmlns:brine='urn:brine:virt:1'><name>old</name>
<metadata><brine:machine status='ready'><brine:nic name='eth0' mac='52:54:00:00:00:01'/></brine:machine></metadata>
<memory unit='MiB'>512</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os><devices>
<interface type='network'><mac address='52:54:00:00:00:01'/><source network='default'/><model type='pcnet'/>
</interface></devices></domain>
<network><name>default</name><bridge name='virbr0'/><ip address='192.0.2.1' netmask='255.255.255.0'>
<dhcp><range start='192.0.2.128' end='192.0.2.253'/></dhcp></ip></network></node>"""


@pytest.mark.parametrize(
    ("model", "mistakes"),
    [("pcnet", []), ("lance", ["hv1: virt_vms[0].nics[0].model: 'lance' is not a choice"])],
)
def test_a_machine_that_is_there_may_have_what_is_not_offered(tmp_path: Path, model: str, mistakes: list[str]) -> None:
    (tmp_path / "node.xml").write_text(NODE, encoding="utf-8")
    old = {"name": "old", "vcpus": 1, "memory": 512, "disk_profile": None, "nics": [{"name": "eth0", "model": model}]}
    variables = {
        "virt_vms": [{**old, "nic_profile": None}],
        "virt_seed": {"method": "none"},
        "virt_provision_wait": False,
    }
    done = played(tmp_path, {"hv1": {"uri": f"test://{tmp_path}/node.xml"}}, variables)
    assert [line for line in mistakes if line not in done.stdout] == []
    assert ("Nothing was changed" in done.stdout + done.stderr) == bool(mistakes)
    assert (done.returncode == 0) == (not mistakes), done.stdout
