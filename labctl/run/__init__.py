"""Executing a plan: batches of cells through Ansible, evidence into the record, and every way to stop and go on."""
