# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts that try to be more than text."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.browser.chromium import PHONE, Chromium
from ansible_collections.brine.virt.tests.browser.clouds import write_cloud
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._picture.pages import HOSTILE, hostile_fleet

# How often each kind of element is there.
ELEMENTS = """
    const counts = {};
    for (const {localName: name} of document.querySelectorAll("*")) counts[name] = (counts[name] || 0) + 1;
    return counts;
"""
# Everywhere that the text is put in a machine.
PLACES = (".name", ".title", ".address", ".tag", ".image bdi", ".note")


def load(browser: Chromium, pictures: Path, text: str) -> dict[str, t.Any]:
    """Show a cloud with this text everywhere. Returns the elements that the page has."""
    cloud = write_cloud(pictures / "hostile.html", hostile_fleet(text), text)
    browser.open(cloud.file, width=PHONE)
    counts: dict[str, t.Any] = browser.run(ELEMENTS)
    return counts


@pytest.mark.parametrize("text", HOSTILE)
def test_it_is_shown_and_runs_nothing(browser: Chromium, pictures: Path, text: str) -> None:
    harmless = load(browser, pictures, "harmless")
    assert load(browser, pictures, text) == harmless
    assert browser.run("return document.scripts.length") == 1
    assert browser.title() == browser.text("h1") == text
    for place in PLACES:
        assert text in browser.text(f".machine.on {place}"), place
    assert text in browser.text(".silent")
    assert text in browser.text(".card .notes")
    # To use it is no mistake either.
    here = browser.address()
    browser.choose("#tag", text)
    assert browser.shown() == [text]
    browser.write("#search", text)
    assert browser.shown() == [text]
    browser.choose("#view", "flat")
    assert browser.text("#flat .on .where") == "on hv2"
    browser.click("#reset")
    for link in browser.run("return [...document.links].map((link) => link.getAttribute('href'))"):
        browser.element(f'a[href="{link}"]').send_keys("\n")
        assert browser.address().partition("#")[0] == here
    assert browser.run("return typeof window.pwned") == "undefined"
    assert browser.complaints() == []
    assert browser.requests() == [here]


def test_what_it_would_do_would_be_seen(browser: Chromium, pictures: Path) -> None:
    """What the test above relies on."""
    page = pictures / "pwned.html"
    page.write_text(f"<!DOCTYPE html><title>Pwned</title>{HOSTILE[0]}", encoding="utf-8")
    browser.open(page)
    assert browser.run("return window.pwned") == 1


def test_what_is_written_from_right_to_left_turns_nothing_round(browser: Chromium, pictures: Path) -> None:
    for text, shown in (
        ("\u202egnp.exe", "[U+202E]gnp.exe"),
        ("\u05e9\u05dc\u05d5\u05dd 12", "\u05e9\u05dc\u05d5\u05dd 12"),
    ):
        load(browser, pictures, text)
        assert browser.text(".machine.on .name") == browser.text("h1") == shown
        name, state, size = (
            browser.element(f".machine.on .head {place}").rect["x"] for place in (".name", ".state", ".size")
        )
        assert name < state < size
