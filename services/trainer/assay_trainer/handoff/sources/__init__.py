"""The forms of a checkpoint, each made into a folder of safetensors."""
