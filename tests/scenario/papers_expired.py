# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor's own certificate, with an end in the past."""

from __future__ import annotations

import contextlib
import tempfile
import typing as t
from pathlib import Path

from .cloud import Cloud, must


@contextlib.contextmanager
def expired(cloud: Cloud, host: str, path: str) -> t.Iterator[None]:
    """During the block a certificate of a host has ended yesterday; it is otherwise the same, and signed properly."""
    authority = cloud.build / "lab" / "authority"
    (key,) = authority.glob("*.key")
    with tempfile.TemporaryDirectory(dir=cloud.build) as place:
        old, serial = Path(place) / "old.pem", Path(place) / "serial"
        old.write_text(cloud.on(host, f"cat {path}"), encoding="ascii")
        signing = ("openssl", "x509", "-in", str(old), "-CA", str(key.with_suffix(".pem")), "-CAkey", str(key))
        answer = cloud.run(*signing, "-CAcreateserial", "-CAserial", str(serial), "-days", "-1")
    must(answer.status == 0, answer.text)
    new = answer.text[answer.text.index("-----BEGIN") :]
    try:
        cloud.on(host, f"cp --archive {path} {path}.kept && cat > {path} <<'END'\n{new}\nEND\n{_reload(path)}")
        yield
    finally:
        cloud.on(host, f"mv {path}.kept {path}; {_reload(path)}")


def _reload(path: str) -> str:
    """libvirt's daemon keeps what it has read; QEMU reads at each migration."""
    return "virt-admin server-update-tls libvirtd" if "/libvirt/" in path else "true"
