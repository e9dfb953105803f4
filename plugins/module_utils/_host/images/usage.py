# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses the images of a store: what _host/storage/usage.py knows of all of them at once."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.shared_pools import seen_elsewhere
from ansible_collections.brine.virt.plugins.module_utils._host.storage.usage import Usage
from ansible_collections.brine.virt.plugins.module_utils._model.image.name import ImageName


@dataclass(frozen=True)
class ImageUse:
    """users: in words, by the image's volume. unseen: what could not be looked at here, and might use any of them.

    elsewhere: in words, why machines of other hypervisors may use them; None where they cannot.
    """

    users: dict[str, tuple[str, ...]]
    unseen: tuple[str, ...]
    elsewhere: str | None = None


def observe_use(conn: VirConnect, pool: Pool, images: t.Sequence[ImageName]) -> ImageUse:
    """Who uses these images of a pool. Raises VirtError when libvirt cannot be asked."""
    usage = Usage(conn)
    found = {image.volume: usage.of(pool, image.volume) for image in images}
    unseen = next((use.unknown for use in found.values()), ())
    return ImageUse({volume: use.users for volume, use in found.items()}, unseen, seen_elsewhere(pool))
