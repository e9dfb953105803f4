# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a machine has a volume already under another name."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._operations.update import own_disks

DISK = parse_xml("<disk type='file'><source file='/srv/pool/x.raw'/><target dev='vda'/></disk>")
OF_POOL = parse_xml("<disk type='volume'><source pool='gone' volume='x.raw'/><target dev='vda'/></disk>")


class Unseen:
    """A hypervisor where it cannot be told who uses what."""

    @property
    def usage(self) -> t.Any:
        raise HostError("cannot list the machines")


class WithoutPool:
    """A hypervisor without the pool."""

    usage = None

    @property
    def pools(self) -> t.Any:
        raise NotFoundError("there is no storage pool 'gone'")


def test_volumes_that_cannot_be_compared_are_an_error() -> None:
    draft: t.Any = types.SimpleNamespace(hypervisor=Unseen())
    with pytest.raises(HostError, match="^cannot list the machines$"):
        own_disks._identity(DISK, draft)


def test_of_a_pool_that_is_gone_nothing_is_told() -> None:
    draft: t.Any = types.SimpleNamespace(hypervisor=WithoutPool())
    assert own_disks._identity(OF_POOL, draft) is None
