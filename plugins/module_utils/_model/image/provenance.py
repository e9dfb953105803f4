# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a stored image says of itself: its own checksums, those of the files that it came from, and when it was stored.

A compressed image is published with the checksum of the compressed file, which nothing in the store has. It is
remembered with the image, as a text of one line for each checksum: ``content sha256:<hex>``, ``origin sha512:<hex>``.
When it got which of its names is said as name.py has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .checksum import DIGITS, Checksum
from .name import read_stored, stored_to_text

# A file system may have as little as 4 kB for all such notes of a file.
MOST_ORIGINS = 16
MOST_NAMES = 8
_LINE = re.compile(r"^(?P<kind>content|origin) (?P<algorithm>sha256|sha512):(?P<digest>[0-9a-f]+)\Z")


@dataclass(frozen=True)
class Provenance:
    """contents: checksums of the image itself; origins: of files that it was made of, the newest last; stored: names of
    the image and when it got each, in nanoseconds since 1970, the newest last."""

    contents: tuple[Checksum, ...] = ()
    origins: tuple[Checksum, ...] = ()
    stored: tuple[tuple[str, int], ...] = ()

    def content(self, algorithm: str) -> str | None:
        """The image's own hash by this algorithm, if it is known."""
        return next((item.digest for item in self.contents if item.algorithm == algorithm), None)

    def knows(self, checksum: Checksum) -> bool:
        """Whether this is the checksum of the image itself or of a file that it came from."""
        return checksum in self.contents or checksum in self.origins

    def joined(self, other: Provenance) -> Provenance:
        """Both together, each checksum and name once; of two times of a name the later, and of too many origins and
        names the newest."""
        contents = self.contents + tuple(item for item in other.contents if item not in self.contents)
        origins = self.origins + tuple(item for item in other.origins if item not in self.origins)
        # Each name once, with its latest time, as that is the last of its times here.
        stored = sorted(dict(sorted(self.stored + other.stored, key=_time)).items(), key=_time)
        return Provenance(contents, origins[-MOST_ORIGINS:], tuple(stored[-MOST_NAMES:]))


def _time(stored: tuple[str, int]) -> int:
    return stored[1]


def provenance_to_text(provenance: Provenance) -> str:
    """The text that is kept with an image."""
    lines = [f"content {item}" for item in provenance.contents] + [f"origin {item}" for item in provenance.origins]
    return "\n".join([*lines, *(stored_to_text(*item) for item in provenance.stored)])


def read_provenance(text: str, name_digest: str) -> Provenance:
    """What such a text says; lines that are not understood are passed over.

    name_digest: what the image's name says of its sha256. A text that says another one came from another file, with a
    copy for instance, and says nothing.
    """
    found: dict[str, list[Checksum]] = {"content": [], "origin": []}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match and len(match["digest"]) == DIGITS[match["algorithm"]]:
            found[match["kind"]].append(Checksum(match["algorithm"], match["digest"]))
    provenance = Provenance(tuple(found["content"]), tuple(found["origin"]), read_stored(text))
    sha256 = provenance.content("sha256")
    return provenance if sha256 is not None and sha256.startswith(name_digest) else Provenance()
