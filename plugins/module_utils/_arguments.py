# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module of the collection has in common: the option ``uri``, its requirements, the end of a run.

The documentation of these options is the fragment ``brine.virt._uri``; keep the two alike.
"""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.brine.virt.plugins.module_utils._errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import (
    DEFAULT_URI,
    LIBVIRT_IMPORT_ERROR,
    LIBVIRT_PACKAGES,
)
from ansible_collections.brine.virt.plugins.module_utils._xml import LXML_IMPORT_ERROR

LXML_PACKAGES = "package python3-lxml on Debian, Ubuntu, Fedora, RHEL and SUSE"

URI_ARGUMENTS: dict[str, dict[str, t.Any]] = {"uri": {"type": "str", "default": DEFAULT_URI}}


class _Module(AnsibleModule):
    """An AnsibleModule that knows what in its options is secret before it writes them into the host's log.

    A secret inside an option of type raw or dict cannot be marked in the argument spec; marking the whole option would
    blot out each of its words, such as a user's name, in all output.
    """

    def __init__(
        self, secrets_in: t.Callable[[dict[str, t.Any]], t.Iterable[str]] | None, settings: dict[str, t.Any]
    ) -> None:
        # Before the rest: an AnsibleModule writes into the log while it is being made.
        self._secrets_in = secrets_in
        super().__init__(**settings)

    def _log_invocation(self) -> None:
        if self._secrets_in is not None:
            self.no_log_values.update(self._secrets_in(self.params))
        super()._log_invocation()


def make_module(
    argument_spec: dict[str, t.Any],
    *,
    secrets_in: t.Callable[[dict[str, t.Any]], t.Iterable[str]] | None = None,
    **settings: t.Any,
) -> AnsibleModule:
    """An AnsibleModule with the common options beside its own, check mode supported unless ``settings`` say otherwise.

    secrets_in: what in the module's options must never be in a log or in its output.
    Ends the module with Ansible's usual words when Python lacks a library that every module here needs.
    """
    settings = {"supports_check_mode": True, **settings, "argument_spec": {**URI_ARGUMENTS, **argument_spec}}
    module = _Module(secrets_in, settings)
    for library, packages, error in (
        ("libvirt-python", LIBVIRT_PACKAGES, LIBVIRT_IMPORT_ERROR),
        ("lxml", LXML_PACKAGES, LXML_IMPORT_ERROR),
    ):
        if error is not None:
            module.fail_json(msg=missing_required_lib(library, reason=f"({packages})"), exception=error)
    return module


def finish(module: AnsibleModule, work: t.Callable[[], dict[str, t.Any]]) -> t.NoReturn:
    """Run ``work`` and end the module with what it returns; an error of ours becomes the one message of a failure."""
    try:
        result = work()
    except VirtError as exc:
        module.fail_json(msg=str(exc), exception=exc)
    module.exit_json(**result)
