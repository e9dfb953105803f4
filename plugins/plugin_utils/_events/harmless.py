# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of a hypervisor that are no templates.

A rule hands parts of an event to a playbook as extra variables, and Ansible takes every text in those for a template: a
machine's name with one in it would run on the controller. Before that, ansible-rulebook reads a text that is a Python
literal as its value (jinja2.nativetypes), where two braces may come of escapes, or of two texts side by side.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

# What a template needs, or becomes one by: each brace by itself, whatever it is joined to; the escapes of a literal;
# and Ansible's «#jinja2:», by which a text chooses other delimiters.
_BEGINNING = re.compile(r"[{\\](?! )|#(?![\w -])|#(?=j)")


def without_templates(value: t.Any) -> t.Any:
    """A value of an event, and all in it, with a blank in each place where a template could begin."""
    if isinstance(value, str):
        return _BEGINNING.sub(r"\g<0> ", value)
    if isinstance(value, Mapping):
        return {without_templates(key): without_templates(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_templates(item) for item in value]
    return value
