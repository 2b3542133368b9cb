"""Review by people: the page in which they judge a pool, and their judgements."""
