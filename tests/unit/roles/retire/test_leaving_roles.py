# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles' own tasks for a host that leaves: on files of the test, and in check mode on this computer."""

from __future__ import annotations

import json
import re
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import PLAYBOOKS, run_ansible
from ansible_collections.brine.virt.tests.unit.roles.order.test_hypervisor_role import run, tasks

# Each starts whole runs of Ansible.
pytestmark = pytest.mark.slow


def _removing() -> list[dict[str, t.Any]]:
    """The tasks of virt_hypervisor that work with files."""
    found = tasks("remove.yml")
    return [
        task
        for name, task in found.items()
        if not re.match(
            "Get the facts|Find out|Leave (starting|the kernel)|Stop the metrics exporter|Look for|Remove the firewall",
            name,
        )
    ]


def test_only_what_the_role_has_written_is_removed(tmp_path: Path) -> None:
    guests, qemu = tmp_path / "libvirt-guests", tmp_path / "qemu.conf"
    guests.write_text("# Mine\nON_BOOT=ignore\nURIS='default'\n")
    qemu.write_text('user = "root"\n')
    given = {
        "__virt_hypervisor_guests_file": str(guests),
        "__virt_hypervisor_qemu_conf": str(qemu),
        "__virt_hypervisor_existing": [],
        "__virt_hypervisor_apparmor_file": str(tmp_path / "apparmor"),
        "__virt_hypervisor_kernel_removed": {"changed": False},
        "__virt_hypervisor_qemu_passwords": [],
        "virt_hypervisor_qemu_conf": {"max_files": 4096},
    }
    write = tasks("configure.yml")["Set QEMU options"]
    del write["notify"]
    done = run(tmp_path, tasks("guests.yml")["Set how machines are shut down with the host"], write, **given)
    assert done.returncode == 0, done.stdout
    # Somebody has changed this one since.
    guests.write_text(guests.read_text().replace("PARALLEL_SHUTDOWN=8", "PARALLEL_SHUTDOWN=2"))
    before = guests.read_text(), qemu.read_text()
    say = {"name": "Say", "ansible.builtin.debug": {"var": "virt_hypervisor_removed"}}
    both = [f"its lines in {guests}", f"its block in {qemu}"]
    for check, changed, removed in ((True, 2, both), (False, 2, both), (False, 0, [])):
        todo = [{**task, "check_mode": True} if check else task for task in _removing()]
        done = run(tmp_path, *todo, say, **given)
        assert f"changed={changed} " in done.stdout and done.returncode == 0, done.stdout
        assert all(f'"{line}"' in done.stdout for line in removed), done.stdout
        if check:
            assert (guests.read_text(), qemu.read_text()) == before
    assert guests.read_text() == "# Mine\nURIS='default'\nPARALLEL_SHUTDOWN=2\n"
    assert qemu.read_text() == 'user = "root"\n'
    # Files that are not there are no error.
    guests.unlink()
    qemu.unlink()
    done = run(tmp_path, *_removing(), **given)
    assert "changed=0 " in done.stdout and done.returncode == 0, done.stdout


def test_the_unit_that_shows_that_there_is_something_to_remove_goes_last(tmp_path: Path) -> None:
    remove = tasks("no_start_order.yml")["Remove its units and its script"]
    done = run(tmp_path, {**remove, "check_mode": True})
    assert done.returncode == 0, done.stdout
    order = re.findall(r"item=(\S+?)\)", done.stdout)
    assert order[-1] == "/etc/systemd/system/brine-virt-start-order.service" and len(order) == 3, order


def test_a_port_is_said_so_that_it_fits_under_to_be_removed(tmp_path: Path) -> None:
    """Whether it is closed already, or only would be in check mode."""
    found = yaml.safe_load((PLAYBOOKS.parent / "roles/virt_tls/tasks/remove.yml").read_text(encoding="utf-8"))
    (keep,) = [task for task in found if task["name"] == "Keep what was changed"]
    say = {"name": "Say", "ansible.builtin.debug": {"msg": "{{ virt_tls_removed | join('; ') }}"}}
    given = {
        "virt_tls_enabled": True,
        "virt_tls_leaving": "localhost",
        "__virt_tls_disabled": {"changed": False},
        "__virt_tls_socket": {"stdout": "active"},
        "__virt_tls_daemon_file": "/etc/libvirt/libvirtd.conf",
        "__virt_tls_unlisted": {"changed": True},
        "__virt_tls_removal": {"actions": ["/etc/pki/libvirt/servercert.pem"], "left": []},
    }
    done = run(tmp_path, keep, say, **given)
    lines = "port 16514 (closed); its block in /etc/libvirt/libvirtd.conf; /etc/pki/libvirt/servercert.pem"
    assert f'"msg": "{lines}"' in done.stdout, done.stdout


def test_both_roles_ahead(tmp_path: Path) -> None:
    """On this computer, as one that stays and one that leaves: nothing is changed, and no authority is made."""
    etc = [path for path in (Path("/etc/pki"), Path("/etc/libvirt")) if path.exists()]
    before = sorted(str(path) for top in etc for path in top.rglob("*"))
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.yml").write_text(json.dumps({"hypervisors": {"hosts": {"hv1": here, "hv3": here}}}))
    leave = PLAYBOOKS / "tasks/leave.yml"
    shown = ", ".join(f"'{name}': {name}" for name in ("virt_retire_own", "virt_tls_unissued", "virt_tls_left"))
    content = f"{{{{ {{{shown}}} | to_json }}}}"
    play = {
        "hosts": "hypervisors",
        "gather_facts": False,
        "vars": {
            "virt_retire_here": True,
            "virt_retire_lost": False,
            "virt_retire_answered": [],
            "virt_known_hosts": str(tmp_path / "keys"),
            "virt_tls_authority": str(tmp_path / "authority"),
            # Whatever this computer has is somebody else's.
            "virt_tls_replace_foreign": True,
        },
        "tasks": [
            {"name": "Ahead", "ansible.builtin.include_tasks": str(leave), "vars": {"virt_retire_ahead": True}},
            {
                "name": "Say",
                "ansible.builtin.copy": {"content": content, "dest": f"{tmp_path}/{{{{ inventory_hostname }}}}"},
            },
        ],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    done = run_ansible(tmp_path, "-i", "hosts.yml", "play.yml", "-e", '{"virt_retire_from": "hv3"}')
    assert done.returncode == 0, done.stdout
    stays, leaves = (json.loads((tmp_path / host).read_text()) for host in ("hv1", "hv3"))
    assert any("cacert.pem: O=brine.virt" in line for line in stays["virt_retire_own"]), stays
    assert stays["virt_tls_unissued"] is True
    assert not [line for line in leaves["virt_retire_own"] if "pki" in line], leaves
    assert sorted(str(path) for top in etc for path in top.rglob("*")) == before
    assert not (tmp_path / "authority").exists()
