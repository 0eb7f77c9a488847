"""What every Assay service stands on: wire types, errors, config, HTTP kit, clients."""

__version__ = "0.1.0"
