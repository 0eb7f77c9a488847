"""`assay evaluate`: any policy on any sets, by a protocol, into a folder that can be resumed."""
