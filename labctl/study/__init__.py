"""Study files: models, loading, points, JSON Schema."""
