# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of the playbook picture, as a browser shows it. `run` starts the tests."""
