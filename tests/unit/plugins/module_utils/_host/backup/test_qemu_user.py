# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU, as another user, is let into a directory or not: the kernel says so."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.backup import qemu_user
from ansible_collections.brine.virt.plugins.module_utils._host.backup.qemu_user import require_open_to_qemu

DESCRIPTION = (
    "<domain><seclabel type='dynamic' model='apparmor' relabel='yes'><label>libvirt-1</label></seclabel>"
    "<seclabel type='dynamic' model='dac' relabel='yes'><label>{label}</label></seclabel></domain>"
)


def running(label: str) -> etree._Element:
    return parse_xml(DESCRIPTION.format(label=label))


@pytest.fixture
def somebody() -> str:
    """The label of a QEMU that runs as a user with no rights of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    found = pwd.getpwnam("nobody")
    return f"+{found.pw_uid}:+{found.pw_gid}"


def test_the_first_directory_that_it_cannot_enter_is_named(tmp_path: Path, somebody: str) -> None:
    # Those of a test are open to nobody else.
    closed = next(step for step in reversed(tmp_path.parents) if not os.stat(step).st_mode & 0o001)
    with pytest.raises(HostError) as caught:
        require_open_to_qemu(running(somebody), str(tmp_path), "cannot write the backup")
    assert str(caught.value) == (
        f"cannot write the backup: QEMU writes there itself, and {closed} does not let other users in. Let QEMU's user "
        f"enter it: chmod o+x {closed}"
    )


def test_one_that_can_enter(somebody: str) -> None:
    require_open_to_qemu(running(somebody), "/usr/bin", "cannot write")
    require_open_to_qemu(running("+0:+0"), "/root", "cannot write")


@pytest.mark.parametrize("label", ["", "qemu:qemu", "+4294967294:+4294967294"])
def test_who_is_not_known_is_not_asked(tmp_path: Path, label: str) -> None:
    """Then the job says it, when it begins."""
    require_open_to_qemu(running(label), str(tmp_path), "cannot write")
    require_open_to_qemu(parse_xml("<domain/>"), str(tmp_path), "cannot write")


def test_without_the_programs_nobody_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_what: object, **_how: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(qemu_user, "run_program", missing)
    require_open_to_qemu(running("+65534:+65534"), str(tmp_path), "cannot write")
