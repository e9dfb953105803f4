# SPDX-License-Identifier: GPL-3.0-or-later
"""Chromium without a window, and what the tests ask of it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import typing as t
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

DESKTOP, PHONE = 1280, 400
# Nothing that is not a file could be loaded, if the page asked for it.
ARGUMENTS = ("--headless=new", "--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking", "--lang=en")
# One line of names for each hypervisor that is shown, in the order of the page; in the list of machines, one line.
LISTED = """
    const seen = (element) => element.checkVisibility({visibilityProperty: true, opacityProperty: true});
    const names = (list) =>
        [...list.querySelectorAll(".machine")].filter(seen).map((item) => item.querySelector(".name").innerText);
    return [...document.querySelectorAll(".card, #flat")].filter(seen).map((list) =>
        [list.matches(".card") ? list.querySelector("h3").innerText : "", names(list)]);
"""


def find(program: str) -> str:
    """The path of a program that tests/gate/setup installs."""
    path = shutil.which(program)
    assert path is not None, f"{program} is not on this machine: tests/gate/setup browser installs it"
    return path


class Chromium:
    """One browser with one tab. `close` ends it."""

    def __init__(self) -> None:
        """Start it."""
        options = webdriver.ChromeOptions()
        options.binary_location = find("chromium")
        # A container has little in /dev/shm, and root no sandbox.
        for argument in (*ARGUMENTS, "--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self._driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(find("chromedriver")))
        # Beside the scenario in the lab, a thousand machines take their time.
        self._driver.set_script_timeout(300)

    def close(self) -> None:
        """End it."""
        self._driver.quit()

    def open(self, file: Path, *, width: int = DESKTOP, dark: bool = False, scripts: bool = True) -> None:
        """Load a page as somebody sees it for the first time; what was asked for before is forgotten."""
        self._tell("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._tell("Emulation.setScrollbarsHidden", hidden=True)
        self.resize(width)
        self.emulate(dark=dark)
        self._driver.get("about:blank")
        self.complaints()
        self.requests()
        self._driver.get(file.as_uri())

    def resize(self, width: int) -> None:
        """Make the window as wide as this, in CSS pixels."""
        self._tell("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)

    def emulate(self, *, dark: bool, medium: str = "") -> None:
        """Be a browser whose user likes it dark, or light. medium: print, to show on the screen what is for paper."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._tell("Emulation.setEmulatedMedia", media=medium, features=[scheme])

    def run(self, script: str, *arguments: t.Any) -> t.Any:
        """What a script returns that is called as a function in the page."""
        return self._driver.execute_script(script, *arguments)

    def element(self, selector: str) -> WebElement:
        """The first element with this CSS selector."""
        return self._driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        """The text of this element as it is shown, without spaces around it."""
        return self.element(selector).text

    def click(self, selector: str) -> None:
        """Click on it, and wait until the page has done what it puts off until after the click."""
        self.element(selector).click()
        self._driver.execute_async_script("setTimeout(arguments[0])")

    def write(self, selector: str, text: str) -> None:
        """Write into a field by the keyboard, in place of what is in it."""
        self.element(selector).send_keys(Keys.CONTROL, "a")
        self.element(selector).send_keys(Keys.BACKSPACE)
        self.element(selector).send_keys(text)

    def choose(self, selector: str, value: str) -> None:
        """Choose the entry with this value from a list."""
        # Select.select_by_value makes a selector of the value, which not every value survives.
        for option in Select(self.element(selector)).options:
            if option.get_attribute("value") == value:
                option.click()
                return
        raise AssertionError(f"{selector} does not offer {value!r}")

    def choices(self, selector: str) -> list[str]:
        """The values that a list offers."""
        return [option.get_attribute("value") or "" for option in Select(self.element(selector)).options]

    def listed(self) -> list[tuple[str, list[str]]]:
        """Each hypervisor that is shown, with its machines that are; the list of all has the empty name."""
        return [(str(name), list(names)) for name, names in self.run(LISTED)]

    def shown(self) -> list[str]:
        """The names of the machines that are shown."""
        return [name for _hypervisor, names in self.listed() for name in names]

    def complaints(self) -> list[str]:
        """What was written to the console since the last call, such as violations of the content security policy."""
        return [entry["message"] for entry in self._driver.get_log("browser")]

    def requests(self) -> list[str]:
        """What was asked for since the last call, from the network or the disk."""
        events = [json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def address(self) -> str:
        """Where it is."""
        return self._driver.current_url

    def title(self) -> str:
        """The title of its window."""
        return self._driver.title

    def photograph(self, file: Path) -> None:
        """Write the whole page to a file (.png or .webp), with what would have to be scrolled to."""
        width, height = self.run("return [innerWidth, document.documentElement.offsetHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        answer = self._tell("Page.captureScreenshot", format=file.suffix[1:], captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(answer["data"]))

    def print(self, file: Path) -> None:
        """Write the page to a PDF file as it would be printed on A4."""
        # The driver's own way gives up after ten seconds, which a large cloud may take.
        answer = self._tell("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True)
        file.write_bytes(base64.b64decode(answer["data"]))

    def _tell(self, command: str, **parameters: t.Any) -> dict[str, t.Any]:
        answer: dict[str, t.Any] = self._driver.execute_cdp_cmd(command, parameters)
        return answer
