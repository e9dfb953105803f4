# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many sentences in the one line of an error."""

from __future__ import annotations

import typing as t

# Ansible prints the line twice. A hundred machines that fit nowhere would fill pages.
_MOST = 10


def numbered(sentences: t.Iterable[t.Any]) -> str:
    """One line: several sentences are numbered, and each ends with a full stop."""
    whole = [_ended(" ".join(str(sentence).split())) for sentence in sentences]
    if len(whole) == 1:
        return whole[0]
    shown = whole if len(whole) <= _MOST + 1 else whole[:_MOST]
    line = " ".join(f"({number}) {sentence}" for number, sentence in enumerate(shown, 1))
    return line if shown is whole else f"{line} And {len(whole) - _MOST} more."


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."
