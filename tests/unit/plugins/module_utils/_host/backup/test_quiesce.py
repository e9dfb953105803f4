# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest without an agent, as all of libvirt's test driver: it is frozen only where nobody insists."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.backup import quiesce
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection


@pytest.fixture
def domain() -> t.Iterator[t.Any]:
    with open_connection("test:///default") as connection:
        yield connection.lookupByName("test")


def test_without_an_agent_it_depends_on_who_asks(domain: t.Any) -> None:
    assert quiesce.freeze(domain, quiesce.AUTO, 10) is None
    assert quiesce.freeze(domain, quiesce.NO, 10) is None
    with pytest.raises(UnsupportedError, match="the guest agent of machine test does not answer"):
        quiesce.freeze(domain, quiesce.YES, 10)
    assert not quiesce.thawed(None, quiesce.AUTO, "test")


def test_a_frozen_guest_goes_on_in_time(domain: t.Any) -> None:
    frozen = quiesce.Frozen(domain, 60)
    frozen.freeze()
    assert quiesce.thawed(frozen, quiesce.YES, "test")
    frozen.release()
    late = quiesce.Frozen(domain, 0.05)
    late.freeze()
    time.sleep(0.5)
    with pytest.raises(HostError, match="has not begun within the time"):
        quiesce.thawed(late, quiesce.YES, "test")
    assert not late.held
