# SPDX-License-Identifier: GPL-3.0-or-later
"""Photographs a page as Chromium shows it:  python -m tests.pictures.page PAGE FILE"""

from __future__ import annotations

import sys
from pathlib import Path

from ..browser.chromium import Chromium

WIDTH = 1100


def main() -> None:
    """Do what the command line says."""
    page, file = (Path(word).absolute() for word in sys.argv[1:])
    browser = Chromium()
    try:
        browser.open(page, width=WIDTH)
        browser.photograph(file)
    finally:
        browser.close()


if __name__ == "__main__":
    main()
