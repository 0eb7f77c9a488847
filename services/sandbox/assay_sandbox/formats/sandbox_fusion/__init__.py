"""The HTTP API of SandboxFusion."""
