# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings in the files of libvirt's daemons, as libvirt itself reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._base.text_file import read_setting


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("port = 49152", "49152"),
        ("  port=49152 # the first", "49152"),
        ('port = "a b"', "a b"),
        ("port = 'a'  # quoted", "a"),
        ('port = ""', ""),
        ('port = "a#b"', "a#b"),
        ("port = 1\nport = 2", "1"),
        ("#port = 1", None),
        ("other_port = 1", None),
        ("port_max = 1", None),
        ("", None),
    ],
)
def test_a_setting(tmp_path: Path, line: str, value: str | None) -> None:
    path = tmp_path / "qemu.conf"
    path.write_text(f"# port = 7\nsomething = 1\n{line}\nlast = [ 1 ]\n")
    assert read_setting(str(path), "port") == value


def test_a_file_that_is_not_there_has_no_settings(tmp_path: Path) -> None:
    assert read_setting(str(tmp_path / "missing"), "port") is None


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot be read"):
        read_setting(str(tmp_path), "port")
