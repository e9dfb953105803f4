# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How virt-sysprep is started, and what is said when it fails. What it does, the lab shows in the scenario seeding."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._seeding.sysprep import remove_identity


def program(monkeypatch: pytest.MonkeyPatch, directory: Path, script: str) -> None:
    (directory / "virt-sysprep").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "virt-sysprep").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")


def remove(*, emulated: bool = False, timeout_seconds: float = 300) -> None:
    remove_identity("/x.qcow2", "qcow2", "machine golden", emulated=emulated, timeout_seconds=timeout_seconds)


@pytest.mark.parametrize("emulated", [True, False])
def test_the_disk_its_format_and_the_appliance(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, emulated: bool) -> None:
    program(monkeypatch, tmp_path, f'echo "$LIBGUESTFS_BACKEND_SETTINGS" "$@" >{tmp_path}/said')
    remove(emulated=emulated)
    said = (tmp_path / "said").read_text().split()
    assert ("force_tcg" in said) is emulated
    assert "--format=qcow2" in said and said[said.index("-a") + 1] == "/x.qcow2"
    # The guest's programs get no network.
    assert "--network" not in said


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ("echo 'virt-sysprep: error: no space' >&2; exit 1", HostError, "virt-sysprep could not prepare the disk of"),
        (
            "echo 'libguestfs: error: /usr/bin/supermin exited with error status 1.' >&2; exit 1",
            UnsupportedError,
            "libguestfs cannot build its appliance on this hypervisor",
        ),
        ("exec sleep 60", HostError, "virt-sysprep did not finish the copy of machine golden within 1 s"),
    ],
)
def test_what_goes_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, kind: type[Exception], words: str
) -> None:
    program(monkeypatch, tmp_path, script)
    with pytest.raises(kind) as raised:
        remove(timeout_seconds=1 if "sleep" in script else 300)
    assert words in str(raised.value)
