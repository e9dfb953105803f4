# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the inventory and the file of host keys know machines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.plugin_utils._inventory.host_vars import DEFAULT_KNOWN_HOSTS

pytestmark = pytest.mark.medium

UUID = "7f2a4a4e-5d0b-4b0e-9f3e-0d6d8a4d2f11"
KEYS = f"# mine\nvirt-{UUID} ssh-ed25519 AAAA brine.virt:hv3 web1\n"
HOSTS = """here ansible_connection=local
[virt_machines]
a virt_name=web2 virt_hypervisor=hv1
b virt_name=web1 virt_hypervisor="{{ 'hv' ~ 3 }}"
c virt_name=web1 virt_hypervisor=hv2
d
"""


def ask(place: Path, *terms: str, hosts: str = HOSTS) -> str:
    (place / "hosts").write_text(hosts, encoding="utf-8")
    words = ", ".join(repr(word) for word in ("brine.virt.last_seen", *terms))
    module = ["here", "-m", "ansible.builtin.debug", "-a", f"msg={{{{ lookup({words}) }}}}"]
    done = subprocess.run(
        [sys.executable, "-m", "ansible.cli.adhoc", "-i", "hosts", *module],
        cwd=place,
        env={**os.environ, "HOME": str(place)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("terms", [[], [""], ["~/keys"]])
def test_where_machines_were_seen_last(tmp_path: Path, terms: list[str]) -> None:
    path = Path(DEFAULT_KNOWN_HOSTS.replace("~", str(tmp_path))) if not any(terms) else tmp_path / "keys"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(KEYS, encoding="utf-8")
    assert json.loads(ask(tmp_path, *terms).partition("=>")[2])["msg"] == {"web1": ["hv3", "hv2"], "web2": ["hv1"]}


def test_a_machine_that_was_moved_since_the_inventory_was_cached(tmp_path: Path) -> None:
    left = f"virt-{UUID} ssh-ed25519 AAAA brine.virt:hv2\n"
    (tmp_path / "keys").write_text(f"{KEYS}{left}", encoding="utf-8")
    hosts = (
        f"here ansible_connection=local\n[virt_machines]\nweb1 virt_name=web1 virt_hypervisor=hv2 virt_uuid={UUID}\n"
    )
    assert json.loads(ask(tmp_path, "~/keys", hosts=hosts).partition("=>")[2])["msg"] == {"web1": ["hv3"]}


def test_without_machines_and_file_nothing_is_known(tmp_path: Path) -> None:
    said = ask(tmp_path, "~/keys", hosts="here ansible_connection=local\n")
    assert json.loads(said.partition("=>")[2])["msg"] == {}


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    said = ask(tmp_path, str(tmp_path))
    assert f"brine.virt.last_seen: cannot read {tmp_path}: Is a directory" in said
    # Ansible would append what is behind it.
    assert "Errno" not in said
