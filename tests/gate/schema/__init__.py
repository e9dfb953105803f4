# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON Schema for files of variables, from the field tables and the documentation; `__main__.py` writes it."""

import os
import sys

# The collection as Ansible names it, from wherever its top stands.
sys.path.insert(0, os.path.abspath("../../.."))
