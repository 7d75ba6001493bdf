"""Compare a spec with its model, and let FizzBee judge simulated runs."""
