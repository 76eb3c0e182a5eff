"""Authentication and authorization, sans-IO: principals, SASL mechanisms, ACLs. No sockets, no nodes."""
