"""Review by people: the page in which they judge a pool, and what they said there."""
