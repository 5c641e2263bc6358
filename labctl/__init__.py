"""labctl: build labs with Ansible, run the same work in every arm of a study, keep the evidence."""

__version__ = "0.1.0"
