# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an editor says of a file of variables by docs/schema/vms.schema.json."""

from __future__ import annotations

import functools
import json
import typing as t
from pathlib import Path

from jsonschema import Draft202012Validator

TOP = Path(__file__).resolve().parents[3]
SCHEMA: dict[str, t.Any] = json.loads((TOP / "docs/schema/vms.schema.json").read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=1)
def validator() -> t.Any:
    """The schema, which is one by JSON Schema's own rules."""
    Draft202012Validator.check_schema(SCHEMA)
    return Draft202012Validator(SCHEMA)


def as_json(value: t.Any) -> t.Any:
    """A value as JSON has it: its keys are texts."""
    return json.loads(json.dumps(value))


def complaints(variables: t.Any) -> list[str]:
    """What is wrong with the variables of a file, each with its place."""
    found = validator().iter_errors(as_json(variables))
    return [f"{error.json_path}: {error.message}" for error in found]


def complaints_of_machine(machine: t.Any, **profiles: t.Any) -> list[str]:
    """What is wrong with a machine of virt_vms, with disk_profiles and nic_profiles."""
    return complaints({"virt_vms": [machine], **{f"virt_{name}": value for name, value in profiles.items()}})
