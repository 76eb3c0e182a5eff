"""Jobs on Spark: archive, compact, replay, mirror, audit, health, campaign (`insync pipeline NAME`)."""
