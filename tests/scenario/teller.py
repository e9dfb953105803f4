# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells the stories one after the other and counts what they prove."""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
import typing as t
from pathlib import Path

from .cloud import Cloud, Failure

# In this order: each begins where the one before it ended.
STORIES = (
    "hypervisors",
    "provisioning",
    "machines",
    "trust",
    "description",
    "refusals",
    "killing",
    "deletion",
    "silence",
    "movement",
    "evacuating",
    "ending",
)
# With the stories that take long, because real guests boot in them.
FULL_STORIES = (
    "hypervisors",
    "provisioning",
    "machines",
    "trust",
    "images",
    "storage",
    "description",
    "refusals",
    "seeding",
    "killing",
    "deletion",
    "silence",
    "movement",
    "mishaps",
    "journeys",
    "evacuating",
    "fleet",
    "ending",
)
# In place of names of stories: all of FULL_STORIES.
FULL = "full"


class Teller:
    """Runs the steps of a story; a failing one is shown and counted, and the story goes on unless it is vital."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []
        self.skipped = 0

    def step(self, title: str, proof: t.Callable[[], t.Any], *, vital: bool = False) -> None:
        """One thing to prove. vital: without it the rest of the story makes no sense."""
        began = time.monotonic()
        print(f"   {title} ...", flush=True)
        try:
            proof()
        except Exception as exc:
            self.failed.append(title)
            words = str(exc) if isinstance(exc, Failure) else traceback.format_exc()
            print(f"   FAILED: {title}\n{words}", flush=True)
            if vital:
                raise StoryEnds(title) from exc
        else:
            self.passed += 1
            print(f"   ok: {title} ({time.monotonic() - began:.1f} s)", flush=True)


class StoryEnds(Exception):
    """A vital step failed."""


def main(arguments: list[str]) -> int:
    """Tell the stories of STORIES, or those of FULL_STORIES, or the named ones. Returns the exit status."""
    report = Path(arguments[0]) if arguments else None
    names = arguments[1:] or list(STORIES)
    if names == [FULL]:
        names = list(FULL_STORIES)
    teller = Teller()
    cloud = Cloud(Path(__file__).resolve().parents[2])
    try:
        for name in names:
            print(f"-- {name}", flush=True)
            importlib.import_module(f"tests.scenario.stories.{name}").tell(teller, cloud)
    except StoryEnds as exc:
        print(f"-- the scenario ends here, without: {exc}", flush=True)
    except KeyboardInterrupt:
        teller.failed.append("interrupted")
    counts = {"passed": teller.passed, "failed": len(teller.failed), "skipped": teller.skipped}
    if report:
        report.write_text(json.dumps(counts), encoding="utf-8")
    for title in teller.failed:
        print(f"FAILED: {title}", file=sys.stderr)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped", flush=True)
    return 1 if teller.failed else 0
