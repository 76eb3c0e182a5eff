"""Plans as data (`plan`), and the generators that draw one from a seed (`swarm`)."""
