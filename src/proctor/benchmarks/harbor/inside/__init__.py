"""What runs in the environments of exported tasks."""
