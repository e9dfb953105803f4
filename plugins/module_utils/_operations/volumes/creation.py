# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The step that makes a volume, empty or with the content of a file, and how it is taken back."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from ..._base.xml import etree, need
from ..._host.images.source_file import HeldFile, SourceFile
from ..._host.storage import volumes
from ..._host.storage.pools import Pool
from ..._host.storage.proof import require_proven
from ..._host.storage.transfer.compare import stamp_of
from ..._host.storage.transfer.fill import FilledVolume
from ..._host.storage.usage import delete_unused
from ..._host.storage.volume_facts import find_volume
from ..._model.metadata.machine import CreationNote, VolumeNote
from ..._model.spec.fields.table import write_table
from ..._model.spec.fields.units import format_size
from ..._model.spec.resources.volume import PERMISSIONS
from ..._model.xml.disk_source import RAW
from ..plan import Step
from .task import VolumeTask


@dataclass(frozen=True)
class NewVolume:
    """A volume that is to be made.

    size_bytes: of the disk that a guest sees. source: the file with its content, None for an empty one; source_words,
    where_source: its name, as the user knows it, and its place in the input; held: the same file, to be opened.
    """

    pool: Pool
    name: str
    image_format: str
    size_bytes: int
    permissions: dict[str, str] = field(default_factory=dict)
    source: SourceFile | None = None
    source_words: str = ""
    where_source: str | None = None
    held: HeldFile | None = None

    @property
    def words(self) -> str:
        """What is done, for the step."""
        made = f"create volume {self.name} in pool {self.pool.name}"
        return f"{made} from {self.source_words}" if self.source else f"{made}, {format_size(self.size_bytes)}"

    def element(self, size_bytes: int, image_format: str) -> etree._Element:
        """Its XML, with this size and format at first."""
        root = volumes.new_volume_element(self.pool, self.name, size_bytes, image_format)
        write_table(need(root, "target/permissions"), PERMISSIONS, self.permissions)
        return root


def creation_step(new: NewVolume, task: VolumeTask) -> Step:
    """The step; undone, it leaves what somebody else has made under the name, or has taken into use.

    Raises VolumeExistsError for a file in its place that is no volume.
    """
    volumes.require_no_file(new.pool, new.name)
    made: _Filled | _Wiped | _Empty
    if new.source is not None:
        made = _Filled(new, new.source, task)
    else:
        made = _Wiped(new, task) if new.pool.type == "logical" else _Empty(new, task)
    return Step(new.words, made.apply, made.undo)


class _Empty:
    """A new volume without content. It bears a mark, as those of machines do, by which it is taken back."""

    def __init__(self, new: NewVolume, task: VolumeTask) -> None:
        self._new, self._task = new, task
        self._mark = uuid.uuid4().hex
        self._begun = False

    def apply(self) -> None:
        new = self._new
        with self._task.alone():
            # Whatever fails before this, what is there then is somebody else's.
            volumes.require_not_there(new.pool, new.name)
            try:
                element = new.element(new.size_bytes, new.image_format)
                self._begun = True
                volumes.make_volume(new.pool, new.name, element, mark=self._mark)
            except volumes.VolumeExistsError:
                self._begun = False
                raise

    def undo(self) -> None:
        new = self._new
        if not self._begun or not volumes.volume_exists(new.pool, new.name):
            return
        making = CreationNote(self._mark, size_bytes=new.size_bytes)
        require_proven(new.pool, VolumeNote(new.pool.name, new.name, "disk", format=new.image_format, making=making))
        with self._task.alone():
            delete_unused(self._task.conn, [(new.pool, new.name)], fresh=True)


class _Wiped:
    """A new logical volume without content.

    The hypervisor's lock is held only while it is made: to wipe it may take long. Until that is done it bears the mark
    of one that is on its way, so that no machine gets it, and the next run makes it anew if this one is killed.
    """

    def __init__(self, new: NewVolume, task: VolumeTask) -> None:
        self._new, self._task = new, task
        self._made: FilledVolume | None = None

    def apply(self) -> None:
        new = self._new
        made = FilledVolume(new.pool, new.name, self._task.conn)
        with self._task.alone():
            made.make(new.element(new.size_bytes, new.image_format))
            self._made = made
        made.wipe()

    def undo(self) -> None:
        if self._made is not None:
            with self._task.alone():
                self._made.clear()


class _Filled:
    """A new volume with the content of a file.

    The hypervisor's lock is held only while it is made and marked: sending may take long, and the mark keeps everybody
    from it meanwhile.
    """

    def __init__(self, new: NewVolume, source: SourceFile, task: VolumeTask) -> None:
        self._new, self._source, self._task = new, source, task
        self._held = new.held or HeldFile(source, new.source_words, new.where_source)
        self._filled: FilledVolume | None = None
        self._whole: object = None

    def apply(self) -> None:
        try:
            self._fill(self._held.open())
        finally:
            self._held.close()

    def _fill(self, opened: int) -> None:
        new, source = self._new, self._source
        filled = FilledVolume(new.pool, new.name, self._task.conn)
        # A raw one is made as large as it is to be; of another, this is the size of its file.
        size_bytes = new.size_bytes if new.image_format == RAW else source.size_bytes
        with self._task.alone():
            filled.make(new.element(size_bytes, RAW))
            self._filled = filled
        tell = self._task.progress(new.name)
        filled.send(str(source.path), source.sha256, lambda done, whole: tell("copy", done, whole), opened)
        self._whole = self._stamp()
        if new.image_format != RAW and new.size_bytes > source.virtual_size_bytes:
            volumes.grow_volume(new.pool, new.name, new.size_bytes, image_format=new.image_format)
            self._whole = self._stamp()

    def undo(self) -> None:
        if self._filled is None:
            return
        with self._task.alone():
            if not self._filled.clear() and self._whole is not None and self._stamp() == self._whole:
                delete_unused(self._task.conn, [(self._new.pool, self._new.name)], fresh=True)

    def _stamp(self) -> object:
        found = find_volume(self._new.pool, self._new.name, image_format=self._new.image_format)
        return None if found is None else stamp_of(self._new.pool, found)
