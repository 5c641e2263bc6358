"""labctl's own overhead, as ratios to the bare tools measured in the same run: ``make bench``.

``python -m bench [NAME...]`` measures all or some of: cli, playbook, cells, planning, normalising.
"""
