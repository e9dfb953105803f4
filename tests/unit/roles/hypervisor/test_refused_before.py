# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes in the variables of virt_hypervisor, also those that only the host can show, are said before any change.

The role as it is, in check mode, on a host of the distributions' tests; libvirt is its test driver, which has the
network default (192.168.122.1/24) and the pool default-pool.
"""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.test_distributions import Hosts, outcome

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow
NOTHING = "Nothing was changed."
OVERLAP = (
    "virt_hypervisor_networks[1].addresses[0]: 192.168.122.129/25 overlaps 192.168.122.1/24 of network default."
    " Choose another prefix."
)

NODE = """<node>
  <pool type='dir'>
    <name>here</name>
    <target><path>/here</path></target>
    <volume>
      <name>a.raw</name><capacity>8388608</capacity><allocation>8388608</allocation>
      <target><path>/here/a.raw</path><format type='raw'/></target>
    </volume>
  </pool>
</node>
"""


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
    monkeypatch.setenv("ANSIBLE_PIPELINING", "1")
    return Hosts(tmp_path)


def refusal(hosts: Hosts, *, missing: bool = False, **variables: t.Any) -> str:
    """What a run that ends before its first change says."""
    done = hosts.run("ubuntu2404", missing=missing, virt_hypervisor_qemu_conf={"max_core": 0}, **variables)
    assert done.returncode == 2, done.stdout + done.stderr
    assert " changed=0 " in done.stdout, done.stdout
    assert "Set what the kernel does for machines" not in done.stdout
    (said,) = re.findall(r'"msg": "(.*)"', done.stdout.partition("fatal: ")[2])
    return said


def test_a_network_that_overlaps_one_of_the_host_and_a_user_that_it_lacks(hosts: Hosts) -> None:
    networks = [
        {"name": "free", "mode": "nat", "addresses": ["192.0.2.1/24"]},
        {"name": "lab", "mode": "nat", "addresses": ["192.168.122.129/25"]},
    ]
    said = refusal(hosts, virt_hypervisor_networks=networks, virt_hypervisor_users=["root", "brine-nobody"])
    assert said == (
        f"(1) virt_hypervisor_users: ubuntu2404 has no user brine-nobody. Create it first, or leave it out."
        f" (2) {OVERLAP} {NOTHING}"
    )


def test_a_misspelled_variable(hosts: Hosts) -> None:
    said = refusal(hosts, virt_hypervisor_pool=[], virt_bridge_bridge=[])
    assert said == f"virt_hypervisor_pool: unknown variable. Did you mean virt_hypervisor_pools? {NOTHING}"


def test_volumes_but_not_those_of_a_pool_that_is_to_come(hosts: Hosts) -> None:
    volumes = [
        {"name": "a.raw", "pool": "data", "size": "8MiB", "format": "raw"},
        {"name": "b.raw", "pool": "date", "size": "8MiB", "format": "raw"},
    ]
    said = refusal(hosts, virt_hypervisor_volumes=volumes)
    assert said == ("virt_hypervisor_volumes[1].pool: there is no storage pool 'date'. Known: default-pool. " + NOTHING)


TOOLS = {"name": "tools.iso", "pool": "default-pool", "src": "tools.iso", "format": "iso"}
NO_FILE = "virt_hypervisor_volumes[0].src: there is no file tools.iso on the controller."


@pytest.mark.parametrize("missing", [False, True])
def test_the_file_of_a_volume_is_missed_also_on_a_bare_host(hosts: Hosts, missing: bool) -> None:
    """Elsewhere it would be missed when all but the bridges had been changed. What packages may bring is not missed."""
    volumes = [TOOLS, {"name": "b.raw", "pool": "date" if missing else "data", "size": "8MiB", "format": "raw"}]
    assert refusal(hosts, missing=missing, virt_hypervisor_volumes=volumes) == (
        f"{NO_FILE} For a file on the hypervisor, use path. {NOTHING}"
    )


@pytest.mark.parametrize("missing", [False, True])
def test_the_file_of_a_volume_stands_where_the_user_stands(hosts: Hosts, missing: bool) -> None:
    """Where Ansible itself looks comes after that: of a playbook of a collection that is in the collection."""
    (hosts.place / "tools.iso").write_bytes(bytes(4096))
    (hosts.place / "files").mkdir()
    (hosts.place / "files/tools.iso").write_text("another one")
    done = hosts.run("ubuntu2404", missing=missing, virt_hypervisor_volumes=[{**TOOLS, "format": "raw"}])
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_right_is_looked_at_in_few_lines(hosts: Hosts) -> None:
    volumes = [{"name": "a.raw", "pool": "data", "path": "/data/vm[1]/to-come.raw", "format": "raw"}]
    done = hosts.run("ubuntu2404", virt_hypervisor_volumes=volumes)
    assert done.returncode == 0, done.stdout + done.stderr
    looks = [
        name for name in re.findall(r"^TASK \[\S+ : (.*)\]", done.stdout, re.MULTILINE) if "would refuse of" in name
    ]
    assert len(looks) == 2, looks
    assert not any("changed: " in outcome(done, name) for name in looks)


def test_volumes_that_are_right_are_looked_at_once(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a look files are read, which may take minutes."""
    (hosts.place / "node.xml").write_text(NODE)
    uri = f"test://{hosts.place}/node.xml"
    play = hosts.play
    monkeypatch.setattr(
        hosts,
        "play",
        lambda name, units, what, **more: play(
            name, units, {**what, "module_defaults": {"group/brine.virt.virt": {"uri": uri}}}, **more
        ),
    )
    pools = [{"name": "here", "path": "/here"}]
    for size, asked in (("8MiB", False), ("16MiB", True)):
        volumes = [{"name": "a.raw", "pool": "here", "size": size, "format": "raw"}]
        done = hosts.run("ubuntu2404", virt_hypervisor_pools=pools, virt_hypervisor_volumes=volumes)
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("skipping: " not in outcome(done, "Create volumes in the storage pools")) is asked, done.stdout


def test_a_host_that_lacks_packages_is_not_asked(hosts: Hosts) -> None:
    networks = [{"name": "lab", "mode": "nat", "addresses": ["192.168.122.129/25"]}]
    packages: dict[str, t.Any] = {"virt_hypervisor_extra_packages": ["one-with-a-user"]}
    done = hosts.run(
        "ubuntu2404", missing=True, virt_hypervisor_networks=networks, virt_hypervisor_users=["of-one"], **packages
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "would refuse" not in done.stdout and "overlaps" not in done.stdout
    assert "Would add of-one to the group libvirt" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("virt_hypervisor_users", "ops", "[ops]"),
        ("virt_hypervisor_users", None, "[]"),
        ("virt_hypervisor_extra_packages", "lvm2, nfs-common", "[lvm2, nfs-common]"),
        ("virt_hypervisor_firewall_sources", "192.0.2.0/24", "[192.0.2.0/24]"),
        ("virt_hypervisor_firewall_operators", "[192.0.2.7]", "[192.0.2.7]"),
    ],
)
def test_a_text_where_a_list_belongs(hosts: Hosts, name: str, value: t.Any, right: str) -> None:
    assert refusal(hosts, **{name: value}) == f"{name}: this is not a list; write it as a list: {right}. {NOTHING}"


def test_a_text_where_a_mapping_belongs(hosts: Hosts) -> None:
    """Ansible's own check lets it pass, as a module would get a mapping of it."""
    said = refusal(hosts, virt_hypervisor_sysctl="vm.swappiness=10")
    assert said == f"virt_hypervisor_sysctl: this is not a mapping; write it as a mapping: {{NAME: VALUE}}. {NOTHING}"
