"""Makes records with personal data and with what only looks like it, by rule and from a seed.

Nothing here comes from the detector: check digits are computed by stdnum, phone numbers begin with libphonenumber's own
examples, and the rest is put together from lists of words.
"""

from __future__ import annotations

import csv
import io
import ipaddress
import json
import random
import string
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import phonenumbers
from phonenumbers import PhoneNumberFormat, PhoneNumberType
from stdnum import ean, iban, luhn
from stdnum.br import cpf
from stdnum.de import idnr
from stdnum.es import dni
from stdnum.fr import nir
from stdnum.it import codicefiscale
from stdnum.us import ssn

from benchmarks.privacy.scoring import Record

LANGUAGES = ("en", "de", "fr", "es", "it", "pt")
_REGIONS = ("US GB", "DE AT", "FR BE", "ES MX", "IT CH", "BR PT")
_LABELS = {
    "email": ("email", "e_mail", "courriel", "correo", "email", "email"),
    "phone": ("phone", "telefon", "telephone", "telefono", "cellulare", "telefone"),
    "card": ("card_number", "kreditkarte", "carte_bancaire", "tarjeta", "carta", "cartao"),
    "iban": ("iban bank_account payout_to",) * 6,
    "national_id": ("ssn social_security", "steuer_id", "securite_sociale nir", "dni nif", "codice_fiscale", "cpf"),
    "ip": ("client_ip ip last_login_from",) * 6,
    "credential": ("api_key value note",) * 6,
    "birth_date": (
        *("date_of_birth dob", "geburtsdatum Geburtstag", "date_de_naissance", "fecha_nacimiento"),
        *("data_di_nascita", "data_de_nascimento nascimento"),
    ),
    "name": (
        *("full_name customerName", "kundenname Ansprechpartner", "nom_complet", "nombre_completo nombre_cliente"),
        *("nome_completo nome_cliente", "nome_completo nome_do_titular"),
    ),
    "address": ("street", "strasse", "rue", "direccion", "indirizzo", "endereco deliver_to"),
}
"""The fields that a value of each kind has, by language."""
KINDS = tuple(_LABELS)
_ONLY_BY_FIELD = frozenset({"name", "birth_date"})
_FIRST = (
    *("Olivia Noah Amelia George Isla Harry", "Jürgen Sabine Uwe Käthe Anneliese Björn"),
    *("Chloé Benoît Camille Hélène Théo Agnès", "Íñigo Lucía Martín Begoña Álvaro Nuria"),
    *("Niccolò Giulia Matteo Chiara Noemi Piero", "João Beatriz Tiago Inês Caetano Luísa"),
)
_LAST = (
    *("Okafor O'Brien Whitfield Marsh Singh", "Müller Groß Schäfer Vogt Özdemir"),
    *("Lefèvre Dubois Girard D'Aubigné Roux", "Muñoz Ibáñez Herrera Castaño Prieto"),
    *("Rossi Esposito Bianchi D'Angelo Greco", "Gonçalves Araújo Pereira Falcão Teixeira"),
)
_STREETS = (
    ("{} Maple Street", "{} Old Mill Road", "{} Kingsway Avenue", "{} Broadway"),
    ("Lindenstraße {}", "Am Alten Markt {}", "Goethestr. {}", "Berliner Platz {}"),
    ("{} rue Victor Hugo", "{} bis avenue de la Gare", "{}, boulevard Voltaire"),
    ("Calle Mayor, {}", "Avenida de la Paz {}", "Plaza del Sol, {}"),
    ("Via Garibaldi {}", "Viale Europa, {}", "Piazza Dante {}"),
    ("Rua das Flores, {}", "Avenida Brasil, {}", "Praça da Sé {}"),
)
_DOMAINS = "example.com mail.example.net acme.co.uk beispiel.de ejemplo.es exemplo.com.br münchen.example"
_CARDS = (("4", 16), ("51", 16), ("55", 16), ("2223", 16), ("34", 15), ("37", 15), ("6011", 16), ("36", 14))
_SENTENCES = (
    ("Please note {} for the next delivery.", "According to the file, {} is current."),
    ("Bitte notieren Sie {} für die nächste Lieferung.", "Laut Akte gilt {} weiterhin."),
    ("Merci de noter {} pour la prochaine livraison.", "Selon le dossier, {} reste valable."),
    ("Por favor, anote {} para la próxima entrega.", "Según el expediente, {} sigue vigente."),
    ("Si prega di annotare {} per la prossima consegna.", "Secondo la pratica, {} è ancora valido."),
    ("Por favor, anote {} para a próxima entrega.", "Segundo o processo, {} continua válido."),
)


@dataclass(frozen=True, slots=True)
class _Sample:
    """One value in a record. What only looks personal has no kind."""

    kind: str
    value: str
    label: str


Rows = list[list[_Sample]]


class _Maker:
    def __init__(self, rng: random.Random, language: int) -> None:
        self.rng, self.language = rng, language

    def digits(self, count: int) -> str:
        return str(self.rng.randrange(1, 10)) + "".join(self.rng.choices(string.digits, k=count - 1))

    def letters(self, count: int, of: str = string.ascii_letters + string.digits) -> str:
        return "".join(self.rng.choices(of, k=count))

    def personal(self, kind: str) -> _Sample:
        value: str = getattr(self, kind)()
        return _Sample(kind, value, self.rng.choice(_LABELS[kind][self.language].split()))

    def name(self) -> str:
        return f"{self.rng.choice(_FIRST[self.language].split())} {self.rng.choice(_LAST[self.language].split())}"

    def email(self) -> str:
        user = f"{self.letters(5, string.ascii_lowercase)}{self.rng.choice('.+_')}{self.letters(4)}"
        return f"{user}@{self.rng.choice(_DOMAINS.split())}"

    def phone(self) -> str:
        region = self.rng.choice(_REGIONS[self.language].split())
        kind = self.rng.choice((PhoneNumberType.MOBILE, PhoneNumberType.FIXED_LINE))
        number = phonenumbers.PhoneNumber()
        number.merge_from(phonenumbers.example_number_for_type(region, kind) or number)
        example = number.national_number
        for _ in range(20):
            number.national_number = int(str(example)[:-4] + self.digits(4))
            if phonenumbers.is_valid_number(number):
                break
        else:
            number.national_number = example
        written = (PhoneNumberFormat.INTERNATIONAL, PhoneNumberFormat.NATIONAL, PhoneNumberFormat.E164)
        return phonenumbers.format_number(number, self.rng.choices(written, (5, 3, 2))[0])

    def card(self) -> str:
        prefix, length = self.rng.choice(_CARDS)
        body = prefix + self.digits(length - len(prefix) - 1)
        number = body + luhn.calc_check_digit(body)
        if length == 16 and self.rng.random() < 0.7:
            return self.rng.choice(" -").join(number[at : at + 4] for at in range(0, 16, 4))
        return number

    def iban(self) -> str:
        country, length = self.rng.choice((("DE", 18), ("AT", 16), ("CH", 17), ("PL", 24)))
        account = self.digits(length)
        number: str = country + iban.calc_check_digits(f"{country}00{account}") + account
        return iban.format(number) if self.rng.random() < 0.5 else number

    def national_id(self) -> str:
        made = (self._ssn, self._steuer_id, self._nir, self._dni, self._codice_fiscale, self._cpf)
        return made[self.language]()

    def _ssn(self) -> str:
        return self._valid(ssn.is_valid, lambda: f"{self.digits(3)}-{self.digits(2)}-{self.digits(4)}")

    def _steuer_id(self) -> str:
        def guess() -> str:
            body = self.rng.sample(string.digits, 9)
            body.insert(self.rng.randrange(9), self.rng.choice(body))
            return "".join(body) + self.digits(1)

        number = self._valid(idnr.is_valid, guess)
        return number if self.rng.random() < 0.5 else f"{number[:2]} {number[2:5]} {number[5:8]} {number[8:]}"

    def _nir(self) -> str:
        born = f"{self.rng.choice('12')}{self.rng.randrange(40, 99)}{self.rng.randrange(1, 12):02}"
        number = f"{born}{self.rng.randrange(1, 95):02}{self.rng.randrange(1, 900):03}{self.rng.randrange(1, 990):03}"
        number += nir.calc_check_digits(number + "00")
        return nir.format(number) if self.rng.random() < 0.5 else number

    def _dni(self) -> str:
        number = self.digits(8)
        return number + str(dni.calc_check_digit(number))

    def _codice_fiscale(self) -> str:
        number = f"{self.letters(6, 'BCDFGLMNPRST')}{self.rng.randrange(40, 99)}{self.letters(1, 'ABCDEHLMPRST')}"
        number += f"{self.rng.randrange(1, 29):02}H501"
        return number + str(codicefiscale.calc_check_digit(number))

    def _cpf(self) -> str:
        return str(cpf.format(self._valid(cpf.is_valid, lambda: self.digits(11))))

    def _valid(self, is_valid: Callable[[str], bool], guess: Callable[[], str]) -> str:
        while not is_valid(number := guess()):
            pass
        return number

    def ip(self) -> str:
        if self.rng.random() < 0.75:
            while not (address := ipaddress.IPv4Address(self.rng.getrandbits(32))).is_global or address.is_multicast:
                pass
            return str(address)
        return str(ipaddress.IPv6Address((0x2001 << 112) | (self.rng.getrandbits(29) << 83) | self.rng.getrandbits(64)))

    def address(self) -> str:
        return self.rng.choice(_STREETS[self.language]).format(self.rng.randrange(1, 250))

    def credential(self) -> str:
        made = (
            f"ghp_{self.letters(36)}",
            f"xoxb-{self.digits(11)}-{self.digits(12)}-{self.letters(24)}",
            f"AKIA{self.letters(16, string.ascii_uppercase + '234567')}",
            f"sk-proj-{self.letters(40)}",
            f"glpat-{self.letters(20)}",
            f"eyJ{self.letters(30)}.eyJ{self.letters(40)}.{self.letters(43)}",
        )
        return self.rng.choice(made)

    def birth_date(self) -> str:
        year, month, day = self.rng.randrange(1930, 2010), self.rng.randrange(1, 13), self.rng.randrange(1, 29)
        return self.rng.choice((f"{year}-{month:02}-{day:02}", f"{day:02}.{month:02}.{year}", f"{day}/{month}/{year}"))

    def negative(self) -> _Sample:
        """What looks like personal data and is none."""
        book, seconds = "978" + self.digits(9), self.rng.randrange(1_600_000_000, 1_790_000_000)
        value, labels = self.rng.choice(
            (
                (self.digits(16), "order_number sendungsnummer numero_commande numero_pedido purchase"),
                (".".join(str(self.rng.randrange(20)) for _ in range(4)), "version firmware release"),
                (f"10.0.{self.rng.randrange(100, 255)}.{self.rng.randrange(1, 255)}", "build_version"),
                (str(seconds * self.rng.choice((1, 1000))), "timestamp updated ts"),
                (f"2025-{self.rng.randrange(1, 13):02}-{self.rng.randrange(1, 29):02}", "created_at due shipped"),
                (book + ean.calc_check_digit(book), "isbn ean"),
                (str(uuid.UUID(int=self.rng.getrandbits(128), version=4)), "request_id"),
                (f"{self.rng.getrandbits(160):040x}", "commit sha1"),
                (f"DE00{self.digits(18)}", "article_code"),
                (f"react@{self.rng.randrange(30)}.{self.rng.randrange(30)}.{self.rng.randrange(30)}", "dependency"),
                (f"git@github.com:acme/service-{self.rng.randrange(999)}.git", "remote"),
                (":".join(f"{self.rng.randrange(256):02x}" for _ in range(6)), "mac"),
                (f"{self.rng.uniform(-90, 90):.6f}, {self.rng.uniform(-180, 180):.6f}", "position"),
                (f"{self.letters(2, string.ascii_uppercase)}{self.digits(6)}", "sku"),
                (self.rng.choice(("Desk Lamp", "Garden Chair", "Road Atlas", "Mountain Bike")), "product title"),
                (self.digits(self.rng.choice((9, 10, 11))), "serial_number ticket_id part"),
            )
        )
        return _Sample("", value, self.rng.choice(labels.split()))


def records(count: int, seed: int) -> Iterator[Record]:
    """`count` records, the same ones for the same seed."""
    rng = random.Random(seed)
    for number in range(count):
        form = _FORMATS[number % len(_FORMATS)]
        make = _Maker(rng, number % len(LANGUAGES))
        rows = [_row(make, is_prose=form is _prose)]
        for _ in range(2 if form in _TABLES else 0):
            rows.append(
                [_Sample(one.kind, getattr(make, one.kind)(), one.label) if one.kind else one for one in rows[0]]
            )
        flat = [sample for row in rows for sample in row]
        yield Record(form(make, rows), tuple((one.kind, one.value) for one in flat if one.kind))


def _row(make: _Maker, *, is_prose: bool) -> list[_Sample]:
    """Two or three personal values and as many others, each under another label. In prose, no field names a kind."""
    kinds = [kind for kind in KINDS if not (is_prose and kind in _ONLY_BY_FIELD)]
    row = [make.personal(kind) for kind in make.rng.sample(kinds, make.rng.randrange(1, 4))]
    row += [make.negative() for _ in range(make.rng.randrange(1, 4))]
    make.rng.shuffle(row)
    return list({sample.label: sample for sample in row}.values())


def _json(make: _Maker, rows: Rows) -> Any:
    fields = {one.label: one.value for one in rows[0]}
    return {"data": {"entry": {"id": make.rng.randrange(10_000), "details": fields, "tags": ["a", "b"]}}, "ok": True}


def _json_text(make: _Maker, rows: Rows) -> Any:
    return json.dumps([{one.label: one.value for one in row} for row in rows], ensure_ascii=False, indent=2)


def _csv(make: _Maker, rows: Rows) -> Any:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=make.rng.choice(",;"), lineterminator="\n")
    writer.writerow(["no", *(one.label for one in rows[0])])
    for number, row in enumerate(rows):
        writer.writerow([number, *(one.value for one in row)])
    return out.getvalue()


def _markdown(make: _Maker, rows: Rows) -> Any:
    table = [[one.label for one in rows[0]], ["---"] * len(rows[0]), *([one.value for one in row] for row in rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in table) + "\n"


def _log(make: _Maker, rows: Rows) -> Any:
    pairs = " ".join(f'{one.label}="{one.value}"' for one in rows[0])
    return f"2026-03-{make.rng.randrange(10, 29)}T10:21:11.480Z INFO [worker-3] saved {pairs}"


def _mail(make: _Maker, rows: Rows) -> Any:
    lines = [f"{one.label.replace('_', ' ').capitalize()}: {one.value}" for one in rows[0]]
    return "\n".join(["Hello,", "", *lines, "", "-- ", "Sent from my phone"])


def _prose(make: _Maker, rows: Rows) -> Any:
    """Half of the values are announced by their label; what only a word tells from other numbers always is."""
    said = []
    for one in rows[0]:
        is_bare = one.kind and (one.value.isdigit() or (one.kind == "phone" and not one.value.startswith("+")))
        label = f"{one.label.replace('_', ' ')} " if is_bare or make.rng.random() < 0.5 else ""
        said.append(make.rng.choice(_SENTENCES[make.language]).format(f"{label}{one.value}"))
    return " ".join(said)


_FORMATS = (_json, _json_text, _csv, _markdown, _log, _mail, _prose)
_TABLES = (_json_text, _csv, _markdown)
