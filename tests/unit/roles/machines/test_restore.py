# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook brine.virt.restore on libvirt's test driver."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import PLAYBOOKS, run_ansible, run_last_play
from ansible_collections.brine.virt.tests.unit.roles.machines.test_purge_shared import OTHER, hypervisors

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow


def test_why_the_hypervisor_refuses_is_the_only_error(tmp_path: Path, node_uri: str) -> None:
    """The driver's host is no hypervisor to restore to; the others have nothing to say of what was not looked at."""
    words = ("vm=web1", f"src={tmp_path}", "on=hv2", "--check")
    status, output = run_last_play(tmp_path, "restore", node_uri, *words, hosts=("hv1", "hv2"))
    assert (status, "is another host. Run this on the hypervisor to restore to" in output) == (2, True), output
    # Ansible names the first host, whoever was asked.
    assert "hv2: uri: " in output, output
    assert output.count("[ERROR]") == 1, output
    assert "Nothing was restored." in output, output


def test_the_reason_is_in_the_words_of_the_command_line(tmp_path: Path, node_uri: str) -> None:
    """The module's options have other names than the playbook's."""
    words = ("vm=.web1", f"src={tmp_path}", "on=hv1", "--check")
    status, output = run_last_play(tmp_path, "restore", node_uri, *words, hosts=("hv1", "hv2"))
    said = "hv1: vm: '.web1' is not the name of a machine. Nothing was restored."
    assert (status, said in output) == (2, True), output


def test_without_a_hypervisor_all_are_asked(tmp_path: Path, node_uri: str) -> None:
    words = ("vm=lost1", f"src={tmp_path}", "--check")
    status, output = run_last_play(tmp_path, "restore", node_uri, *words, hosts=("hv1", "hv2"))
    assert status == 2, output
    assert "no hypervisor sees a backup of lost1: hv1, hv2: " in output, output
    assert "is another host. Run this on the hypervisor to restore to" in output, output
    assert output.count("[ERROR]") == 1, output
    assert "Nothing was restored." in output, output


def test_a_machine_that_is_there_stays_there(tmp_path: Path, node_uri: str) -> None:
    """Both have it, and the first one says what it cannot do."""
    words = ("vm=web1", "src_pool=backups", "new_name=db1", "--check")
    status, output = run_last_play(tmp_path, "restore", node_uri, *words, hosts=("hv1", "hv2"))
    assert (status, "db1 goes to hv1: db1 is there" in output) == (2, True), output
    assert output.count("[ERROR]") == 1 and "hv1: " in output, output


@pytest.mark.parametrize(("limit", "status"), [([], 0), (["--limit", "hv1"], 2)])
def test_one_that_a_limit_leaves_out_may_have_it(tmp_path: Path, limit: list[str], status: int) -> None:
    """It was not asked, and the machine would exist twice."""
    play = yaml.safe_load((PLAYBOOKS / "restore.yml").read_text(encoding="utf-8"))[-1]
    (check,) = (task for task in play["tasks"] if task["name"] == "Check that no other hypervisor has this machine")
    known = {
        "virt_restore_target": "hv1",
        "virt_restore_seen": {"backup": "b1", "name": "web1", "uuid": "u"},
        "virt_hypervisors": "all",
    }
    asked = {"name": "Asked", "ansible.builtin.set_fact": {"virt_restore_found": {"machines": []}}}
    short = {"hosts": "all", "gather_facts": False, "vars": {**play["vars"], **known}, "tasks": [asked, check]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([short]), encoding="utf-8")
    (tmp_path / "hosts.yml").write_text("all: {hosts: {hv1: , hv2: }, vars: {ansible_connection: local}}\n")
    done = run_ansible(tmp_path, "-i", "hosts.yml", "play.yml", "-e", "vm=web1", *limit)
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == status, output
    assert (
        "hv2 may have web1 already: did not answer: it was not asked (--limit). If you know that it is not there, add "
        "-e virt_unseen=web1. Nothing was restored." in output
    ) is bool(status)


DEFINE = "If no hypervisor has the machine any more: virsh define domain.xml"


def named(machine: str) -> dict[str, t.Any]:
    """What a hypervisor says that has this machine alone."""
    return {"machines": [{"name": machine, "uuid": "u", "state": "running"}]}


@pytest.mark.parametrize(
    ("words", "other", "seen", "said"),
    [
        # It runs on hv2 with the disks that the hint is about.
        (["vm=web1"], named("web1"), {"backup": "b1"}, "machine web1 is on hv2"),
        (["vm=web1"], {"unreachable": True, "msg": "no route"}, {"backup": "b1"}, "hv2 may have web1 already"),
        (["vm=web1"], named("www"), {"backup": "b1", "uuid": "u"}, "machine www, with the same UUID, is on hv2"),
        # A copy beside it has a name and a UUID of its own.
        (["vm=web1", "new_name=web2"], named("web1"), {"backup": "b1"}, DEFINE),
        (["vm=web1", "new_name=web2"], named("web2"), {"backup": "b1"}, "machine web2 is on hv2"),
        # One disk is no machine.
        (["vm=web1", "disk=vda"], named("web1"), {"backup": "b1"}, DEFINE),
        (["vm=web1"], {"machines": []}, {"backup": "b1"}, DEFINE),
        # What is wrong in the options, or that there is no backup, comes first.
        (["vm=.web1"], {"unreachable": True, "msg": "no route"}, {}, DEFINE),
        (["vm=web1"], {"unreachable": True, "msg": "no route"}, {"backup": None}, DEFINE),
    ],
)
def test_nobody_is_told_to_define_what_another_hypervisor_has(
    tmp_path: Path, words: list[str], other: dict[str, t.Any], seen: dict[str, t.Any], said: str
) -> None:
    hosts: dict[str, t.Any] = {
        "hv1": {"found": {"machines": []}, "shown": {"failed": True, "msg": DEFINE, **seen}},
        "hv2": {"found": other, "shown": {"skipped": True}},
    }
    status, output = checked(tmp_path, hosts, *(part for word in [*words, "on=hv1"] for part in ("-e", word)))
    assert (status, said in output, output.count("[ERROR]")) == (2, True, 1), output
    assert ("virsh define" in output) is (said == DEFINE), output


@pytest.mark.parametrize(
    ("limit", "other", "said"),
    [
        (
            ["--limit", "hv1"],
            {"machines": []},
            "hv2 may have web1 already: did not answer: it was not asked (--limit).",
        ),
        ([], {"unreachable": True, "msg": "no route"}, "hv2 may have web1 already: did not answer: no route."),
        ([], {"machines": []}, "web1 cannot be restored from b1 on any hypervisor: hv1: "),
        (["-e", "disk=vda", "--limit", "hv1"], {"machines": []}, "vda of web1 cannot be restored from b1 on any"),
    ],
)
def test_nobody_is_told_so_where_no_hypervisor_is_named(
    tmp_path: Path, limit: list[str], other: dict[str, t.Any], said: str
) -> None:
    shown = {"failed": True, "msg": DEFINE, "backup": "b1"}
    hosts = {
        "hv1": {"found": {"machines": []}, "shown": shown},
        "hv2": {"found": other, "shown": {**shown, "msg": "no room"}},
    }
    status, output = checked(tmp_path, hosts, "-e", "vm=web1", *limit)
    assert (status, said in output, output.count("[ERROR]")) == (2, True, 1), output
    assert ("virsh define" in output) is ("cannot be restored" in said), output


def checked(directory: Path, hosts: dict[str, t.Any], *words: str) -> tuple[int, str]:
    """The status of the tasks that look whether it can be restored, and what they say.

    hosts: what each hypervisor has said: found, of its machines; shown, of the backup.
    """
    play = yaml.safe_load((PLAYBOOKS / "restore.yml").read_text(encoding="utf-8"))[-1]
    names = (
        "Choose a hypervisor, and say why",
        "Check that no other hypervisor has this machine",
        "Fail if it cannot be restored",
    )
    checks = [task for task in play["tasks"] if task["name"] in names]
    assert len(checks) == len(names)
    answers = {"virt_restore_found": "{{ found }}", "virt_restore_shown": "{{ shown }}", "virt_restore_host": {}}
    asked = {"name": "Asked", "ansible.builtin.set_fact": answers}
    variables = {**play["vars"], "virt_hypervisors": "all"}
    short = {"hosts": "all", "gather_facts": False, "vars": variables, "tasks": [asked, *checks]}
    (directory / "play.yml").write_text(yaml.safe_dump([short]), encoding="utf-8")
    inventory = {"all": {"hosts": hosts, "vars": {"ansible_connection": "local"}}}
    (directory / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    done = run_ansible(directory, "-i", "hosts.yml", "play.yml", *words)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_what_is_missing_is_said(tmp_path: Path, node_uri: str) -> None:
    for words, said in (
        (["vm=web1"], "from which directory or storage pool: -e vm=NAME -e src=/srv/backup, or -e src_pool=POOL."),
        (["vm=web1", "src=/srv", "src_pool=backups"], "src and src_pool: give one of them."),
        (["vm=web1", "src=/srv", "on=hv9"], "on: there is no hypervisor 'hv9'. Known: hv1."),
    ):
        status, output = run_last_play(tmp_path, "restore", node_uri, *words)
        assert (status, said in " ".join(output.split())) == (2, True), output


@pytest.mark.parametrize(("second", "users"), [("", []), (OTHER, ["machine web9"])])
def test_the_others_are_asked_about_the_disks_that_are_replaced(tmp_path: Path, second: str, users: list[str]) -> None:
    hypervisors(tmp_path, second)
    play = yaml.safe_load((PLAYBOOKS / "restore.yml").read_text(encoding="utf-8"))[-1]
    (ask,) = (task for task in play["tasks"] if task["name"].startswith("Ask the other hypervisors who uses"))
    (block,) = (task for task in play["tasks"] if task["name"] == "Restore it under the claim")
    words = block["block"][0]["brine.virt.virt_restore"]["used_elsewhere"]
    shared = {"pool": "ceph", "volume": "old1-system", "place": "rbd:vms/old1-system", "inode": None, "serial": None}
    seen = {"name": "Look", "ansible.builtin.set_fact": {"virt_restore_shown": {"shared": [shared]}}}
    (tmp_path / "said.j2").write_text(f"{{{{ ({words[2:-2]}) | to_json }}}}", encoding="utf-8")
    said = {
        "name": "Keep what is given",
        "ansible.builtin.template": {"src": "said.j2", "dest": f"{tmp_path}/said.json", "mode": "0600"},
        "when": "inventory_hostname == 'hv1'",
    }
    uri = f"test://{tmp_path}/{{{{ inventory_hostname }}}}.xml"
    short = {
        "hosts": "all",
        "gather_facts": False,
        "module_defaults": {"group/brine.virt.virt": {"uri": uri}},
        "vars": {**play["vars"], "virt_restore_target": "hv1", "virt_hypervisors": "all"},
        "tasks": [seen, ask, said],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([short]), encoding="utf-8")
    inventory: dict[str, t.Any] = {
        "all": {"hosts": {"hv1": None, "hv2": None}, "vars": {"ansible_connection": "local"}}
    }
    inventory["all"]["vars"]["ansible_python_interpreter"] = sys.executable
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    done = run_ansible(tmp_path, "-i", "hosts.yml", "play.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    answers = json.loads((tmp_path / "said.json").read_text(encoding="utf-8"))
    assert list(answers) == ["hv2"]
    (volume,) = answers["hv2"]["volumes"]
    assert (volume["volume"], volume["users"]) == ("old1-system", users)
