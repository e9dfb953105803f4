# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nobody but root, and who is named, can change where the directory of backups leads."""

from __future__ import annotations

import os
import struct
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


def give(path: Path, *entries: tuple[int, int, int], mask: int = 7) -> None:
    """An access control list like that of setfacl. entries: tag (2 a user, 4 the owning group, 8 a group), rwx, id."""
    whole = [(1, 7, 0xFFFFFFFF), *entries, (16, mask, 0xFFFFFFFF), (32, 5, 0xFFFFFFFF)]
    if not any(tag == 4 for tag, _permissions, _number in whole):
        whole = sorted([*whole, (4, 5, 0xFFFFFFFF)])
    content = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in whole)
    os.setxattr(path, "system.posix_acl_access", content)


@as_root
def test_an_entry_of_an_access_control_list_that_lets_somebody_write(tmp_path: Path) -> None:
    """The mode shows only the list's mask, as if it were what the group may."""
    shared = tmp_path / "shared"
    (shared / "backup").mkdir(parents=True)
    give(shared, (2, 7, NOBODY))
    assert shared.stat().st_mode & 0o777 == 0o775
    with pytest.raises(HostError) as caught:
        require_trusted(str(shared / "backup"))
    assert str(caught.value) == (
        f"{shared} can be written to by user nobody, by the entry user:nobody of its access control list, who could "
        f"have files of this hypervisor read and overwritten through it. setfacl --remove user:nobody {shared}"
    )
    # Who may do all that root may.
    require_trusted(str(shared / "backup"), NOBODY)
    give(shared, (8, 7, 8))
    with pytest.raises(HostError, match=r"by group mail, by the entry group:mail .* setfacl --remove group:mail /"):
        require_trusted(str(shared), NOBODY)
    give(shared, (4, 7, 0xFFFFFFFF), (8, 7, 0))
    require_trusted(str(shared))
    os.chown(shared, 0, 8)
    with pytest.raises(HostError, match=r"by group mail, who could .* chmod go-w"):
        require_trusted(str(shared))


@as_root
def test_an_entry_that_lets_nobody_write(tmp_path: Path) -> None:
    give(tmp_path, (2, 5, NOBODY))
    require_trusted(str(tmp_path))
    give(tmp_path, (2, 7, NOBODY), mask=5)
    require_trusted(str(tmp_path))
    # The mask has it for the user who may; the owning group has it not.
    os.chown(tmp_path, 0, 8)
    give(tmp_path, (2, 7, NOBODY))
    require_trusted(str(tmp_path), NOBODY)


@as_root
def test_the_files_of_a_backup_have_no_such_entry_either(tmp_path: Path) -> None:
    add_chain(tmp_path)
    give(tmp_path / "web1" / FIRST / "vda.qcow2", (2, 6, NOBODY))
    assert "vda.qcow2 can be written to by user nobody" in str(list_backups(str(tmp_path), "web1").broken[FIRST])
    give(tmp_path / "web1", (2, 7, NOBODY))
    with pytest.raises(HostError, match="web1 can be written to by user nobody"):
        list_backups(str(tmp_path), "web1")


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
