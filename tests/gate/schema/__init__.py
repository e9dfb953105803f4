# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON Schema for files of variables, from the field tables and the documentation; `__main__.py` writes it."""

import sys
from pathlib import Path

# The collection as Ansible names it, from wherever its top stands.
sys.path.insert(0, str(Path.cwd().parents[2]))
