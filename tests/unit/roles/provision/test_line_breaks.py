# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines that playbooks and roles join are lines."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

COLLECTION = Path(__file__).parents[4]
FILES = [path for folder in ("playbooks", "roles") for path in sorted((COLLECTION / folder).rglob("*.yml"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(COLLECTION)))
def test_what_joins_lines_is_a_line_break(path: Path) -> None:
    r"""After > or |, Ansible takes '\n' in a template for two characters; in quotes, YAML has read it already."""
    scalars = [getattr(event, "value", "") for event in yaml.parse(path.read_text(encoding="utf-8"))]
    assert not [scalar for scalar in scalars if r"join('\n')" in scalar]
