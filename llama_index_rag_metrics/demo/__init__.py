"""Two small retrievers that need no network and no key, and a collection to try them on."""
