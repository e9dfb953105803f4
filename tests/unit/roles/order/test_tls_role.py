# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role virt_tls asks of its hosts, and in which order it does what must not be half done."""

from __future__ import annotations

import datetime
import os
import subprocess
import typing as t
import venv
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

ROLE = Path(__file__).resolve().parents[4] / "roles/virt_tls"


@pytest.mark.slow
def test_a_host_that_takes_no_part_is_told_from_one_that_was_silent(tmp_path: Path) -> None:
    apart: dict[str, t.Any] = {"off": "{{ not true }}", "text": "no", "silent": True}
    hosts = {"hv1": {}, "hv2": {}, **{name: {"virt_tls_enabled": value} for name, value in apart.items()}}
    inventory = {"all": {"vars": {"ansible_connection": "local"}}, "hypervisors": {"hosts": hosts}}
    play = {
        "hosts": "hv1,hv2",
        "gather_facts": False,
        "vars_files": [str(ROLE / "vars/main.yml")],
        "tasks": [
            {"ansible.builtin.set_fact": {"__virt_tls_trust": {"trusts": ["{{ inventory_hostname }}"]}}},
            {"ansible.builtin.assert": {"that": "__virt_tls_answers == wanted"}, "vars": {"wanted": {
                "hv1": {"trusts": ["hv1"]}, "hv2": {"trusts": ["hv2"]}, "off": False, "text": False, "silent": None,
            }}},
        ],
    }  # fmt: skip
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    # What a narrower pattern leaves out are hosts of the cloud all the same, whose names nobody else is to get.
    for words in ((), ("-e", "virt_hypervisors=hv1,hv2")):
        done = run_ansible(tmp_path, "-i", "hosts.yml", "play.yml", *words)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("tasks", ["main", "remove"])
def test_a_pattern_of_names_that_is_a_text_admits_nobody(tmp_path: Path, tasks: str) -> None:
    """Of its letters * would admit whoever has a certificate, also the guests' QEMU."""
    names = {"virt_tls_allowed_names": "O=brine.virt,OU=operator,CN=*", "virt_tls_leaving": "hv9"}
    task = {"ansible.builtin.include_role": {"name": "brine.virt.virt_tls", "tasks_from": tasks}, "vars": names}
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [task]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = run_ansible(tmp_path, "--check", "play.yml")
    right = '[\\"O=brine.virt,OU=operator,CN=*\\"]'
    assert f"virt_tls_allowed_names: this is not a list; write it as a list: {right}" in done.stdout, done.stdout
    assert done.returncode == 2


@pytest.mark.slow
def test_check_mode_does_not_fail_where_the_role_before_would_install_cryptography(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a host with libvirt of its own, in the playbook hypervisors."""
    venv.create(tmp_path / "bare", symlinks=True)
    (tmp_path / "systemctl").write_text("#!/bin/sh\necho libvirtd.service enabled enabled\n")
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    bare = {"ansible_connection": "local", "ansible_python_interpreter": str(tmp_path / "bare/bin/python")}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"hypervisors": {"hosts": {"hv1": bare}}}))
    play = {"hosts": "hv1", "gather_facts": False, "roles": ["brine.virt.virt_tls"]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = run_ansible(tmp_path, "-i", "hosts.yml", "--check", "play.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Would create keys and certificates once python3-cryptography is installed, and make" in done.stdout


def test_the_socket_is_closed_before_the_list_of_names_goes() -> None:
    """Without the list a daemon admits everybody who has a certificate, also the guests' QEMU."""
    names = [task["name"] for task in yaml.safe_load((ROLE / "tasks/no_serve.yml").read_text(encoding="utf-8"))]
    assert names.index("Close the socket for TLS") < names.index("Remove who may connect")


# As of systemd 252; one before 247 knows no --timestamp.
SYSTEMCTL = """#!/bin/sh
case "$*" in
  is-active*) exit 0 ;;
  *--timestamp=us+utc*) {us} ;;
  show*) echo "Fri 2026-11-27 10:00:00 UTC" ;;
esac
"""


@pytest.mark.parametrize("us", ['echo "Fri 2026-11-27 10:00:00.500000 UTC"', "exit 1"])
@pytest.mark.parametrize("place", ["tasks/serve.yml", "../virt_hypervisor/tasks/unread.yml"])
def test_a_file_that_the_daemon_has_read_is_told_from_a_newer_one(tmp_path: Path, us: str, place: str) -> None:
    """Also one of the second in which it began, where systemd says more than that."""
    tasks = yaml.safe_load((ROLE / place).read_text(encoding="utf-8"))
    task = next(one for one in tasks if "-newermt" in one.get("ansible.builtin.shell", ""))
    (tmp_path / "systemctl").write_text(SYSTEMCTL.format(us=us))
    (tmp_path / "systemctl").chmod(0o755)
    file = tmp_path / "libvirtd.conf"
    file.touch()
    begun = datetime.datetime(2026, 11, 27, 10, tzinfo=datetime.timezone.utc).timestamp()
    for after, is_unread in ((-1.0, False), (0.4, us == "exit 1"), (0.6, True), (2.0, True)):
        os.utime(file, (begun + after, begun + after))
        done = subprocess.run(
            ["sh", "-c", task["ansible.builtin.shell"].replace("/etc/libvirt", str(tmp_path))],
            env={
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "DAEMON": "libvirtd",
                "UNIT": "libvirtd.service",
                "FILE": str(file),
                "LC_ALL": "C",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert bool(done.stdout) is is_unread, (after, done.stdout, done.stderr)


@pytest.mark.slow
def test_a_name_that_libvirts_configuration_cannot_hold_is_refused_before_anything_else(tmp_path: Path) -> None:
    first = yaml.safe_load((ROLE / "tasks/certificates.yml").read_text(encoding="utf-8"))[0]["block"][0]
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": [first]}])
    )
    for names, is_refused in (
        (["O=Example\\, Inc.,CN=*", "O=Müller AG,CN=*"], False),
        (['O="A",CN=*'], True),
        (["O=\n"], True),
    ):
        (tmp_path / "given.yml").write_text(yaml.safe_dump({"virt_tls_allowed_names": names}))
        done = run_ansible(tmp_path, "play.yml", "-e", "@given.yml")
        assert (done.returncode != 0) is is_refused, done.stdout + done.stderr
        assert ("virt_tls_allowed_names: a pattern holds" in done.stdout + done.stderr) is is_refused


@pytest.mark.slow
def test_the_controllers_certificate_is_made_as_the_user_who_runs_the_play(tmp_path: Path) -> None:
    """Whatever the inventory says for all hosts, which counts for localhost as well, and outranks keywords."""
    tasks = yaml.safe_load((ROLE / "tasks/certificates.yml").read_text(encoding="utf-8"))[0]["block"]
    issue = next(task for task in tasks if task["name"] == "Issue a client certificate for the controller")
    # As root, Ansible does not become root.
    elsewhere = {"ansible_become": True, "ansible_become_user": "nobody", "ansible_become_exe": "/no/sudo"}
    elsewhere.update(ansible_python_interpreter="/no/python", ansible_connection="ssh")
    inventory = {"all": {"hosts": {"hv1": {}}, "vars": elsewhere}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
    given = {"virt_tls_client_name": "alice", "virt_tls_client_folder": str(tmp_path / "pki"), "__virt_tls_answers": {}}
    play = {"hosts": "hv1", "gather_facts": False, "become": True, "vars": given, "tasks": [issue]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = run_ansible(tmp_path, "-i", "hosts.yml", "play.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "pki/clientcert.pem").exists(), sorted(tmp_path.rglob("*"))
