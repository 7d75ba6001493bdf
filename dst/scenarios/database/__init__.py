"""The clients of a whole database, and the judge of what they were told: db."""
