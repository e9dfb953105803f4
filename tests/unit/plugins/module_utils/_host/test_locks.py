# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a hypervisor: where it is, who may hold it, and what is said to the one who waits in vain."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._host.locks import LOCK_DIR, hypervisor_lock


def test_it_is_not_where_everybody_may_make_files() -> None:
    assert Path(LOCK_DIR).name == "brine-virt"
    assert not Path(LOCK_DIR).is_relative_to("/run/lock")
    assert not Path(LOCK_DIR).is_relative_to("/tmp")  # noqa: S108


def test_its_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    place = tmp_path / "locks"
    with hypervisor_lock("init", wait_seconds=0, lock_dir=str(place)):
        assert place.stat().st_mode & 0o777 == 0o700


def test_the_second_one_is_told_who_to_look_for(tmp_path: Path) -> None:
    place = str(tmp_path / "locks")
    with (
        hypervisor_lock("init", wait_seconds=0, lock_dir=place),
        pytest.raises(ConflictError, match=r"another run .* more than 0\.2 s.*fuser .*/locks/init\.lock"),
        hypervisor_lock("init", wait_seconds=0.2, lock_dir=place),
    ):
        pass


def refused(place: Path) -> str:
    with pytest.raises(HostError) as caught, hypervisor_lock("init", wait_seconds=0, lock_dir=str(place)):
        pass
    # The state of a bridge that is being changed is in there as well.
    assert "rm -r" not in str(caught.value)
    return str(caught.value).replace(str(place), "DIR")


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    place = tmp_path / "locks"
    place.mkdir()
    place.chmod(mode)
    assert refused(place) == (
        f"DIR, the directory of the locks, can be written to by others: its mode is {mode:04o}. "
        "Check who created it and what is in it; then: chmod go-w DIR"
    )


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "locks"
    place.mkdir(mode=0o700)
    owner = place.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert refused(place) == (
        f"DIR, the directory of the locks, belongs to UID {owner}, not to UID {owner + 1}. "
        f"Check who created it and what is in it; then: chown {owner + 1} DIR"
    )


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "locks").touch()
    assert refused(tmp_path / "locks") == (
        "DIR, the directory of the locks, is not a directory. Check who created it, and remove that file: rm DIR"
    )


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    (tmp_path / "locks").symlink_to(tmp_path / "other")
    assert refused(tmp_path / "locks") == (
        "DIR, the directory of the locks, is a symbolic link. Check who created it, and remove the link: rm DIR"
    )
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_what_root_cannot_open_either_does_not_ask_for_root(tmp_path: Path, kind: str) -> None:
    (tmp_path / "locks").mkdir(mode=0o700)
    place = tmp_path / "locks" / "init.lock"
    if kind == "link":
        place.symlink_to(tmp_path / "other")
    else:
        place.mkdir()
    with (
        pytest.raises(HostError, match="cannot open the lock") as refused,
        hypervisor_lock("init", wait_seconds=0, lock_dir=str(tmp_path / "locks")),
    ):
        pass
    assert "root" not in str(refused.value).replace(str(tmp_path), "")
