# SPDX-License-Identifier: GPL-3.0-or-later
"""The page shows everything, asks for nothing, and complains about nothing."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.tests.browser.chromium import DESKTOP, PHONE, Chromium
from ansible_collections.brine.virt.tests.browser.clouds import Cloud

# The names of machines whose middle something else lies over.
COVERED = """
    return [...document.querySelectorAll(".machine .name")].filter((name) => {
        name.scrollIntoView({block: "center"});
        const box = name.getBoundingClientRect();
        const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
        return !name.contains(top);
    }).map((name) => name.innerText);
"""
# Text beyond the sides of the window or of what holds it, and text that lies on other text.
MISPLACED = """
    const quiet = ".quiet, .skip, option, svg, script, style";
    const found = [];
    const texts = [];
    if (document.documentElement.scrollWidth > innerWidth) found.push("the page can be scrolled sideways");
    for (const element of document.querySelectorAll("body *")) {
        if (element.closest(quiet) || !element.checkVisibility()) continue;
        const box = element.getBoundingClientRect();
        const words = element.innerText.slice(0, 60);
        if (box.left < -1 || box.right > innerWidth + 1) found.push(`beyond the window: ${element.tagName} ${words}`);
        const clips = getComputedStyle(element).overflowX !== "visible" && !element.matches("input, select");
        if (clips && element.scrollWidth > element.clientWidth + 1) found.push(`cut off: ${words}`);
        for (const node of element.childNodes) {
            if (node.nodeType !== Node.TEXT_NODE || !node.data.trim()) continue;
            const range = document.createRange();
            range.selectNodeContents(node);
            for (const rect of range.getClientRects()) texts.push([rect, node.data.trim().slice(0, 60), node]);
        }
    }
    texts.sort(([one], [other]) => one.top - other.top);
    texts.forEach(([one, words, node], index) => {
        for (let next = index + 1; next < texts.length && texts[next][0].top < one.bottom - 3; next++) {
            const [other, others, otherNode] = texts[next];
            const beside = one.right < other.left + 2 || other.right < one.left + 2;
            if (node !== otherNode && !beside) found.push(`on one another: ${words} / ${others}`);
        }
    });
    return found;
"""


def unfold(browser: Chromium) -> None:
    """Show the machines of a cloud that is so large that they are folded away."""
    if browser.text("#fold") == "Show machines":
        browser.click("#fold")


@pytest.mark.parametrize("size", ["small", "large"])
def test_it_asks_for_nothing_and_complains_about_nothing(
    browser: Chromium, size: str, request: pytest.FixtureRequest
) -> None:
    cloud: Cloud = request.getfixturevalue(size)
    browser.open(cloud.file)
    for selector, value in (("#hosts-order", "free"), ("#view", "flat"), ("#order", "memory"), ("#view", "cards")):
        browser.choose(selector, value)
    browser.write("#search", "web")
    browser.click("#theme")
    assert browser.requests() == [cloud.file.as_uri()]
    assert browser.complaints() == []


def test_a_complaint_and_a_request_would_be_seen(browser: Chromium, small: Cloud) -> None:
    """What the test above relies on."""
    browser.open(small.file)
    browser.run(
        "const image = document.createElement('img'); image.src = 'https://example.org/x'; document.body.append(image)"
    )
    (complaint,) = browser.complaints()
    assert "Content Security Policy" in complaint
    page = small.file.with_name("asking.html")
    page.write_text("<!DOCTYPE html><title>Asks</title><img src='https://example.org/x'>", encoding="utf-8")
    browser.open(page)
    assert browser.requests() == [page.as_uri(), "https://example.org/x"]


@pytest.mark.parametrize("scripts", [True, False])
def test_every_hypervisor_and_machine_is_shown(browser: Chromium, small: Cloud, scripts: bool) -> None:
    browser.open(small.file, scripts=scripts)
    assert browser.listed() == everything(small)
    assert browser.element("#controls").is_displayed() == scripts
    for text in ("silent", "did not answer: Connection timed out", "In maintenance", "crashed on hv2"):
        assert text in browser.text("main")


def test_what_is_folded_away_can_be_shown(browser: Chromium, large: Cloud) -> None:
    browser.open(large.file)
    names = [hypervisor.name for hypervisor in large.picture.hypervisors]
    assert browser.listed() == [(name, []) for name in names]
    unfold(browser)
    assert browser.listed() == everything(large)
    browser.click("#fold")
    assert browser.listed() == [(name, []) for name in names]
    browser.click(".card:nth-child(7) summary")
    seventh = [machine.name for machine in large.picture.hypervisors[6].machines]
    assert browser.shown() == seventh
    # And it stays so.
    browser.write("#search", "web")
    browser.write("#search", "")
    browser.choose("#hosts-order", "free")
    browser.choose("#order", "address")
    assert set(browser.shown()) == set(seventh)


def everything(cloud: Cloud) -> list[tuple[str, list[str]]]:
    """What `listed` says of the whole cloud."""
    return [(host.name, [machine.name for machine in host.machines]) for host in cloud.picture.hypervisors]


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("view", ["cards", "flat"])
def test_nothing_is_cut_off_or_covered(
    browser: Chromium, size: str, view: str, width: int, request: pytest.FixtureRequest
) -> None:
    cloud: Cloud = request.getfixturevalue(size)
    browser.open(cloud.file, width=width)
    unfold(browser)
    browser.choose("#view", view)
    assert browser.run(MISPLACED) == []
    assert browser.run(COVERED) == []


def test_the_time_is_not_squeezed(browser: Chromium, small: Cloud) -> None:
    browser.open(small.file, width=PHONE)
    line = 1.4 * 15
    assert browser.element(".made").rect["height"] < 2.5 * line


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_long_words_are_broken(browser: Chromium, endless: Cloud, width: int) -> None:
    browser.open(endless.file, width=width)
    assert browser.run(MISPLACED) == []
    browser.choose("#view", "flat")
    assert browser.run(MISPLACED) == []
