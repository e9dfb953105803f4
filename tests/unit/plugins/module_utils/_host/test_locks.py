# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a hypervisor: where it is, who may hold it, and what is said to the one who waits in vain."""

from __future__ import annotations

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


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    place = tmp_path / "locks"
    place.mkdir()
    place.chmod(mode)
    with (
        pytest.raises(HostError, match="can be written to by others"),
        hypervisor_lock("init", wait_seconds=0, lock_dir=str(place)),
    ):
        pass


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    (tmp_path / "locks").symlink_to(tmp_path / "other")
    with (
        pytest.raises(HostError),
        hypervisor_lock("init", wait_seconds=0, lock_dir=str(tmp_path / "locks")),
    ):
        pass
    assert list((tmp_path / "other").iterdir()) == []
