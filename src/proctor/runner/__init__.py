"""The pipeline that takes tasks from prepared to recorded, and predictions to verdicts."""
