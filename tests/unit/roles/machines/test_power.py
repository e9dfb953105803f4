# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook brine.virt.power on libvirt's test driver."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible, run_last_play

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("options", "lines", "status"),
    [
        (
            ("vm=web1,db1", "state=stopped", "timeout=60", "force=true"),
            [
                "db1      hv1  shutoff        -  shutoff already",
                "web1     hv1  shutoff        -  shut down (was running)",
            ],
            0,
        ),
        (("tag=web", "state=paused"), ["web1     hv1  paused        -  pause (was running)"], 0),
        (("on=hv1", "in_state=shutoff", "state=running"), ["half     hv1  shutoff        -  failed: it is unf"], 2),
        (("all=true", "only_pending=true", "state=cycled"), ["No machine is selected."], 0),
    ],
)
def test_a_row_for_each_machine(
    tmp_path: Path, node_uri: str, options: tuple[str, ...], lines: list[str], status: int
) -> None:
    code, output = run_last_play(tmp_path, "power", node_uri, "--check", *options)
    for line in lines:
        assert f"\n{line}" in output, output
    assert code == status, output
    assert ('"msg": "half on hv1: failed: it is unf' in output) is (status != 0), output


INVENTORY: dict[str, t.Any] = {
    "vm": "half",
    "tag": "nobody",
    "on": "hv9",
    "to": "hv9",
    "state": "reset",
    "timeout": 1,
    "all": True,
}


def test_words_of_the_inventory_do_not_count(tmp_path: Path, node_uri: str) -> None:
    code, output = run_last_play(tmp_path, "power", node_uri, "--check", "vm=db1", "state=paused", **INVENTORY)
    assert "\ndb1      hv1  shutoff        -  failed: it is off, so it cannot be paused." in output, output
    code, output = run_last_play(tmp_path, "power", node_uri, "--check", "state=stopped", **INVENTORY)
    assert (code, "No machine is named. Give its name with -e vm=NAME, or -e tag" in output) == (2, True), output
    code, output = run_last_play(tmp_path, "migrate", node_uri, "--check", **INVENTORY)
    assert (code, "No machine is named. Give its name with -e vm=NAME" in output) == (2, True), output


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "Say what is to be done with -e state=STATE. Known: running, stopped, paused,"),
        (("state=stopped",), "No machine is named. Give its name with -e vm=NAME, or -e tag"),
        (("state=stopped", "vm=web9"), "vm: there is no machine 'web9' on the"),
        (("state=stopped", "on=hv2"), "on: there is no hypervisor 'hv2'. Did you mean hv1? Nothing was changed."),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, node_uri: str, options: tuple[str, ...], sentence: str) -> None:
    code, output = run_last_play(tmp_path, "power", node_uri, "--check", *options)
    assert sentence in output, output
    assert code == 2
    assert "TASK [Change the power state]" not in output


ORDERED = """
<domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
  <test:runstate>5</test:runstate><name>{name}</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>
  <metadata><b:machine xmlns:b='urn:brine:virt:1'><b:start order='{order}' delay='1'/></b:machine></metadata>
</domain>
"""


def ordered_cloud(directory: Path) -> str:
    """The URI of two hypervisors with machines in an order."""
    for host, machines in {"hv1": [("web1", 20), ("db1", 1)], "hv2": [("app2", 10)]}.items():
        domains = "".join(ORDERED.format(name=name, order=order) for name, order in machines)
        (directory / f"{host}.xml").write_text(f"<node>{domains}</node>")
    return f"test://{directory}/{{{{ inventory_hostname }}}}.xml"


def test_a_second_play_of_a_run_shows_its_own_results(tmp_path: Path) -> None:
    words = ("all=true", "state=running", "--check")
    run_last_play(tmp_path, "power", ordered_cloud(tmp_path), *words, "--list-tasks", hosts=("hv1", "hv2"))
    file = tmp_path / "playbooks/power.yml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) * 2))
    done = run_ansible(tmp_path, "-i", "hosts.yml", str(file), "-e", words[0], "-e", words[1], words[2])
    assert done.returncode == 0, done.stdout
    # A row in each of the two.
    assert done.stdout.count("db1      hv1") == 2, done.stdout


def test_machines_of_several_hypervisors_are_started_in_their_order(tmp_path: Path) -> None:
    uri = ordered_cloud(tmp_path)
    code, output = run_last_play(tmp_path, "power", uri, "all=true", "state=running", hosts=("hv1", "hv2"))
    assert code == 0, output
    rows = [line.split()[:3] for line in output.splitlines() if line.endswith("start (was shutoff)")]
    assert rows == [["db1", "hv1", "running"], ["web1", "hv1", "running"], ["app2", "hv2", "running"]], output
    # Twice for those that come before others, with a pause each.
    assert output.count("TASK [Change the power state]") == 3
    assert output.count("Pausing for 1 seconds") == 2
    _code, output = run_last_play(tmp_path, "power", uri, "vm=db1,web1", "state=running", hosts=("hv1", "hv2"))
    assert output.count("TASK [Change the power state]") == 1
