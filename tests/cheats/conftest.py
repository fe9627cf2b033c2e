"""Providers of containers for tasks of Harbor's format."""

from harbor_world import image_map, provider

__all__ = ["image_map", "provider"]
