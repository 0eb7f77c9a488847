"""The engines that generate, behind one protocol."""
