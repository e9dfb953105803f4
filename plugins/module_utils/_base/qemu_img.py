# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""qemu-img, which is always told the format of what it opens. The one place that runs it.

Left alone it goes by the first bytes of a file, and opens whatever other file these lead to: a guest can write them
into a raw disk.
"""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Callable
from dataclasses import dataclass, replace

from .commands import Answer, Program
from .errors import UnsupportedError

RAW, QCOW2 = "raw", "qcow2"
_MEASURE_SECONDS = 600
_INFO_SECONDS = 60
# Of one with many bitmaps or snapshots.
_DESCRIPTION_SECONDS = 600
# The exit status of qemu-img check for an image that is corrupted; and when some clusters belong to nobody, which loses
# nothing. 1: it did not come to an end (qemu-img(1)).
_CORRUPTED, _LEAKS_ONLY = 2, 3
FORMATS = (RAW, QCOW2)
OnPercent = Callable[[float], t.Any]
# What -p has it write for each percent or two, over the one before (progress_simple_print in util/qemu-progress.c).
_PERCENT = re.compile(rb" *\((\d+\.\d+)/100%\)\r")
_QEMU_IMG = Program(
    "qemu-img",
    "qemu-img is not installed on this host",
    "It is in the package qemu-utils on Debian and Ubuntu, qemu-img on Fedora, RHEL and SUSE",
)


def run_qemu_img(
    command: str,
    image_format: str,
    *arguments: str,
    timeout_seconds: float,
    data: bytes = b"",
    watch: Callable[[], None] | None = None,
    on_percent: OnPercent | None = None,
) -> Answer:
    """Run ``qemu-img COMMAND -f FORMAT ARGUMENTS`` to its end, whatever its exit status.

    image_format: ``raw`` or ``qcow2``, of the file that is read. data: its standard input. watch: as in
    run_program. on_percent: called in the same way with how far it is, by its own word; of a command that knows -p,
    which are convert, compare, commit and rebase. Of a copy that is the part of what has to be copied, without holes.
    Raises UnsupportedError for another format and without qemu-img, HostError when it does not end in time.
    """
    if image_format not in FORMATS:
        raise UnsupportedError(f"disks of format {image_format} are not supported here")
    late = f"qemu-img {command} did not finish within {timeout_seconds:g} s"
    how: dict[str, t.Any] = {"timeout_seconds": timeout_seconds, "data": data, "watch": watch}
    if on_percent is None:
        return _QEMU_IMG.run(command, "-f", image_format, *arguments, late=late, **how)

    def tell(output: bytes) -> None:
        said = _PERCENT.findall(output)
        on_percent(float(said[-1]) if said else 0.0)

    answer = _QEMU_IMG.run(command, "-f", image_format, "-p", *arguments, late=late, on_output=tell, **how)
    return replace(answer, output=_PERCENT.sub(b"", answer.output))


@dataclass(frozen=True)
class Complaint:
    """What qemu-img check says first of a file that is not whole. checked: it came to the end of its work, so that it
    is the file; otherwise it may be the file, or what the system could not give just then, such as memory."""

    words: str
    checked: bool


def complaint_of(path: str, *, timeout_seconds: float, alone: bool = False) -> Complaint | None:
    """What qemu-img check complains of in a qcow2 file; None for one that is whole.

    alone: without a look at what it is backed by, which may be damaged or gone. Raises as run_qemu_img does.
    """
    name = _layer(path) if alone else path
    answer = run_qemu_img("check", QCOW2, name, timeout_seconds=timeout_seconds)
    if answer.status in (0, _LEAKS_ONLY):
        return None
    # It may have a line for each cluster.
    words = answer.errors.decode(errors="replace").strip().partition("\n")[0].rstrip(".") or answer.complaint
    words = words or f"qemu-img check ended with status {answer.status}"
    return Complaint(words.replace(name, path), answer.status == _CORRUPTED)


def _layer(path: str) -> str:
    """What qemu-img calls a qcow2 file without what it is backed by."""
    alone = {"file": {"driver": "file", "filename": path}, "backing": None}
    return f"json:{json.dumps(alone)}"


def measure_qcow2(path: str, image_format: str) -> int:
    """The bytes that an image takes as one qcow2 file, with all that it is backed by, if nothing is compressed.

    Raises as run_qemu_img does, and HostError for what cannot be read.
    """
    return _measure(path, image_format, QCOW2)


def measure_raw(path: str, image_format: str) -> int:
    """The bytes that are in an image, without its holes. Raises as measure_qcow2 does."""
    return _measure(path, image_format, RAW)


def measure_layer(path: str) -> int:
    """The bytes that a qcow2 file takes, without what it is backed by, if nothing is compressed; a QEMU may have it
    open. Raises as measure_qcow2 does."""
    return _measure(_layer(path), QCOW2, QCOW2, "-U")


def measure_volume(name: str, image_format: str, *options: str, data: bytes = b"") -> int:
    """The bytes that a volume takes as one qcow2 file. options: what stands before its name; data: the standard input.
    Raises as measure_qcow2 does."""
    return _measure(name, image_format, QCOW2, *options, data=data)


def virtual_size(name: str, image_format: str, *options: str, data: bytes = b"", words: str | None = None) -> int:
    """The size of an image for a guest, in bytes. options, data: as of measure_volume. words: what it is in a sentence,
    for errors. Raises as measure_qcow2 does."""
    command = ["--output", "json", *options, name]
    answer = run_qemu_img("info", image_format, *command, data=data, timeout_seconds=_INFO_SECONDS)
    return int(json.loads(answer.require(f"qemu-img cannot read {words or name}").text)["virtual-size"])


def describe_qcow2(path: str, *, in_use: bool = False) -> dict[str, t.Any]:
    """What ``qemu-img info`` says of a qcow2 file. in_use: also while a QEMU has it open. Raises as measure_qcow2."""
    command = [*(["-U"] if in_use else []), "--output=json", path]
    answer = run_qemu_img("info", QCOW2, *command, timeout_seconds=_DESCRIPTION_SECONDS)
    return dict(json.loads(answer.require(f"qemu-img cannot read {path}").text))


def _measure(path: str, image_format: str, target_format: str, *options: str, data: bytes = b"") -> int:
    words = [*options, "--output", "json", "-O", target_format, path]
    answer = run_qemu_img("measure", image_format, *words, data=data, timeout_seconds=_MEASURE_SECONDS)
    return int(json.loads(answer.require(f"qemu-img cannot read {path}").text)["required"])
