"""Makes hard negatives: what looks like personal data and is none."""

from __future__ import annotations

import random
import string
import uuid
from datetime import UTC, datetime

from stdnum import ean, isbn, luhn

from benchmarks.privacy.samples import Sample

_ORDERS = (
    *(
        "order_number",
        "tracking_number",
        "orderId",
        "Bestellnummer",
        "sendungsnummer",
        "numero_commande",
        "numero_suivi",
    ),
    *("numero_pedido", "seguimiento", "numero_ordine", "spedizione", "encomenda", "codigo_rastreio", "purchase", "job"),
)
_PRODUCTS = ("Desk Lamp", "Blue Kettle", "Garden Chair", "Road Atlas", "Mountain Bike", "Oak Shelf")


class Negatives:
    """Hard negatives from one source of randomness."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def _digits(self, count: int) -> str:
        return str(self._rng.randrange(1, 10)) + "".join(self._rng.choices(string.digits, k=count - 1))

    def any(self) -> Sample:
        made: Sample = self._rng.choice(_MADE)(self)
        return made

    def order_number(self) -> Sample:
        number = self._digits(16)
        if luhn.is_valid(number):  # one in ten: a card by every rule but its name; half of them stay in
            number = number if self._rng.random() < 0.5 else number[:-1] + str((int(number[-1]) + 1) % 10)
        return Sample("", number, self._rng.choice(_ORDERS))

    def broken_card(self) -> Sample:
        body = "4" + self._digits(14)
        wrong = str((int(luhn.calc_check_digit(body)) + self._rng.randrange(1, 10)) % 10)
        number = body + wrong
        return Sample("", " ".join(number[at : at + 4] for at in range(0, 16, 4)), "customer_code")

    def version(self) -> Sample:
        parts = [self._rng.randrange(0, 20) for _ in range(4)]
        return Sample("", ".".join(map(str, parts)), self._rng.choice(("version", "firmware", "release")))

    def build(self) -> Sample:
        return Sample("", f"10.0.{self._rng.randrange(100, 255)}.{self._rng.randrange(1, 255)}", "build_version")

    def timestamp(self) -> Sample:
        seconds = self._rng.randrange(1_600_000_000, 1_790_000_000)
        return Sample("", str(seconds * self._rng.choice((1, 1000))), self._rng.choice(("timestamp", "updated", "ts")))

    def date(self) -> Sample:
        moment = datetime.fromtimestamp(self._rng.randrange(1_600_000_000, 1_790_000_000), UTC)
        written = moment.strftime(self._rng.choice(("%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%d.%m.%Y", "%Y%m%d")))
        return Sample("", written, self._rng.choice(("created_at", "due", "shipped")))

    def book(self) -> Sample:
        body = "978" + self._digits(9)
        number = body + ean.calc_check_digit(body)
        return Sample(
            "", isbn.format(number) if self._rng.random() < 0.5 else number, self._rng.choice(("isbn", "ean"))
        )

    def identifier(self) -> Sample:
        return Sample("", str(uuid.UUID(int=self._rng.getrandbits(128), version=4)), "request_id")

    def digest(self) -> Sample:
        return Sample("", f"{self._rng.getrandbits(160):040x}", self._rng.choice(("commit", "sha1")))

    def broken_account(self) -> Sample:
        return Sample("", f"DE00{self._digits(18)}", "article_code")

    def package(self) -> Sample:
        version = ".".join(str(self._rng.randrange(0, 30)) for _ in range(3))
        return Sample("", f"{self._rng.choice(('lodash', 'react', 'left-pad'))}@{version}", "dependency")

    def image(self) -> Sample:
        return Sample("", f"icon-{self._rng.randrange(99)}@2x.png", "file")

    def repository(self) -> Sample:
        return Sample("", f"git@github.com:acme/service-{self._rng.randrange(999)}.git", "remote")

    def hardware(self) -> Sample:
        return Sample("", ":".join(f"{self._rng.randrange(256):02x}" for _ in range(6)), "mac")

    def scope(self) -> Sample:
        return Sample("", self._rng.choice(("std::vector", "ab::cd", "crate::face::Add")), "symbol")

    def price(self) -> Sample:
        return Sample("", f"{self._rng.randrange(1, 999)},{self._rng.randrange(100, 999)}.{self._digits(2)}", "total")

    def coordinates(self) -> Sample:
        return Sample("", f"{self._rng.uniform(-90, 90):.6f}, {self._rng.uniform(-180, 180):.6f}", "position")

    def part_number(self) -> Sample:
        return Sample("", f"{''.join(self._rng.choices(string.ascii_uppercase, k=2))}{self._digits(6)}", "sku")

    def product(self) -> Sample:
        return Sample("", self._rng.choice(_PRODUCTS), self._rng.choice(("product", "title")))

    def serial(self) -> Sample:
        return Sample(
            "", self._digits(self._rng.choice((9, 10, 11))), self._rng.choice(("serial_number", "ticket_id", "part"))
        )

    def mention(self) -> Sample:
        return Sample("", f"@{''.join(self._rng.choices(string.ascii_lowercase, k=7))}", "handle")


_MADE = tuple(
    made for name, made in vars(Negatives).items() if not name.startswith("_") and name != "any" and callable(made)
)
