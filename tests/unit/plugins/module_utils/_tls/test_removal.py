# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is not certainly the cloud's stays. tests/unit/plugins/action/test_virt_keys_action.py has real certificates."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._tls.paths import TlsFiles, libvirt_places
from ansible_collections.brine.virt.plugins.module_utils._tls.removal import remove_all
from ansible_collections.brine.virt.plugins.module_utils._tls.renewal import RenewalReport


def places(root: Path) -> TlsFiles:
    trust, key_pairs = libvirt_places(str(root))
    for folder in ("CA", "libvirt/private"):
        (root / folder).mkdir(parents=True)
    return TlsFiles(tuple(key_pairs), (trust,))


def test_an_empty_host_has_nothing_to_remove(tmp_path: Path) -> None:
    report = RenewalReport(check_mode=False)
    assert (remove_all(places(tmp_path), [], report), report.done) == ([], [])


def test_what_nobody_can_read_stays_and_is_named(tmp_path: Path) -> None:
    found = places(tmp_path)
    for path in ("CA/cacert.pem", "CA/cacrl.pem", "libvirt/servercert.pem", "libvirt/private/clientkey.pem"):
        (tmp_path / path).write_text("nonsense", encoding="ascii")
    report = RenewalReport(check_mode=False)
    assert remove_all(found, [], report) == [
        f"{tmp_path}/libvirt/servercert.pem: cannot be read",
        f"{tmp_path}/libvirt/private/clientkey.pem: a key without a certificate, so it is not known whose it is",
        f"{tmp_path}/CA/cacert.pem: cannot be read",
    ]
    assert report.done == [] and len([path for path in tmp_path.rglob("*") if path.is_file()]) == 4


@pytest.mark.parametrize("check_mode", [True, False])
def test_it_is_said_by_its_path_before_as_afterwards(tmp_path: Path, check_mode: bool) -> None:
    """It stands under «To be removed from hv3:»."""
    found = places(tmp_path)
    half = tmp_path / "libvirt/servercert.pem.new"
    half.write_text("", encoding="ascii")
    report = RenewalReport(check_mode=check_mode)
    assert (remove_all(found, [], report), report.done) == ([], [str(half)])
    assert half.exists() is check_mode


def test_what_cannot_be_removed_is_one_sentence(tmp_path: Path) -> None:
    found = places(tmp_path)
    (tmp_path / "libvirt/servercert.pem.new").mkdir()
    with pytest.raises(HostError, match=r"servercert\.pem\.new cannot be removed: "):
        remove_all(found, [], RenewalReport(check_mode=False))
