# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor of libvirt's test driver on which machines are adopted."""

from __future__ import annotations

import types
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.brine.virt.plugins.modules import virt_adopt
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import (
    PurgeHost,
)


class AdoptHost(PurgeHost):
    def adopt(self, *names: str, check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
        """The answer of the module; a failure's with its message."""
        validated = ArgumentSpecValidator(virt_adopt.ARGUMENTS).validate({"name": list(names), **params})
        assert not validated.error_messages
        failures: list[dict[str, t.Any]] = []
        self.warnings: list[str] = []
        module = types.SimpleNamespace(
            params={"uri": "", **validated.validated_parameters},
            check_mode=check_mode,
            fail_json=lambda **result: failures.append(result),
            warn=self.warnings.append,
        )
        answer = virt_adopt.work(t.cast("t.Any", module))
        return failures[0] if failures else answer

    def one_adopted(self, name: str = "old", **params: t.Any) -> dict[str, t.Any]:
        """What became of one machine, after check mode, which has the same answer and changes nothing."""
        before = self.texts(name)
        ahead = self.adopt(name, check_mode=True, **params)
        assert self.texts(name) == before
        answer = self.adopt(name, **params)
        assert answer == ahead
        return dict(answer["machines"][0])

    def texts(self, name: str) -> list[str]:
        """A machine's definition and what runs, if it does."""
        found = {domain.name(): domain for domain in self.conn.listAllDomains()}.get(name)
        return [] if found is None else [found.XMLDesc(flags) for flags in (0, 1, 2, 3)]

    def refused(self, name: str = "old", **params: t.Any) -> str:
        """The message; check mode has the same, and nothing is changed."""
        before = self.texts(name)
        for check_mode in (True, False):
            answer = self.adopt(name, check_mode=check_mode, **params)
            (result,) = answer["machines"]
            assert (result["failed"], result["changed"], answer["changed"], answer["diff"]) == (True, False, False, [])
            assert self.texts(name) == before
        return str(result["msg"])
