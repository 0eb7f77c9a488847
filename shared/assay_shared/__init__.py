"""The common base of all Assay services: wire types, errors, config, HTTP kit, clients."""

__version__ = "0.1.0"
