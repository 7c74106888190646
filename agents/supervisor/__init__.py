"""Keeps an installation's processes alive on one machine: what `manage.py up` runs."""
