# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook brine.virt.clone on libvirt's test driver, which forgets what was done when a task ends.

So nothing is made here; the scenario clones boots one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import PLAYBOOKS, run_ansible

# Each starts a whole run of Ansible.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed"),
    pytest.mark.skipif(os.geteuid() != 0, reason="images are root's"),
]

# Elsewhere it would be a playbook of the user's own, whose variables may be meant for another part of it.
OURS = "ansible_collections/brine/virt/playbooks"
MIB = 1024 * 1024
NODE = """<node><memory>16777216</memory>
{domains}
<network><name>default</name><bridge name="virbr0"/><ip address="192.0.2.1" netmask="255.255.255.0"/></network>
<pool type="dir"><name>default</name><target><path>{directory}/default</path></target>{volumes}</pool>
<pool type="dir"><name>images</name><target><path>{directory}/images</path></target></pool></node>"""
DOMAIN = """<domain type="test" xmlns:brine="urn:brine:virt:1" xmlns:test="http://libvirt.org/schemas/domain/test/1.0">
<test:runstate>{state}</test:runstate><name>{name}</name><uuid>{uuid}</uuid><metadata><brine:machine status="ready">
<brine:disk name="system" target="vda"/><brine:disk name="data" target="vdb"/>
<brine:volume pool="default" name="web1-system.qcow2" role="disk"/>
<brine:volume pool="default" name="web1-data.qcow2" role="disk"/>
<brine:nic name="eth0" mac="52:54:00:00:00:01">{addresses}</brine:nic></brine:machine></metadata>
<memory unit="MiB">64</memory><vcpu>1</vcpu><os><type arch="x86_64">hvm</type></os><devices>
<disk type="file"><driver name="qemu" type="qcow2"/><source file="{directory}/default/web1-system.qcow2"/>
<target dev="vda" bus="virtio"/></disk>
<disk type="file"><driver name="qemu" type="qcow2"/><source file="{directory}/default/web1-data.qcow2"/>
<target dev="vdb" bus="virtio"/></disk>
<interface type="network"><mac address="52:54:00:00:00:01"/><source network="default"/><model type="virtio"/>
</interface></devices></domain>"""
VOLUME = """<volume><name>{name}</name><capacity>{size}</capacity>
<target><path>{path}</path><format type="qcow2"/></target></volume>"""
# VIR_DOMAIN_RUNNING and VIR_DOMAIN_SHUTOFF.
RUNNING, OFF = 1, 5


class Cloud:
    """A hypervisor with the machine web1, and runs of the playbook there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        volumes = []
        for pool in ("default", "images"):
            (directory / pool).mkdir()
        for name in ("web1-system.qcow2", "web1-data.qcow2"):
            path = directory / "default" / name
            subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "8M"], check=True)
            volumes.append(VOLUME.format(name=name, size=8 * MIB, path=path))
        self._volumes = "".join(volumes)
        self.domains = [self.domain("web1")]
        # What virt-sysprep does takes libguestfs half a minute at least; in check mode nobody calls it.
        for source in PLAYBOOKS.rglob("*.yml"):
            file = directory / OURS / source.relative_to(PLAYBOOKS)
            file.parent.mkdir(parents=True, exist_ok=True)
            content = yaml.safe_load(source.read_text(encoding="utf-8"))
            for play in content:
                if "hosts" in play:
                    play.update({"become": False, "module_defaults": {"group/brine.virt.virt": {"uri": "{{ uri }}"}}})
            file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        (directory / OURS).with_name("roles").symlink_to(PLAYBOOKS.parent / "roles")

    def domain(self, name: str, state: int = OFF, addresses: str = "") -> str:
        uuid = f"00000000-0000-4000-8000-{int(name[-1]):012}"
        return DOMAIN.format(name=name, state=state, uuid=uuid, addresses=addresses, directory=self._directory)

    def clone(self, *words: str, status: int, inventory: dict[str, t.Any] | None = None) -> str:
        """What a run says. words: options; those with an equals sign or a brace are variables of the command line."""
        text = NODE.format(domains="".join(self.domains), directory=self._directory, volumes=self._volumes)
        (self._directory / "node.xml").write_text(text, encoding="utf-8")
        host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, **(inventory or {})}
        uri = f"test://{self._directory}/node.xml"
        hosts = {"hypervisors": {"hosts": {"hv1": {**host, "uri": uri}}}}
        (self._directory / "hosts.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
        options = [part for word in words for part in (["-e", word] if "=" in word or "{" in word else [word])]
        done = run_ansible(self._directory, "-i", "hosts.yml", f"{OURS}/clone.yml", *options)
        output = done.stdout + done.stderr
        assert done.returncode == status, output
        assert "changed=0" in output or "--check" in words
        return output


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    programs = tmp_path / "bin"
    programs.mkdir()
    # In check mode it is only looked for.
    (programs / "virt-sysprep").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return Cloud(tmp_path)


def test_what_would_be_done(cloud: Cloud, tmp_path: Path) -> None:
    """With a list of machines beside it, and variables of the inventory, neither of which is about the clone."""
    vms = json.dumps({"virt_vms": [{"name": "listed1", "vcpus": 1, "memory": 64}], "virt_provision_wait": False})
    others = {"memory": 7, "new_name": "wrong", "vm": "wrong"}
    output = cloud.clone("vm=web1", "new_name=web2", vms, "--check", "--diff", status=0, inventory=others)
    assert "web2 is cloned from web1 on hv1:\n  disk system: image clone-of-web1-system\n" in output
    assert "web2 goes to hv1: " in output
    for disk in ("system", "data"):
        assert f'+        "clone-of-web1-{disk} of disk {disk} of machine web1"\n' in output
    assert re.search(r"^web2 +hv1 +.*created ", output, re.MULTILINE), output
    assert "listed1" not in output
    assert not list((tmp_path / "images").iterdir())


@pytest.mark.skipif(bool(shutil.which("virt-sysprep")), reason="virt-sysprep is installed here")
@pytest.mark.parametrize("options", [(), ("--check",)])
def test_a_hypervisor_without_virt_sysprep(cloud: Cloud, tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "bin" / "virt-sysprep").unlink()
    output = cloud.clone("vm=web1", "new_name=web2", *options, status=2)
    assert "the hypervisor has no virt-sysprep" in output
    assert not list((tmp_path / "images").iterdir())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Say which machine, and what its clone is called: -e vm=NAME -e new_name=NEWNAME. Nothing was cloned."),
        (("vm=web1", "new_name=web1"), "new_name: there is a machine 'web1' on hv1 already."),
        (("vm=wbe1", "new_name=web2"), "vm: there is no machine 'wbe1' on hv1. Did you mean web1? Nothing was cloned."),
        (("vm=web1", "to=web2"), "to: this playbook does not have this option."),
        (("vm=web1", "new_name=web2", "memory=128"), "memory: this playbook does not have this option."),
    ],
)
def test_wrong_words_are_one_sentence(cloud: Cloud, words: tuple[str, ...], sentence: str) -> None:
    # What is in the inventory does not count.
    assert sentence in cloud.clone(*words, status=2, inventory={"vm": "web1", "new_name": "web2"})


def test_a_machine_that_runs(cloud: Cloud) -> None:
    cloud.domains = [cloud.domain("web1", RUNNING)]
    output = cloud.clone("vm=web1", "new_name=web2", status=2)
    assert "vm: machine web1 on hv1 is running, " in output and "Nothing was cloned." in output


def test_a_second_run(cloud: Cloud) -> None:
    cloud.domains.append(cloud.domain("web2"))
    output = cloud.clone("vm=web1", "new_name=web2", status=2)
    assert "new_name: there is a machine 'web2' on hv1 already. Choose another name" in output


COPY = """
- name: Copy both disks
  ansible.builtin.set_fact:
    virt_provision_stored: {results: [{origin: "sha256:a", stored: true}, {origin: "sha256:b", stored: true}]}
"""


@pytest.mark.parametrize("now", [("a", "b"), ("a", "c"), ("a", None)], ids=["off", "written to", "running"])
def test_disks_that_were_copied_at_different_moments_make_no_clone(tmp_path: Path, now: tuple[str | None, ...]) -> None:
    """The machine was started and stopped, or only started, after its first disk was copied."""
    images = yaml.safe_load((PLAYBOOKS.parent / "roles/virt_provision/tasks/images.yml").read_text(encoding="utf-8"))
    _store, look, judge = images
    disks = ("system", "data")
    seen = [
        {"item": {"key": f"clone-of-web1-{disk}", "value": {"machine": "web1"}}}
        | ({"origin": f"sha256:{state}"} if state else {"msg": "machine web1 is running"})
        for disk, state in zip(disks, now, strict=True)
    ]
    known = {look["register"]: {"results": seen}}
    made = {"ansible.builtin.debug": {"msg": "the clone is made"}}
    facts = {"ansible.builtin.set_fact": known}
    tasks = [*yaml.safe_load(COPY), facts, judge, made]
    play = [{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(play), encoding="utf-8")
    done = run_ansible(tmp_path, "play.yml")
    output = done.stdout + done.stderr
    assert ("the clone is made" in output) is (now == ("a", "b")), output
    if now != ("a", "b"):
        sentence = (
            "web1 was started, or its disks were written to, while they were copied, so these images come from "
            "different moments (clone-of-web1-data). No machine was created from them. Shut it down, leave it off, "
            "and run this again"
        )
        assert sentence in output


@pytest.mark.parametrize("written", [False, True])
def test_disks_of_a_clone_are_looked_at_again(cloud: Cloud, tmp_path: Path, written: bool) -> None:
    """The data disk under two names, as the other one takes virt-sysprep; and the first look is one as well, because
    the test driver does not see what is stored."""
    cloud.clone("vm=web1", "new_name=web1", status=2)
    role = tmp_path / "own/roles/virt_provision"
    shutil.copytree(PLAYBOOKS.parent / "roles/virt_provision", role)
    only_looked_at, file = (role / "tasks" / name for name in ("store.yml", "images.yml"))
    (task,) = yaml.safe_load(only_looked_at.read_text(encoding="utf-8"))
    only_looked_at.write_text(yaml.safe_dump([{**task, "check_mode": True}], sort_keys=False), encoding="utf-8")
    store, *others = yaml.safe_load(file.read_text(encoding="utf-8"))
    write = f"qemu-io -f qcow2 -c 'write -P 7 0 4096' {tmp_path}/default/web1-data.qcow2"
    between = [{"ansible.builtin.command": write}] if written else []
    file.write_text(yaml.safe_dump([store, *between, *others], sort_keys=False), encoding="utf-8")
    images = {"one": {"machine": "web1", "disk": "data"}, "two": {"machine": "web1", "disk": "vdb"}}
    variables = {"virt_images": images, "virt_provision_plan": {"images_by_host": {"hv1": ["one", "two"]}}}
    include = {"ansible.builtin.include_role": {"name": "virt_provision", "tasks_from": "images"}}
    play = {
        "hosts": "hypervisors",
        "gather_facts": False,
        "module_defaults": {"group/brine.virt.virt": {"uri": "{{ uri }}"}},
        "vars": variables,
        "tasks": [include],
    }
    (tmp_path / "own/play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    done = run_ansible(tmp_path, "-i", "hosts.yml", "own/play.yml")
    output = done.stdout + done.stderr
    assert (done.returncode, "so these images come from different moments (one, two)" in output) == (
        (2, True) if written else (0, False)
    ), output
