# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain data as YAML text. In a file of its own, as reading PyYAML in takes a module longer than its work may."""

from __future__ import annotations

import json
import typing as t

from ansible.module_utils.common.yaml import HAS_YAML, yaml_dump


def yaml_diff(header: str, before: t.Any = None, after: t.Any = None) -> dict[str, str]:
    """Of one thing, as Ansible shows it: plain data before and after, nothing for what is not there."""
    sides = {"before": _as_yaml(before), "after": _as_yaml(after)}
    return {**sides, "before_header": header, "after_header": header}


def _as_yaml(value: t.Any) -> str:
    """Plain data as a person reads it in a diff: YAML, which JSON is as well on a host without PyYAML."""
    if not value:
        return ""
    if HAS_YAML:
        return str(yaml_dump(value, sort_keys=False, allow_unicode=True))
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
