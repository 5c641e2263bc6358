"""JSON Schema of study files, for editors."""

from __future__ import annotations

from labctl.study.models import Study


def study_schema() -> dict[str, object]:
    """A Draft 2020-12 schema; ``tool`` decides which parameters a workload may have."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "labctl study",
        **{key: value for key, value in Study.model_json_schema().items() if key != "title"},
    }
