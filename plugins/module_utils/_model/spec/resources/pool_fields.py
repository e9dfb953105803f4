# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the options of a storage pool stand in libvirt's XML. https://libvirt.org/formatstorage.html"""

from __future__ import annotations

import posixpath
import re
import typing as t
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...._base.errors import InputError
from ...._base.xml import etree
from ..fields import validators
from ..fields.shapes import ListField
from ..fields.table import AttributeField, Field, TextField, drop, make, number_or_text

# virStoragePoolFormatFileSystem and virStoragePoolFormatFileSystemNet in libvirt's src/conf/storage_conf.c.
FORMATS = {
    "fs": (
        "auto",
        "ext2",
        "ext3",
        "ext4",
        "xfs",
        "vfat",
        "gfs",
        "gfs2",
        "hfs+",
        "iso9660",
        "ocfs2",
        "udf",
        "ufs",
        "vmfs",
    ),
    "netfs": ("auto", "nfs", "cifs", "glusterfs"),
}
MOUNT_OPTIONS = "http://libvirt.org/schemas/storagepool/fs/1.0"

_HOST = validators.pattern(r"[A-Za-z0-9:\[][A-Za-z0-9.:_\[\]-]*", "a host name or an address", "nas.example.org")
_HOST_WITH_PORT = re.compile(r"[^:\[]+:[^:]*|\[.*\]:.*")
_PORT = validators.whole_number(1, 65535)
# RFC 3721, 1.1; RFC 3980 has the third form.
_ISCSI_NAME = validators.pattern(
    r"iqn\.[0-9]{4}-[0-9]{2}\.[^\s/,]+|eui\.[0-9A-Fa-f]{16}|naa\.[0-9A-Fa-f]{16,32}",
    "an iSCSI name",
    "iqn.2026-01.org.example:storage",
)
# libvirt keeps a path without slashes at its end, and without two side by side (virFileSanitizePath).
_EXPORT = validators.pattern(
    r"/|/?[^\s/\x00-\x1f\x7f]+(/[^\s/\x00-\x1f\x7f]+)*", "what a server exports, without a slash at its end", "/srv/vms"
)
# mount.cifs(8) also takes user=NAME%PASSWORD.
_PASSWORD = re.compile(r"((?:^|,)\s*(?:pass(?:word|wd)?2?\s*=|user(?:name)?\s*=[^%]*%)).+", re.IGNORECASE | re.DOTALL)
# What `ceph auth get-key` prints: type, time, length and 16 bytes of a key, or 32 of the newer kind (CryptoKey::encode
# in Ceph's src/auth/Crypto.cc), in base64.
_CEPH_KEY = re.compile(r"A[Qg][A-D][A-Za-z0-9+/]{33,61}={0,2}")
# What a pool has no options for: libvirt has passwords in secrets.
_MEANT_AS_SECRET = ("password", "passwd", "key")
# user:password@server, as other programs take it.
_LOGIN = re.compile(r"/*[^/\s:@]*:[^\s@]+@")
_MOUNT_OPTION = validators.pattern(r"[^\s,'\"\\]+", "an option of mount", "noatime")
_DATASET = validators.pattern(r"[A-Za-z][A-Za-z0-9_.:-]*(/[A-Za-z0-9_.:-]+)*", "the name of a ZFS dataset", "tank/vms")
# lvm(8), VALID NAMES.
_VOLUME_GROUP = validators.pattern(r"[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}", "the name of a volume group", "vg0")
_CEPH_POOL = validators.pattern(r"[^\s/@\x00-\x1f\x7f]+", "the name of a pool of Ceph", "vms")
_VERSION = validators.pattern(r"[0-9](\.[0-9])?", "a version of NFS", '"4.2"')
_ACCOUNT = validators.pattern(r"[0-9]{1,10}|[a-z_][a-z0-9_.-]*\$?", "a user's or group's name or number", "qemu")


def absolute_path(value: t.Any, where: str) -> str:
    """A path as libvirt keeps it."""
    path = validators.text(value, where)
    if not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path:
        raise InputError(f"{path!r} is not a normalized absolute path", where=where, hint="Write it like /srv/vms")
    return path


def device_path(value: t.Any, where: str) -> str:
    """The path of a device."""
    path = absolute_path(value, where)
    if not path.startswith("/dev/"):
        raise InputError(f"{path!r} is not a device", where=where, hint="Write it like /dev/disk/by-id/nvme-eui.0025")
    return path


def file_mode(value: t.Any, where: str) -> str:
    """An octal mode of four digits. YAML reads 0750 without quotes as a number, which is another one."""
    text = str(value)
    if not isinstance(value, str) or len(text) not in (3, 4) or set(text) - set("01234567") or int(text, 8) > 0o777:
        raise InputError(f"{value!r} is not a mode", where=where, hint='Write it in quotes, like "0750"')
    return f"0{int(text, 8):03o}"


def account(value: t.Any, where: str) -> int | str:
    """A user or group, by number or by name."""
    return number_or_text(_ACCOUNT(value, where))


@dataclass(frozen=True)
class _WithoutLogin:
    """A rule for a server, or what it exports, after one that refuses a password without repeating it."""

    rule: validators.Rule

    def __call__(self, value: t.Any, where: str) -> t.Any:
        if _LOGIN.match(str(value)):
            raise _password_error(where)
        return self.rule(value, where)


@dataclass(frozen=True)
class _WithoutPort:
    """The rule for a server. libvirt and QEMU would take a port behind it for a part of its name, and only fail to
    reach it. hint: where the port belongs."""

    hint: str

    def __call__(self, value: t.Any, where: str) -> str:
        text = str(_HOST(value, where))
        if _HOST_WITH_PORT.fullmatch(text):
            raise InputError(f"{text!r} is a host with a port", where=where, hint=self.hint)
        return text


def _monitor(value: t.Any, where: str) -> str:
    """The rule for a monitor. Around an address of IPv6, QEMU puts brackets itself."""
    text = _WithoutPort("Write it as a mapping, {name: ..., port: ...}")(value, where)
    if text.startswith("["):
        raise InputError(f"{text!r} is an address in brackets", where=where, hint="Write it without them")
    return text


def _password_error(where: str) -> InputError:
    return InputError(
        "a password does not belong here: everybody who may look at the pool can read it",
        where=where,
        hint="Put it into a file that only root can read, and give credentials=FILE as one of mount_options: see "
        "mount.cifs(8)",
    )


def mount_options(value: t.Any, where: str) -> tuple[str, ...]:
    """Options of mount(8): a list, or a text with commas as in fstab(5)."""
    words = value.split(",") if isinstance(value, str) else value
    for index, word in enumerate(words if isinstance(words, (list, tuple)) else ()):
        if without_password(str(word)) != str(word):
            raise _password_error(f"{where}[{index}]")
    return tuple(validators.list_of(_MOUNT_OPTION)(words, where))


def without_password(option: str) -> str:
    """An option of mount without the password in it, where it has one."""
    return _PASSWORD.sub(r"\1********", option)


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID, in libvirt's form."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def is_ceph_key(text: str) -> bool:
    """Whether a text is a key as Ceph writes it."""
    return _CEPH_KEY.fullmatch(text.strip()) is not None


def secrets_in(options: t.Any) -> set[str]:
    """What has a password in it, or is a key, among the options of one pool or several: each is refused."""
    if isinstance(options, Mapping):
        meant = {str(options[word]) for word in _MEANT_AS_SECRET if options.get(word)}
        return {*meant, *(found for value in options.values() for found in secrets_in(value))}
    if isinstance(options, (list, tuple)):
        return {found for item in options for found in secrets_in(item)}
    if not isinstance(options, str):
        return set()
    is_secret = without_password(options) != options or is_ceph_key(options) or _LOGIN.match(options)
    return {options} if is_secret else set()


@dataclass(frozen=True)
class _NumberText(TextField):
    """A number that is the text of an element; what is none is shown as it is."""

    def read(self, parent: etree._Element) -> t.Any:
        text = super().read(parent)
        return None if text is None else number_or_text(text)


@dataclass(frozen=True)
class _SecretField:
    """libvirt's secret, by its UUID or its usage name, and with it what kind of authentication this is."""

    key: str
    kind: str

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> str:
        text = validators.filled_line(value, where)
        if is_ceph_key(text):
            raise InputError(
                "this is a key as Ceph writes it, and everybody may read what a pool has",
                where=where,
                hint="Give the key to brine.virt.virt_secret as value_base64, and the name of that secret here",
            )
        return text.lower() if is_uuid(text) else text

    def write(self, parent: etree._Element, value: str) -> None:
        make(parent, "source/auth").set("type", self.kind)
        secret = make(parent, "source/auth/secret")
        secret.attrib.clear()
        secret.set("uuid" if is_uuid(value) else "usage", value)

    def read(self, parent: etree._Element) -> str | None:
        secret = parent.find("source/auth/secret")
        return None if secret is None else secret.get("uuid") or secret.get("usage")


@dataclass(frozen=True)
class _MountOptionsField:
    """Options of mount beside those that follow from the pool, in the namespace that libvirt has for them."""

    key: str

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> tuple[str, ...]:
        return mount_options(value, where)

    def write(self, parent: etree._Element, value: Sequence[str]) -> None:
        for old in parent.findall(f"{{{MOUNT_OPTIONS}}}mount_opts"):
            drop(old)
        if value:
            home = etree.SubElement(parent, f"{{{MOUNT_OPTIONS}}}mount_opts", nsmap={"fs": MOUNT_OPTIONS})
            for option in value:
                etree.SubElement(home, f"{{{MOUNT_OPTIONS}}}option", name=option)

    def read(self, parent: etree._Element) -> tuple[str, ...] | None:
        options = parent.iterfind(f"{{{MOUNT_OPTIONS}}}mount_opts/{{{MOUNT_OPTIONS}}}option")
        return tuple(option.get("name", "") for option in options) or None


_PATH = TextField("path", absolute_path, "target/path")
_PERMISSIONS: tuple[Field, ...] = (
    _NumberText("owner", account, "target/permissions/owner"),
    _NumberText("group", account, "target/permissions/group"),
    TextField("mode", file_mode, "target/permissions/mode"),
)


def _server(port: str) -> AttributeField:
    """port: where a port belongs."""
    return AttributeField("host", _WithoutLogin(_WithoutPort(f"Give the port as {port}")), "source/host@name")


def _ceph_user(value: t.Any, where: str) -> str:
    """The rule for a user of Ceph, before whose name its tools write ``client.``, as librados does itself."""
    text = validators.filled_line(value, where)
    if text.startswith("client."):
        raise InputError(f"{text!r} is a user with its type", where=where, hint="Write it without client.")
    return text


def _user(rule: validators.Rule) -> AttributeField:
    return AttributeField("user", rule, "source/auth@username")


def _format(kind: str) -> AttributeField:
    return AttributeField("format", validators.choice(*FORMATS[kind]), "source/format@type")


# The options of each type, below <pool>.
POOL_TABLES: dict[str, tuple[Field, ...]] = {
    "dir": (_PATH, *_PERMISSIONS),
    "fs": (
        _PATH,
        AttributeField("device", device_path, "source/device@path"),
        _format("fs"),
        _MountOptionsField("mount_options"),
        *_PERMISSIONS,
    ),
    "netfs": (
        _PATH,
        _server("one of mount_options: port=2049"),
        AttributeField("export", _WithoutLogin(_EXPORT), "source/dir@path"),
        _format("netfs"),
        AttributeField("protocol_version", _VERSION, "source/protocol@ver"),
        _MountOptionsField("mount_options"),
        *_PERMISSIONS,
    ),
    "logical": (TextField("volume_group", _VOLUME_GROUP, "source/name"),),
    "iscsi": (
        _PATH,
        _server("port"),
        AttributeField("port", _PORT, "source/host@port"),
        AttributeField("target", _ISCSI_NAME, "source/device@path"),
        AttributeField("initiator", _ISCSI_NAME, "source/initiator/iqn@name"),
        _user(validators.filled_line),
        _SecretField("secret", "chap"),
    ),
    "rbd": (
        ListField(
            "hosts",
            "source/host",
            (AttributeField("name", _monitor, "@name"), AttributeField("port", _PORT, "@port")),
            short="name",
            required=("name",),
        ),
        TextField("ceph_pool", _CEPH_POOL, "source/name"),
        _user(_ceph_user),
        _SecretField("secret", "ceph"),
    ),
    "zfs": (TextField("dataset", _DATASET, "source/name"),),
}
