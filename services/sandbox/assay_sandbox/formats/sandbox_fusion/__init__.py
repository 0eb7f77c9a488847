"""The HTTP API of SandboxFusion, served over this sandbox."""
