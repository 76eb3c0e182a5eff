"""The protocol with one safeguard removed, to prove that the simulator notices."""
