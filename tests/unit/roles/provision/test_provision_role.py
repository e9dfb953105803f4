# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role virt_provision in a play of the user's own, where it must not end well without having done anything."""

from __future__ import annotations

import re
import shutil
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

# Each starts whole runs of Ansible.
pytestmark = pytest.mark.slow
# A machine that is there as it is to be, with an address of the test driver's, where nobody answers.
NODE = """<node>
<memory>16777216</memory>
<domain type='test' xmlns:brine='urn:brine:virt:1'>
  <name>good1</name>
  <uuid>00000000-0000-4000-8000-000000000001</uuid>
  <metadata><brine:machine status='ready'><brine:nic name='eth0' mac='52:54:00:00:00:01'/></brine:machine></metadata>
  <memory unit='MiB'>128</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64'>hvm</type></os>
  <devices><interface type='network'><mac address='52:54:00:00:00:01'/><source network='default'/></interface></devices>
</domain>
<network><name>default</name><bridge name='virbr0'/><ip address='192.168.122.1' netmask='255.255.255.0'><dhcp>
  <range start='192.168.122.128' end='192.168.122.253'/>
</dhcp></ip></network>
<pool type='dir'><name>default</name><target><path>/nowhere</path></target></pool>
</node>"""


def provision(
    directory: Path,
    hosts: dict[str, t.Any],
    variables: dict[str, t.Any],
    *options: str,
    fails: bool = True,
    on: str = "hypervisors",
    **play: t.Any,
) -> str:
    """What the role prints in a play on these hypervisors, or those of them that the pattern names, which fails or not.
    Their uri is libvirt's."""
    connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    whole = {
        "hosts": on,
        "gather_facts": False,
        "module_defaults": {"group/brine.virt.virt": {"uri": "{{ uri }}"}},
        "roles": [{"role": "brine.virt.virt_provision"}],
        "vars": variables,
        **play,
    }
    for name, data in (("hosts.yml", {"hypervisors": {"hosts": hosts, "vars": connection}}), ("play.yml", [whole])):
        (directory / name).write_text(yaml.safe_dump(data), encoding="utf-8")
    done = run_ansible(directory, "-i", "hosts.yml", "play.yml", *options)
    assert done.returncode == (2 if fails else 0), done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("serial", "text"),
    [
        (0, "No hypervisor answered."),
        (1, "this play has serial, which keeps hv2 for later. Remove serial"),
    ],
)
def test_nothing_done_is_an_error(tmp_path: Path, serial: int, text: str) -> None:
    hosts = {name: {"uri": f"test:///{tmp_path}/{name}.xml"} for name in ("hv1", "hv2")}
    output = provision(tmp_path, hosts, {"vm": "web1", "vcpus": 1, "memory": 128}, "--check", serial=serial)
    assert text in output


def test_why_a_hypervisor_is_left_out_is_said_once_and_not_of_each_machine(tmp_path: Path) -> None:
    (tmp_path / "node.xml").write_text(NODE, encoding="utf-8")
    hosts = {"hv1": {"uri": f"test://{tmp_path}/none.xml"}, "hv2": {"uri": f"test://{tmp_path}/node.xml"}}
    bare = {"vcpus": 1, "memory": 128, "disk_profile": "none", "nic_profile": "none"}
    vms = [{**bare, "name": "web1"}, {**bare, "name": "web2"}, {**bare, "name": "web3", "hypervisor": "hv1"}]
    output = provision(tmp_path, hosts, {"virt_vms": vms}, "--check")
    assert output.count("cannot connect to ") == 1, output
    assert "hv1 is left out: cannot connect to test:///" in output
    for name in ("web1", "web2"):
        assert f"{name} was not provisioned: it may be on hv1, which did not answer; created on " in output
    assert "web3 was not provisioned: it is meant for hv1, which did not answer" in output


# A machine of ours with a nic that no new machine can have, on libvirt's test driver.
OLD_NODE = """<node><memory>16777216</memory>
<domain type='test' xmlns:brine='urn:brine:virt:1'><name>old</name>
<uuid>00000000-0000-4000-8000-000000000002</uuid>
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
    (tmp_path / "node.xml").write_text(OLD_NODE, encoding="utf-8")
    old = {"name": "old", "vcpus": 1, "memory": 512, "disk_profile": None, "nics": [{"name": "eth0", "model": model}]}
    variables = {
        "virt_vms": [{**old, "nic_profile": None}],
        "virt_seed": {"method": "none"},
        "virt_provision_wait": False,
    }
    hosts = {"hv1": {"uri": f"test://{tmp_path}/node.xml"}}
    output = provision(tmp_path, hosts, variables, "--check", fails=bool(mistakes))
    assert [line for line in mistakes if line not in output] == []
    assert ("Nothing was changed" in output) == bool(mistakes)


def test_a_machine_that_its_hypervisor_does_not_suit_any_more_is_named(tmp_path: Path) -> None:
    (tmp_path / "node.xml").write_text(OLD_NODE, encoding="utf-8")
    old = {"name": "old", "vcpus": 1, "memory": 512, "disk_profile": None, "nic_profile": None}
    variables = {"virt_seed": {"method": "none"}, "virt_provision_wait": False}
    hosts = {"hv1": {"uri": f"test://{tmp_path}/node.xml", "virt_labels": {"disk": "sas"}}}
    for labels in ({"disk": "sas"}, {"disk": "ssd"}):
        vms = [{**old, "labels": labels}]
        output = provision(tmp_path, hosts, {**variables, "virt_vms": vms}, "--check", fails=False)
        why = "it lives there; but it has no label disk=ssd (has disk=sas): a migration would help"
        assert (f"\nold stays on hv1: {why}\n" in output) == (labels["disk"] == "ssd"), output


def test_a_machine_that_fails_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "node.xml").write_text(NODE, encoding="utf-8")
    bare = {"vcpus": 1, "memory": 128, "disk_profile": "none", "nic_profile": "none"}
    nic = {"name": "eth0", "network": "default", "mac": "52:54:00:00:00:01"}
    variables = {
        "virt_provision_timeout": 1,
        "virt_vms": [
            # The test driver has no upload, which shows only when the machine is made.
            {**bare, "name": "bad1"},
            {**bare, "name": "good1", "memory": 256, "seed": {"method": "none"}, "nics": [nic]},
        ],
    }
    output = provision(tmp_path, {"hv1": {"uri": f"test://{tmp_path}/node.xml"}}, variables)
    late = "good1 was not reachable within"
    rows = (
        r"bad1 +hv1 +failed .* cannot write volume bad1-seed\.iso",
        r"good1 +hv1 +not reachable +192[.]168[.]122[.]\d+ .* change the definition",
    )
    found = [re.search(rf"^{row}", output, re.MULTILINE) for row in (late, *rows)]
    assert all(found), output
    said = [match.start() for match in found if match]
    assert said == sorted(said)
    # At the end, once more.
    (last,) = (line for line in output.splitlines() if line.startswith("fatal: "))
    assert "bad1 on hv1: cannot write volume bad1-seed.iso" in last
    assert late in last


def test_what_a_guest_says_is_shown_as_it_stands_and_is_no_template(tmp_path: Path) -> None:
    log = tmp_path / "serial.log"
    log.write_bytes(b"Linux version 6\n\x1b[31m{{ 7 * 7 }}\x1b[0m \xff\n- util.py[ERROR]: {{ 8 * 8 }} failed\n")
    serial = f"<serial type='pty'><log file='{log}'/></serial></devices>"
    (tmp_path / "node.xml").write_text(NODE.replace("</devices>", serial), encoding="utf-8")
    good = {"name": "good1", "vcpus": 1, "memory": 128, "disk_profile": "none", "seed": {"method": "none"}}
    nic = {"name": "eth0", "network": "default", "mac": "52:54:00:00:00:01"}
    variables = {"virt_provision_timeout": 1, "virt_vms": [{**good, "nic_profile": "none", "nics": [nic]}]}
    output = provision(tmp_path, {"hv1": {"uri": f"test://{tmp_path}/node.xml"}}, variables)
    block = output[output.index("\nOn hv1:\ngood1 was not reachable within 1 s (failed at: SSH): ") :]
    for line in (
        "  defined     ok      yes",
        "  cloud-init  FAILED  {{ 8 * 8 }} failed",
        f"  The end of its serial console, as the guest wrote it, {log}:",
        "    | {{ 7 * 7 }} \ufffd",
    ):
        assert f"\n{line}\n" in block, output
    (last,) = (line for line in output.splitlines() if line.startswith("fatal: "))
    assert "good1 was not reachable within 1 s (failed at: SSH): " in last
    assert "cloud-init reports: {{ 8 * 8 }} failed" in last


@pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
def test_differences_are_shown_once_and_only_with_diff(tmp_path: Path) -> None:
    images = f"<pool type='dir'><name>images</name><target><path>{tmp_path}</path></target></pool></node>"
    (tmp_path / "node.xml").write_text(NODE.replace("</node>", images), encoding="utf-8")
    (tmp_path / "source.img").write_bytes(bytes(1024))
    nic = {"name": "eth0", "network": "default", "mac": "52:54:00:00:00:01"}
    good = {"name": "good1", "vcpus": 1, "memory": 256, "disk_profile": "none", "seed": {"method": "none"}}
    new = {"name": "new1", "vcpus": 1, "memory": 128, "image": "raw", "nic_profile": "none"}
    variables = {
        "virt_vms": [{**good, "nic_profile": "none", "nics": [nic]}, new],
        "virt_images": {"raw": {"path": f"{tmp_path}/source.img"}},
        "virt_provision_wait": False,
    }
    hosts = {"hv1": {"uri": f"test://{tmp_path}/node.xml"}}
    output = provision(tmp_path, hosts, variables, "--check", fails=False)
    assert "(item=raw)" in output
    assert re.search(r"^good1 +hv1 +.*changed .* change the definition of good1", output, re.MULTILINE)
    assert "--- before" not in output
    output = provision(tmp_path, hosts, variables, "--check", "--diff", fails=False)
    assert (output.count("--- before\n"), output.count("--- before: good1")) == (1, 1)


def test_a_machine_that_is_moved_after_the_choice_is_not_made_again(tmp_path: Path) -> None:
    machine = NODE[NODE.index("<domain") : NODE.index("<network")]
    for name, node in (("hv1", NODE), ("hv2", NODE.replace(machine, ""))):
        (tmp_path / f"{name}.xml").write_text(node, encoding="utf-8")
    # The last thing before the machines are made: the hypervisors change their places, and the machine goes along.
    move = "mv hv1.xml hv; mv hv2.xml hv1.xml; mv hv hv2.xml; echo 8"
    when = "virt_provision_plan is defined and not virt_provision_only_check"
    bare = {"vcpus": 1, "memory": 256, "disk_profile": "none", "nic_profile": "none", "seed": {"method": "none"}}
    variables = {
        "virt_provision_concurrency": "{{ lookup('pipe', '" + move + "') if " + when + " else 8 }}",
        "virt_vms": [{**bare, "name": "good1"}],
    }
    hosts = {name: {"uri": f"test://{tmp_path}/{name}.xml"} for name in ("hv1", "hv2")}
    output = provision(tmp_path, hosts, variables)
    sentence = "virt_vms[0]: it was on this hypervisor when this run checked, and has since been moved or undefined. "
    assert re.search(rf"^good1 +hv1 +failed .* {re.escape(sentence)}Run it again, to check again", output, re.MULTILINE)
    (last,) = (line for line in output.splitlines() if line.startswith("fatal: "))
    assert f"good1 on hv1: {sentence}" in last
    # Nobody has waited for it.
    assert "is not reachable" not in output


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"virt_vms": {"web1": {}}}, "virt_vms: a mapping is not a list of machines. Begin each with a dash"),
        ({"virt_vms": "web1"}, "virt_vms: 'web1' is not a list of machines"),
        ({"virt_vms": ["web1", None]}, "virt_vms[0]: 'web1' is not a mapping of options"),
        ({"virt_vms": None}, "No machine is named. Give a list in virt_vms"),
        ({"virt_images": ["debian"]}, "virt_images: ['debian'] is not a mapping of images. Give NAME: {src: FILE}"),
        ({"virt_disk_profiles": ["big"]}, "virt_disk_profiles: a list is not a mapping"),
        ({"virt_seed": "mine"}, "virt_seed: 'mine' is not a mapping of options"),
    ],
)
def test_a_thing_of_the_wrong_shape_is_one_sentence_with_its_place(
    tmp_path: Path, variables: dict[str, t.Any], sentence: str
) -> None:
    (tmp_path / "node.xml").write_text(NODE, encoding="utf-8")
    machine = {"name": "web1", "vcpus": 1, "memory": 128, "disk_profile": "none", "nic_profile": "none"}
    hosts = {"hv1": {"uri": f"test://{tmp_path}/node.xml"}}
    output = provision(tmp_path, hosts, {"virt_vms": [machine], **variables}, "--check")
    assert sentence in output
    assert "argument_spec" not in output


@pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
@pytest.mark.parametrize(
    ("options", "memory_mib", "failure"),
    [
        ({"image": "raw"}, 128, "path: there is no file"),
        ({"disk_profile": "none"}, 16000, "this hypervisor has changed since it was chosen for new1"),
    ],
    ids=["image", "claim"],
)
def test_a_hypervisor_that_fails_before_is_looked_at_for_names_all_the_same(
    tmp_path: Path, options: dict[str, t.Any], memory_mib: int, failure: str
) -> None:
    """It answers, and another run has just created a machine there that this one would create elsewhere."""
    machine = NODE[NODE.index("<domain") : NODE.index("<network")]
    theirs = machine.replace("good1", "new2").replace(">128<", f">{memory_mib}<")
    images = f"<pool type='dir'><name>images</name><target><path>{tmp_path}</path></target></pool></node>"
    for name, domain in (("hv1", ""), ("hv2", ""), ("later", theirs)):
        text = NODE.replace(machine, domain).replace("</node>", images)
        (tmp_path / f"{name}.xml").write_text(text, encoding="utf-8")
    (tmp_path / "source.img").write_bytes(bytes(1024))
    # After all has been checked.
    gone = f"rm -f source.img; cp later.xml hv1.xml; echo {tmp_path}/source.img"
    when = "virt_provision_plan is defined and not virt_provision_only_check"
    bare = {"vcpus": 1, "memory": 512, "nic_profile": "none", "seed": {"method": "none"}}
    variables = {
        "virt_images": {
            "raw": {"path": "{{ lookup('pipe', '" + gone + "') if " + when + f" else '{tmp_path}/source.img' }}}}"}
        },
        "virt_vms": [
            {**bare, "name": "new1", "hypervisor": "hv1", **options},
            {**bare, "name": "new2", "hypervisor": "hv2", "disk_profile": "none"},
        ],
    }
    hosts = {name: {"uri": f"test://{tmp_path}/{name}.xml"} for name in ("hv1", "hv2")}
    output = provision(tmp_path, hosts, variables)
    assert "another run has created a machine of this name on hv1 since hv2 was chosen" in output, output
    lines = [line for line in output.splitlines() if line.startswith("fatal: [hv1]")]
    assert failure in lines[-1], output
    # Its claim was withdrawn.
    assert re.search(r"^hv2 .* changed=0 ", output, re.MULTILINE), output


def test_what_is_chosen_by_for_all_hypervisors_together_is_the_same_on_each(tmp_path: Path) -> None:
    bare = {"vcpus": 1, "memory": 128, "disk_profile": "none", "nic_profile": "service"}
    hosts = {
        name: {
            "uri": f"test:///{tmp_path}/{name}.xml",
            "virt_vms": [{**bare, "name": f"on-{name}", "seed": {"user": "hush"}}],
            "virt_nic_profiles": {"service": {"eth0": {"bridge": bridge}}},
            # What is another one each time, what the play says, and what each hypervisor may have of its own.
            "virt_disk_profiles": {"big": {"system": {"size": "{{ 999999999 | random }}KiB"}}},
            "virt_policy": policy,
            "virt_labels": [name],
        }
        for name, bridge, policy in (("hv1", "br0", "pack"), ("hv2", "lan0", "spread"), ("hv3", "br0", "spread"))
    }
    output = provision(tmp_path, hosts, {"virt_policy": "spread"}, "--check")
    remedy = "Set it in one place for all of them, such as group_vars/hypervisors.yml or a file given with -e"
    lines = [line.strip() for line in output.splitlines() if "not the same on all hypervisors" in line]
    assert lines[:2] == [
        f"virt_nic_profiles: not the same on all hypervisors: hv2 has another value than hv1. {remedy}.",
        f"virt_vms: not the same on all hypervisors: hv2, hv3 have another value than hv1. {remedy}, and say with"
        " hypervisor: NAME where a machine is to be.",
    ]
    assert "virt_policy" not in output and "virt_disk_profiles" not in output and "hush" not in output
    # One machine on the command line is in no list.
    output = provision(tmp_path, hosts, {"virt_policy": "spread"}, "--check", "-e", "vm=web1 vcpus=1 memory=128")
    assert "virt_nic_profiles: not the same" in output and "virt_vms" not in output


def test_a_list_by_another_name_is_not_only_missing(tmp_path: Path) -> None:
    (tmp_path / "node.xml").write_text(NODE, encoding="utf-8")
    output = provision(
        tmp_path, {"hv1": {"uri": f"test://{tmp_path}/node.xml"}}, {"virt_vm": [{"name": "web1"}]}, "--check"
    )
    assert "No machine is named. Give a list in virt_vms" in output
    assert "virt_vm: unknown variable. Did you mean virt_vms?" in output


def test_what_is_misspelled_for_another_hypervisor_than_the_first_is_named_with_it(tmp_path: Path) -> None:
    (tmp_path / "node.xml").write_text(NODE, encoding="utf-8")
    uri = {"uri": f"test://{tmp_path}/node.xml"}
    hosts = {"hv1": uri, "hv2": {**uri, "virt_memory_ration": 2}, "hv3": {**uri, "virt_label": ["ssd"]}}
    vms = [{"name": "good1", "vcpus": 1, "memory": 128}]
    output = provision(tmp_path, hosts, {"virt_vms": vms}, "--check")
    assert "virt_label: unknown variable. Did you mean virt_labels? (hv3)" in output
    assert "virt_memory_ration: unknown variable. Did you mean virt_memory_ratio? (hv2)" in output
    assert "TASK [brine.virt.virt_provision : Get the facts" not in output


def test_what_only_the_inventory_can_say_of_hypervisors_is_not_ignored_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "node.xml").write_text(NODE, encoding="utf-8")
    hosts = {"hv1": {"uri": f"test://{tmp_path}/node.xml", "virt_memory_ratio": 1.5, "virt_vcpu_ratio": 4}}
    bare = {"vcpus": 1, "memory": 128, "disk_profile": "none", "nic_profile": "none", "start": False}
    variables = {"virt_vms": [{**bare, "name": "new1"}], "virt_provision_wait": False}
    role = {"role": "brine.virt.virt_provision", "vars": {"virt_memory_ratio": 2.0, "virt_labels": ["ssd"]}}
    output = provision(tmp_path, hosts, variables, "--check", roles=[role])
    where = "set in the vars of a play or a role, where nothing reads it. Set it in the inventory, such as in"
    assert f"(1) virt_labels: {where} group_vars/hypervisors.yml, or with -e. (2) virt_memory_ratio: {where}" in output
    assert "virt_vcpu_ratio:" not in output
    # The same value everywhere, and the command line, which hostvars has as well.
    role["vars"] = {"virt_memory_ratio": 1.5}
    provision(tmp_path, hosts, variables, "--check", "-e", "virt_vcpu_ratio=2", roles=[role], fails=False)
