"""APIs with logic of their own, a module each. The table of all APIs is `insync.node.handlers`."""
