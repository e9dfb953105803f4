# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a network libvirt writes into dnsmasq's file as it is given.

With a quote too few dnsmasq does not start, and the machines of the network get no address; what it takes for a comment
it leaves out without a word. How it reads a line: read_file in its src/option.c.
"""

from __future__ import annotations

import typing as t

from ....._base.errors import InputError
from ...fields.validators import Rule

# What a backslash stands before in quotes; elsewhere it is a letter like others.
_ESCAPED = '"tnebr\\'


def in_dnsmasq(rule: Rule) -> Rule:
    """The same rule for a text that dnsmasq reads: quotes come in pairs, and nothing is a comment."""

    def check(value: t.Any, where: str) -> str:
        text: str = rule(value, where)
        quoted = blank = False
        letters = iter(range(len(text)))
        for at in letters:
            letter = text[at]
            if quoted and letter == "\\" and text[at + 1 : at + 2] in _ESCAPED:
                next(letters, None)
            elif letter == '"':
                quoted = not quoted
            elif letter == "#" and blank and not quoted:
                raise InputError(
                    "what follows # is a comment for dnsmasq", where=where, hint="Write the text in double quotes"
                )
            blank = letter.isspace()
        if quoted:
            raise InputError(
                'a " has no second one', where=where, hint='Write it as \\", and the text in double quotes'
            )
        return text

    return check
