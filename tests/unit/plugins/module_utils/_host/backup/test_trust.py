# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nobody but root, and who is named, can change where the directory of backups leads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, InputError
from ansible_collections.brine.virt.plugins.module_utils._host.backup.directory import list_backups, locked
from ansible_collections.brine.virt.plugins.module_utils._host.backup.trust import read_owner, require_trusted
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.backup.backup_files import FIRST, add_chain

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def test_what_is_roots_alone_is_trusted(tmp_path: Path) -> None:
    require_trusted(str(tmp_path))
    # Nobody can rename what is another's in there.
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    (tmp_path / "tmp" / "backup").mkdir()
    require_trusted(str(tmp_path / "tmp" / "backup"))
    (tmp_path / "link").symlink_to("tmp/../tmp/backup")
    require_trusted(str(tmp_path / "link"))
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        require_trusted(str(tmp_path / "loop"))
    with pytest.raises(FileNotFoundError):
        require_trusted(str(tmp_path / "nothing"))


def test_what_everybody_can_write_to_is_not(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "backup").mkdir()
    (tmp_path / "link").symlink_to("open/backup")
    for name in ("open/backup", "link"):
        with pytest.raises(HostError) as caught:
            require_trusted(str(tmp_path / name))
        words = f"{tmp_path}/open can be written to by everybody, who could have files of this hypervisor read and"
        assert str(caught.value).startswith(words)
        assert str(caught.value).endswith(f"chmod go-w {tmp_path}/open")
    with pytest.raises(HostError, match="can be written to by everybody"):
        list_backups(str(tmp_path / "open"), "web1")
    with pytest.raises(HostError, match="can be written to by everybody"), locked(str(tmp_path / "open"), "web1", 0):
        pass
    assert not (tmp_path / "open" / "web1").exists()


@as_root
def test_what_belongs_to_somebody_else_is_not(tmp_path: Path) -> None:
    (tmp_path / "theirs" / "backup").mkdir(parents=True)
    os.chown(tmp_path / "theirs", NOBODY, 0)
    with pytest.raises(HostError, match=r"theirs belongs to nobody, who could .*set owner: nobody"):
        require_trusted(str(tmp_path / "theirs" / "backup"))
    require_trusted(str(tmp_path / "theirs" / "backup"), NOBODY)
    # A link in a directory where everybody may make some.
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    (tmp_path / "tmp" / "link").symlink_to(tmp_path)
    require_trusted(str(tmp_path / "tmp" / "link"))
    os.lchown(tmp_path / "tmp" / "link", NOBODY, 0)
    with pytest.raises(HostError, match="link belongs to nobody"):
        require_trusted(str(tmp_path / "tmp" / "link"))


@as_root
@pytest.mark.parametrize("mode", [0o775, 0o2770])
def test_a_group_that_can_write(tmp_path: Path, mode: int) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(mode)
    require_trusted(str(tmp_path / "shared"))
    os.chown(tmp_path / "shared", 0, 8)
    (tmp_path / "shared").chmod(mode)
    with pytest.raises(HostError, match=r"shared can be written to by group \w+, who could"):
        require_trusted(str(tmp_path / "shared"), NOBODY)


@as_root
@pytest.mark.parametrize("what", ["", "vda.qcow2", "manifest.json"])
def test_a_backup_that_somebody_else_can_change_cannot_be_used(tmp_path: Path, what: str) -> None:
    add_chain(tmp_path)
    changed = tmp_path / "web1" / FIRST / what
    os.chown(changed, NOBODY, NOBODY)
    found = list_backups(str(tmp_path), "web1")
    assert str(found.broken[FIRST]).startswith(f"{changed} belongs to nobody")
    assert FIRST in list_backups(str(tmp_path), "web1", owner=NOBODY).by_id
    os.chown(changed, 0, 0)
    changed.chmod(0o666)
    assert "can be written to by everybody" in str(list_backups(str(tmp_path), "web1").broken[FIRST])


@as_root
def test_the_directory_of_a_machine_is_nobody_elses(tmp_path: Path) -> None:
    (tmp_path / "web1").mkdir()
    (tmp_path / "web1").chmod(0o1777)
    with pytest.raises(HostError, match="web1 can be written to by everybody"):
        list_backups(str(tmp_path), "web1")
    (tmp_path / "web1").chmod(0o755)
    os.chown(tmp_path / "web1", NOBODY, 0)
    with pytest.raises(HostError, match="web1 belongs to nobody"), locked(str(tmp_path), "web1", 0):
        pass
    with locked(str(tmp_path), "web1", 0, owner=NOBODY):
        pass


def test_the_owner_by_name_or_number() -> None:
    assert [read_owner(value) for value in (None, "root", "34")] == [None, 0, 34]
    for value in ("nobody-at-all", "-1", "", "a\0b"):
        with pytest.raises(InputError, match="owner: there is no user"):
            read_owner(value)
