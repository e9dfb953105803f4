# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines as libvirt's own schema allows them: whatever anybody may have defined, of every type that it knows."""

from __future__ import annotations

import functools
import random
import re
import typing as t
from pathlib import Path

from lxml import etree

SCHEMAS = Path("/usr/share/libvirt/schemas")
_RNG = "{http://relaxng.org/ns/structure/1.0}"
# What stands where the schema has a pattern or a type: the first ones that fit it, and now and then one that does not.
_TEXTS = (
    *("1", "0", "2", "0x1f", "037", "-1", "4096", "a", "vda", "eth0", "br0", "/srv/data", "0-3", "1.2", "yes"),
    *("52:54:00:12:34:56", "192.0.2.1", "2001:db8::1", "0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f", "KiB", "x y", "0xabcd"),
    *("0x0123456789abcdef", "ff:ff:ff:ff:ff:ff:ff:ff", "host.example.org", "Europe/Berlin", "a,b", "20", "65535"),
)
# Definitions of devices.
_DEVICES = (
    *("interface", "interface", "disk", "disk", "graphic", "video", "hostdev", "filesystem", "rng", "watchdog", "tpm"),
    *("serial", "console"),
)
# Elements below this depth are left out where the schema lets them: backing chains have no end in it.
_DEEPEST = 14


class SchemaMachines:
    """A maker of elements by the definitions of libvirt's schema."""

    def __init__(self) -> None:
        self._defined: dict[str, list[etree._Element]] = {}
        self._load(SCHEMAS / "domain.rng")

    def _load(self, path: Path) -> None:
        for item in etree.parse(path).getroot():
            if item.tag == f"{_RNG}include":
                self._load(path.parent / item.get("href", ""))
            elif item.tag == f"{_RNG}define":
                self._defined.setdefault(item.get("name", ""), []).append(item)

    def make(self, definition: str, seed: int) -> etree._Element:
        """The first element of a definition, by chance but the same for the same seed."""
        home = etree.Element("home")
        _Maker(self._defined, random.Random(seed)).follow(self._defined[definition], home, 0)
        return home[0]

    def machine(self, seed: int) -> etree._Element:
        """A whole <domain>, which has, beside what chance gives it, devices of each kind that has options here."""
        return etree.fromstring(self._text(seed))

    def _text(self, seed: int) -> bytes:
        domain = self.make("domain", seed)
        if domain.find("memory") is None:
            etree.SubElement(domain, "memory").text = "1048576"  # libvirt always writes it, whatever the schema allows
        devices = domain.find("devices")
        devices = etree.SubElement(domain, "devices") if devices is None else devices
        for number, definition in enumerate(_DEVICES):
            devices.append(self.make(definition, len(_DEVICES) * seed + number))
        return etree.tostring(domain)

    def words(self, definition: str, attribute: str) -> set[str]:
        """All that an attribute of the outermost elements of a definition may be."""
        return {
            value.text or ""
            for item in self._defined[definition]
            for found in item.iterfind(f".//{_RNG}attribute[@name='{attribute}']")
            for value in found.iterfind(f".//{_RNG}value")
        }


class _Maker:
    def __init__(self, defined: dict[str, list[etree._Element]], chance: random.Random) -> None:
        self._defined, self._chance = defined, chance

    def follow(self, patterns: t.Iterable[etree._Element], home: etree._Element, depth: int) -> None:
        for pattern in patterns:
            if isinstance(pattern.tag, str):
                getattr(self, f"_{etree.QName(pattern).localname}", self._all)(pattern, home, depth)

    def _all(self, pattern: etree._Element, home: etree._Element, depth: int) -> None:
        self.follow(pattern, home, depth)

    def _ref(self, pattern: etree._Element, home: etree._Element, depth: int) -> None:
        self.follow(self._defined.get(pattern.get("name", ""), ()), home, depth)

    def _element(self, pattern: etree._Element, home: etree._Element, depth: int) -> None:
        if pattern.get("name"):
            self.follow(pattern, etree.SubElement(home, pattern.get("name", "")), depth + 1)

    def _attribute(self, pattern: etree._Element, home: etree._Element, depth: int) -> None:
        if pattern.get("name"):
            value = etree.Element("value")
            self.follow(pattern, value, depth)
            home.set(pattern.get("name", ""), value.text or "")

    def _optional(self, pattern: etree._Element, home: etree._Element, depth: int) -> None:
        if depth < _DEEPEST and self._chance.random() < 0.5:
            self.follow(pattern, home, depth)

    def _zeroOrMore(self, pattern: etree._Element, home: etree._Element, depth: int) -> None:  # noqa: N802 - its tag
        for _time in range(self._chance.choice((0, 1, 2, 2)) if depth < _DEEPEST else 0):
            self.follow(pattern, home, depth)

    def _oneOrMore(self, pattern: etree._Element, home: etree._Element, depth: int) -> None:  # noqa: N802 - its tag
        for _time in range(self._chance.choice((1, 2)) if depth < _DEEPEST else 1):
            self.follow(pattern, home, depth)

    def _choice(self, pattern: etree._Element, home: etree._Element, depth: int) -> None:
        self.follow([self._chance.choice([item for item in pattern if isinstance(item.tag, str)])], home, depth)

    def _value(self, pattern: etree._Element, home: etree._Element, _depth: int) -> None:
        home.text = (home.text or "") + (pattern.text or "")

    def _text(self, _pattern: etree._Element, home: etree._Element, _depth: int) -> None:
        home.text = self._chance.choice(_TEXTS)

    def _data(self, pattern: etree._Element, home: etree._Element, _depth: int) -> None:
        expression = pattern.findtext(f"{_RNG}param[@name='pattern']")
        home.text = self._chance.choice(_fitting(pattern.get("type", ""), expression) or _TEXTS)


@functools.cache
def _fitting(kind: str, expression: str | None) -> tuple[str, ...]:
    if expression is None:
        expression = ".*" if kind == "string" else r"-?\d+" if kind in ("int", "integer", "long", "short") else r"\d+"
    try:
        compiled = re.compile(expression)
    except re.error:
        return ()  # XML Schema knows classes of characters that Python does not
    return tuple(text for text in _TEXTS if compiled.fullmatch(text))
