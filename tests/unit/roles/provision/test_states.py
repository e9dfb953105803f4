# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines brought to their states by the role virt_provision, on libvirt's test driver, which forgets what it did."""

from __future__ import annotations

import re
import shutil
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._inventory.test_said_by_hosts import LIAR
from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import PLAYBOOKS
from ansible_collections.brine.virt.tests.unit.roles.provision.test_provision_role import provision

# Each starts whole runs of Ansible.
pytestmark = pytest.mark.slow

DOMAIN = """
<domain type='test' xmlns:brine='urn:brine:virt:1' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
<test:runstate>{state}</test:runstate><name>{name}</name><uuid>00000000-0000-4000-8000-00000000000{number}</uuid>
<metadata><brine:machine status='ready'><brine:volume pool='default' name='{name}-system.qcow2' role='disk'/>
</brine:machine></metadata><memory unit='MiB'>{memory}</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os>
<devices><disk type='file'><driver type='qcow2'/><source file='/nowhere/{name}-system.qcow2'/><target dev='vda'/></disk>
</devices></domain>"""
VOLUME = "<volume><name>{}-system.qcow2</name><capacity>1048576</capacity></volume>"
RUNNING, PAUSED, OFF = 1, 3, 5
ROLE = PLAYBOOKS.parent / "roles/virt_provision"
BARE: dict[str, t.Any] = {"vcpus": 1, "memory": 128, "disk_profile": "none", "nic_profile": "none", "seed": False}
GOES = """old1 on hv1 (shutoff):
  delete default/old1-system.qcow2: it belongs to this machine
  delete the machine itself
"""


def host(directory: Path, name: str, machines: dict[str, int], *, memory: int = 128) -> dict[str, t.Any]:
    """A hypervisor with 1152 MiB of memory, with these machines and their states."""
    domains = "".join(
        DOMAIN.format(name=machine, state=state, number=number, memory=memory)
        for number, (machine, state) in enumerate(machines.items())
    )
    pool = "<pool type='dir'><name>default</name><target><path>/nowhere</path></target>{}</pool>"
    volumes = "".join(VOLUME.format(machine) for machine in machines)
    path = directory / f"{name}.xml"
    path.write_text(f"<node><memory>1179648</memory>{domains}{pool.format(volumes)}</node>", encoding="utf-8")
    return {"uri": f"test://{path}"}


def run(directory: Path, hosts: dict[str, t.Any], vms: list[dict[str, t.Any]], *options: str, **how: t.Any) -> str:
    """What the role says. No machine answers, so that one that is waited for fails the run."""
    return provision(
        directory, hosts, {"virt_vms": vms, "virt_provision_timeout": 1}, *options, **{"fails": False, **how}
    )


def goes_off(state: str, first: str) -> str:
    """What is said of a machine that is on, with how it is switched off first."""
    return GOES.replace("(shutoff):", f"({state}):\n  {first}")


def changed(output: str) -> int:
    return sum(map(int, re.findall(r"changed=(\d+)", output)))


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_one_that_is_to_be_stopped_is_not_waited_for(tmp_path: Path, check: tuple[str, ...]) -> None:
    hosts = {"hv1": host(tmp_path, "hv1", {"web1": RUNNING, "web2": PAUSED, "web3": PAUSED})}
    keep = {"vcpus": 1, "memory": 128, "disk_profile": None, "nic_profile": None, "seed": False}
    vms = [
        {**keep, "name": "web1", "state": "stopped"},
        # Paused by somebody, and to be left so.
        {**keep, "name": "web2", "state": "present"},
        {**keep, "name": "web3", "state": "stopped"},
        {**BARE, "name": "new1", "state": "stopped"},
    ]
    output = run(tmp_path, hosts, vms, *check)
    for row in (r"web1 +hv1 +.*changed .* shut down web1", r"web3 +hv1 +.*changed .* resume web3; shut down web3"):
        assert re.search(rf"^{row}$", output, re.MULTILINE), output
    assert not re.search("^web2 ", output, re.MULTILINE)
    assert re.search("^new1 +hv1 +.*created ", output, re.MULTILINE) and "start new1" not in output
    assert "not reachable" not in output


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_what_is_to_be_removed_is_shown_volume_by_volume(tmp_path: Path, check: tuple[str, ...]) -> None:
    hosts = {"hv1": host(tmp_path, "hv1", {"old1": OFF}), "hv2": host(tmp_path, "hv2", {"web2": OFF})}
    output = run(tmp_path, hosts, [{"name": "old1", "state": "absent"}, {"name": "old2", "state": "absent"}], *check)
    assert GOES in output
    assert "old2: there is no such machine on hv1, hv2" in output
    assert changed(output) == 1


def test_what_is_not_there_is_no_change(tmp_path: Path) -> None:
    output = run(tmp_path, {"hv1": host(tmp_path, "hv1", {})}, [{"name": "old1", "state": "absent"}])
    assert "old1: there is no such machine on hv1" in output
    assert changed(output) == 0


def test_without_any_there_is_no_task_for_it(tmp_path: Path) -> None:
    output = run(
        tmp_path, {"hv1": host(tmp_path, "hv1", {})}, [{**BARE, "name": "new1", "state": "present"}], "--check"
    )
    assert "remove.yml" not in output and "plan_purge.yml" not in output


@pytest.mark.parametrize("state", [RUNNING, PAUSED])
def test_one_that_runs_is_refused_as_by_the_playbook_purge(tmp_path: Path, state: int) -> None:
    hosts = {"hv1": host(tmp_path, "hv1", {"old1": state})}
    vms = [{"name": "old1", "state": "absent"}, {**BARE, "name": "new1", "state": "present"}]
    output = run(tmp_path, hosts, vms, fails=True)
    assert "so it is not removed. Add -e stop=true to have it shut down first, or -e force=true" in output
    assert "Nothing was changed." in output and changed(output) == 0
    # A variable that is not on the command line allows nothing.
    play = {"virt_vms": vms, "force": True}
    assert "so it is not removed" in provision(tmp_path, hosts, play)
    output = run(tmp_path, hosts, vms, "-e", "force=true")
    assert goes_off("running" if state == RUNNING else "paused", "power off") in output
    assert changed(output) == 2


def test_one_that_others_created_is_left_to_the_playbooks_that_have_an_option_for_it(tmp_path: Path) -> None:
    hosts = {"hv1": host(tmp_path, "hv1", {"old1": OFF})}
    file = tmp_path / "hv1.xml"
    file.write_text(re.sub(r"(?s)<metadata>.*</metadata>", "", file.read_text(encoding="utf-8")), encoding="utf-8")
    output = run(tmp_path, hosts, [{"name": "old1", "state": "absent"}], fails=True)
    sentence = (
        "hv1: old1 was not created by this collection, so it is not removed. Remove it with the playbook purge "
        "(-e vm=old1 -e adopt=true), or adopt it first with the playbook adopt (-e vm=old1). Nothing was changed."
    )
    assert sentence in output and changed(output) == 0, output


def test_one_that_runs_is_shut_down_first_where_that_is_asked_for(tmp_path: Path) -> None:
    hosts = {"hv1": host(tmp_path, "hv1", {"old1": RUNNING})}
    output = run(tmp_path, hosts, [{"name": "old1", "state": "absent"}], "-e", "stop=1", "-v")
    assert goes_off("running", "shut down within 180 s") in output and changed(output) == 1
    assert '"shut down old1", "delete volume old1-system.qcow2 of pool default", "undefine old1"' in output


@pytest.mark.parametrize("word", ["stop", "force"])
def test_one_that_is_neither_true_nor_false_is_refused(tmp_path: Path, word: str) -> None:
    hosts = {"hv1": host(tmp_path, "hv1", {})}
    output = run(tmp_path, hosts, [{"name": "old1", "state": "absent"}], "-e", f"{word}=maybe", fails=True)
    assert f"{word} is neither true nor false. Nothing was changed." in output


def test_its_memory_is_free_for_others_in_check_mode_too(tmp_path: Path) -> None:
    hosts = {"hv1": host(tmp_path, "hv1", {"old1": OFF}, memory=512)}
    new = {**BARE, "name": "new1", "memory": 512, "state": "present"}
    assert "needs 512 MiB of memory" in run(tmp_path, hosts, [new], "--check", fails=True)
    for check in ((), ("--check",)):
        output = run(tmp_path, hosts, [new, {"name": "old1", "state": "absent"}], *check, fails=not check)
        assert GOES in output
        if check:
            assert re.search("^new1 +hv1 +.*created ", output, re.MULTILINE)
        else:
            # The driver has forgotten the removal, as a run does that has failed: what is still there counts.
            assert "this hypervisor has changed since it was chosen for new1: 512 MiB of memory are needed" in output


def test_one_name_on_two_hypervisors(tmp_path: Path) -> None:
    hosts = {name: host(tmp_path, name, {"old1": OFF}) for name in ("hv1", "hv2")}
    output = run(tmp_path, hosts, [{"name": "old1", "state": "absent"}], fails=True)
    assert "there is a machine 'old1' on each of hv1, hv2. Say which one: hypervisor: hv1" in output
    output = run(tmp_path, hosts, [{"name": "old1", "state": "absent", "hypervisor": "hv1"}])
    assert GOES in output and changed(output) == 1


def test_one_that_may_be_on_a_silent_hypervisor(tmp_path: Path) -> None:
    hosts = {"hv1": host(tmp_path, "hv1", {"old2": OFF}), "hv2": {"uri": f"test://{tmp_path}/none.xml"}}
    vms = [{"name": "old1", "state": "absent"}, {"name": "old2", "state": "absent"}]
    output = run(tmp_path, hosts, vms, fails=True)
    assert "old1 was not provisioned: it is to be removed, and may be on hv2, which did not answer" in output
    assert GOES.replace("old1", "old2") in output and changed(output) == 1


def test_one_line(tmp_path: Path) -> None:
    hosts = {"hv1": host(tmp_path, "hv1", {"old1": OFF})}
    output = run(tmp_path, hosts, [], "-e", "vm=old1", "-e", "state=absent")
    assert GOES in output and changed(output) == 1
    hosts = {"hv1": host(tmp_path, "hv1", {"web1": RUNNING})}
    output = run(tmp_path, hosts, [], "-e", "vm=web1", "-e", "state=stopped")
    assert re.search("^web1 +hv1 +.*changed .* shut down web1$", output, re.MULTILINE), output
    output = run(tmp_path, hosts, [], "-e", "vm=web2", "-e", "state=stopped", fails=True)
    nowhere = "there is no machine 'web2', and vcpus is missing. A new machine needs name, vcpus and memory"
    assert f"{nowhere}. Nothing was changed." in output
    output = run(tmp_path, hosts, [], "-e", "vm=old1", "-e", "state=gone", fails=True)
    assert "state: 'gone' is not a choice. Choose one of running, stopped, present, absent" in output


def test_one_that_is_moved_while_the_run_looks_is_not_called_removed(tmp_path: Path) -> None:
    """It is on hv1 when the role plans, and on hv2 when it comes to remove it."""
    shutil.copytree(ROLE, tmp_path / "roles/virt_provision")
    file = tmp_path / "roles/virt_provision/tasks/remove.yml"
    move = [{"ansible.builtin.command": {"cmd": "mv moved.xml hv1.xml", "chdir": str(tmp_path)}, "run_once": True}]
    file.write_text(yaml.safe_dump(move) + file.read_text(encoding="utf-8").partition("---\n")[2], encoding="utf-8")
    host(tmp_path, "moved", {})
    hosts = {"hv1": host(tmp_path, "hv1", {"old1": OFF}), "hv2": host(tmp_path, "hv2", {})}
    output = run(tmp_path, hosts, [{"name": "old1", "state": "absent"}], fails=True, roles=[{"role": "virt_provision"}])
    assert (
        "old1 on hv1 was not removed: it was there when this run looked, and no longer when it came to remove it. "
        "Another run has moved or removed it: run this again to see which"
    ) in output, output
    assert re.search("^old1 +hv1 +not removed ", output, re.MULTILINE), output


def lying(directory: Path, facts: dict[str, t.Any]) -> dict[str, t.Any]:
    """What the play has in place of the role: the role, in which hv1 answers with these facts."""
    shutil.copytree(ROLE, directory / "roles/virt_provision")
    file = directory / "roles/virt_provision/tasks/observe.yml"
    lie = [{"liar": {}, "when": "inventory_hostname == 'hv1'"}]
    file.write_text(file.read_text(encoding="utf-8") + yaml.safe_dump(lie), encoding="utf-8")
    (directory / "library").mkdir()
    (directory / "library/liar.py").write_text(LIAR.replace("FACTS", repr(facts)))
    return {"roles": [{"role": "virt_provision"}]}


def test_no_hypervisor_says_which_machines_there_are_to_be(tmp_path: Path) -> None:
    """Ansible takes whatever a module answers as facts for variables of the host, before those of the inventory."""
    play = lying(tmp_path, {"vm": "old1", "state": "absent"})
    hosts = {"hv1": host(tmp_path, "hv1", {}), "hv2": host(tmp_path, "hv2", {"old1": OFF})}
    output = run(tmp_path, hosts, [{"name": "web1", **BARE}], fails=True, **play)
    assert "hv1 answers with variables of its own, which Ansible prefers to yours: state, vm. Find out" in output, (
        output
    )
    assert changed(output) == 0 and "old1 on hv2" not in output, output


def test_a_bridge_with_the_name_of_an_option_on_the_command_line_is_none(tmp_path: Path) -> None:
    """Its fact is called like the option, which no fact outranks. Other names of the kind are refused still."""
    bridge = {"interfaces": ["vm"], "vm": {"device": "vm"}}
    hosts = {"hv1": host(tmp_path, "hv1", {"web1": OFF})}
    words = ("-e", "vm=web1 state=stopped", "-e", '{"vcpus": 1, "memory": 128}', "--check")
    output = provision(tmp_path, hosts, {}, *words, fails=False, **lying(tmp_path, bridge))
    assert "answers with variables of its own" not in output, output
    assert changed(output) == 0 and "failed=0" in output, output


def test_a_new_machine_that_has_nothing_to_boot_from_is_not_waited_for(tmp_path: Path) -> None:
    """Somebody installs it by hand: no answer is to be expected, and it is said in a warning."""
    disks = {"disk_profile": "none", "disks": [{"name": "system", "size": "1MiB"}]}
    output = run(tmp_path, {"hv1": host(tmp_path, "hv1", {})}, [{"name": "web1", **BARE, **disks}])
    assert "New machine web1 has nothing to boot from" in output
    assert "does not answer" not in output, output
    assert ".ssh' in expected paths" not in output, "nobody has to have keys"
