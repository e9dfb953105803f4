# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of options that lose words on their way into the documentation."""

from __future__ import annotations

import pytest
import yaml

from ansible_collections.brine.virt.tests.gate.generated import TextError
from ansible_collections.brine.virt.tests.gate.options import read_text


def test_a_description_cut_off_at_a_comma_is_refused() -> None:
    text = yaml.safe_load("{type: int, description: The port, from 1 to 65535.}")
    with pytest.raises(TextError, match="graphics.port: unknown key 'from 1 to 65535.'"):
        read_text(text, "graphics.port")
    assert read_text({"type": "int", "description": "The port, from 1 to 65535."}, "graphics.port")["type"] == "int"
