# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where machines come in is what qemu.conf says, else libvirt's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.qemu_conf import migration_ports


@pytest.mark.parametrize(
    ("settings", "first", "last"),
    [
        ("", 49152, 49215),
        ("#migration_port_min = 1\n", 49152, 49215),
        ("migration_port_min = 61152\nmigration_port_max = 61215\n", 61152, 61215),
        ("migration_port_max=49160", 49152, 49160),
    ],
)
def test_the_settings_of_qemu_conf_count(tmp_path: Path, settings: str, first: int, last: int) -> None:
    path = tmp_path / "qemu.conf"
    path.write_text(f"# a comment\n{settings}")
    assert migration_ports(str(path)) == range(first, last + 1)


def test_without_qemu_conf_the_ports_are_libvirts_own(tmp_path: Path) -> None:
    assert migration_ports(str(tmp_path / "missing")) == range(49152, 49216)
