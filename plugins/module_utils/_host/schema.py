# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's own schema for domains, for the parts of a domain that the user wrote as XML."""

from __future__ import annotations

import os

from ansible_collections.brine.virt.plugins.module_utils._errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._xml import etree

# Where libvirt-daemon's packages have it on every distribution; virt-xml-validate reads the same file.
_SCHEMA = "/usr/share/libvirt/schemas/domain.rng"


def check_schema(xml: str, where: str) -> None:
    """Raises InputError, with libxml2's complaint, for a domain that libvirt's schema refuses.

    Without the schema on this host nothing is said here: libvirt looks itself when the domain is defined.
    """
    if not os.path.exists(_SCHEMA):
        return
    schema = etree.RelaxNG(etree.parse(_SCHEMA))
    if not schema.validate(etree.fromstring(xml)):
        # The last complaint is the outermost element's; the first names what is wrong.
        complaints = [entry.message for entry in schema.error_log if "Extra element" not in entry.message]
        what = complaints[0] if complaints else schema.error_log.last_error.message
        raise InputError(
            f"with this fragment the machine does not fit libvirt's schema: {what}",
            where=where,
            hint="https://libvirt.org/formatdomain.html says what can stand where",
        )
