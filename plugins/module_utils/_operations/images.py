# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The images of a hypervisor's store as a task wants them: one to be had, or some to go."""

from __future__ import annotations

import os
import typing as t

from .._base.errors import InputError
from .._host.connection import open_connection
from .._host.images import files as image_files
from .._host.images.fetch import check_url, look_at_url, name_in_url, resolve_checksum
from .._host.images.files import Deadline
from .._host.images.ingest import ImagePreview, ImageSource, checksums, preview
from .._host.images.inspection import inspect_file, read_header, require_file
from .._host.images.prune import ASK_THE_OTHERS, PruneDecision, PruneOptions, prune_images, remove_images
from .._host.images.store import HashedImage, ImageStore, as_result, require_own_host
from .._host.images.stream import ProgressCallback, no_progress
from .._host.progress import PROGRESS_FILE, ProgressMeter, progress_file
from .._model.image.checksum import Checksum, parse_checksum, read_content_checksum
from .._model.image.header import compression
from .._model.image.name import parse_image_volume
from .._model.spec.fields import validators
from .machine_image import machine_source

SOURCES = ("src", "url", "path", "machine")
# The options that make sense for some states only.
_STATES_OF_OPTIONS = {
    **dict.fromkeys((*SOURCES, "checksum", "content_checksum", "disk", "keep_identity", "known_images"), ("present",)),
    "keep": ("pruned",),
    "ignore_unseen": ("absent", "pruned"),
    "used_elsewhere": ("absent", "pruned"),
}
FORGETS = (
    "The file system of pool {pool} has no extended attributes for {name}. Its origin cannot be remembered, and the "
    "next run will transfer it again."
)


def change_images(
    params: dict[str, t.Any], *, check_mode: bool, warn: t.Callable[[str], None] = lambda _text: None
) -> dict[str, t.Any]:
    """Have an image, or remove some: the result of virt_image. params: its options."""
    check_options(params)
    if params["state"] != "present":
        return clear_images(params, check_mode=check_mode, warn=warn)
    with progress_file(params[PROGRESS_FILE]) as progress:
        on_progress = ProgressMeter(progress.write_line, params["name"]).at
        return have_image(params, check_mode=check_mode, warn=warn, on_progress=on_progress)


def check_options(params: dict[str, t.Any]) -> None:
    """Raises InputError for an option that means nothing here, and for a number that is none."""
    state = params["state"]
    for option, states in _STATES_OF_OPTIONS.items():
        given = params[option] is not None and params[option] is not False
        if given and state not in states:
            raise InputError(
                f"does not apply to state: {state}", where=option, hint=f"It is for state: {' or '.join(states)}"
            )
    if state == "present" and not any(params[option] for option in SOURCES):
        # Ansible takes an empty one for given, and a null.
        empty = [option for option in SOURCES if params[option] is not None]
        raise InputError(
            "it is empty" if empty else "there is nothing that the image is to be made of",
            where=empty[0] if empty else None,
            hint="Give one of src, url, path and machine",
        )
    machine = params["machine"]
    for option in ("checksum", "content_checksum"):
        if machine and params[option]:
            raise InputError("it cannot be known beforehand for an image that is made of a machine", where=option)
    for option in ("disk", "keep_identity"):
        if params[option] not in (None, False) and not machine:
            raise InputError("does not apply without machine", where=option)
    if params["keep"] is not None and params["keep"] < 0:
        raise InputError(
            f"{params['keep']} is not a valid number of images", where="keep", hint="0 keeps none of the unused"
        )
    if state == "present" and params["timeout"] < 1:
        raise InputError(f"{params['timeout']} is less than 1", where="timeout")
    require_own_host(params["uri"])


def have_image(
    params: dict[str, t.Any],
    *,
    check_mode: bool,
    warn: t.Callable[[str], None] = lambda _text: None,
    on_progress: ProgressCallback = no_progress,
) -> dict[str, t.Any]:
    """Have the image in the store, as far as this can be done on the hypervisor alone, and say what changed.

    For a file of the controller (src) the store is only asked: when it lacks the image, the answer is changed and has
    no volume, and the action plugin sends the file and calls again with its path.
    """
    name = validators.name(params["name"], "name")
    deadline = Deadline(params["timeout"])
    source = ImageSource() if params["machine"] else read_source(params, deadline, on_progress)
    planned: dict[str, t.Any] = {}
    with open_connection(params["uri"]) as conn:
        store = ImageStore(conn, params["pool"], read_only=check_mode, on_progress=on_progress)
        if params["machine"]:
            source = machine_source(
                conn,
                params["machine"],
                params["disk"],
                deadline,
                keep_identity=params["keep_identity"],
                on_progress=on_progress,
            )
        origin = str(source.origins[0]) if params["machine"] else None
        before = store.volumes(name)
        kept, origins = search(store.find, name, source)
        changed, stored = False, not check_mode
        if kept is not None:
            stored = store.remember(kept, origins)
        else:
            source = at_hand(store, name, source)
            if source.check:
                source.check()
            if not check_mode and (source.path or source.url or source.write):
                brought = store.bring(name, source, deadline)
                kept, changed = brought.kept, brought.new
                if brought.forgets:
                    warn(FORGETS.format(pool=params["pool"], name=name))
            else:
                if source.write:
                    store.require_free_space(source, source.size_bytes)
                if source.url:
                    store.require_free_space(source, look_at_url(source.url, deadline, "url"))
                ahead = preview_source(source, deadline) if source.path else None
                kept = store.find(name, Checksum("sha256", ahead.sha256)) if ahead else None
                known = {"sha256": source.content.digest if source.content else None}
                planned = store.planned(name, ahead) if ahead else known
                changed = kept is None
    if kept is not None:
        source.verify_image(kept.sha256)
    image = as_result(name, params["pool"], kept, planned)
    unknown = f"of {source.words}" if source.words else f"with the {source.checksum}"
    added = [image["volume"] or f"{name} {unknown}"] if changed else []
    return {
        "changed": changed,
        "image": image,
        "stored": stored and image["volume"] is not None,
        **({"origin": origin} if origin is not None else {}),
        "diff": {"before": {"volumes": before}, "after": {"volumes": sorted({*before, *added})}},
    }


def search(
    look: t.Callable[..., HashedImage | None], name: str, source: ImageSource
) -> tuple[HashedImage | None, tuple[Checksum, ...]]:
    """An image by what its file hashes to, or by what it does itself; and the checksums that it is proven to come from.

    Only a source without path and url has been looked into, by the action plugin. Of another one, that a file becomes
    such an image is what the user says.
    """
    kept = look(name, *source.origins)
    if kept is not None or source.content is None:
        return kept, source.origins
    return look(name, source.content), () if source.path or source.url else source.origins


def at_hand(store: ImageStore, name: str, source: ImageSource) -> ImageSource:
    """The source itself, or in its place the same image when the store has it under another name."""
    twin, origins = (None, ()) if source.path else search(store.find_twin, name, source)
    if twin is None:
        return source
    content = Checksum("sha256", twin.sha256)
    return ImageSource(path=twin.image.path, checksum=content, content=source.content, origins=origins)


def read_source(
    params: dict[str, t.Any], deadline: Deadline, on_progress: ProgressCallback = no_progress
) -> ImageSource:
    """Where the image is to come from, with all checksums that are known of it; a file here has been hashed for that.

    A src has neither path nor url: its bytes are elsewhere.
    """
    path, url = params["path"], params["url"]
    inside = read_content_checksum(params["content_checksum"])
    if url:
        check_url(url, "url")
        checksum = resolve_checksum(params["checksum"], name_in_url(url), deadline, "checksum")
        return ImageSource(url=url, checksum=checksum, content=inside, origins=(checksum,))
    if not path:
        checksum = parse_checksum(params["checksum"], "checksum")
        return ImageSource(checksum=checksum, content=inside, origins=(checksum,))
    require_file(path, "path")
    wanted = None
    if params["checksum"]:
        wanted = resolve_checksum(params["checksum"], os.path.basename(path), deadline, "checksum")
    source = ImageSource(path=path, checksum=wanted)
    content = image_files.hash_file(path, source.algorithms, on_progress)
    source.verify(content)
    checksum = Checksum("sha256", content.sha256)
    return ImageSource(path=path, checksum=checksum, hashed=True, content=inside, origins=checksums(content))


def preview_source(source: ImageSource, deadline: Deadline) -> ImagePreview:
    """What a file here, which has been hashed, would be in the store. Raises what the real run would raise."""
    path = source.what
    header, size_bytes = read_header(path)
    if source.checksum is None or compression(header) is not None:
        return preview(source, deadline)
    found = inspect_file(path, path)
    source.verify_image(source.checksum.digest)
    return ImagePreview(source.checksum.digest, found.format, size_bytes, found.virtual_size_bytes)


def clear_images(
    params: dict[str, t.Any], *, check_mode: bool, warn: t.Callable[[str], None] = lambda _text: None
) -> dict[str, t.Any]:
    """Remove what the task wants removed, and say what went and what stays, and why."""
    deadline = Deadline(params["timeout"])
    pruned = params["state"] == "pruned"
    elsewhere = params["used_elsewhere"]
    prune_options = PruneOptions(
        keep=1 if params["keep"] is None else params["keep"],
        ignore_unseen=params["ignore_unseen"],
        used_elsewhere=None if elsewhere is None else frozenset(elsewhere),
    )
    name = params["name"]
    if name is not None and (pruned or parse_image_volume(name) is None):
        name = validators.name(name, "name")
    with open_connection(params["uri"]) as conn:
        work = prune_images if pruned else remove_images
        prune_result = work(conn, params["pool"], name, prune_options, deadline, check_mode=check_mode)
    if prune_result.blocked:
        hint = f". {ASK_THE_OTHERS}" if prune_result.shared else ""
        warn(
            f"No image is removed, as one may be in use where that cannot be checked: "
            f"{'; '.join(prune_result.unseen)}{hint}"
        )
    answer = {
        "changed": bool(prune_result.gone),
        "pruned": [_result(params, decision) for decision in prune_result.decisions if decision.goes],
        "diff": {
            "before": {"volumes": list(prune_result.before)},
            "after": {"volumes": [volume for volume in prune_result.before if volume not in prune_result.gone]},
        },
    }
    if pruned:
        answer["kept"] = [
            {**_result(params, decision), "used_by": list(decision.users), "reason": decision.reason}
            for decision in prune_result.decisions
            if not decision.goes
        ]
        answer["used_here"] = list(prune_result.used_here)
    return answer


def _result(params: dict[str, t.Any], decision: PruneDecision) -> dict[str, t.Any]:
    image = decision.image
    return {
        "name": image.name,
        "volume": image.volume,
        "pool": params["pool"],
        "size_bytes": decision.size_bytes,
    }
