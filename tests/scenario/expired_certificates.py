# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor's own certificate, with an end in the past."""

from __future__ import annotations

import contextlib
import tempfile
import typing as t
from pathlib import Path

from .cloud import Cloud, must


@contextlib.contextmanager
def expired(cloud: Cloud, host: str, path: str, key_path: str) -> t.Iterator[None]:
    """During the block a certificate of a host has ended yesterday; it is otherwise the same, and signed properly.

    For what is read each time: libvirt's daemon takes no certificate that has ended already.
    """
    key = _key_of_issuer(cloud, cloud.on(host, f"cat {path}"))
    asking = f"openssl x509 -x509toreq -copy_extensions copyall -in {path} -signkey {key_path}"
    with tempfile.TemporaryDirectory(dir=cloud.build) as place:
        request, serial = Path(place) / "request.pem", Path(place) / "serial"
        request.write_text(cloud.on(host, asking), encoding="utf-8")
        signing = ["openssl", "x509", "-req", "-in", str(request), "-copy_extensions", "copyall", "-days", "-1"]
        signing += [
            "-CA",
            str(key.with_suffix(".pem")),
            "-CAkey",
            str(key),
            "-CAcreateserial",
            "-CAserial",
            str(serial),
        ]
        answer = cloud.run(*signing)
    must(answer.status == 0, answer.text)
    new = answer.text[answer.text.index("-----BEGIN") :]
    try:
        cloud.on(host, f"cp --archive {path} {path}.kept && cat > {path} <<'END'\n{new}\nEND")
        yield
    finally:
        cloud.on(host, f"mv {path}.kept {path}")


def _key_of_issuer(cloud: Cloud, certificate: str) -> Path:
    """The authority's key that signed it; a former authority may be there too."""
    for key in (cloud.lab_files / "authority").glob("*.key"):
        verify = ("openssl", "verify", "-CAfile", str(key.with_suffix(".pem")), "/dev/stdin")
        if cloud.run(*verify, stdin=certificate).status == 0:
            return key
    raise AssertionError("the lab has no authority that signed this certificate")
