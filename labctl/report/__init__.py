"""Tables of a record → a page, a Markdown text and CSV files that say what was measured and what was not.

:func:`labctl.report.write.write_report` is the way in.
"""
