"""The one adapter to ansible-runner."""
