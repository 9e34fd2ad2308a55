"""Restarts, health and live proof."""
