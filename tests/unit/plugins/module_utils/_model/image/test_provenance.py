# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an image says of where it came from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._model.image.checksum import DIGITS, Checksum
from ansible_collections.brine.virt.plugins.module_utils._model.image.provenance import (
    MOST_NAMES,
    MOST_ORIGINS,
    Provenance,
    provenance_to_text,
    read_provenance,
)


def _hex(algorithm: str) -> st.SearchStrategy[str]:
    return st.text("0123456789abcdef", min_size=DIGITS[algorithm], max_size=DIGITS[algorithm])


CHECKSUMS = st.sampled_from(sorted(DIGITS)).flatmap(lambda name: st.builds(Checksum, st.just(name), _hex(name)))
OWN = Checksum("sha256", "ab" * 32)
DIGEST = "ab" * 8


@given(st.lists(CHECKSUMS, unique=True, max_size=MOST_ORIGINS), st.lists(CHECKSUMS, unique=True, max_size=2))
def test_text_and_back(origins: list[Checksum], contents: list[Checksum]) -> None:
    provenance = Provenance((OWN, *(item for item in contents if item != OWN)), tuple(origins))
    again = read_provenance(provenance_to_text(provenance), DIGEST)
    assert again == provenance
    assert all(again.knows(item) for item in (OWN, *origins))
    assert again.content("sha256") == OWN.digest


@given(st.text())
def test_what_is_not_understood_is_passed_over(text: str) -> None:
    assert read_provenance(text, DIGEST) == Provenance()
    known = provenance_to_text(Provenance((OWN,)))
    assert read_provenance(f"{known}\n{text}", DIGEST).contents == (OWN,)


def test_what_another_file_says_is_nothing() -> None:
    text = provenance_to_text(Provenance((OWN,), (Checksum("sha256", "cd" * 32),)))
    assert read_provenance(text, "cd" * 8) == Provenance()
    assert read_provenance(text.replace("content", "origin"), DIGEST) == Provenance()
    assert read_provenance(text.replace("sha256:abab", "sha256:ab"), DIGEST).contents == ()


def test_origins_are_joined_and_the_oldest_go_first() -> None:
    items = [Checksum("sha512", f"{number:0128x}") for number in range(MOST_ORIGINS + 3)]
    provenance = Provenance((OWN,))
    for item in [*items, items[-1]]:
        provenance = provenance.joined(Provenance((OWN,), (item,)))
    assert provenance.contents == (OWN,)
    assert provenance.origins == tuple(items[3:])
    times = [(f"{'n' * 61}{number:02d}", 10**19 + number) for number in range(MOST_NAMES + 2)]
    for name, nanoseconds in [*times, (times[-1][0], 1)]:
        provenance = provenance.joined(Provenance(stored=((name, nanoseconds),)))
    assert provenance.stored == tuple(times[2:])
    # What a file system with the least room for such notes takes, as ext4 with its inodes of 256 bytes.
    assert len(provenance_to_text(provenance)) < 4000
