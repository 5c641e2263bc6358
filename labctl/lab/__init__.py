"""The lab: an Ansible inventory, typed and checked; facts of its hosts; doctor's checks."""
