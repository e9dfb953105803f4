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
import posixpath
import re
import tarfile
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import replace
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

from .._base.commands import Program
from .._base.errors import InputError, UnsupportedError, place_in_yaml
from .._model.spec.machine import Machine, Nic
from .._model.spec.network import family, is_beyond, is_link_local6
from .._model.spec.seed import plain_data, user_data_kind
from .._model.spec.seed_parts import SeedFile, User
from .host_keys import KINDS, HostKey

# For some kilobytes in memory.
_BUILD_SECONDS = 60
# Where it is missing, disks would be made before anybody knows.
BSDTAR = Program(
    "bsdtar",
    "the hypervisor has no bsdtar to build the seed with",
    "Install its package (libarchive-tools on Debian and Ubuntu, bsdtar elsewhere)",
)
CLOUD_CONFIG = "#cloud-config\n"
# The label by which cloud-init finds the disk.
VOLUME_LABEL = "cidata"
# Seeds are as long as a multiple of this, so that a new one fits where the old one is: QEMU does not notice that a disk
# which it has open has become longer.
SIZE_STEP = 1 << 20
# Kinds of user-data that cloud-init makes a cloud-config of, in the guest.
_BECOME_CLOUD_CONFIG = frozenset({"cloud-config-archive", "jinja2", "x-include-once-url", "x-include-url"})
# How it is to merge ours into such a one, which is as `merge` does it. By default the keys of a later part take the
# place of those of an earlier one, users and commands included:
# https://cloudinit.readthedocs.io/en/latest/reference/merging.html
_MERGE_TYPE = "dict(no_replace,recurse_list)+list(prepend)+str()"
# The longest name that Linux lets an interface have.
INTERFACE_NAME_LENGTH = 15
# Netplan's word for a route through a router outside of the nic's own networks.
ON_LINK = "on-link"
# What JSON may have as it is and YAML may not, or takes for a line break: https://yaml.org/spec/1.1/#c-printable
_NOT_AS_IT_IS = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")
# cloud-init itself needs Python, but on RHEL 8 that one is out of Ansible's sight.
_PYTHON_WHEN_MISSING = (
    "command -v python3 >/dev/null 2>&1 || { apt-get update && apt-get install -y python3; } "
    "|| dnf install -y python3 || zypper --non-interactive install python3"
)
_AGENT = "qemu-guest-agent"
# Debian and Ubuntu leave its start to udev, which has seen the agent's port before the package was there; RHEL starts
# no service that it installs, and OpenRC none that is in no runlevel. --no-block: without the port, systemd would wait
# for it for 90 s (DefaultDeviceTimeoutSec in systemd-system.conf(5)). SUSE has another unit, which its package starts
# by itself; a command that fails there would count as an error of cloud-init.
_START_AGENT = (
    f"if [ -d /run/systemd/system ]; then systemctl --no-block start {_AGENT}; "
    f"elif command -v rc-service >/dev/null 2>&1; then rc-update add {_AGENT} default && rc-service {_AGENT} start; "
    "fi || :"
)


def seed_digest(machine: Machine) -> str:
    """The hash of everything the user asked the seed to hold: other spec, other hash.

    The host keys are not part of it; they are new whenever a seed is made. Nor are keys that nobody asked for:
    they are those of whoever runs the task. Nor is how the guest agent is started, which follows from the packages.
    """
    seed = machine.seed
    return _digest(replace(machine, seed=replace(seed, authorized_keys=())) if seed.keys_by_default else machine)


def is_made_from(machine: Machine, digest: str | None) -> bool:
    """Whether a seed with this hash is as requested. Earlier versions had keys in it that nobody asked for."""
    if machine.seed.method == "none":
        return digest is None
    return digest in (seed_digest(machine), _digest(machine))


def _digest(machine: Machine) -> str:
    documents = [meta_data(machine, ""), network_config(machine), user_data(machine, as_asked_for=True)]
    if machine.seed.method == "guestfs":
        documents.append(machine.seed.method)
    return hashlib.sha256(json.dumps(documents, sort_keys=True).encode()).hexdigest()


def seed_documents(machine: Machine, host_keys: Sequence[HostKey]) -> dict[str, str]:
    """The documents by their file names.

    Without host keys they are a refreshed seed, for a machine that lives already: cloud-init sees a new instance-id,
    does everything again that it does once, and leaves the machine its host keys.
    """
    return {
        "meta-data": _json(meta_data(machine, seed_digest(machine))),
        "network-config": _json(network_config(machine)),
        "user-data": user_data(machine, host_keys, keep_host_keys=not host_keys),
    }


def meta_data(machine: Machine, digest: str) -> dict[str, t.Any]:
    """Who the machine is. The instance-id changes with the seed, so that cloud-init knows a new one."""
    seed = machine.seed
    return {"instance-id": seed.instance_id or f"{machine.name}-{digest[:12]}", "local-hostname": seed.hostname}


def network_config(machine: Machine) -> dict[str, t.Any]:
    """Network configuration, version 2, or the user's own in its stead.

    Every nic is found by its MAC address and given its name in the profile.
    """
    if machine.seed.network is not None:
        return machine.seed.network
    return {"version": 2, "ethernets": {nic.name: ethernet(nic) for nic in machine.nics}}


def ethernet(nic: Nic) -> dict[str, t.Any]:
    """A nic as network configuration version 2 has it, which is netplan's as well."""
    words: dict[str, t.Any] = {"match": {"macaddress": nic.mac}}
    if len(nic.name) <= INTERFACE_NAME_LENGTH:
        words["set-name"] = nic.name
    if asks_dhcp4(nic):
        words["dhcp4"] = True
    elif nic.dhcp4 is False:
        words["dhcp4"] = False
    if nic.addresses:
        words["addresses"] = list(nic.addresses)
    routes = all_routes(nic)
    if routes:
        words["routes"] = routes
    names = {"search": list(nic.search), "addresses": list(nic.nameservers)}
    if any(names.values()):
        words["nameservers"] = {key: value for key, value in names.items() if value}
    further = {"dhcp6": nic.dhcp6, "accept-ra": nic.accept_ra, "mtu": nic.mtu}
    return {**words, **{key: value for key, value in further.items() if value is not None}}


def asks_dhcp4(nic: Nic) -> bool:
    """Whether the guest asks DHCP for an address of IPv4."""
    return not nic.addresses if nic.dhcp4 is None else nic.dhcp4


def all_routes(nic: Nic) -> list[dict[str, t.Any]]:
    """The routes of a nic, those of its gateways first, in netplan's words.

    These are spelt out instead of "default", which older releases of cloud-init do not know.
    """
    ways_out = [{"to": "::/0" if family(gateway) == 6 else "0.0.0.0/0", "via": gateway} for gateway in nic.gateway]
    return [
        {**route, **({ON_LINK: True} if is_beyond(route["via"], nic.addresses) else {})}
        for route in (*ways_out, *nic.routes)
    ]


def route_command(route: Mapping[str, t.Any], device: str = "") -> str:
    """What ip(8) is called with for one of all_routes. device: the interface, where it is known."""
    words = ["ip", f"-{family(route['via'])}", "route", "replace", route["to"], "via", route["via"]]
    words += ["dev", device] if device else []
    words += ["onlink"] if device and ON_LINK in route else []
    words += ["metric", str(route["metric"])] if "metric" in route else []
    return " ".join(words)


def user_data(
    machine: Machine,
    host_keys: Sequence[HostKey] = (),
    *,
    keep_host_keys: bool = False,
    as_asked_for: bool = False,
) -> str:
    """The user-data: ours, with the user's own merged in.

    keep_host_keys: the machine keeps those that it has. as_asked_for: without what was added in later versions and
    follows from the rest, so that no machine of an earlier one counts as outdated.
    Data, and text that is a cloud-config, are merged key by key (lists are appended); any other text, such as a
    script, goes beside ours as a part of its own. What becomes a cloud-config in the guest is merged there in the same
    way.
    """
    ours = _cloud_config(machine, host_keys, keep_host_keys)
    if not as_asked_for and any(package.startswith(_AGENT) for package in machine.seed.packages):
        # Before the user's own commands, of which one may stop it again, or take long.
        ours["runcmd"].insert(1, ["sh", "-c", _START_AGENT])
    theirs = machine.seed.user_data
    if isinstance(theirs, str) and user_data_kind(theirs) != "cloud-config":
        return _multipart(CLOUD_CONFIG + _json(ours), theirs)
    if isinstance(theirs, str):
        theirs = parse_cloud_config(theirs, _place_of_user_data(machine))
    return CLOUD_CONFIG + _json(merge(ours, theirs or {}))


def _place_of_user_data(machine: Machine) -> str:
    """Where the machine says it; of what is said for all machines, only that it is in a seed is known here."""
    own = machine.given.values.get("seed")
    return f"{machine.given.at('seed') if isinstance(own, Mapping) and 'user_data' in own else 'seed'}.user_data"


def _cloud_config(machine: Machine, host_keys: Sequence[HostKey], keep_host_keys: bool) -> dict[str, t.Any]:
    seed = machine.seed
    config: dict[str, t.Any] = {
        "hostname": seed.hostname,
        "preserve_hostname": False,
        # It would be written over at each boot.
        "manage_etc_hosts": not any(posixpath.normpath(file.path) == "/etc/hosts" for file in seed.files),
        "users": [_user(User(seed.user, None, (), "/bin/bash", True, seed.authorized_keys, seed.password_hash))],
        "ssh_pwauth": seed.ssh_pwauth,
        "runcmd": [["sh", "-c", _PYTHON_WHEN_MISSING], *seed.run_commands],
    }
    if keep_host_keys:
        # No new ones beside them either, such as RSA: the metadata knows all keys of the machine.
        config["ssh_deletekeys"] = False
        config["ssh_genkeytypes"] = list(KINDS)
    elif host_keys:
        # cloud-init writes them into files as they are, so both halves end their line.
        config["ssh_keys"] = {
            f"{key.kind}_{half}": f"{getattr(key, half).rstrip()}\n"
            for key in host_keys
            for half in ("private", "public")
        }
    if seed.packages:
        config["package_update"] = True
        config["packages"] = list(seed.packages)
    # Only what was asked for from here on: a seed that names none of it is the same as ever, and so is its hash.
    aid = "" if seed.network is not None else _aid_to_ifupdown(machine.nics)
    if aid:
        config["bootcmd"] = [["sh", "-c", aid]]
    if seed.fqdn:
        config["fqdn"] = seed.fqdn
    if seed.user == "root":
        config["disable_root"] = False
    config["users"].extend(_user(user) for user in seed.users)
    if seed.files:
        config["write_files"] = [_file(file) for file in seed.files]
    if seed.timezone:
        config["timezone"] = seed.timezone
    if seed.locale:
        config["locale"] = seed.locale
    return config


def _aid_to_ifupdown(nics: Sequence[Nic]) -> str:
    """What a Debian with ifupdown is short of, at each boot; nothing for nics without routes and name servers.

    cloud-init has ifupdown call route, of net-tools, and leave the name servers to resolvconf: images have neither
    (cloudinit/net/eni.py). Nor does it name the interface there, without which some routes cannot be. Nothing happens
    where cloud-init wrote for another program.
    """
    routes, with_device = [], []
    for nic in nics:
        device = nic.name if len(nic.name) <= INTERFACE_NAME_LENGTH else ""
        for route in all_routes(nic):
            if device and (ON_LINK in route or is_link_local6(route["via"])):
                with_device.append(route_command(route, device))
            else:
                routes.append(route_command(route))
    resolver = "".join(f"{line}\\n" for line in resolver_lines(nics))
    lines = []
    if routes:
        lines.append(f"command -v route >/dev/null || {{ {'; '.join(routes)}; }}")
    lines += with_device
    if resolver:
        lines.append(
            "command -v resolvconf >/dev/null || grep -qs ^nameserver /etc/resolv.conf"
            f" || printf '{resolver}' >/etc/resolv.conf"
        )
    return "\n".join(["[ -e /etc/network/interfaces.d/50-cloud-init ] || exit 0", *lines]) if lines else ""


def resolver_lines(nics: Sequence[Nic]) -> list[str]:
    """The lines of /etc/resolv.conf for what the nics say together: resolv.conf(5)."""
    search = list(dict.fromkeys(domain for nic in nics for domain in nic.search))
    servers = dict.fromkeys(server for nic in nics for server in nic.nameservers)
    return [*([f"search {' '.join(search)}"] if search else []), *(f"nameserver {server}" for server in servers)]


def _user(user: User) -> dict[str, t.Any]:
    words: dict[str, t.Any] = {"name": user.name, "shell": user.shell, "lock_passwd": user.password_hash is None}
    if user.sudo:
        words["sudo"] = "ALL=(ALL) NOPASSWD:ALL"
    if user.authorized_keys:
        words["ssh_authorized_keys"] = list(user.authorized_keys)
    if user.password_hash:
        # Unlike passwd this one is for a user who is there already, too.
        words["hashed_passwd"] = user.password_hash
    if user.gecos:
        words["gecos"] = user.gecos
    if user.groups:
        words["groups"] = list(user.groups)
    return words


def _file(file: SeedFile) -> dict[str, t.Any]:
    words: dict[str, t.Any] = {"path": file.path, "content": file.content}
    if file.encoding == "base64":
        words["encoding"] = "b64"
    words.update(owner=file.owner, permissions=file.mode)
    if file.owner not in ("root", "root:root") or file.path.startswith("/home/"):
        # Written when the users are there. Releases before 21.4 do not know the word and pass over it.
        words["defer"] = True
    return words


def merge(ours: t.Any, theirs: t.Any) -> t.Any:
    """Theirs over ours: mappings key by key, lists one after the other, everything else theirs."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return {**ours, **{k: merge(ours[k], v) if k in ours else v for k, v in theirs.items()}}
    if isinstance(ours, list) and isinstance(theirs, list):
        return [*ours, *theirs]
    return theirs


def parse_cloud_config(text: str, where: str = "seed.user_data") -> dict[str, t.Any]:
    """A cloud-config text as data. Raises InputError for what is none, UnsupportedError without PyYAML."""
    try:
        import yaml
    except ImportError as exc:
        raise UnsupportedError(
            "user_data given as text needs PyYAML on the hypervisor",
            hint="Install its package (python3-yaml or python3-PyYAML), or write user_data as a mapping",
        ) from exc
    try:
        loaded = yaml.safe_load(text)
        if loaded is not None and not isinstance(loaded, Mapping):
            raise InputError("the user_data is not a mapping", where=where)
        return dict(plain_data(loaded or {}, where))
    except (yaml.YAMLError, ValueError) as exc:
        raise InputError(
            f"the user_data is not valid YAML{place_in_yaml(exc)}",
            where=where,
            hint="Put values with special characters into quotes",
        ) from None
    except RecursionError as exc:
        raise InputError("the user_data is nested too deeply, or contains itself", where=where) from exc


def _multipart(ours: str, theirs: str) -> str:
    kind = user_data_kind(theirs) or "plain"
    # A boundary of its own making would be a new one each time, and the seed's hash with it.
    parts = MIMEMultipart(boundary=f"==={hashlib.sha256(theirs.encode()).hexdigest()[:32]}===")
    texts = [(ours, "cloud-config"), (theirs, kind)]
    merged = kind in _BECOME_CLOUD_CONFIG
    for index, (text, subtype) in enumerate(reversed(texts) if merged else texts):
        part = MIMEText(text, subtype, "utf-8")
        part.add_header("Content-Disposition", "attachment", filename=f"part-{index}")
        if merged and text is ours:
            part.add_header("Merge-Type", _MERGE_TYPE)
        parts.attach(part)
    return parts.as_string()


def _json(data: t.Any) -> str:
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return _NOT_AS_IT_IS.sub(lambda found: f"\\u{ord(found.group()):04x}", text) + "\n"


def seed_image(documents: Mapping[str, str]) -> bytes:
    """The documents as an ISO 9660 image with the label that cloud-init looks for.

    Made in memory by bsdtar of libarchive: a private key in it never lies in a temporary file. Filled up to a multiple
    of SIZE_STEP bytes.
    Raises UnsupportedError without bsdtar, HostError when it fails.
    """
    archive = tar_of({name: text.encode() for name, text in documents.items()}, 0o400)
    arguments = ["-cf", "-", "--format=iso9660", f"--options=iso9660:volume-id={VOLUME_LABEL}", "@-"]
    late = f"the seed could not be built: bsdtar did not end within {_BUILD_SECONDS} s"
    answer = BSDTAR.run(*arguments, late=late, data=archive, timeout_seconds=_BUILD_SECONDS)
    image = answer.require("bsdtar could not build the seed").output
    return image.ljust(-(-len(image) // SIZE_STEP) * SIZE_STEP, b"\0")


def tar_of(files: Mapping[str, bytes], mode: int) -> bytes:
    """Files of root's by their names, as a tar that is made in memory."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    return archive.getvalue()
