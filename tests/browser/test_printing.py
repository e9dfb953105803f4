# SPDX-License-Identifier: GPL-3.0-or-later
"""The page on paper."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.browser.chromium import Chromium, find
from ansible_collections.brine.virt.tests.browser.clouds import Cloud


def printed(file: Path) -> set[str]:
    """The words of a PDF file."""
    text = subprocess.run(
        [find("pdftotext"), "-raw", str(file), "-"], check=True, capture_output=True, text=True
    ).stdout
    return set(text.split())


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", ["small", "large"])
def test_everything_is_printed(
    browser: Chromium, pictures: Path, size: str, dark: bool, request: pytest.FixtureRequest
) -> None:
    cloud: Cloud = request.getfixturevalue(size)
    browser.open(cloud.file, dark=dark)
    before = browser.listed()
    file = pictures / f"{size}-print{'-dark' if dark else ''}.pdf"
    browser.print(file)
    words = printed(file)
    assert {*cloud.names, *(host.name for host in cloud.picture.hypervisors)} - words == set()
    # What is for a screen only.
    assert not words & {"Search", "Reset", "Theme:"}
    assert browser.listed() == before


def test_folded_machines_are_printed_without_javascript(browser: Chromium, pictures: Path, large: Cloud) -> None:
    browser.open(large.file, scripts=False)
    file = pictures / "large-print-noscript.pdf"
    browser.print(file)
    assert set(large.names) - printed(file) == set()


def test_what_the_search_has_found_is_printed(browser: Chromium, pictures: Path, large: Cloud) -> None:
    browser.open(large.file)
    browser.write("#search", "cache")
    file = pictures / "search-print.pdf"
    browser.print(file)
    assert set(large.names) & printed(file) == {name for name in large.names if name.startswith("cache")}
