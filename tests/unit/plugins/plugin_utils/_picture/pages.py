# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small cloud, texts that try to be more than text, and a page as a browser's parser sees it."""

from __future__ import annotations

import collections
import copy
import html.parser
import re
import typing as t

MADE = "2026-11-22T10:00:00+00:00"
GIB = 1024**3

WEB: dict[str, t.Any] = {
    "name": "web1",
    "state": "running",
    "vcpus": 2,
    "memory_mib": 2048,
    "title": "Serves the shop",
    "addresses": ["192.0.2.17", "2001:db8::17"],
    "tags": ["web", "front end"],
    "image": {"name": "debian", "volume": "debian-0123456789abcdef.qcow2", "pool": "images"},
    "pending": ["memory", "disks.data"],
    "moving": {"source": "hv1.example.org", "target": "hv2.example.org"},
    "managed": True,
    "disks": [
        {"device": "disk", "pool": "default", "volume": "web1.qcow2", "size_bytes": 8 * GIB, "allocation_bytes": GIB}
    ],
    "errors": ["the guest agent does not answer"],
}
OLD: dict[str, t.Any] = {"name": "old", "state": "shutoff", "managed": False}
HOST: dict[str, t.Any] = {
    "name": "hv1.example.org",
    "libvirt_version": "9.0.0",
    "qemu_version": "7.2.19",
    "arch": "x86_64",
    "domain_types": ["qemu"],
    "vcpus": {"total": 4, "committed": 3, "running": 2},
    "memory": {"total_mib": 8448, "committed_mib": 3072, "running_mib": 2048, "free_mib": 5376},
    "pools": [
        {"name": "default", "type": "dir", "active": True, "capacity_mib": 102400, "available_mib": 81920},
        {"name": "broken", "type": "dir", "active": False, "capacity_mib": None, "available_mib": None},
    ],
    "machines": [],
    "maintenance": {"since": "2026-11-21T10:00:00Z", "reason": "new disks"},
    "certificates": [
        {"path": "/etc/pki/CA/cacert.pem", "kind": "authority", "not_after": "2036-01-01T00:00:00", "days_left": 3000},
        {"path": "/etc/pki/s.pem", "kind": "libvirt_server", "not_after": "2026-12-04T00:00:00", "days_left": 12},
    ],
    "arriving": ["db7"],
    "errors": ["the bridges are not known"],
}
FLEET: dict[str, t.Any] = {
    "hv10": {"host": {**HOST, "maintenance": None, "certificates": [], "errors": [], "arriving": []}, "machines": []},
    "hv2": {"host": HOST, "machines": [WEB, OLD]},
    "hv3": "Connection timed out",
    "hv4": "it was not asked (--limit)",
}
# What of these became markup would show as an element, and what ran would set a variable.
HOSTILE = [
    """"'><script>window.pwned = 1</script>""",
    "</script><img src=x onerror=window.pwned=1>",
    "</style></title></textarea>--><svg onload=window.pwned=1>",
    "{{ 7 * 7 }}{% for i in range(9) %}x{% endfor %}{# gone #}",
    "&lt;b&gt; &amp; &quot;",
    "]]><!--",
    "javascript:window.pwned=1",
]


def hostile_fleet(text: str) -> dict[str, t.Any]:
    """FLEET with this text in all that a guest, or whoever may create machines, can write."""
    fleet = copy.deepcopy(FLEET)
    fleet["hv3"] = text
    machine, host = fleet["hv2"]["machines"][0], fleet["hv2"]["host"]
    machine.update(name=text, title=text, errors=[text], tags=[text, "front end"], addresses=[text, "2001:db8::17"])
    machine.update(pending=[text], moving={"source": text, "target": f"to {text}"}, image={"name": text})
    host.update(arch=text, errors=[text], arriving=[text], maintenance={"since": text, "reason": text})
    host["pools"][0]["name"] = text
    host["certificates"][1].update(kind=text, path=text)
    return fleet


class Page(html.parser.HTMLParser):
    """Elements by tag, their attributes, and the text that is shown (no style, no script)."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: collections.Counter[str] = collections.Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.raw: dict[str, str] = {}
        self._texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.text = re.sub(r"\s+", " ", " ".join(self._texts))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside in ("style", "script"):
            self.raw[inside] = self.raw.get(inside, "") + data
        else:
            self._texts.append(data)

    def values(self, name: str) -> list[str]:
        """The values of an attribute, wherever it stands."""
        return [value for _tag, attribute, value in self.attributes if attribute == name]
