"""Answers of a folder, from processes that know nothing of this one."""
