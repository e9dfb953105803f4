# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role virt_hypervisor writes for machines that start and stop with their host; its own tasks, elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

ROLE = Path(__file__).resolve().parents[4] / "roles/virt_hypervisor"
# Each starts whole runs of Ansible.
pytestmark = pytest.mark.slow
FACTS = {"os_family": "Debian", "python": {"executable": "/usr/bin/python3"}}


def tasks(file: str) -> dict[str, dict[str, t.Any]]:
    return {task["name"]: task for task in yaml.safe_load((ROLE / "tasks" / file).read_text(encoding="utf-8"))}


def run(directory: Path, *todo: dict[str, t.Any], **given: t.Any) -> subprocess.CompletedProcess[str]:
    """Run tasks of the role, with these values of its variables."""
    defaults, variables = (yaml.safe_load((ROLE / f"{name}/main.yml").read_text()) for name in ("defaults", "vars"))
    words = ("start_order", "guests", "wrong", "mistakes", "lists")
    wanted = {key: value for key, value in variables.items() if any(word in key for word in words)}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        # role_path, as in a role, where it is Ansible's own.
        "vars": {
            **defaults,
            **wanted,
            "role_path": str(ROLE),
            "__virt_hypervisor_main_units": {"here": "libvirtd"},
        },
        "tasks": list(todo),
    }
    (directory / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    extra = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "ansible_facts": FACTS,
        "__virt_hypervisor_form": "here",
        **given,
    }
    (directory / "given.json").write_text(json.dumps(extra))
    return run_ansible(directory, "-i", "localhost,", "play.yml", "-e", "@given.json")


def test_only_the_named_keys_of_libvirt_guests_are_changed(tmp_path: Path) -> None:
    setting = tasks("guests.yml")["Set how machines are shut down with the host"]
    file = tmp_path / "libvirt-guests"
    file.write_text(
        "# Mine\n#ON_BOOT=ignore\nON_SHUTDOWN=suspend\n#SHUTDOWN_TIMEOUT=300\nURIS='default'\n  ON_BOOT=start\n"
    )
    given = {"__virt_hypervisor_guests_file": str(file), "virt_hypervisor_shutdown_timeout": 600}
    for changed in (1, 0):
        done = run(tmp_path, setting, **given)
        assert f"changed={changed} " in done.stdout and done.returncode == 0, done.stdout
    assert file.read_text() == (
        "# Mine\n#ON_BOOT=ignore\nON_SHUTDOWN=shutdown\n#SHUTDOWN_TIMEOUT=300\nSHUTDOWN_TIMEOUT=600\nURIS='default'\n"
        "ON_BOOT=ignore\nPARALLEL_SHUTDOWN=8\n"
    )
    # Where libvirt starts machines, whoever else does so is left as he is; a distribution may have no file.
    file.unlink()
    done = run(tmp_path, setting, **given, virt_hypervisor_start_order=False)
    assert file.read_text() == "ON_SHUTDOWN=shutdown\nPARALLEL_SHUTDOWN=8\nSHUTDOWN_TIMEOUT=600\n", done.stdout


@pytest.mark.parametrize(("guests", "left"), [(True, "# Mine\nON_SHUTDOWN=shutdown\n"), (False, None)])
def test_without_the_start_order_libvirt_guests_starts_machines_as_before(
    tmp_path: Path, guests: bool, left: str | None
) -> None:
    (leaving,) = (task for name, task in tasks("no_start_order.yml").items() if "libvirt-guests" in name)
    file = tmp_path / "libvirt-guests"
    file.write_text(text := "# Mine\nON_BOOT=ignore\nON_SHUTDOWN=shutdown\n")
    given = {"__virt_hypervisor_guests_file": str(file), "virt_hypervisor_libvirt_guests": guests}
    for changed in (int(guests), 0):
        done = run(tmp_path, leaving, **given, virt_hypervisor_start_order=False)
        assert f"changed={changed} " in done.stdout and done.returncode == 0, done.stdout
    assert file.read_text() == (left or text)


@pytest.mark.parametrize(("family", "folder"), [("Debian", "default"), ("RedHat", "sysconfig"), ("Suse", "sysconfig")])
def test_the_file_of_libvirt_guests(tmp_path: Path, family: str, folder: str) -> None:
    say = {"name": "say", "ansible.builtin.debug": {"msg": "{{ __virt_hypervisor_guests_file }}"}}
    done = run(tmp_path, say, ansible_facts={**FACTS, "os_family": family})
    assert f'"msg": "/etc/{folder}/libvirt-guests"' in done.stdout


@pytest.mark.parametrize("guests", [True, False])
def test_the_units(tmp_path: Path, guests: bool) -> None:
    task = tasks("start_order.yml")["Install the units that call it"]
    template = {"src": f"{ROLE}/templates/{{{{ item }}}}.j2", "dest": f"{tmp_path}/{{{{ item }}}}"}
    done = run(tmp_path, {**task, "ansible.builtin.template": template}, virt_hypervisor_libvirt_guests=guests)
    assert done.returncode == 0, done.stdout
    script = "/usr/bin/python3 /usr/local/lib/brine-virt-start-order.py"
    prepare = (tmp_path / "brine-virt-start-order-prepare.service").read_text().splitlines()
    assert f"ExecStart={script} prepare" in prepare
    start = (tmp_path / "brine-virt-start-order.service").read_text().splitlines()
    assert f"ExecStart={script} start" in start
    assert (f"ExecStop={script} stop --timeout 300 --parallel 8" in start) is guests
    assert ("TimeoutStopSec=360" in start) is guests
    # With modular daemons nothing else keeps virtlogd until the machines are down.
    after = {unit for line in start if line.startswith("After=") for unit in line.partition("=")[2].split()}
    assert {"libvirtd.service", "virtqemud.service", "virtlogd.service", "virtlogd.socket"} <= after


FIREWALL = "virt_hypervisor_firewall_confirm"


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("virt_hypervisor_shutdown_timeout", -1, "virt_hypervisor_shutdown_timeout: -1 is less than 0."),
        ("virt_hypervisor_parallel_shutdown", 0, "virt_hypervisor_parallel_shutdown: 0 is less than 1."),
        (f"{FIREWALL}_seconds", 0, f"{FIREWALL}_seconds: 0 is not from 1 to 3600."),
        (f"{FIREWALL}_seconds", 3601, f"{FIREWALL}_seconds: 3601 is not from 1 to 3600."),
    ],
)
def test_a_number_that_is_too_small_or_too_large_is_one_sentence(
    tmp_path: Path, name: str, value: int, sentence: str
) -> None:
    refuse = tasks("main.yml")["Refuse mistakes in the variables before anything is changed"]
    done = run(tmp_path, refuse, **{name: value})
    assert f'"msg": "{sentence} Nothing was changed."' in done.stdout
    assert done.returncode == 2


FALLBACK = "test ! -e /run/brine-virt/start-order ||"


@pytest.mark.parametrize(
    ("flag", "result", "left"),
    [
        (True, "exit-code", {"start-order-failed", "calls"}),
        # The host shuts down, or somebody stops the unit.
        (True, "success", {"autostarted"}),
        (False, "exit-code", {"autostarted"}),
    ],
)
def test_if_the_script_fails_libvirt_starts_the_machines(
    tmp_path: Path, flag: bool, result: str, left: set[str]
) -> None:
    """The command line after the end of the script, in the shell, with paths of the test and without systemd."""
    unit = (ROLE / "templates/brine-virt-start-order.service.j2").read_text()
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStopPost=/bin/sh -c '")]
    command = line.removeprefix("ExecStopPost=/bin/sh -c '").removesuffix("'").replace("$$", "$")
    assert command.startswith(FALLBACK)
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    for path in ("/run/brine-virt/", "/run/libvirt/qemu/"):
        command = command.replace(path, f"{run_dir}/")
    command = command.replace("systemctl", f"sh {run_dir}/systemctl").replace("{{", "").replace("}}", "")
    calls = run_dir / "calls"
    # Notes what it is called with, and whether libvirt's mark is there then.
    program = f'echo "$@" "$(test -e {run_dir}/autostarted && echo marked)" >>{calls}\n'
    (run_dir / "systemctl").write_text(program)
    (run_dir / "autostarted").write_text("")
    if flag:
        (run_dir / "start-order").write_text("")
    # The form of libvirt is the template's; here it is a word of the shell.
    command = command.replace("__virt_hypervisor_main_units[__virt_hypervisor_form]", "libvirtd")
    subprocess.run(["/bin/sh", "-c", command], env={"PATH": "/usr/bin:/bin", "SERVICE_RESULT": result}, check=True)
    assert {path.name for path in run_dir.iterdir()} - {"systemctl"} == left
    if "calls" in left:
        words = [line.split() for line in calls.read_text().splitlines()]
        stop, start = ["stop", "libvirtd", ".service", "marked"], ["--no-block", "start", "libvirtd", ".service"]
        assert words == [stop, start]
