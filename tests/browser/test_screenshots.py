# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures of the page for a person to look at; what they must show, the other tests check."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.browser.chromium import DESKTOP, PHONE, Chromium, find
from ansible_collections.brine.virt.tests.browser.clouds import Cloud

PNG = b"\x89PNG"


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", ["small", "large"])
def test_on_a_screen(
    browser: Chromium, pictures: Path, size: str, dark: bool, width: int, request: pytest.FixtureRequest
) -> None:
    cloud: Cloud = request.getfixturevalue(size)
    browser.open(cloud.file, width=width, dark=dark)
    file = pictures / f"{size}-{width}-{'dark' if dark else 'light'}.png"
    browser.photograph(file)
    assert file.read_bytes().startswith(PNG)


def test_the_list_of_machines(browser: Chromium, pictures: Path, large: Cloud) -> None:
    browser.open(large.file)
    browser.choose("#view", "flat")
    browser.write("#search", "shutoff")
    browser.photograph(pictures / "large-list.png")


@pytest.mark.parametrize("size", ["small", "large"])
def test_on_paper(browser: Chromium, pictures: Path, size: str, request: pytest.FixtureRequest) -> None:
    cloud: Cloud = request.getfixturevalue(size)
    browser.open(cloud.file)
    file = pictures / f"{size}-paper.pdf"
    browser.print(file)
    for old in pictures.glob(f"{size}-paper-*.png"):
        old.unlink()
    subprocess.run([find("pdftoppm"), "-png", "-r", "80", str(file), str(file.with_suffix(""))], check=True)
    pages = sorted(pictures.glob(f"{size}-paper-*.png"))
    assert pages
    assert all(page.read_bytes().startswith(PNG) for page in pages)
