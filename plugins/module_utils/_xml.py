# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one import of lxml.

A host without it still imports the modules, so that these can say which package is missing.
"""

from __future__ import annotations

import traceback

LXML_IMPORT_ERROR: str | None = None
try:
    from lxml import etree
except ImportError:
    etree = None  # type: ignore[assignment]  # nothing calls it before LXML_IMPORT_ERROR has been looked at
    LXML_IMPORT_ERROR = traceback.format_exc()

__all__ = ["LXML_IMPORT_ERROR", "etree"]
