"""Data of the API as described in OpenAPI. Request bodies are validated; answers are plain data of this form."""
