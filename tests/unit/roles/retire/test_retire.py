# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook brine.virt.retire: what it checks, what it does to whom, and what it says. No machine moves here."""

from __future__ import annotations

import shutil
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import NAMESPACE
from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import PLAYBOOKS, run_ansible

# Each starts whole runs of Ansible.
pytestmark = pytest.mark.slow
MACHINE = """
<domain type="test"><name>{name}</name><uuid>00000000-0000-4000-8000-00000000000{number}</uuid>
<memory unit="MiB">128</memory><os><type>hvm</type></os>{devices}</domain>
"""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2p"
# A port where nothing listens.
DEAD = {
    "ansible_connection": "ssh",
    "ansible_host": "127.0.0.1",
    "ansible_port": 9,
    "ansible_ssh_common_args": "-o ControlPath=none",
}
MAINTENANCE = {"since": "2026-11-21T10:00:00Z", "reason": "retired"}
POOL = "<pool type='dir'><name>default</name><target><path>/srv/pool</path></target></pool>"
BRIDGE = "<devices><interface type='bridge'><source bridge='br-own'/></interface></devices>"


def _key_line(name: str, hypervisor: str, number: int) -> str:
    return f"virt-00000000-0000-4000-8000-00000000000{number} {KEY} brine.virt:{hypervisor} {name}"


def _certificates(names: t.Mapping[str, str]) -> dict[str, list[dict[str, str]]]:
    authority = {"kind": "authority", "subject": "O=brine.virt,OU=authority 3fa91c02,CN=brine.virt"}
    return {
        host: [authority, {"kind": "libvirt_server", "subject": f"O=brine.virt,OU=hypervisor,CN={name}"}]
        for host, name in names.items()
    }


class Cloud:
    """Hypervisors of the test driver, in a directory. The roles' parts are replaced by what they would say."""

    def __init__(self, place: Path, hosts: t.Sequence[str] = ("hv1", "hv2", "hv3")) -> None:
        self.place = place
        self.hosts: dict[str, dict[str, t.Any]] = {name: {} for name in hosts}
        self.machines: dict[str, list[str]] = {}
        # What the role virt_tls would say by host; an empty list when there is nothing to do.
        self.tls: dict[str, list[str]] = {name: ["/etc/pki/CA/cacrl.pem: 4 revoked"] for name in hosts}
        self.unissued = False
        # Whose own certificate is not usable.
        self.unread: list[str] = []
        self.hypervisor = ["the units and the script of the start order"]
        self.left: list[str] = []
        self.in_maintenance = False
        # By host, the names in its certificates.
        self.certificates: dict[str, str] = {}
        self.keys = place / "keys"
        # Who falls silent when the machines have moved, and the note of a move that all machines have.
        self.gone = ""
        self.note = ""
        # Whether virt_migrate is really asked about the moves. It refuses all machines of the test driver.
        self.asks = False

    def run(self, *words: str, hosts: str = "all") -> tuple[int, str]:
        shutil.copytree(PLAYBOOKS / "tasks", self.place / "tasks", dirs_exist_ok=True)
        begin = yaml.safe_load((PLAYBOOKS / "tasks/begin_maintenance.yml").read_text(encoding="utf-8"))
        reason = begin[1]["brine.virt.virt_maintenance"]["reason"]
        begun = [{"name": "Begin maintenance", "ansible.builtin.debug": {"msg": word}} for word in ("begun", reason)]
        self._replace("begin_maintenance.yml", begun)
        gone = {"path": f"{self.place}/{self.gone}.xml", "state": "absent"}
        self._replace(
            "move.yml",
            [
                {"name": "Move", "ansible.builtin.debug": {"msg": "{{ virt_moves.by_source }}"}},
                {"ansible.builtin.file": gone, "when": f"inventory_hostname == '{self.gone}'"},
            ],
        )
        if not self.asks:
            self._replace("ask_moves.yml", [{"name": "Ask", "ansible.builtin.set_fact": {"virt_moves_refused": {}}}])
        fleet = yaml.safe_load((PLAYBOOKS / "tasks/fleet.yml").read_text(encoding="utf-8"))
        # The mark of this computer is none of them.
        seen = {
            "ansible.builtin.set_fact": {
                "virt_fleet_host": "{{ virt_fleet_host | combine({'host': virt_fleet_host.host"
                f" | combine({{'maintenance': {MAINTENANCE if self.in_maintenance else None!r}, 'certificates': "
                f"{_certificates(self.certificates)}[inventory_hostname] | default([])}})}}) }}}}"
            },
            "when": "virt_fleet_host.host is defined",
        }
        self._replace("fleet.yml", [fleet[0], seen, *fleet[1:]])
        tls, hypervisor, *others = yaml.safe_load((PLAYBOOKS / "tasks/leave.yml").read_text(encoding="utf-8"))
        said = {
            "virt_tls_removed": "{{ given_tls[inventory_hostname] }}",
            "virt_tls_left": [],
            "virt_tls_unissued": "{{ given_unissued }}",
            "virt_tls_unread": "{{ inventory_hostname in given_unread }}",
        }
        removed = {"virt_hypervisor_removed": "{{ given_hypervisor }}", "virt_hypervisor_left": self.left}
        title = "{{ ' ahead' if virt_retire_ahead else '' }}"
        replaced = [
            {"name": f"TLS{title}", "ansible.builtin.set_fact": said, "when": tls["when"]},
            {"name": f"Hypervisor{title}", "ansible.builtin.set_fact": removed, "when": hypervisor["when"]},
        ]
        self._replace("leave.yml", [*replaced, *others])
        for host in self.hosts:
            names = self.machines.get(host, [])
            xml = "".join(
                MACHINE.format(name=name, number=number, devices=(BRIDGE if "own" in name else "") + self.note)
                for number, name in enumerate(names)
            )
            (self.place / f"{host}.xml").write_text(f"<node>{xml}{POOL}</node>", encoding="utf-8")
        play = yaml.safe_load((PLAYBOOKS / "retire.yml").read_text(encoding="utf-8"))[-1]
        # The options of the roles are looked for beside the collection's own playbooks.
        play["tasks"] = [task for task in play["tasks"] if task.get("vars", {}).get("virt_roles") is None]
        uri = f"test://{self.place}/{{{{ inventory_hostname }}}}.xml"
        play.update(hosts=hosts, become=False, module_defaults={"group/brine.virt.virt": {"uri": uri}})
        (self.place / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
        here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        inventory = {"hypervisors": {"hosts": {name: {**here, **more} for name, more in self.hosts.items()}}}
        (self.place / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        given = {
            "given_tls": self.tls,
            "given_unissued": self.unissued,
            "given_unread": self.unread,
            "given_hypervisor": self.hypervisor,
            "virt_known_hosts": str(self.keys),
            "virt_memory_reserve_mib": 0,
        }
        (self.place / "given.yml").write_text(yaml.safe_dump(given), encoding="utf-8")
        options = [part for word in words for part in ([word] if word.startswith("-") else ["-e", word])]
        done = run_ansible(self.place, "-i", "hosts.yml", "play.yml", "-e", "@given.yml", *options)
        return done.returncode, done.stdout + done.stderr

    def _replace(self, file: str, tasks: list[dict[str, t.Any]]) -> None:
        (self.place / "tasks" / file).write_text(yaml.safe_dump(tasks, sort_keys=False), encoding="utf-8")


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    return Cloud(tmp_path)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Give the hypervisor to retire with -e from=NAME. Known: hv1, hv2, hv3"),
        (
            ("from=hv9",),
            "There is no hypervisor hv9. Known: hv1, hv2, hv3. To take out one that never comes back, and that ",
        ),
        (("from=hv3", "to=hv3"), "hv3 is the hypervisor to retire. Give another one in to"),
        (("from=hv3", "to=hv9"), "There is no hypervisor hv9. Known: hv1, hv2, hv3"),
        (("from=hv3", "lost=maybe"), "lost: maybe is neither true nor false"),
        (("from=hv3", "to=hv2", "lost=true"), "to: nothing is moved from a hypervisor that is lost. Leave it out"),
        (
            ("from=hv3", "--limit=hv3"),
            "Run it without --limit: all other hypervisors have to refuse the certificates of",
        ),
    ],
)
def test_a_mistake_is_one_sentence(cloud: Cloud, words: tuple[str, ...], sentence: str) -> None:
    code, output = cloud.run(*words)
    assert f'"msg": "{sentence}' in output, output
    assert "Nothing was changed." in output and "Get the facts" not in output
    assert code == 2


def test_every_hypervisor_of_the_inventory_takes_part(cloud: Cloud) -> None:
    code, output = cloud.run("from=hv3", hosts="hv1,hv3")
    assert '"msg": "virt_hypervisors leaves out hv2: all other hypervisors have to refuse the' in output, output
    assert code == 2


def test_the_last_hypervisor_stays(tmp_path: Path) -> None:
    code, output = Cloud(tmp_path, ["hv1"]).run("from=hv1")
    assert '"msg": "hv1 is the last hypervisor, so there is no other one for its machines' in output, output
    assert code == 2


def test_check_mode_says_all_of_it_and_does_nothing(cloud: Cloud) -> None:
    cloud.machines = {"hv3": ["web1"]}
    code, output = cloud.run("from=hv3", "--check")
    assert code == 0, output
    assert "\nweb1     running  128 MiB  hv3   hv1  lowest load" in output, output
    for line in (
        "hv3 would get no new machines",
        "hv1: to refuse the certificates of hv3",
        "To be removed from hv3:\n  /etc/pki/CA/cacrl.pem: 4 revoked\n  the units and the script of the start order",
        "Left on hv3:\n  pools:\n    default: /srv/pool",
        "Take hv3 out of the inventory (hosts.yml) when this is done.",
    ):
        assert f"\n{line}" in output, output
    assert "begun" not in output and "TASK [TLS]" not in output and "changed=0" in output


def test_an_empty_one_is_taken_out(cloud: Cloud) -> None:
    cloud.machines = {"hv1": ["web1"]}
    others = "other.example.org ssh-ed25519 AAAA"
    cloud.keys.write_text(f"{others}\n{_key_line('web1', 'hv3', 0)}\n{_key_line('db1', 'hv3', 5)}\n", encoding="utf-8")
    code, output = cloud.run("from=hv3")
    assert code == 0, output
    assert "No machine needs to be moved.\n" in output and "\nhv3 gets no new machines\n" in output, output
    assert output.index("TASK [TLS ahead]") < output.index('"msg": "begun"') < output.index("TASK [TLS]"), output
    assert 'ok: [hv3] => {\n    "msg": "begun"' in output and output.count('"msg": "begun"') == 1
    # hv1 has web1 now, without a key; db1 is nowhere.
    assert cloud.keys.read_text(encoding="utf-8").splitlines() == [
        others,
        "# virt-00000000-0000-4000-8000-000000000000 brine.virt:hv1 web1",
    ]
    assert "\nTake hv3 out of the inventory (hosts.yml).\n" in output
    assert "virsh secret-undefine UUID" in output and "irewalls" not in output
    assert "settings:" not in output and "semanage" not in output


@pytest.mark.parametrize(("words", "reason"), [((), "retired"), (("reason='too old'",), "retired: too old")])
def test_its_maintenance_says_that_it_is_retired(cloud: Cloud, words: tuple[str, ...], reason: str) -> None:
    """By that word whoever is refused a place there is told what to do."""
    code, output = cloud.run("from=hv3", *words)
    assert (code, f'"msg": "{reason}"' in output) == (0, True), output


@pytest.mark.parametrize("words", [(), ("--check",)])
def test_settings_that_stay_are_named_with_what_undoes_them(cloud: Cloud, words: tuple[str, ...]) -> None:
    cloud.left = ["label virt_image_t of SELinux for /data/vms(/.*)?", "ksmtuned.service: disabled"]
    code, output = cloud.run("from=hv3", *words)
    assert code == 0, output
    assert "\n  settings:\n    label virt_image_t of SELinux for /data/vms(/.*)?\n    ksmtuned.service: dis" in output
    assert "semanage fcontext --delete 'FOLDER'" in output and "systemctl enable --now NAME" in output


def test_a_firewall_that_lets_it_in_is_named(cloud: Cloud) -> None:
    cloud.hosts["hv2"] = {"virt_hypervisor_firewall": "auto"}
    code, output = cloud.run("from=hv3")
    assert code == 0, output
    assert "Firewalls of other hypervisors let hv3 in until brine.virt.hypervisors has run without it." in output


def test_a_second_run_says_that_nothing_is_left(cloud: Cloud) -> None:
    cloud.in_maintenance, cloud.hypervisor = True, []
    cloud.tls = dict.fromkeys(cloud.hosts, [])
    for words in ((), ("--check",)):
        code, output = cloud.run("from=hv3", *words)
        assert (code, "\nhv3 is retired. Nothing is left to do.\n" in output) == (0, True), output
        assert "begun" not in output and "TASK [TLS]" not in output and "changed=0" in output


def test_who_cannot_refuse_its_certificates_yet_is_named_in_each_run(cloud: Cloud) -> None:
    cloud.unread = ["hv2"]
    words = "hv2 has no usable server certificate of its own, and accepts the certificates of hv3 until brine.virt."
    code, output = cloud.run("from=hv3")
    assert (code, f"\n{words}hypervisors has renewed it\n" in output) == (0, True), output
    cloud.in_maintenance, cloud.hypervisor = True, []
    cloud.tls = dict.fromkeys(cloud.hosts, [])
    code, output = cloud.run("from=hv3")
    assert (code, "\nhv3 is retired.\n" in output, words in output) == (0, True, True), output
    assert "Nothing is left to do" not in output and "hv1 has no usable" not in output, output


@pytest.mark.parametrize("missing", ["tls", "hypervisor", "maintenance", "keys"])
def test_a_run_that_was_cut_off_goes_on(cloud: Cloud, missing: str) -> None:
    cloud.in_maintenance = missing != "maintenance"
    cloud.tls = dict.fromkeys(cloud.hosts, [])
    cloud.tls["hv2"] = ["/etc/pki/CA/cacrl.pem: 4 revoked"] if missing == "tls" else []
    cloud.hypervisor = ["its block in /etc/libvirt/qemu.conf"] if missing == "hypervisor" else []
    if missing == "keys":
        cloud.keys.write_text(f"{_key_line('db1', 'hv3', 5)}\n", encoding="utf-8")
    code, output = cloud.run("from=hv3")
    assert (code, "Nothing is left to do" in output) == (0, False), output
    assert '"msg": "begun"' in output and "TASK [TLS]" in output, output


def test_a_machine_that_cannot_leave_keeps_it(cloud: Cloud) -> None:
    cloud.machines = {"hv3": ["web1", "own1"]}
    code, output = cloud.run("from=hv3")
    assert "own1 cannot leave hv3: fits on no other hypervisor: hv1: has no bridge br-own" in output, output
    assert ". Nothing was changed." in output and "begun" not in output and "TASK [TLS ahead]" not in output
    assert code == 2


@pytest.mark.parametrize("words", [(), ("--check",)])
def test_what_virt_migrate_refuses_is_said_before_anything_is_changed(cloud: Cloud, words: tuple[str, ...]) -> None:
    cloud.machines, cloud.asks = {"hv3": ["web1"]}, True
    code, output = cloud.run("from=hv3", *words)
    assert "web1 cannot leave hv3: uri: test:///" in output, output
    assert ". Nothing was changed." in output and "begun" not in output and "TASK [TLS ahead]" not in output
    assert code == 2


def test_a_machine_that_is_still_there_keeps_it(cloud: Cloud) -> None:
    """Here nothing moves."""
    cloud.machines = {"hv3": ["web1"]}
    code, output = cloud.run("from=hv3")
    assert "hv3 still has web1: run retire again" in output, output
    assert "begun" in output and "TASK [TLS]" not in output
    assert code == 2


def test_one_that_falls_silent_after_the_moves_is_not_taken_for_empty(cloud: Cloud) -> None:
    cloud.machines, cloud.gone = {"hv3": ["web1"]}, "hv3"
    code, output = cloud.run("from=hv3")
    assert "hv3 does not answer any more, so nothing shows that it is empty: cannot connect" in output, output
    assert "has no attribute" not in output and "TASK [TLS]" not in output
    assert code == 2


def test_what_an_interrupted_move_has_left_there_is_told_apart(cloud: Cloud) -> None:
    note = f"<m:move xmlns:m='{NAMESPACE}' source='hv2' target='hv3' uri='qemu+tls://hv3/system' autostart='no'/>"
    cloud.machines, cloud.note = {"hv3": ["web1"]}, f"<metadata>{note}</metadata>"
    code, output = cloud.run("from=hv3")
    assert "hv3 still has web1: run retire again. What a move that was interrupted has left there goes" in output, (
        output
    )
    assert "ansible-playbook -i hosts.yml brine.virt.migrate -e vm=web1" in output
    assert code == 2


def test_one_that_does_not_answer_is_not_retired_by_accident(cloud: Cloud) -> None:
    cloud.hosts["hv3"] = DEAD
    code, output = cloud.run("from=hv3")
    assert '"msg": "hv3 did not answer: ' in output, output
    assert "If it never comes back, power it off and add -e lost=true. Nothing was changed." in output, output
    assert (code, "begun" in output) == (2, False)


def test_a_lost_one_is_taken_out_without_reaching_it(cloud: Cloud) -> None:
    cloud.hosts["hv3"] = DEAD
    lines = [_key_line("web1", "hv3", 1), _key_line("db1", "hv3", 2), _key_line("db1", "hv9", 3)]
    cloud.keys.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for words in (("--check",), ()):
        before = cloud.keys.read_text(encoding="utf-8")
        code, output = cloud.run("from=hv3", "lost=true", *words)
        assert code == 0, output
        assert "\nhv2: to refuse the certificates of hv3\n" in output
        assert "\ndb1, web1: last seen on hv3; to be forgotten, so that provision may create them elsewhere\n" in output
        assert "If hv3 comes back after all, its machines with autostart start again" in output
        assert "begun" not in output and "removed from" not in output
        assert (cloud.keys.read_text(encoding="utf-8") == before) is bool(words)
    assert cloud.keys.read_text(encoding="utf-8") == f"{lines[2]}\n"
    cloud.tls = dict.fromkeys(cloud.hosts, [])
    code, output = cloud.run("from=hv3", "lost=true")
    assert (code, "\nhv3 is retired. Nothing is left to do.\n" in output) == (0, True), output


def test_one_that_only_has_another_name_now_is_not_lost(cloud: Cloud) -> None:
    cloud.certificates = {"hv1": "hv1", "hv2": "hv9", "hv3": "hv99"}
    for words in ((), ("--check",)):
        code, output = cloud.run("from=hv9", "lost=true", *words)
        assert (
            code == 2
            and (
                "hv2 answers, and has the certificate of hv9, which would be revoked: it is the same host under "
                "another name. Run brine.virt.hypervisors first, which gives it a certificate of its new name. "
                "Nothing was changed."
            )
            in output
        ), output
    # An authority is no hypervisor, and hv3 has another one's.
    for name in ("brine.virt", "hv999"):
        cloud.keys.write_text(f"{_key_line('web1', name, 1)}\n", encoding="utf-8")
        code, output = cloud.run(f"from={name}", "lost=true")
        assert code == 0, output


def test_one_that_answers_is_not_lost(cloud: Cloud) -> None:
    code, output = cloud.run("from=hv3", "lost=true")
    assert "hv3 answers. To retire it with its machines, leave out lost." in output, output
    # libvirt does not, but the host does.
    (cloud.place / "bare").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', encoding="utf-8")
    (cloud.place / "bare").chmod(0o700)
    cloud.hosts["hv3"] = {"ansible_python_interpreter": str(cloud.place / "bare")}
    code, output = cloud.run("from=hv3", "lost=true")
    assert "hv3 answers. To retire it with its machines, leave out lost." in output, output
    assert (code, "TASK [TLS ahead]" in output) == (2, False)


@pytest.mark.parametrize(
    ("said", "is_dead"),
    [
        ("alice@hv3: Permission denied (publickey).", False),
        ("Host key verification failed.", False),
        ("kex_exchange_identification: read: Connection reset by peer", False),
        ("Connection timed out during banner exchange", False),
        ("ssh: connect to host jump port 22: Connection timed out\nConnection closed by UNKNOWN port 65535", False),
        ("ssh: Could not resolve hostname hv3: Temporary failure in name resolution", False),
        ("ssh: connect to host hv3 port 22: Connection timed out", True),
        ("ssh: connect to host 192.0.2.3 port 22: No route to host", True),
        ("ssh: Could not resolve hostname hv3: Name or service not known", True),
        (
            "channel 0: open failed: connect failed: No route to host\nstdio forwarding failed\n"
            "Connection closed by UNKNOWN port 65535",
            True,
        ),
    ],
)
def test_only_one_that_is_not_there_is_lost(cloud: Cloud, said: str, is_dead: bool) -> None:
    """A host that refuses a key runs, as may its machines."""
    (cloud.place / "said").write_text(f"{said}\n", encoding="utf-8")
    ssh = cloud.place / "ssh"
    ssh.write_text(f"#!/bin/sh\ncat {cloud.place}/said >&2\nexit 255\n", encoding="utf-8")
    ssh.chmod(0o700)
    cloud.hosts["hv3"] = {"ansible_connection": "ssh", "ansible_ssh_executable": str(ssh)}
    cloud.keys.write_text(f"{_key_line('web1', 'hv3', 1)}\n", encoding="utf-8")
    code, output = cloud.run("from=hv3", "lost=true")
    if is_dead:
        assert (code, cloud.keys.read_text(encoding="utf-8")) == (0, ""), output
        return
    assert '"msg": "hv3 may be alive, and its machines running: ' in output, output
    assert f"{said.splitlines()[-1].rstrip('.')}. It counts as lost when" in output, output
    assert "Nothing was changed." in output and "TASK [TLS ahead]" not in output, output
    assert (code, cloud.keys.read_text(encoding="utf-8")) == (2, f"{_key_line('web1', 'hv3', 1)}\n")


def test_a_lost_one_need_not_be_in_the_inventory(cloud: Cloud) -> None:
    cloud.keys.write_text(f"{_key_line('web1', 'hv9', 1)}\n", encoding="utf-8")
    code, output = cloud.run("from=hv9", "lost=true")
    assert "\nweb1: last seen on hv9; to be forgotten, so that provision may create it elsewhere\n" in output, output
    assert (code, cloud.keys.read_text(encoding="utf-8"), "hosts.yml" in output) == (0, "", False)
    cloud.tls = dict.fromkeys(cloud.hosts, [])
    code, output = cloud.run("from=hv9", "lost=true")
    assert (code, "Nothing is left to do." in output) == (0, True), output
    cloud.unissued = True
    code, output = cloud.run("from=hv9", "lost=true")
    assert "hv9: no certificate was issued to a hypervisor of this name, and no machine was seen there." in output, (
        output
    )
    assert code == 2


def test_a_name_that_may_be_that_of_a_silent_one_is_not_forgotten(cloud: Cloud) -> None:
    """Whoever listed the machines with a wrong name has had it written down."""
    cloud.unissued = True
    cloud.hosts["hv2"] = DEAD
    known = f"{_key_line('web1', 'hyper2', 1)}\n"
    cloud.keys.write_text(known, encoding="utf-8")
    code, output = cloud.run("from=hyper2", "lost=true")
    words = (
        "hyper2: no certificate was issued to a hypervisor of this name, and hv2 did not answer: it may be the same one"
    )
    assert code == 2 and words in output, output
    assert cloud.keys.read_text(encoding="utf-8") == known
    # When that one answers, it is none of the others.
    cloud.hosts["hv2"] = {}
    code, output = cloud.run("from=hyper2", "lost=true")
    assert (code, cloud.keys.read_text(encoding="utf-8")) == (0, ""), output


def test_another_one_that_does_not_answer_is_named(cloud: Cloud) -> None:
    cloud.hosts["hv2"] = DEAD
    # Somebody may have moved it to hv2; of db1 the user says that it is lost.
    known = [_key_line("web1", "hv1", 1), _key_line("db1", "hv9", 2)]
    cloud.keys.write_text("".join(f"{line}\n" for line in known), encoding="utf-8")
    code, output = cloud.run("from=hv9", "lost=true")
    assert (code, cloud.keys.read_text(encoding="utf-8")) == (0, f"{known[0]}\n"), output
    code, output = cloud.run("from=hv3")
    assert (code, cloud.keys.read_text(encoding="utf-8")) == (0, f"{known[0]}\n"), output
    words = "hv2 did not answer, and accepts the certificates of hv3 until brine.virt.hypervisors, or retire again, "
    assert f"\n{words}has reached it\n" in output, output
    cloud.hosts["hv1"] = DEAD
    code, output = cloud.run("from=hv3")
    assert '"msg": "No other hypervisor answered: ' in output, output
    assert code == 2
