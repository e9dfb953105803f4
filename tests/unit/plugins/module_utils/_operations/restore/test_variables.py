# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""UEFI variables that two machines have in one file are not written over."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._operations.restore.plan import require_own_variables

DOMAIN = """<domain type='test'><name>{name}</name><memory>1</memory><os><type arch='x86_64'>hvm</type>
<loader readonly='yes' type='pflash'>/fw/CODE.fd</loader><nvram>/vars/web1.fd</nvram></os></domain>"""


def test_a_copy_by_xml_has_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "node.xml").write_text("<node/>", encoding="utf-8")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        conn.defineXML(DOMAIN.format(name="web1"))
        require_own_variables(conn, "/vars/web1.fd", "web1")
        conn.defineXML(DOMAIN.format(name="copy"))
        with pytest.raises(ConflictError, match="variables of machine web1 are in, is used by machine copy too"):
            require_own_variables(conn, "/vars/web1.fd", "web1")
        require_own_variables(conn, "/vars/web2.fd", "web2")
