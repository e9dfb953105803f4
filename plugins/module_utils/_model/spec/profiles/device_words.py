# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The many spellings of a device's options, as the one that the rest of this collection knows."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.disk import DISK_RULES
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import validators
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.given import GivenOptions
from ansible_collections.brine.virt.plugins.module_utils._model.spec.nic import NIC_RULES, SOURCE_ATTRIBUTES

# Words of Salt Virt for the same things.
SALT_DISK_WORDS = {"source_file": "source", "backing_store_path": "backing", "iothread_id": "iothread"}
# True for an overlay, false for a copy; the second is Salt's.
_OVERLAY_WORDS = ("overlay", "overlay_image")
_BACKING_FORMAT = "backing_store_format"
# All words that a device of each kind can have.
DEVICE_WORDS: dict[str, tuple[str, ...]] = {
    "disk": (*DISK_RULES, *SALT_DISK_WORDS, *_OVERLAY_WORDS, _BACKING_FORMAT),
    "nic": (*NIC_RULES, *SOURCE_ATTRIBUTES),
}


def translate_device(kind: str, given: GivenOptions) -> GivenOptions:
    """A device of a kind (``disk`` or ``nic``) in the words of this collection.

    Raises InputError for an unknown word, and where two words for one thing contradict each other.
    """
    given.check_words(DEVICE_WORDS[kind])
    return _translate_disk(given) if kind == "disk" else _translate_nic(given)


def _translate_disk(given: GivenOptions) -> GivenOptions:
    for salt, ours in SALT_DISK_WORDS.items():
        if salt in given.values:
            given = given.renamed(salt, ours, given.values[salt])
    for word in _OVERLAY_WORDS:
        if word in given.values:
            wanted = given.values[word]
            if wanted is not None:
                wanted = "overlay" if validators.yes_or_no(wanted, given.at(word)) else "copy"
            given = given.renamed(word, "clone", wanted)
    return _take_backing_format(given)


def _take_backing_format(given: GivenOptions) -> GivenOptions:
    """Salt's format of a backing volume, beside the volume itself."""
    if _BACKING_FORMAT not in given.values:
        return given
    wanted, rest = given.values[_BACKING_FORMAT], given.without([_BACKING_FORMAT])
    if wanted is None:
        return rest
    backing = rest.values.get("backing")
    if backing is None:
        raise InputError(
            "it is the format of a backing volume, and there is none",
            where=given.at(_BACKING_FORMAT),
            hint="Set the volume with backing",
        )
    named = dict(backing) if isinstance(backing, Mapping) else {"volume": backing}
    if named.get("format") not in (None, wanted):
        raise InputError(
            f"the backing volume's format is {named['format']} elsewhere",
            where=given.at(_BACKING_FORMAT),
            hint="Give only one of the two",
        )
    return rest.with_value("backing", {**named, "format": wanted})


def _translate_nic(given: GivenOptions) -> GivenOptions:
    """``bridge: br0`` as ``type: bridge, source: br0``, ``network`` and ``direct`` likewise; a null stays as it is, for
    what it unsets is in the base."""
    short = [word for word in SOURCE_ATTRIBUTES if given.values.get(word) is not None]
    kind = given.values.get("type")
    kinds = [*short, *([kind] if kind is not None and kind not in short else [])]
    if short and len(kinds) > 1:
        raise InputError(
            f"it is on a {' and on a '.join(map(str, kinds))} at once",
            where=given.place or None,
            hint="Name one of them",
        )
    for word in short:
        place = given.places[word]
        given = given.renamed(word, "source", given.values[word]).with_value("type", word, place)
    return given
