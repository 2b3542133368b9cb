"""What several tests share: oracles, strategies, servers, retrievers."""
