"""The job file: what people write, checked and made into concrete jobs. Imports only ``model``.

``yaml_file.load`` reads it, ``check.check`` checks it, ``expand.expand`` makes one ``JobSpec`` of every sweep point,
``convert.to_job`` makes of that what the scheduler decides on. Nothing is imported here, so that a client that only
reads a file does not wait for Pydantic.
"""
