# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a filter says of a mistake, as Ansible prints it."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.plugin_utils._filter_answer import with_names


def test_a_mistake_is_said_once() -> None:
    """Ansible appends what is behind an error: the same sentence, and the words of Python behind that."""

    def work(text: t.Any) -> int:
        try:
            return int(text)
        except ValueError as exc:
            raise InputError(f"{text} is no number", where="size") from exc

    with pytest.raises(AnsibleFilterError) as caught:
        with_names({"size": work})["size"]("much")
    assert str(caught.value) == "brine.virt.size: size: much is no number"
