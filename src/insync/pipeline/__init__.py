"""Jobs on Spark: archive, compact, replay, audit, health, campaign (`insync pipeline NAME`)."""
