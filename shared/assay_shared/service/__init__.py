"""Common base of all HTTP services: app, server, authentication, audit and JSON bodies."""
