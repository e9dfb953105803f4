# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide: how its pages are built, and what has to be right in them."""
