# SPDX-License-Identifier: GPL-3.0-or-later
"""The pictures in the README: recorded by `make pictures` from commands that really run."""
