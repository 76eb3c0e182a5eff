"""Races that chance seldom produces: each is a few timed actions with drawn moments."""
