# SPDX-License-Identifier: GPL-3.0-or-later
"""Light and dark: both can be read."""

from __future__ import annotations

import re

import pytest

from ansible_collections.brine.virt.tests.browser.chromium import Chromium
from ansible_collections.brine.virt.tests.browser.clouds import Cloud

# By WCAG 2.2, 1.4.3, for text of usual size; what is larger may have less, and has it not here.
LEAST_CONTRAST = 4.5
# Each pair of colours of a text and of what is behind it, with a text that has it.
PAIRS = """
    const pairs = {};
    for (const element of document.querySelectorAll("body *")) {
        const field = element.matches("input, select");
        const texts = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
        if ((!field && !texts.length) || element.closest("script, style, option, svg")) continue;
        if (!element.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
        let back = element;
        while (back && getComputedStyle(back).backgroundColor === "rgba(0, 0, 0, 0)") back = back.parentElement;
        const behind = back ? getComputedStyle(back).backgroundColor : "nothing";
        for (const part of field ? [null, "::placeholder"] : [null]) {
            pairs[`${getComputedStyle(element, part).color} on ${behind}`] ??=
                `${element.localName}.${element.className}: ${element.textContent.trim().slice(0, 40)}`;
        }
    }
    return pairs;
"""


def luminance(colour: str) -> float:
    """The relative luminance of WCAG, from 0 (black) to 1 (white)."""
    found = re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", colour)
    assert found is not None, f"{colour} is no opaque colour"
    channels = [int(part) / 255 for part in found.groups()]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast of WCAG, from 1 to 21."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def faint(pairs: dict[str, str]) -> list[str]:
    """The texts that are hard to read, with their colours."""
    rated = [(contrast(*pair.split(" on ")), pair, text) for pair, text in pairs.items()]
    return [f"{ratio:.2f}: {pair}: {text}" for ratio, pair, text in rated if ratio < LEAST_CONTRAST]


def test_contrast() -> None:
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(119, 119, 119)", "rgb(255, 255, 255)") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("medium", ["", "print"])
@pytest.mark.parametrize("theme", ["system", "light", "dark"])
@pytest.mark.parametrize("dark", [False, True])
def test_all_text_can_be_read(browser: Chromium, small: Cloud, dark: bool, theme: str, medium: str) -> None:
    browser.open(small.file, dark=dark)
    while browser.text("#theme") != f"Theme: {theme}":
        browser.click("#theme")
    browser.emulate(dark=dark, medium=medium)
    pairs: dict[str, str] = browser.run(PAIRS)
    assert len(pairs) >= (5 if medium == "print" else 8)
    assert faint(pairs) == []
    back = browser.run("return getComputedStyle(document.body).backgroundColor")
    is_dark = luminance(back) < 0.1
    assert is_dark == (medium != "print" and (dark if theme == "system" else theme == "dark"))
    if medium == "print":
        assert back == "rgb(255, 255, 255)"


def test_the_parts_of_a_bar_differ(browser: Chromium, small: Cloud) -> None:
    for dark in (False, True):
        browser.open(small.file, dark=dark)
        fills = [
            browser.element(f".card .bar rect.{part}").value_of_css_property("fill")
            for part in ("used", "promised", "all")
        ]
        keys = [
            browser.element(f".key.{part}")
            .value_of_css_property("background-color")
            .replace("rgba", "rgb")
            .replace(", 1)", ")")
            for part in ("used", "promised", "all")
        ]
        assert fills == keys
        assert len(set(fills)) == 3


def test_the_choice_of_a_theme_lasts(browser: Chromium, small: Cloud) -> None:
    browser.open(small.file, dark=False)
    browser.click("#theme")
    browser.click("#theme")
    chosen = browser.run(PAIRS)
    browser.open(small.file, dark=False)
    assert browser.text("#theme") == "Theme: dark"
    assert browser.run(PAIRS) == chosen
    browser.click("#theme")
    browser.open(small.file, dark=True)
    assert browser.text("#theme") == "Theme: system"
    assert browser.run(PAIRS).keys() == chosen.keys()
