# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A seed needs a program of the hypervisor's: where there is none, the plan says so, before anything is made."""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.storage import pools
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import IMAGE, Host, one

OVERLAY = {"image": IMAGE}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Host) -> Path:
    """The only folder in which programs are found. Of the hypervisor's it has qemu-img, which disks need."""
    found = shutil.which("qemu-img")
    assert found is not None and host
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "qemu-img").symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.parametrize(
    ("seed", "program", "package"),
    [
        ({}, "bsdtar", "libarchive-tools"),
        ({"method": "guestfs"}, "guestfish", "virt_hypervisor_guestfs"),
    ],
)
def test_a_seed_needs_its_program(
    host: Host, programs: Path, seed: dict[str, t.Any], program: str, package: str
) -> None:
    machine = one("new1", OVERLAY, seed=seed)
    with pytest.raises(UnsupportedError, match=rf"^machines\[0\]\.seed: the hypervisor has no {program} ") as caught:
        host.plan(machine)
    assert package in str(caught.value.hint)
    assert host.plan({**machine, "seed": {"method": "none"}})
    (programs / program).write_text("#!/bin/sh\n")
    (programs / program).chmod(0o755)
    assert host.plan(machine)


def test_a_seed_needs_a_pool_that_can_have_it(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its disks may be in another one: the plan says so, and not the run, when these are made."""
    machine = one("new1", OVERLAY, seed={"pool": "seeds"})
    host.add_pool("seeds")
    assert host.plan(machine)
    monkeypatch.setattr(pools, "is_local", lambda _uri: True)
    monkeypatch.setattr(pools, "missing_mount", lambda path: "/srv" if path.endswith("/seeds") else None)
    with pytest.raises(ConflictError, match=r"^machines\[0\]\.seed\.pool: nothing is mounted at /srv"):
        host.plan(machine)
