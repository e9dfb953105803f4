# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is shown of the certificates of a host."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.brine.virt.plugins.module_utils._tls import certificates as certs
from ansible_collections.brine.virt.plugins.module_utils._tls.observe import observe_certificates, observe_revocations
from ansible_collections.brine.virt.plugins.plugin_utils._ca.revoke import revocation_lists
from ansible_collections.brine.virt.plugins.plugin_utils._ca.store import CaOptions, open_ca_store

CA_OPTIONS = CaOptions(organization="cloud", key_type="ecdsa", days=365, ca_days=3650)


def test_a_host_without_certificates_shows_none(tmp_path: Path) -> None:
    assert observe_certificates(str(tmp_path)) == ([], [])
    assert observe_revocations(str(tmp_path)) == []


def test_what_is_there_is_shown_and_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    cas = open_ca_store(str(tmp_path / "authority"), CA_OPTIONS, save=True)
    text = certs.as_pem(cas.current.all)
    root = tmp_path / "host"
    for path, content in (
        ("CA/cacert.pem", text * 2),
        ("libvirt/servercert.pem", text * 2),
        ("libvirt/clientcert.pem", "nonsense"),
        ("qemu/server-cert.pem", text.replace("M", "N")),
        ("CA/cacrl.pem", revocation_lists(cas, ["0123456789abcdef"], save=True)),
        ("qemu/ca-crl.pem", "nonsense"),
    ):
        (root / "etc/pki" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "etc/pki" / path).write_text(content)
    found, errors = observe_certificates(str(root))
    assert [one["kind"] for one in found] == ["authority", "authority", "libvirt_server"]
    assert found[0]["subject"] == found[0]["issuer"] == certs.subject(cas.current.certificate)
    assert found[0]["days_left"] in (3649, 3650)
    assert len(errors) == 2
    assert errors[0] == "/etc/pki/libvirt/clientcert.pem holds no certificate in PEM form"
    assert errors[1].startswith("/etc/pki/qemu/server-cert.pem holds a certificate that cannot be read")
    (revocations,) = observe_revocations(str(root))
    assert (revocations["path"], revocations["revoked"]) == ("/etc/pki/CA/cacrl.pem", 1)
    assert revocations["next_update"] == certs.not_after(cas.current.certificate).isoformat()
