"""Kills, floods and cuts a running installation, then checks every promise."""
