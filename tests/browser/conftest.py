# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests share: one browser, and two clouds. Option --pictures: the folder for pages and screenshots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.browser.chromium import Chromium
from ansible_collections.brine.virt.tests.browser.clouds import Cloud, make_fleet, write_cloud
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._picture.pages import hostile_fleet


def pytest_addoption(parser: pytest.Parser) -> None:
    """Name the options of these tests."""
    parser.addoption("--pictures", type=Path, required=True, help="the folder for pages and screenshots")


@pytest.fixture(scope="session")
def pictures(request: pytest.FixtureRequest) -> Path:
    """The folder for pages and screenshots, for a person to look at."""
    folder: Path = request.config.getoption("--pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder.absolute()


@pytest.fixture(scope="session")
def running() -> Iterator[Chromium]:
    """The browser of all tests: to start one takes longer than most tests."""
    browser = Chromium()
    yield browser
    browser.close()


@pytest.fixture
def browser(running: Chromium) -> Iterator[Chromium]:
    """The browser, which remembers nothing of other tests."""
    yield running
    running.run("localStorage.clear()")


@pytest.fixture(scope="session")
def small(pictures: Path) -> Cloud:
    """3 hypervisors of about 10 machines, which are shown at once."""
    return write_cloud(pictures / "small.html", make_fleet(3, 10), "Small cloud")


@pytest.fixture(scope="session")
def endless(pictures: Path) -> Cloud:
    """A small cloud with words that have no end."""
    fleet = hostile_fleet("x" * 300)
    return write_cloud(pictures / "endless.html", fleet, "x" * 300)


@pytest.fixture(scope="session")
def large(pictures: Path) -> Cloud:
    """50 hypervisors of about 20 machines, which are folded away at first."""
    return write_cloud(pictures / "large.html", make_fleet(50, 20), "Large cloud")
