"""What acts on a simulated cluster: clients, an operator, faults."""
