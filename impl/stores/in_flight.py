"""Safety: clients cannot make a server hold more than so many bytes of requests and answers, on one connection or on all."""

from collections import Counter

ONE_BYTES, ALL_BYTES = 64 << 20, 256 << 20  # of a connection, and of all


class InFlight:
    """The bytes that a server holds for its connections."""

    def __init__(self, one_bytes: int = ONE_BYTES, all_bytes: int = ALL_BYTES):
        self.one_bytes, self.all_bytes = one_bytes, all_bytes
        self.of: Counter[object] = Counter()  # connection -> its bytes
        self.total = 0

    def refusal(self, connection: object, size_bytes: int) -> str:
        """Return why the server does not hold so many bytes more; "" if it does from here on, until `give_back`."""
        if self.of[connection] + size_bytes > self.one_bytes:
            return (f"this connection's requests and answers under way have more than {self.one_bytes:,} bytes: read the "
                    "answers, and ask for less at a time")
        if self.total + size_bytes > self.all_bytes:
            return f"all requests and answers under way have more than {self.all_bytes:,} bytes: repeat it later"
        self.of[connection] += size_bytes
        self.total += size_bytes
        return ""

    def give_back(self, connection: object, size_bytes: int) -> None:
        self.of[connection] -= size_bytes
        self.total -= size_bytes
        if not self.of[connection]:
            del self.of[connection]
