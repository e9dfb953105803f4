# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A NoCloud seed: the three documents that cloud-init reads at a machine's first boot, and the disk that carries them.

Documents: https://cloudinit.readthedocs.io/en/latest/reference/datasources/nocloud.html. They are written as JSON,
which every YAML reader takes and in which no text can break out of its place.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import typing as t
from collections.abc import Mapping, Sequence
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

from ansible_collections.brine.virt.plugins.module_utils._commands import run_program
from ansible_collections.brine.virt.plugins.module_utils._errors import HostError, InputError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._model.spec import Machine, Nic
from ansible_collections.brine.virt.plugins.module_utils._seeding.host_keys import HostKey

CLOUD_CONFIG = "#cloud-config\n"
# The label by which cloud-init finds the disk.
VOLUME_LABEL = "cidata"
# The longest name that Linux lets an interface have.
_INTERFACE_NAME_LENGTH = 15
# cloud-init itself needs Python, but on RHEL 8 that one is out of Ansible's sight.
_PYTHON_WHEN_MISSING = (
    "command -v python3 >/dev/null 2>&1 || { apt-get update && apt-get install -y python3; } "
    "|| dnf install -y python3 || zypper --non-interactive install python3"
)


def seed_digest(machine: Machine) -> str:
    """The hash of everything the user asked the seed to hold: other wish, other hash.

    The host keys are not part of it; they are new whenever a seed is made.
    """
    documents = [meta_data(machine, ""), network_config(machine.nics), user_data(machine, ())]
    return hashlib.sha256(json.dumps(documents, sort_keys=True).encode()).hexdigest()


def seed_documents(machine: Machine, host_keys: Sequence[HostKey]) -> dict[str, str]:
    """The documents by their file names."""
    return {
        "meta-data": _json(meta_data(machine, seed_digest(machine))),
        "network-config": _json(network_config(machine.nics)),
        "user-data": user_data(machine, host_keys),
    }


def meta_data(machine: Machine, digest: str) -> dict[str, t.Any]:
    """Who the machine is. The instance-id changes with the seed, so that cloud-init knows a new one."""
    return {"instance-id": f"{machine.name}-{digest[:12]}", "local-hostname": machine.seed.hostname}


def network_config(nics: Sequence[Nic]) -> dict[str, t.Any]:
    """Network configuration, version 2: every nic found by its MAC address and given its name in the profile."""
    return {"version": 2, "ethernets": {nic.name: _ethernet(nic) for nic in nics}}


def _ethernet(nic: Nic) -> dict[str, t.Any]:
    ethernet: dict[str, t.Any] = {"match": {"macaddress": nic.mac}}
    if len(nic.name) <= _INTERFACE_NAME_LENGTH:
        ethernet["set-name"] = nic.name
    if not nic.addresses:
        ethernet["dhcp4"] = True
        return ethernet
    ethernet["addresses"] = list(nic.addresses)
    if nic.gateway:
        # Spelt out instead of "default", which older releases of cloud-init do not know.
        ethernet["routes"] = [{"to": "::/0" if ":" in nic.gateway else "0.0.0.0/0", "via": nic.gateway}]
    if nic.nameservers:
        ethernet["nameservers"] = {"addresses": list(nic.nameservers)}
    return ethernet


def user_data(machine: Machine, host_keys: Sequence[HostKey]) -> str:
    """The user-data: ours, with the user's own merged in.

    Data, and text that is a cloud-config, are merged key by key (lists are appended); any other text, such as a
    script, goes beside ours as a part of its own.
    """
    ours = _cloud_config(machine, host_keys)
    theirs = machine.seed.user_data
    if isinstance(theirs, str) and not theirs.startswith("#cloud-config"):
        return _multipart(CLOUD_CONFIG + _json(ours), theirs)
    if isinstance(theirs, str):
        theirs = _parse_cloud_config(theirs)
    return CLOUD_CONFIG + _json(merge(ours, theirs or {}))


def _cloud_config(machine: Machine, host_keys: Sequence[HostKey]) -> dict[str, t.Any]:
    seed = machine.seed
    user: dict[str, t.Any] = {
        "name": seed.user,
        "shell": "/bin/bash",
        "lock_passwd": True,
        "sudo": "ALL=(ALL) NOPASSWD:ALL",
    }
    if seed.authorized_keys:
        user["ssh_authorized_keys"] = list(seed.authorized_keys)
    config: dict[str, t.Any] = {
        "hostname": seed.hostname,
        "preserve_hostname": False,
        "manage_etc_hosts": True,
        "users": [user],
        "ssh_pwauth": False,
        "runcmd": [["sh", "-c", _PYTHON_WHEN_MISSING], *seed.run_commands],
    }
    if host_keys:
        config["ssh_keys"] = {
            f"{key.kind}_{half}": getattr(key, half) for key in host_keys for half in ("private", "public")
        }
    if seed.packages:
        config["package_update"] = True
        config["packages"] = list(seed.packages)
    return config


def merge(ours: t.Any, theirs: t.Any) -> t.Any:
    """Theirs over ours: mappings key by key, lists one after the other, everything else theirs."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return {**ours, **{k: merge(ours[k], v) if k in ours else v for k, v in theirs.items()}}
    if isinstance(ours, list) and isinstance(theirs, list):
        return [*ours, *theirs]
    return theirs


def _parse_cloud_config(text: str) -> dict[str, t.Any]:
    try:
        import yaml
    except ImportError as exc:
        raise UnsupportedError(
            "user_data given as text needs PyYAML on the hypervisor",
            hint="Install its package (python3-yaml or python3-PyYAML), or write user_data as a mapping",
        ) from exc
    try:
        loaded = yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise InputError(
            f"the user_data is not valid YAML: {' '.join(str(exc).split())}", where="seed.user_data"
        ) from exc
    if loaded is not None and not isinstance(loaded, Mapping):
        raise InputError("the user_data is not a mapping", where="seed.user_data")
    return dict(loaded or {})


def _multipart(ours: str, theirs: str) -> str:
    kinds = {"#!": "x-shellscript", "#include": "x-include-url", "#cloud-boothook": "cloud-boothook"}
    kind = next((kind for start, kind in kinds.items() if theirs.startswith(start)), None)
    if kind is None:
        raise InputError(
            "the user_data is of no kind that cloud-init knows",
            where="seed.user_data",
            hint="Begin it with #cloud-config or #!, or write it as a mapping",
        )
    # A boundary of its own making would be a new one each time, and the seed's hash with it.
    parts = MIMEMultipart(boundary=f"==={hashlib.sha256(theirs.encode()).hexdigest()[:32]}===")
    for index, (text, subtype) in enumerate(((ours, "cloud-config"), (theirs, kind))):
        part = MIMEText(text, subtype, "utf-8")
        part.add_header("Content-Disposition", "attachment", filename=f"part-{index}")
        parts.attach(part)
    return parts.as_string()


def _json(data: t.Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def seed_image(documents: Mapping[str, str]) -> bytes:
    """The documents as an ISO 9660 image with the label that cloud-init looks for.

    Made in memory by bsdtar of libarchive: a private key in it never lies in a temporary file.
    Raises UnsupportedError without bsdtar, HostError when it fails.
    """
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, text in documents.items():
            content = text.encode()
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o400
            tar.addfile(member, io.BytesIO(content))
    command = ["bsdtar", "-cf", "-", "--format=iso9660", f"--options=iso9660:volume-id={VOLUME_LABEL}", "@-"]
    try:
        answer = run_program(command, data=archive.getvalue())
    except FileNotFoundError as exc:
        raise UnsupportedError(
            "the hypervisor has no bsdtar to build the seed with",
            hint="Install its package (libarchive-tools on Debian and Ubuntu, bsdtar elsewhere)",
        ) from exc
    if answer.status != 0:
        raise HostError(f"bsdtar could not build the seed: {answer.complaint}")
    return answer.output
