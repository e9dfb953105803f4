# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose an unfinished volume is, and whether its sender is known to be gone."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool, Pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.fill import (
    FilledVolume,
    require_no_sender,
    upload_of,
)
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.upload import new_upload, sending
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volumes import new_volume_element
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.conftest import host as purge_host
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import PurgeHost
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.volumes.volume_host import play_daemon

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
host = purge_host
SIZE = 1024 * 1024


@pytest.fixture(autouse=True)
def _daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    play_daemon(monkeypatch)


def made(host: PurgeHost) -> FilledVolume:
    pool = Pools(host.conn).get("default")
    filled = FilledVolume(pool, "a", host.conn)
    filled.make(new_volume_element(pool, "a", SIZE, "raw"))
    return filled


def test_it_bears_the_mark_until_it_is_whole(host: PurgeHost, tmp_path: Path) -> None:
    content = b"content!" * (SIZE // 8)
    (tmp_path / "file").write_bytes(content)
    pool, filled = Pools(host.conn).get("default"), made(host)
    seen = []
    digest = "6b1e3a7a"  # Not the one of the content.
    with pytest.raises(Exception, match="its sha256 begins with"):
        filled.send(str(tmp_path / "file"), digest, lambda _done, _all: seen.append(upload_of(pool, "a")))
    assert seen[0] is not None and seen[0] == upload_of(pool, "a")
    filled.send(str(tmp_path / "file"), "", lambda _done, _all: None)
    assert upload_of(pool, "a") is None
    assert (host.pool / "a").read_bytes() == content
    assert filled.clear() is False


def test_a_volume_that_goes_meanwhile_is_not_taken_for_a_missing_file(host: PurgeHost, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content!" * (SIZE // 8))
    filled = made(host)
    sentence = "cannot write volume a of pool default: No such file or directory"
    with pytest.raises(HostError, match=f"^{sentence}$"):
        filled.send(str(tmp_path / "file"), "", lambda _done, _all: (host.pool / "a").unlink(missing_ok=True))


def test_only_what_is_its_own_and_not_whole_is_cleared(host: PurgeHost) -> None:
    filled = made(host)
    another = FilledVolume(Pools(host.conn).get("default"), "a", host.conn)
    assert another.clear() is False
    assert filled.clear() is True
    assert host.files() == {}
    assert filled.clear() is False


def test_a_sender_that_may_be_at_work_is_not_disturbed() -> None:
    pool = Pool("default", "/x", 0, None)
    ours = new_upload("hv1")
    require_no_sender(pool, "a", ours, "hv1")
    with sending(ours), pytest.raises(ConflictError, match=r"is sending its content. Wait for it to end"):
        require_no_sender(pool, "a", ours, "hv1")
    for upload in (dataclasses.replace(ours, host="hv2"), dataclasses.replace(ours, machine="another")):
        with pytest.raises(ConflictError, match="cannot be told from here. Look for it there"):
            require_no_sender(pool, "a", upload, "hv1")
