"""The bundled tasks."""
