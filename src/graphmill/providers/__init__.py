"""Model providers: one file per protocol, what HTTP providers share, and a scripted one that calls nobody."""
