"""The metrics, each defined once: a name and a formula over the judged hits, or over the texts."""
