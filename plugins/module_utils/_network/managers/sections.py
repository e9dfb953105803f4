# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of sections with keys, as systemd-networkd and NetworkManager have them. Text in, values out, and back.

Format: systemd.syntax(7), nm-settings-keyfile(5).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """One section of a file: its name and its entries in order, each (key, value)."""

    name: str
    entries: tuple[tuple[str, str], ...]


def parse(text: str) -> tuple[Section, ...]:
    """The sections of a file in order. One that stands twice is given twice: each [Address] or [Route] counts."""
    sections: list[tuple[str, list[tuple[str, str]]]] = []
    # A comment may stand between the lines of a continued value, so comments go first.
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("#", ";"))]
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        stripped = line.strip()
        if stripped.startswith("[") and stripped.endswith("]"):
            sections.append((stripped[1:-1], []))
        elif "=" in stripped and sections:
            key, value = stripped.split("=", 1)
            sections[-1][1].append((key.strip(), value.strip()))
    return tuple(Section(name, tuple(entries)) for name, entries in sections)


def as_text(sections: Iterable[Section]) -> str:
    """The file of these sections."""
    parts = []
    for section in sections:
        parts.append("\n".join([f"[{section.name}]", *(f"{key}={value}" for key, value in section.entries)]) + "\n")
    return "\n".join(parts)


def changed_text(text: str, change: Callable[[tuple[Section, ...]], tuple[Section, ...]]) -> str:
    """A file with a change of its sections, and its comments at its top; as it is where nothing changes."""
    before = parse(text)
    after = change(before)
    if after == before:
        return text
    return "".join(f"{line}\n" for line in text.splitlines() if line.startswith("#")) + as_text(after)


def with_entries(sections: Iterable[Section], name: str, entries: Mapping[str, str | None]) -> tuple[Section, ...]:
    """The sections with these keys set once in the first section of that name, which is made; None takes a key out."""
    changed: list[Section] = []
    missing = {key: value for key, value in entries.items() if value is not None}
    for section in sections:
        if section.name != name:
            changed.append(section)
            continue
        kept = [
            (key, missing.pop(key) if key in missing else value)
            for key, value in section.entries
            if key not in entries or key in missing
        ]
        changed.append(Section(name, tuple(kept)))
    if missing:
        places = [index for index, section in enumerate(changed) if section.name == name]
        if places:
            first = changed[places[0]]
            changed[places[0]] = Section(name, (*first.entries, *missing.items()))
        else:
            # Links are described before the network that they are in.
            changed.insert(1 if name == "Link" else len(changed), Section(name, tuple(missing.items())))
    return tuple(section for section in changed if section.entries)
