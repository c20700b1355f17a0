"""Job files: parsing, validation and expansion into concrete jobs. Imports only ``model``.

``yaml_file.load`` parses a file, ``check.check`` validates it, ``expand.expand`` creates one ``JobSpec`` per sweep
point, and ``convert.to_job`` converts that to the scheduler's ``Job``. Nothing is imported here, so that a client which
only parses a file does not load Pydantic.
"""
