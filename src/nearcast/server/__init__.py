"""The HTTP server around durable hubs."""
