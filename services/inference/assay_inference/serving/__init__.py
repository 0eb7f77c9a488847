"""Between a request and an engine: admission, and the policy that is served."""
