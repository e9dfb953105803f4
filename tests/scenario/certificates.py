# SPDX-License-Identifier: GPL-3.0-or-later
"""Client certificates that are wrong in one way each, made with openssl and not with what is tested."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from .cloud import Cloud, must

# Names as they are on the list of allowed ones, and one that is not.
LISTED = "/O=brine.virt/OU=operator/CN=eve"
UNLISTED = "/O=brine.virt/OU=migration/CN=hv2"
CLIENT = "extendedKeyUsage=clientAuth\nbasicConstraints=critical,CA:FALSE\n"


def lay_out(cloud: Cloud, folder: str, authority: Path) -> None:
    """Put folders with the authority's certificate and a client's certificate and key on hv2.

    good: as it should be; none: without a certificate; foreign: of an authority that only has the same name; expired;
    unlisted: with a name that may not come in; qemu: what a guest could read that broke out of its QEMU.
    """
    (key,) = authority.glob("*.key")
    pair = (key.with_suffix(".pem"), key)
    trusted = "/etc/pki/CA/cacert.pem"
    with tempfile.TemporaryDirectory(dir=cloud.build) as place:
        other = _make_authority(Path(place), pair[0])
        certificates = {
            "good": _sign(Path(place), pair, LISTED, ("-days", "2")),
            "foreign": _sign(Path(place), other, LISTED, ("-days", "2")),
            "expired": _sign(Path(place), pair, LISTED, ("-days", "-1")),
            "unlisted": _sign(Path(place), pair, UNLISTED, ("-days", "2")),
        }
    for name, (certificate, private) in certificates.items():
        at = f"{folder}/{name}"
        cloud.on("hv2", f"mkdir -p {at} && cp {trusted} {at}/cacert.pem")
        for text, file in ((certificate, "clientcert.pem"), (private, "clientkey.pem")):
            answer = cloud.run(*cloud.ssh("hv2", f"umask 077; cat >{at}/{file}"), stdin=text)
            must(answer.status == 0, answer.text)
    cloud.on(
        "hv2",
        f"mkdir -p {folder}/none {folder}/qemu; cp {trusted} {folder}/none; cp {trusted} {folder}/qemu/cacert.pem",
    )
    for kind in ("cert", "key"):
        cloud.on("hv2", f"cp /etc/pki/qemu/client-{kind}.pem {folder}/qemu/client{kind}.pem")


def _make_authority(place: Path, like: Path) -> tuple[Path, Path]:
    """An authority of somebody else with the same name, or the client would not even try."""
    subject = _openssl("x509", "-noout", "-subject", "-nameopt", "compat", "-in", str(like))
    key, certificate = place / "other.key", place / "other.pem"
    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    _openssl(*new, "-subj", subject.strip().removeprefix("subject="), "-keyout", str(key), "-out", str(certificate))
    return certificate, key


def _sign(place: Path, authority: tuple[Path, Path], subject: str, dates: tuple[str, ...]) -> tuple[str, str]:
    """A certificate and its key as PEM."""
    key, request, extensions = place / "key", place / "request", place / "extensions"
    extensions.write_text(CLIENT, encoding="ascii")
    new = ("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    _openssl(*new, "-subj", subject, "-keyout", str(key), "-out", str(request))
    signing = ("x509", "-req", "-in", str(request), "-CA", str(authority[0]), "-CAkey", str(authority[1]))
    certificate = _openssl(
        *signing, "-CAcreateserial", "-CAserial", str(place / "serial"), *dates, "-extfile", str(extensions)
    )
    return certificate, key.read_text(encoding="ascii")


def _openssl(*words: str) -> str:
    return subprocess.run(["openssl", *words], capture_output=True, check=True, text=True).stdout
