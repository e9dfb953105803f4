# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module as a task calls it, in this process."""

from __future__ import annotations

import types
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE


def call_module(module: t.Any, check_mode: bool, params: dict[str, t.Any], *, uri: str = "") -> dict[str, t.Any]:
    """What a module with ARGUMENTS and work() answers, or fails with. params: the options that a task names."""
    validated = ArgumentSpecValidator(module.ARGUMENTS).validate(params)
    assert not validated.error_messages
    failures: list[dict[str, t.Any]] = []
    stub = types.SimpleNamespace(
        params={"uri": uri, PROGRESS_FILE: None, **validated.validated_parameters},
        check_mode=check_mode,
        fail_json=lambda **result: failures.append(result),
        warn=lambda _text: None,
    )
    answer: dict[str, t.Any] = module.work(stub)
    return failures[0] if failures else answer
