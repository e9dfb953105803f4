# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which certificates of others keep a new host from joining; the action plugin's test has the whole of it."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._tls import certificates as certs
from ansible_collections.brine.virt.plugins.plugin_utils._ca import taken
from ansible_collections.brine.virt.plugins.plugin_utils._ca.revoke import revocation_lists
from ansible_collections.brine.virt.plugins.plugin_utils._ca.store import CaStore, open_ca_store
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._ca.test_sign import CA_OPTIONS, issue

INVENTORY = {"hv1": ["hv1"], "hv3": ["hv3", "2001:DB8::3"]}
CLAIMED = ("hv1", "hv3", "2001:db8::3")


@pytest.fixture
def ca_store(tmp_path: Path) -> CaStore:
    return open_ca_store(str(tmp_path / "authority"), CA_OPTIONS, save=True)


def join(ca_store: CaStore, *revoked: str, held: Collection[str] = ()) -> None:
    lists = revocation_lists(ca_store, revoked, save=False, ignore_unissued=False)
    taken.require_free(ca_store, "hv3", INVENTORY, lists, host="hv3", held=held)


def test_one_that_could_pose_as_it_has_to_be_revoked(ca_store: CaStore) -> None:
    found = [issue(ca_store, names=names) for names in (CLAIMED, ("hv1", "hv3"))]
    serials = [f"{one.serial_number:x}" for one in found]
    with pytest.raises(ConflictError, match="hv3 has no certificate yet, and 2001:db8::3, hv3 stand in a valid one of"):
        join(ca_store)
    with pytest.raises(ConflictError, match=f"and hv3 stands in .*revoke: .{serials[1]}. in revoked"):
        join(ca_store, serials[0])
    join(ca_store, *serials)


def test_one_of_a_client_poses_as_no_server(ca_store: CaStore) -> None:
    issue(ca_store, names=CLAIMED, purpose="client")
    join(ca_store)


def test_one_that_has_ended_poses_as_nobody(ca_store: CaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    issue(ca_store, names=CLAIMED, days=30)
    later = certs.now() + datetime.timedelta(days=31)
    monkeypatch.setattr(certs, "now", lambda: later)
    join(ca_store)


def test_a_host_that_has_one_is_not_new(ca_store: CaStore) -> None:
    claimed = issue(ca_store, names=CLAIMED)
    join(ca_store, held=[f"{claimed.serial_number:x}"])
    own = issue(ca_store, name="hv3", names=("hv3",))
    join(ca_store)
    # One that was locked out is.
    with pytest.raises(ConflictError):
        join(ca_store, f"{own.serial_number:x}")


def test_what_the_inventory_calls_both_is_of_both(ca_store: CaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    issue(ca_store, names=CLAIMED)
    monkeypatch.setitem(INVENTORY, "hv1", ["hv1", "hv3", "2001:db8::3"])
    join(ca_store)
