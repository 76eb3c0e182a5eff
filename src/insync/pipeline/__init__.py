"""Jobs on Spark: archive, replay, audit, health, campaign (`insync pipeline NAME`)."""
