# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine has besides its disks: its UEFI variables (NVRAM), and the state of its TPM, as swtpm keeps it.

https://libvirt.org/formatdomain.html#bios-bootloader (nvram), #tpm-device; libvirt keeps the latter in
/var/lib/libvirt/swtpm/UUID/tpm2 (qemuTPMEmulatorStorageBuildPath in src/qemu/qemu_tpm.c).
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import typing as t

from ..._base.errors import ConflictError, HostError
from ..._base.files import file_errors, sync_folder
from ..._base.xml import etree
from ..._model.backup.manifest import is_file_name
from .directory import open_inside

_SWTPM = "/var/lib/libvirt/swtpm"
# Where libvirt puts them for a machine whose definition names no place (qemuDomainNVRAMPathFormat in
# src/qemu/qemu_domain.c); up to libvirt 9.1 that is said only while the machine runs.
_NVRAM = "/var/lib/libvirt/qemu/nvram"
_DIRECTORIES = ("tpm2", "tpm1.2")
_LOCK = ".lock"
# What is written beside its place, until it is whole.
_DRAFT = ".restored"


def nvram_path(domain: etree._Element) -> str | None:
    """The file with the UEFI variables of a machine, by its definition; None for a machine without UEFI."""
    source = domain.find("os/nvram/source")
    path = (domain.findtext("os/nvram") or "").strip() if source is None else source.get("file", "")
    if path:
        return path
    firmware = domain.find("os[@firmware='efi']") is not None or domain.find("os/loader[@type='pflash']") is not None
    return f"{_NVRAM}/{domain.findtext('name')}_VARS.fd" if firmware else None


def has_tpm(domain: etree._Element) -> bool:
    """Whether it has a TPM whose state libvirt keeps."""
    return domain.find("devices/tpm/backend[@type='emulator']") is not None


def tpm_state(domain: etree._Element, uuid: str) -> tuple[str, str, list[str]] | None:
    """The directory with the state of a machine's TPM, the name that it has in its usual place, and the names of the
    files in it; None where there is none yet.

    Raises HostError for what no backup could give back.
    """
    places = [(name, f"{_SWTPM}/{uuid}/{name}") for name in _DIRECTORIES]
    source = domain.find("devices/tpm/backend[@type='emulator']/source")
    if source is not None and source.get("path"):
        # Of libvirt 10.10 and newer.
        if source.get("type") != "dir":
            raise HostError(f"the state of the TPM is in {source.get('path')}, which is no directory: not backed up")
        old = domain.find("devices/tpm/backend[@version='1.2']") is not None
        places = [("tpm1.2" if old else "tpm2", source.get("path", ""))]
    for name, directory in places:
        try:
            files = sorted(file for file in os.listdir(directory) if file != _LOCK)
        except FileNotFoundError:
            continue
        except OSError as exc:
            raise HostError(f"cannot read {directory}: {exc.strerror}") from exc
        for file in files:
            if not is_file_name(file):
                raise HostError(f"{directory} has a file {file!r} in it, which cannot be backed up")
        if files:
            return directory, name, files
    return None


def copy_in(source: str, target: str) -> None:
    """Copy a file of the hypervisor into a backup; for its owner alone. Raises HostError."""
    with file_errors(f"cannot copy {source} to {target}"):
        _copy(source, target)


def nvram_is_there(backup: str, name: str, path: str) -> bool:
    """Whether the UEFI variables of a backup are in their place, as after a run that was killed. Raises ConflictError
    for others that are, and HostError."""
    with file_errors(f"cannot read {path}"):
        if not os.path.lexists(path):
            return False
        if _is_same(backup, name, path):
            return True
    raise ConflictError(
        f"{path} is there already, and may hold the UEFI variables of another machine",
        hint=f"If nobody needs it: rm {path}",
    )


def write_nvram(backup: str, name: str, path: str, *, replace: bool) -> bool:
    """Put the UEFI variables of a backup in their place. replace: over a file that is there.

    libvirt gives the file to QEMU when the machine starts. False where they are there already, as after a run that was
    killed. Raises ConflictError, HostError.
    """
    with file_errors(f"cannot write {path}"):
        _drop(path + _DRAFT)
        if not replace and nvram_is_there(backup, name, path):
            return False
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        _take_out(backup, name, path)
    return True


def read_nvram(path: str) -> bytes | None:
    """The UEFI variables of a machine; None where there are none yet. Raises HostError."""
    folder, file = os.path.split(path)
    with file_errors(f"cannot read {path}"), contextlib.suppress(FileNotFoundError), open_inside(folder, file) as fd:
        return _read(fd)
    return None


def take_back(path: str, content: bytes | None) -> None:
    """Put UEFI variables back as they were. content: None where there were none. Raises HostError."""
    with file_errors(f"cannot write {path}"), contextlib.suppress(FileNotFoundError):
        if content is None:
            os.unlink(path)
        else:
            _write_over(path, io.BytesIO(content))


def tpm_is_there(backup: str, names: t.Sequence[str], uuid: str, directory: str) -> bool:
    """As nvram_is_there, of the state of a TPM. names, uuid, directory: as of write_tpm."""
    path = f"{_SWTPM}/{uuid}/{directory}"
    with file_errors(f"cannot read {path}"):
        there = _state_in(path)
        if not there:
            return False
        if there == sorted(map(tpm_file, names)) and all(
            _is_same(backup, name, f"{path}/{tpm_file(name)}") for name in names
        ):
            return True
    raise ConflictError(f"{path} holds the state of a TPM already", hint=f"If nobody needs it: rm -r {_SWTPM}/{uuid}")


def write_tpm(
    backup: str,
    names: t.Sequence[str],
    uuid: str,
    directory: str,
    *,
    replace: bool,
    began: t.Callable[[], t.Any] = lambda: None,
) -> None:
    """Put the state of a TPM in its place. names: its files in the backup, each with ``tpm-`` before its own name.

    directory: ``tpm2`` or ``tpm1.2``. libvirt gives it to swtpm when the machine starts. began: called when nothing of
    another state is there, just before the first file is written; not where the same one is there already, as after a
    run that was killed. Raises ConflictError and HostError.
    """
    path = f"{_SWTPM}/{uuid}/{directory}"
    with file_errors(f"cannot write {path}"):
        _drop_drafts(path)
        if not replace and tpm_is_there(backup, names, uuid, directory):
            return
        began()
        if _state_in(path):
            for name in names:
                _take_out(backup, name, f"{path}/{tpm_file(name)}")
            sync_folder(path)
        else:
            _write_directory(backup, names, path)


def _state_in(path: str) -> list[str]:
    """The files of a state, without what a killed run has left beside them."""
    if not os.path.lexists(path):
        return []
    return sorted(file for file in os.listdir(path) if file != _LOCK and not file.endswith(_DRAFT))


def _drop_drafts(path: str) -> None:
    if os.path.lexists(path):
        for file in os.listdir(path):
            if file.endswith(_DRAFT):
                _drop(f"{path}/{file}")


def _write_directory(backup: str, names: t.Sequence[str], path: str) -> None:
    """All files at once, or none: a run that is killed leaves a directory that is known as a draft."""
    draft = path + _DRAFT
    if os.path.lexists(draft):
        shutil.rmtree(draft)
    os.makedirs(draft, mode=0o711)
    for name in names:
        _take_out(backup, name, f"{draft}/{tpm_file(name)}")
    sync_folder(draft)
    if os.path.lexists(path):
        _drop(f"{path}/{_LOCK}")
        # With its owner, which swtpm runs as.
        owner = os.lstat(path)
        os.chown(draft, owner.st_uid, owner.st_gid, follow_symlinks=False)
    os.rename(draft, path)
    sync_folder(os.path.dirname(path))


def remove_tpm(uuid: str) -> None:
    """Delete what write_tpm has written for a machine that was not there. Raises HostError."""
    with file_errors(f"cannot remove {_SWTPM}/{uuid}"), contextlib.suppress(FileNotFoundError):
        shutil.rmtree(f"{_SWTPM}/{uuid}")


def tpm_name(file: str) -> str:
    """The name that a file of a TPM's state has in a backup."""
    return f"tpm-{file}"


def tpm_file(name: str) -> str:
    """The other way round."""
    return name[len("tpm-") :] if name.startswith("tpm-") else name


def _copy(source: str, target: str) -> None:
    # QEMU and swtpm may write to these folders: a link that a broken-out one has put there is not followed.
    with open_inside(*os.path.split(source)) as found, open(found, "rb", closefd=False) as old:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as new:
            shutil.copyfileobj(old, new)
            new.flush()
            os.fsync(descriptor)


def _drop(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _is_same(backup: str, name: str, path: str) -> bool:
    """Whether a file is what the backup has. Raises OSError."""
    folder, file = os.path.split(path)
    with open_inside(backup, name) as one, open_inside(folder, file) as other:
        return _read(one) == _read(other)


def _read(descriptor: int) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        return file.read()


def _take_out(backup: str, name: str, path: str) -> None:
    """Over what is there, whole or not at all, and with its owner."""
    with open_inside(backup, name) as descriptor, open(descriptor, "rb", closefd=False) as old:
        _write_over(path, old)


def _write_over(path: str, content: t.BinaryIO) -> None:
    draft = path + _DRAFT
    owner = os.lstat(path) if os.path.lexists(path) else None
    new = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(new, "wb") as file:
        if owner is not None:
            os.fchown(new, owner.st_uid, owner.st_gid)
        shutil.copyfileobj(content, file)
        file.flush()
        os.fsync(new)
    os.replace(draft, path)
