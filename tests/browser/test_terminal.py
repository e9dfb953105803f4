# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture of a terminal that `make pictures` draws."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.brine.virt.tests.browser.chromium import Chromium
from ansible_collections.brine.virt.tests.pictures.terminal import draw

LINES = ["$ one <two> & three", "\x1b[0;32mok: [hv1]\x1b[0m", "", "\x1b[1;34mlate\x1b[0m"]


def test_a_terminal_is_drawn_in_its_colours_and_loads_nothing(browser: Chromium, pictures: Path) -> None:
    file = pictures / "terminal.svg"
    file.write_text(draw(LINES, "a <title>"), encoding="utf-8")
    browser.open(file)
    assert browser.complaints() == []
    assert browser.requests() == [file.as_uri()]
    shown = browser.run("""
        return [...document.querySelectorAll(".terminal-matrix text")].map((text) =>
            [text.textContent.replaceAll("\\u00a0", " "), getComputedStyle(text).fill, text.getBBox().y])
    """)
    assert [text for text, _colour, _top in shown] == ["$ one <two> & three", "ok: [hv1]", "late"]
    assert len({colour for _text, colour, _top in shown}) == 3
    tops = [top for _text, _colour, top in shown]
    assert tops == sorted(set(tops))
    assert browser.run("return document.querySelector('title').textContent") == "a <title>"
