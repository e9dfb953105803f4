# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provenance in extended attributes of real files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.images.provenance import (
    can_have_provenance,
    keep_provenance,
    load_provenance,
)
from ansible_collections.brine.virt.plugins.module_utils._model.image.checksum import Checksum
from ansible_collections.brine.virt.plugins.module_utils._model.image.provenance import Provenance

PROVENANCE = Provenance((Checksum("sha256", "ab" * 32),), (Checksum("sha512", "cd" * 64),))


def test_it_is_kept_with_the_file_wherever_that_is_moved_to(tmp_path: Path) -> None:
    path = tmp_path / "image"
    with path.open("wb") as file:
        if not keep_provenance(file.fileno(), PROVENANCE):
            pytest.skip("no extended attributes here")
    moved = path.rename(tmp_path / "moved")
    assert load_provenance(str(moved), "ab" * 8) == PROVENANCE
    assert load_provenance(str(moved), "cd" * 8) == Provenance()
    (tmp_path / "other").touch()
    assert can_have_provenance(str(moved)) and can_have_provenance(str(tmp_path / "other"))
    assert keep_provenance(str(moved), Provenance(PROVENANCE.contents))
    assert load_provenance(str(moved), "ab" * 8).origins == ()


def test_where_it_cannot_be_kept_nothing_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "image"
    path.touch()
    assert load_provenance(str(path), "ab" * 8) == Provenance()
    assert load_provenance(str(tmp_path / "nothing"), "ab" * 8) == Provenance()
    assert not keep_provenance(str(tmp_path / "nothing"), PROVENANCE)

    def unsupported(*_args: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", unsupported)
    monkeypatch.setattr(os, "getxattr", unsupported)
    assert not keep_provenance(str(path), PROVENANCE)
    assert not can_have_provenance(str(path))
    assert load_provenance(str(path), "ab" * 8) == Provenance()
