"""From a base model to a policy that is handed over: stages with gates, in one resumable file."""
