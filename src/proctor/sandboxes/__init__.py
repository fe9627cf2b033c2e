"""Agents' reusable homes: an H2_DIR each, made from a preset; credentials survive resets."""
