"""What all tests share: the papers' small taxonomies, random DAGs, and the real data where it is there."""
