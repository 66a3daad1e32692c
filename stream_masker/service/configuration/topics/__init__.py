"""The names of the topics: their section of the configuration, and the checks that no two roles have one topic."""
