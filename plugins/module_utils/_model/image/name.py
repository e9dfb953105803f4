# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stored image as a file: its name, after what it is and after its content, its mode, and when it got its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

# Nobody writes to it any more: overlays on all hypervisors rely on its content.
STORED_MODE = 0o444
# Of one that nobody has published, such as of a machine. libvirt makes QEMU's user the owner of all that the disks of
# a machine are backed by when it starts, and leaves it so (virSecurityDACSetImageLabelInternal in
# src/security/security_dac.c).
PRIVATE_MODE = 0o400
_VOLUME = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)-(?P<digest>[0-9a-f]{16})\.(?P<format>qcow2|raw)\Z")
# One file may have several names, each with a time of its own.
_STORED = re.compile(r"^stored (?P<name>[A-Za-z0-9][A-Za-z0-9._-]*) (?P<time>[0-9]{1,20})\Z")


# Where a file has its provenance: the name of an extended attribute.
PROVENANCE_ATTRIBUTE = "user.brine.provenance"


@dataclass(frozen=True)
class ImageName:
    """The parts of a stored image's volume name; digest is the first 16 hex digits of its sha256."""

    name: str
    digest: str
    format: str

    @property
    def volume(self) -> str:
        """The volume's name in the store: same name, same bytes, on every hypervisor."""
        return f"{self.name}-{self.digest}.{self.format}"


def image_name(name: str, sha256: str, image_format: str) -> ImageName:
    """The name of an image of this content."""
    return ImageName(name, sha256[:16].lower(), image_format)


def parse_image_volume(volume: str) -> ImageName | None:
    """The parts of a volume's name, or None when it is not a stored image of ours."""
    match = _VOLUME.match(volume)
    return ImageName(match["name"], match["digest"], match["format"]) if match else None


def newest_first(images: Iterable[ImageName], stored_at: Callable[[ImageName], float]) -> list[ImageName]:
    """The images by their age. stored_at: when each came, of which only the order counts; their names decide a tie."""
    return sorted(images, key=lambda image: (-stored_at(image), image.volume))


def stored_to_text(name: str, nanoseconds: int) -> str:
    """The line of an image's provenance that says when it was stored under a name."""
    return f"stored {name} {nanoseconds}"


def read_stored(text: str) -> tuple[tuple[str, int], ...]:
    """The names in a provenance's text, each with its time; other lines are passed over."""
    found = [match for line in text.splitlines() if (match := _STORED.match(line)) is not None]
    return tuple((match["name"], int(match["time"])) for match in found)


def time_noted(text: str, image: ImageName) -> int | None:
    """When an image came under its name, in nanoseconds since 1970, by a provenance's text.

    None where nothing is noted, or only of another file that this is a copy of.
    """
    return dict(read_stored(text)).get(image.name) if f"content sha256:{image.digest}" in text else None
