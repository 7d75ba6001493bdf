"""Released SlateDB clients to test against: each release has an environment, each client a process of its own."""
