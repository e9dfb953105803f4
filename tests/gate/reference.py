# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of the docsite with every option of a machine: its values, its default, its place in libvirt's XML.

Run as `python -m tests.gate.reference` from the top of the collection: says whether docs/docsite/rst/machine.rst is
what the field tables and the documentation make of it. With `--write` it writes the page.
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
import typing as t
from collections.abc import Iterator
from pathlib import Path

# The collection as Ansible names it, from wherever its top stands.
sys.path.insert(0, os.path.abspath("../../.."))

from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import shapes
from ansible_collections.brine.virt.plugins.module_utils._model.spec.profiles.salt_words import _VCPU_KEYS, SALT_WORDS
from ansible_collections.brine.virt.plugins.modules.virt_init import MACHINE_OPTIONS

from . import options
from .generated import check_or_write
from .schema import values
from .schema.fields import KEYS, LISTS, Docs, inside_of, of_item
from .schema.machine import HYPERVISOR, documentation, of_option
from .schema.values import Values
from .schema.wording import first_sentence, in_rst, sentences

TARGET = Path("docs/docsite/rst/machine.rst")
WIDTH = 120
HEAD = """\
.. SPDX-License-Identifier: GPL-3.0-or-later
.. Written by tests/gate/reference.py from the field tables; `python -m tests.gate.reference --write` writes it again.

.. _ansible_collections.brine.virt.docsite.machine:

The options of a machine
========================

Each entry of ``virt_vms`` has these options, and so has a task with ``brine.virt.virt_init``, but for ``hypervisor``.
``name``, ``vcpus`` and ``memory`` are required; of an existing machine, only ``name``. The tables say which values a
key takes, which one a new machine gets without it (in words where that depends on something else), where it stands in
libvirt's XML (below ``<domain>``), and which other word Salt Virt had for it, which is accepted as well.

* A list may be given as a single value where it has only one.
* A size is a whole number of MiB, or a number with a unit such as ``512MiB``, ``8GiB`` or ``8G``. Of memory or a disk,
  less than 16 needs its unit, which was most likely forgotten.
* A boolean may also be ``yes``, ``no``, ``on`` or ``off``.
* What an existing machine has, it may keep, even where no new machine can have it.

The same tables are behind ``docs/schema/vms.schema.json``, by which editors complete and check these options while they
are typed.
"""
# What the documentation has of the module alone, and what it is on this page, which is about entries too.
OF_THE_MODULE = {
    "A task needs either this option or O(machines).": "",
    "This module": "C(virt_init)",
    "this module": "C(virt_init)",
    "The notes say": "The notes of M(brine.virt.virt_init) say",
}
# What an entry has and a task has not: that runs on the hypervisor.
OF_ENTRIES = {
    "hypervisor": {
        "description": [
            HYPERVISOR,
            "Without it a new machine goes to the one that the run chooses "
            "(:ref:`how <ansible_collections.brine.virt.docsite.provision>`). An existing machine is not moved: "
            "a hypervisor other than its own is an error. A task with M(brine.virt.virt_init) runs on the hypervisor, "
            "and does not have this option.",
        ]
    }
}
# Where a key stands that no field of a table places. A machine's own notes are in its metadata.
_NOTES = "metadata"
_SEED = "the seed"
_VOLUME = "the volume"
PLACES: dict[str, str] = {
    **{"name": "name", "title": "title", "description": "description", "machine_type": "os/type/@machine"},
    **{"firmware": "os/@firmware", "secure_boot": "os/firmware/feature/@enabled", "cpu_mode": "cpu/@mode"},
    **dict.fromkeys(("tags", "labels", "anti_affinity", "order", "delay_seconds", "variables"), _NOTES),
    **{"graphics.port": "devices/graphics/@port", "memory.hugepages": "memoryBacking/hugepages"},
    **dict.fromkeys(("disks.size", "disks.pool", "disks.image", "disks.clone", "disks.overlay"), _VOLUME),
    **{"disks.format": "devices/disk/driver/@type", "disks.model": "devices/disk/target/@bus"},
    **{"disks.source": "devices/disk/source", "disks.device": "devices/disk/@device"},
    **{"disks.backing": _VOLUME, "disks.backing.": _VOLUME, "nics.type": "devices/interface/@type"},
    **{"nics.bridge": "devices/interface/source/@bridge", "nics.network": "devices/interface/source/@network"},
    **{"nics.direct": "devices/interface/source/@dev", "nics.model": "devices/interface/model/@type"},
    **{"nics.source": "devices/interface/source", "nics.mac": "devices/interface/mac/@address"},
    **dict.fromkeys(("nics.addresses", "nics.gateway", "nics.nameservers", "nics.search", "nics.routes"), _SEED),
    **dict.fromkeys(("nics.routes.", "nics.dhcp4", "nics.dhcp6", "nics.accept_ra"), _SEED),
}
TOPS = {"disks": "devices/disk", "nics": "devices/interface"}
# Salt's words by the places of ours.
SALT = {
    **{ours: salt for salt, ours in SALT_WORDS.items()},
    **{f"vcpus.{key}": f"cpu.{key}" for key in _VCPU_KEYS},
    **{place: words[0] for place, words in options.ALIASES.items()},
    **{"vcpus": "cpu", "memory.maximum": "mem.boot", "graphics": "enable_vnc", "clone": "enable_qcow"},
    **{"boot.devices": "boot_dev", "events.reboot": "stop_on_reboot", "clock.offset": "clock.utc"},
    **{"disks.overlay": "overlay_image", "disks.backing.format": "backing_store_format"},
}
_OF_SALT = "Salt's "
_COLUMNS = {"Key": 18, "What it is": 28, "Values": 22, "Default": 8, "In the XML": 16, "Salt's word": 8}
_TYPES = {"object": "mapping", "array": "list", "boolean": "boolean"}
_SAYS_DEFAULT = re.compile(r"\b[Dd]efault\b")
_IS_DEFAULT = re.compile(r"The default(?: for a new machine)? is V\(([^()]*)\)\.")
_NOT_TEXT = {*values.SIZE.patterns, *values.BOOLEAN.patterns, *values.PLAIN_BOOLEAN.patterns, "^-1$"}
_DIGITS = re.compile(r"^\^\\s\*(?:0\*\[1-9\])?\[0-9\]")
Row = tuple[str, ...]


def kinds(found: Values) -> str:
    """Return in words which values there are."""
    words = []
    whole = found.types.get("integer", {})
    text = any(pattern not in _NOT_TEXT and not _DIGITS.match(pattern) for pattern in found.patterns)
    for name, word in _TYPES.items():
        # A text may be written as one as well.
        if name in found.types and (name != "boolean" or _NOT_TEXT & set(found.patterns)):
            words.append(word)
    if "exclusiveMaximum" in found.types.get("number", {}):
        words.append("size")
    if any(_DIGITS.match(pattern) for pattern in found.patterns):
        most = f" to {whole['maximum']}" if whole["maximum"] < options.MOST_SAID else " and more"
        words.append(f"{whole['minimum']}{most}")
    words += ["text"] if text else []
    # A version may be given as a number and as a text.
    return ", ".join(dict.fromkeys([*words, *(f"``{word}``" for word in found.words)]))


def place_in_xml(item: t.Any, parent: str, place: str) -> str:
    """Return where a field stands in the domain's XML. parent: where that is which it is inside of."""
    inner = place.rpartition(".")[0]
    said = PLACES.get(place, PLACES.get(f"{inner}."))
    path = getattr(getattr(item, "rows", item), "path", None)
    if said is not None or path is None:
        return said or ""
    whole = "/".join(filter(None, (parent, *path.replace("@", "/@").split("/"))))
    return f"{whole}[@{item.name}]" if isinstance(item, shapes.NamedListField) else whole


def cells(entry: Docs, found: Values | None, path: str, place: str) -> Row:
    """Return what the table says of a key. found: what it accepts, None for what the documentation alone knows."""
    what, *more = sentences(entry["description"])
    default = entry.get("default")
    shown = "" if default in (None, {}, "") else f"``{json.dumps(default) if isinstance(default, bool) else default}``"
    for sentence in filter(_SAYS_DEFAULT.search, more):
        alone = _IS_DEFAULT.fullmatch(sentence)
        if alone and not shown:
            shown = f"``{alone[1]}``"
        else:
            what += f" {sentence}"
    required = " Required." if entry.get("required") else ""
    accepted = kinds(found) if found is not None else "mapping, list"
    literal = path if not path or path.startswith("the ") else f"``{path}``"
    salt = f"``{SALT[place]}``" if place in SALT else ""
    return (in_rst(what) + required, accepted, shown, literal, salt)


def rows(item: t.Any, docs: Docs, place: str, path: str, word: str) -> Iterator[Row]:
    """Yield the rows of what is inside of a key. path: its place in the XML; word: how the page names it."""
    inside, below = inside_of(item, place), docs.get("suboptions", {})
    if isinstance(item, shapes.NamedListField):
        ((name, named),) = below.items()
        word, place, below = f"{word}.{name}", f"{place}.{name}", named.get("suboptions", {})
        if not below:
            # Its one key is all that a plain value says.
            (only,) = inside.values()
            where = place_in_xml(only, path, place)
            yield (f"``{word}``", *cells(named, of_item(only, named, place), where, place))
    elif isinstance(getattr(item, "rows", item), shapes.ListField) or place in (*LISTS, *TOPS):
        word = f"{word}[]"
    for key, entry in below.items():
        at = f"{place}.{key}"
        if not first_sentence(entry["description"]).startswith(_OF_SALT):
            field = inside.get(key)
            found = KEYS[at] if field is None else of_item(field, entry, at)
            where = place_in_xml(field, path, at)
            yield (f"``{word}.{key}``", *cells(entry, found, where, at))
            yield from rows(field, entry, at, where, f"{word}.{key}")


def wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    """Return the lines of a paragraph."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def table(found: list[Row]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield from (".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, _COLUMNS.values()))}", "")
    for line in (tuple(_COLUMNS), *found):
        for index, cell in enumerate(line):
            start = "   * - " if index == 0 else "     - "
            yield from wrapped(cell, start, "       ") or [start.rstrip()]
    yield ""


def section(name: str, docs: Docs) -> Iterator[str]:
    """Yield what the page says of an option."""
    entry = docs[name]
    yield from (name, "-" * len(name), "")
    for paragraph in [entry["description"]] if isinstance(entry["description"], str) else entry["description"]:
        text = " ".join(paragraph.split())
        for words, here in OF_THE_MODULE.items():
            text = text.replace(words, here)
        yield from (*wrapped(in_rst(text)), "") if text else ()
    item = options.LINES.get(name)
    path = TOPS.get(name) or place_in_xml(item, "", name)
    _text, *own = cells(entry, None if name in TOPS else of_option(name, docs), path, name)
    yield from table([(f"``{name}``", "", *own), *rows(item, entry, name, path, name)])


def make_page() -> str:
    """Return the page. Raises TextError."""
    docs = {**documentation(), **OF_ENTRIES}
    names = [name for name in MACHINE_OPTIONS if not first_sentence(docs[name]["description"]).startswith(_OF_SALT)]
    lines = [line for name in (*names, *OF_ENTRIES) for line in section(name, docs)]
    return HEAD + "\n" + "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Say what is wrong, or write; return 1 when something is."""
    return check_or_write("the page with the options of a machine", "tests.gate.reference", {TARGET: make_page})


if __name__ == "__main__":
    sys.exit(main())
