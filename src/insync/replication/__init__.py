"""One broker's replicas: each partition's log, led or followed, and the ISR its leader keeps with the controller."""
