"""Makes personal data and what only looks like it, by rule and from a seed.

Nothing here comes from the detector: check digits are computed by stdnum, phone numbers begin with libphonenumber's own
examples, and the rest is put together from lists of words.
"""

from __future__ import annotations

import ipaddress
import random
import string
from collections.abc import Callable
from dataclasses import dataclass

import phonenumbers
from phonenumbers import PhoneNumberFormat, PhoneNumberType
from stdnum import iban, luhn
from stdnum.br import cpf
from stdnum.de import idnr
from stdnum.es import ccc, dni
from stdnum.fr import nir
from stdnum.it import codicefiscale
from stdnum.pt import nif
from stdnum.us import ssn

LANGUAGES = ("en", "de", "fr", "es", "it", "pt")
_REGIONS = {
    "en": ("US", "GB"),
    "de": ("DE", "AT"),
    "fr": ("FR", "BE"),
    "es": ("ES", "MX"),
    "it": ("IT", "CH"),
    "pt": ("BR", "PT"),
}
_FIRST = {
    "en": ["Olivia", "Noah", "Amelia", "George", "Isla", "Harry", "Ava", "Jack"],
    "de": ["Jürgen", "Sabine", "Uwe", "Käthe", "Lukas", "Anneliese", "Björn", "Heike"],
    "fr": ["Chloé", "Benoît", "Camille", "Hélène", "Théo", "Agnès", "Luc", "Zoé"],
    "es": ["Íñigo", "Lucía", "Martín", "Begoña", "Álvaro", "Nuria", "Hugo", "Pilar"],
    "it": ["Niccolò", "Giulia", "Matteo", "Chiara", "Luca", "Noemi", "Piero", "Elsa"],
    "pt": ["João", "Beatriz", "Tiago", "Inês", "Caetano", "Luísa", "Rui", "Vânia"],
}
_LAST = {
    "en": ["Okafor", "O'Brien", "Whitfield", "Marsh", "Singh", "Underwood"],
    "de": ["Müller", "Groß", "Schäfer", "Vogt", "Brandt", "Özdemir"],
    "fr": ["Lefèvre", "Dubois", "Girard", "Mercier", "D'Aubigné", "Roux"],
    "es": ["Muñoz", "Ibáñez", "Herrera", "Castaño", "Vidal", "Prieto"],
    "it": ["Rossi", "Esposito", "Bianchi", "D'Angelo", "Ricci", "Greco"],
    "pt": ["Gonçalves", "Araújo", "Pereira", "Falcão", "Nóbrega", "Teixeira"],
}
_STREETS: dict[str, tuple[str, ...]] = {
    "en": ("{n} Maple Street", "{n} Old Mill Road", "{n} Kingsway Avenue", "{n} Harbour View Lane", "{n} Broadway"),
    "de": ("Lindenstraße {n}", "Am Alten Markt {n}", "Goethestr. {n}", "Rosenweg {n}", "Berliner Platz {n}"),
    "fr": ("{n} rue Victor Hugo", "{n} bis avenue de la Gare", "{n}, boulevard Voltaire", "{n} chaussée d'Antin"),
    "es": ("Calle Mayor, {n}", "Avenida de la Paz {n}", "Plaza del Sol, {n}", "Ronda de Atocha, {n}"),
    "it": ("Via Garibaldi {n}", "Viale Europa, {n}", "Piazza Dante {n}", "Strada Nuova {n}"),
    "pt": ("Rua das Flores, {n}", "Avenida Brasil, {n}", "Praça da Sé {n}", "Estrada Real, {n}"),
}
_DOMAINS = (
    *("example.com", "example.org", "mail.example.net", "acme.co.uk", "beispiel.de", "exemple.fr", "ejemplo.es"),
    *("esempio.it", "exemplo.com.br", "firma-nord.at", "sub.dept.university.edu", "münchen.example", "startup.io"),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value in a record. A hard negative has no kind."""

    kind: str
    value: str
    label: str
    """Name of the field that it would have."""


class Samples:
    """Samples in one language, all from one source of randomness."""

    def __init__(self, rng: random.Random, language: str) -> None:
        self._rng = rng
        self._language = language

    def digits(self, count: int) -> str:
        return "".join(self._rng.choices(string.digits, k=count))

    def letters(self, count: int, of: str = string.ascii_letters + string.digits) -> str:
        return "".join(self._rng.choices(of, k=count))

    def name(self) -> Sample:
        label = {
            "en": ("full_name", "customerName"),
            "de": ("kundenname", "Ansprechpartner"),
            "fr": ("nom_complet", "nomDuClient"),
            "es": ("nombre_completo", "nombre_cliente"),
            "it": ("nome_completo", "nome_cliente"),
            "pt": ("nome_completo", "nome_do_titular"),
        }[self._language]
        first, last = self._rng.choice(_FIRST[self._language]), self._rng.choice(_LAST[self._language])
        return Sample("name", f"{first} {last}", self._rng.choice(label))

    def email(self) -> Sample:
        user = self._rng.choice(
            (
                f"{self.letters(1, 'abcdefg')}.{self.letters(6, string.ascii_lowercase)}",
                f"{self.letters(5, string.ascii_lowercase)}+{self.letters(4, string.ascii_lowercase)}",
                f"{self.letters(7, string.ascii_lowercase)}_{self.digits(2)}",
                self.letters(8, string.ascii_letters),
            )
        )
        label = {"en": "email", "de": "e_mail", "fr": "courriel", "es": "correo", "it": "email", "pt": "email"}
        return Sample("email", f"{user}@{self._rng.choice(_DOMAINS)}", label[self._language])

    def phone(self) -> Sample:
        region = self._rng.choice(_REGIONS[self._language])
        kind = self._rng.choice((PhoneNumberType.MOBILE, PhoneNumberType.FIXED_LINE))
        example = phonenumbers.example_number_for_type(region, kind)
        assert example
        number = phonenumbers.PhoneNumber()
        number.merge_from(example)
        for _ in range(20):
            changed = str(example.national_number)[:-4] + self.digits(4)
            number.national_number = int(changed)
            if phonenumbers.is_valid_number(number):
                break
        else:
            number.national_number = example.national_number
        written = self._rng.choices(
            (PhoneNumberFormat.INTERNATIONAL, PhoneNumberFormat.NATIONAL, PhoneNumberFormat.E164), (5, 3, 2)
        )[0]
        label = {
            "en": "phone",
            "de": "telefon",
            "fr": "telephone",
            "es": "telefono",
            "it": "cellulare",
            "pt": "telefone",
        }
        return Sample("phone", phonenumbers.format_number(number, written), label[self._language])

    def card(self) -> Sample:
        prefix, length = self._rng.choice(
            (
                ("4", 16),
                ("51", 16),
                ("55", 16),
                ("2223", 16),
                ("34", 15),
                ("37", 15),
                ("6011", 16),
                ("3530", 16),
                ("36", 14),
            )
        )
        body = prefix + self.digits(length - len(prefix) - 1)
        number = body + luhn.calc_check_digit(body)
        if length == 16 and self._rng.random() < 0.7:
            number = self._rng.choice(" -").join(number[at : at + 4] for at in range(0, 16, 4))
        elif length == 15 and self._rng.random() < 0.5:
            number = f"{number[:4]} {number[4:10]} {number[10:]}"
        label = {
            "en": "card_number",
            "de": "kreditkarte",
            "fr": "carte_bancaire",
            "es": "tarjeta",
            "it": "carta",
            "pt": "cartao",
        }
        return Sample("card", number, self._rng.choice((label[self._language], "payment")))

    def iban(self) -> Sample:
        upper = string.ascii_uppercase
        made: dict[str, Callable[[], tuple[str, str]]] = {
            "en": lambda: ("GB", self.letters(4, upper) + self.digits(14)),
            "de": lambda: ("DE", self.digits(18)),
            "fr": lambda: ("FR", self.digits(23)),
            "es": self._spanish_account,
            "it": lambda: ("IT", self.letters(1, upper) + self.digits(22)),
            "pt": lambda: ("NL", self.letters(4, upper) + self.digits(10)),
        }
        country, account = made[self._language]()
        number = country + iban.calc_check_digits(f"{country}00{account}") + account
        if self._rng.random() < 0.5:
            number = " ".join(number[at : at + 4] for at in range(0, len(number), 4))
        return Sample("iban", number, self._rng.choice(("iban", "bank_account", "payout_to")))

    def _spanish_account(self) -> tuple[str, str]:
        bank, account = self.digits(8), self.digits(10)
        checked = ccc.calc_check_digits(f"{bank}00{account}")
        return "ES", f"{bank}{checked}{account}"

    def national_id(self) -> Sample:
        made = {
            "en": self._ssn,
            "de": self._steuer_id,
            "fr": self._nir,
            "es": self._dni,
            "it": self._codice_fiscale,
            "pt": self._cpf_or_nif,
        }[self._language]
        return made()

    def _ssn(self) -> Sample:
        number = self._until(ssn.is_valid, lambda: f"{self.digits(3)}-{self.digits(2)}-{self.digits(4)}")
        return Sample("national_id", number, self._rng.choice(("ssn", "social_security", "document")))

    def _steuer_id(self) -> Sample:
        number = self._until(idnr.is_valid, self._steuer_id_guess)
        if self._rng.random() < 0.5:
            number = f"{number[:2]} {number[2:5]} {number[5:8]} {number[8:]}"
        return Sample("national_id", number, self._rng.choice(("steuer_id", "steuerIdNr")))

    def _steuer_id_guess(self) -> str:
        body = self._rng.sample(string.digits, 9)
        body.insert(self._rng.randrange(9), self._rng.choice(body))
        return "".join(body) + self.digits(1)

    def _nir(self) -> Sample:
        born = f"{self._rng.choice('12')}{self._rng.randrange(40, 99)}{self._rng.randrange(1, 12):02}"
        number = (
            f"{born}{self._rng.randrange(1, 95):02}{self._rng.randrange(1, 900):03}{self._rng.randrange(1, 990):03}"
        )
        number += nir.calc_check_digits(number + "00")
        if self._rng.random() < 0.5:
            number = nir.format(number)
        return Sample("national_id", number, self._rng.choice(("securite_sociale", "nir", "document")))

    def _dni(self) -> Sample:
        number = self.digits(8)
        return Sample(
            "national_id", number + dni.calc_check_digit(number), self._rng.choice(("dni", "nif", "document"))
        )

    def _codice_fiscale(self) -> Sample:
        number = self.letters(6, "BCDFGLMNPRST") + f"{self._rng.randrange(40, 99)}{self.letters(1, 'ABCDEHLMPRST')}"
        number += f"{self._rng.randrange(1, 29):02}H501"
        number += str(codicefiscale.calc_check_digit(number))
        return Sample("national_id", number, self._rng.choice(("codice_fiscale", "document")))

    def _cpf_or_nif(self) -> Sample:
        if self._rng.random() < 0.6:
            number = self._until(cpf.is_valid, lambda: self.digits(11))
            return Sample("national_id", cpf.format(number), self._rng.choice(("cpf", "document")))
        number = self._until(nif.is_valid, lambda: "2" + self.digits(8))
        return Sample("national_id", number, self._rng.choice(("nif", "contribuinte")))

    def _until(self, is_valid: Callable[[str], bool], guess: Callable[[], str]) -> str:
        while not is_valid(number := guess()):
            pass
        return number

    def ip(self) -> Sample:
        if self._rng.random() < 0.75:
            while not (address := ipaddress.IPv4Address(self._rng.getrandbits(32))).is_global or address.is_multicast:
                pass
            return Sample("ip", str(address), self._rng.choice(("client_ip", "ip", "last_login_from")))
        address6 = ipaddress.IPv6Address(
            (0x2001 << 112) | (self._rng.getrandbits(29) << 83) | self._rng.getrandbits(64)
        )
        return Sample("ip", str(address6), self._rng.choice(("client_ip", "ip", "last_login_from")))

    def address(self) -> Sample:
        street = self._rng.choice(_STREETS[self._language]).format(n=self._rng.randrange(1, 250))
        label = {"en": "street", "de": "strasse", "fr": "rue", "es": "direccion", "it": "indirizzo", "pt": "endereco"}
        return Sample("address", street, self._rng.choice((label[self._language], "deliver_to")))

    def credential(self) -> Sample:
        alnum = string.ascii_letters + string.digits
        value = self._rng.choice(
            (
                f"ghp_{self.letters(36, alnum)}",
                f"xoxb-{self.digits(11)}-{self.digits(12)}-{self.letters(24, alnum)}",
                f"AKIA{self.letters(16, string.ascii_uppercase + '234567')}",
                f"sk-proj-{self.letters(40, alnum)}",
                f"glpat-{self.letters(20, alnum)}",
                f"AIza{self.letters(35, alnum)}",
                f"eyJ{self.letters(30, alnum)}.eyJ{self.letters(40, alnum)}.{self.letters(43, alnum)}",
            )
        )
        return Sample("credential", value, self._rng.choice(("api_key", "value", "note")))

    def birth_date(self) -> Sample:
        year, month, day = self._rng.randrange(1930, 2010), self._rng.randrange(1, 13), self._rng.randrange(1, 29)
        written = self._rng.choice(
            (f"{year}-{month:02}-{day:02}", f"{day:02}.{month:02}.{year}", f"{day}/{month}/{year}")
        )
        label = {
            "en": ("date_of_birth", "dob"),
            "de": ("geburtsdatum", "Geburtstag"),
            "fr": ("date_de_naissance", "naissance"),
            "es": ("fecha_nacimiento", "fechaDeNacimiento"),
            "it": ("data_di_nascita", "nascita"),
            "pt": ("data_de_nascimento", "nascimento"),
        }
        return Sample("birth_date", written, self._rng.choice(label[self._language]))

    def personal(self, kind: str) -> Sample:
        made: Sample = getattr(self, kind)()
        return made
