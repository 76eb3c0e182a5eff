"""What operators ask of a cluster: is it healthy, why is a partition not, and how does a reassignment proceed?

Everything is asked over the Kafka protocol through `insync.client`, so it works for any Kafka cluster. Gathering facts
and drawing conclusions are separate: `facts` and `health.snapshot_cluster` ask, `explain` and `health.find_problems`
are pure.
"""
