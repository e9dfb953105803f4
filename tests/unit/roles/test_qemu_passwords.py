# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passwords among the settings of QEMU are shown nowhere; the role's own tasks, on a file of the test."""

from __future__ import annotations

import ctypes
import json
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

ROLE = Path(__file__).resolve().parents[3] / "roles/virt_hypervisor"
# Each starts whole runs of Ansible.
pytestmark = pytest.mark.slow
PASSWORD = "sekrit-word-77"


def task(file: str, name: str) -> dict[str, t.Any]:
    tasks = yaml.safe_load((ROLE / "tasks" / file).read_text(encoding="utf-8"))
    return next(dict(one) for one in tasks if one["name"] == name)


def run(directory: Path, settings: dict[str, t.Any], *options: str) -> str:
    """All output of setting these, with --diff."""
    variables = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    words = (
        "__virt_hypervisor_qemu_",
        "__virt_hypervisor_wrong_",
        "__virt_hypervisor_mistakes",
        "__virt_hypervisor_lists",
    )
    wanted = {key: value for key, value in variables.items() if key.startswith(words)}
    conf = directory / "qemu.conf"
    if not conf.exists():
        conf.write_text(f'spice_password = "{PASSWORD}"\n')
    setting = task("configure.yml", "Set QEMU options")
    setting["ansible.builtin.blockinfile"]["path"] = str(conf)
    del setting["notify"]
    tasks = [task("main.yml", "Refuse mistakes in the variables before anything is changed"), setting]
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text(encoding="utf-8"))
    # As in a role, where the variable is Ansible's own.
    variables = {**defaults, **wanted, "role_path": str(ROLE)}
    play = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": tasks}
    (directory / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    given = {
        "virt_hypervisor_qemu_conf": settings,
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
    }
    (directory / "given.json").write_text(json.dumps(given))
    done = run_ansible(directory, "-i", "localhost,", "--diff", *options, "play.yml", "-e", "@given.json")
    return done.stdout + done.stderr


@pytest.mark.parametrize("verbosity", [(), ("-vvv",)])
def test_no_password_is_shown(tmp_path: Path, verbosity: tuple[str, ...]) -> None:
    output = run(tmp_path, {"vnc_password": PASSWORD, "max_processes": 7}, *verbosity)
    assert "changed=1" in output and "failed=0" in output
    assert PASSWORD not in output
    assert f'max_processes = 7\nvnc_password = "{PASSWORD}"\n' in (tmp_path / "qemu.conf").read_text()
    # Nor the one that goes.
    output = run(tmp_path, {"max_processes": 7}, *verbosity)
    assert "changed=1" in output
    assert PASSWORD not in output


# The second is not how qemu.conf calls it, and the third has it one level down.
@pytest.mark.parametrize(("key", "inner"), [("vnc_password", "word"), ("spice_Passwd", "word"), ("vnc", "password")])
def test_a_password_that_is_none_is_refused_without_being_shown(tmp_path: Path, key: str, inner: str) -> None:
    output = run(tmp_path, {key: {inner: PASSWORD}}, "-vvv")
    assert f"virt_hypervisor_qemu_conf.{key}: a setting of qemu.conf is a string" in output
    assert PASSWORD not in output


def test_what_is_no_secret_is_named(tmp_path: Path) -> None:
    output = run(tmp_path, {"user": {"name": "a"}, "max_files": 8})
    assert 'a list of strings, not {"name": "a"}.' in output


def parsed(text: str, key: str) -> str | None:
    """What libvirt's own parser reads."""
    libvirt = ctypes.CDLL("libvirt.so.0")
    libvirt.virConfReadString.restype = ctypes.c_void_p
    libvirt.virConfGetValueString.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]
    libvirt.virInitialize()
    conf = libvirt.virConfReadString(text.encode(), 0)
    assert conf, f"libvirt cannot read {text}"
    value = ctypes.c_char_p()
    libvirt.virConfGetValueString(conf, key.encode(), ctypes.byref(value))
    return value.value.decode() if value.value is not None else None


def test_libvirt_reads_what_was_meant(tmp_path: Path) -> None:
    texts = {"vnc_password": 'pä\\s"s', "spice_password": "it's", "user": "pä\\u0041", "group": ""}
    (tmp_path / "qemu.conf").write_text("")
    output = run(tmp_path, {**texts, "max_files": 8, "spice_tls": True, "cgroup_controllers": ["cpu", "memory"]})
    assert "failed=0" in output
    text = (tmp_path / "qemu.conf").read_text()
    assert {key: parsed(text, key) for key in texts} == texts
    assert 'cgroup_controllers = ["cpu", "memory"]\n' in text
    assert "max_files = 8\n" in text and "spice_tls = 1\n" in text


def test_what_no_line_of_qemu_conf_can_hold_is_refused(tmp_path: Path) -> None:
    output = run(tmp_path, {"user": 1.5, "vnc_password": "sek\nrit", "spice_password": "a'b\"c", "group": ["a\nb"]})
    assert "a list of strings, not 1.5." in output
    for key in ("vnc_password", "spice_password", "group"):
        assert f"virt_hypervisor_qemu_conf.{key}: a string in qemu.conf cannot have a line break" in output
    assert "changed=0" in output


def test_what_is_no_name_of_a_setting_is_refused(tmp_path: Path) -> None:
    """libvirt cannot read such a file, and its daemon does not start."""
    with pytest.raises(AssertionError):
        parsed("max core = 1\n", "max")
    output = run(tmp_path, {"max core": 1, "max_core\n": 1, "9p": 1, "max_files": 8})
    assert output.count("is not the name of a setting; such a name has letters, digits and _ only") >= 3
    assert '"max core"' in output.replace("\\", "") and "max_files" not in output
    assert "changed=0" in output
