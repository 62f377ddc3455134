"""The evidence of the names of fields, labels and the words before a value, and the values that only it tells: names,
dates of birth, passwords, postal addresses and numbers of documents. Pure.

Words are those of English, German, French, Spanish, Italian and Portuguese, and of Dutch where a name differs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache

from codemode_server.features.privacy.findings import Kind
from codemode_server.features.privacy.given_names import is_person

MAX_CONTEXT_CHARACTERS = 48
"""How much of the text before a value is read."""
_MAX_FIELD_CHARACTERS = 64
_MAX_WORDS_BEFORE = 5
_UP_TO_LAST_END = re.compile(r'.*(?:\n|[.,;"|] )', re.DOTALL)
"""The end of the words that belong to an earlier value."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|[^\W\d_]+")


class Against(StrEnum):
    """Evidence that a number is nothing personal."""

    NUMBER = "number"
    """A number that somebody counts or tracks by: an order, a ticket, a serial number."""
    VERSION = "version"


Evidence = Kind | Against | None
# fmt: off
_WORDS: dict[Kind | Against, str] = {
    Kind.EMAIL: "email mail emails correo courriel posta",
    Kind.PHONE: (
        "phone phones telephone tel telefon telefono telefone telefoonnummer mobile mobil mobiltelefon cell"
        " cellphone handy handynummer fax rufnummer telefonnummer portable movil cellulare celular telemovel"
        " whatsapp call sms"
    ),
    Kind.CARD: (
        "card cards creditcard cc pan visa mastercard amex kreditkarte kartennummer karte carte tarjeta cartao"
        " carta"
    ),
    Kind.IBAN: "iban konto kontonummer bankverbindung",
    Kind.NATIONAL_ID: (
        "ssn tin taxid steuer steuerid idnr steueridnr steuernummer steueridentifikationsnummer nir securite cpf"
        " cnpj nif dni nie bsn codice fiscale pesel nhs vat ustid umsatzsteuer partita iva contribuinte ahv"
        " aadhaar sozialversicherung social tax impuestos fiscal national passport nin nino burgerservicenummer"
    ),
    Kind.IP: "ip ipaddress remoteaddr client peer host",
    Kind.ADDRESS: (
        "address street addressline adresse strasse anschrift wohnort rue direccion calle domicilio indirizzo via"
        " endereco rua morada adres straat"
    ),
    Kind.BIRTH_DATE: (
        "birth birthday birthdate dob born geburtsdatum geburtstag geboren naissance nacimiento nascita"
        " nascimento geboortedatum"
    ),
    Kind.CREDENTIAL: "password passwd pwd secret token apikey passwort kennwort motdepasse contrasena senha",
    Against.NUMBER: (
        "order orders invoice tracking ticket ref reference sku part serial isbn ean upc gtin article item"
        " bestellung bestellnummer auftrag auftragsnummer rechnung rechnungsnummer sendung sendungsnummer artikel"
        " commande facture suivi pedido factura seguimiento ordine fattura spedizione fatura encomenda rastreio"
        " timestamp ts epoch imei hash batch lot transaction txn case barcode asset device trace span request"
    ),
    Against.VERSION: (
        "version versions v ver release build firmware driver oid kernel chapter section kapitel abschnitt"
        " chapitre versione versao upgrade upgraded downgrade"
    ),
}
_PERSON_FIELDS_LIST = (
    "firstname lastname surname fullname middlename givenname familyname forename displayname realname personname"
    " customername clientname contactname patientname employeename ownername cardholder cardholdername"
    " accountholder holdername recipientname sendername authorname vorname nachname familienname kundenname"
    " ansprechpartner inhaber prenom nomdefamille nomcomplet nomduclient nombrecompleto apellido apellidos"
    " nombrecliente primerapellido segundoapellido nomecompleto cognome nomecliente nomedotitular titular"
    " sobrenome apelido voornaam achternaam volledigenaam displaynamelastfirst namelastfirst lastnamefirst fileas"
    " maidenname preferredname assigneename reportername reviewername requestername managername organizername"
)
_PERSON_FIELDS = frozenset(_PERSON_FIELDS_LIST.split())
_NAME_FIELDS_LIST = (
    "name nombre nom nome naam contact customer client patient employee kunde kontakt cliente contacto contatto"
    " contato author assignee owner recipient sender attendee manager"
)
_NAME_FIELDS = frozenset(_NAME_FIELDS_LIST.split())
"""Names of persons only beside another field of a person: products have names too."""
_ROLE_FIELDS_LIST = (
    "attendees participant participants organizer organiser organizers assignees assignedto reporter reporters"
    " reportedby authors reviewer reviewers reviewedby requester requestor requestedby creator createdby updatedby"
    " modifiedby lastmodifiedby approver approvers approvedby submitter submittedby openedby closedby resolvedby"
    " mergedby invitedby sentby signedby editor editors owners managers supervisor reportsto speaker speakers"
    " member members person persons people user users contacts customers clients patients employees recipients"
    " salesperson salesrep accountowner accountmanager from to cc bcc replyto cn teilnehmer bearbeiter ersteller"
    " autor autoren verantwortlicher erstelltvon zugewiesenan mitarbeiter auteur auteurs responsable asignadoa"
    " participantes autore responsabile assegnatoa partecipanti responsavel atribuidoa"
)
_ROLE_FIELDS = frozenset(_ROLE_FIELDS_LIST.split())
"""Names of persons where they begin with a given name: there are also teams, addresses and numbers in these fields."""
_DOCUMENTS = (
    "passport", "passeport", "pasaporte", "passaporto", "passaporte", "reisepass", "paspoort", "personalausweis",
    "ausweisnummer", "driverlicen", "driverslicen", "drivinglicen", "fuhrerschein", "fuehrerschein", "permisdeconduire",
    "rijbewijs", "patentediguida", "carnetdeconducir", "cartadeconducao", "identitycard", "idcardnumber",
)
"""Parts of compounds that mean a document of a person."""
_BIRTH = ("birth", "geburt", "naissance", "nacimiento", "nascita", "nascimento", "geboorte")
# fmt: on
_ENDS_OF_LABELS = _NAME_FIELDS | _ROLE_FIELDS | {end[at:] for end in _PERSON_FIELDS for at in range(len(end) - 2)}
"""Last words of labels of persons, also as parts of compounds: `name`, `holder`."""
_PERSONAL_KINDS = frozenset({Kind.EMAIL, Kind.PHONE, Kind.BIRTH_DATE, Kind.ADDRESS, Kind.NATIONAL_ID})
_EVIDENCE = {word: meaning for meaning, words in _WORDS.items() for word in words.split()}

_DATE = re.compile(
    r"\d{4}[-./]\d{1,2}[-./]\d{1,2}(?:[T ][\d:.]{5,15}(?:Z|[+-]\d\d:?\d\d)?)?|\d{1,2}[-./ ]\d{1,2}[-./ ]\d{2,4}|\d{8}"
    r"|\d{1,2}\.? (?:de )?[^\W\d_]{3,12}\.?,? (?:de )?\d{4}|[^\W\d_]{3,12}\.? \d{1,2}(?:st|nd|rd|th)?,? \d{4}"
)
_BORN = re.compile(rf"\b(?:born|geboren) (?:on |am )?(?:the )?(?P<date>{_DATE.pattern})(?!\w)")
_NAME = re.compile(r"[^\W\d_][\w'’.\u00b7-]{0,40}(?:[ ,]{1,2}[^\W\d_(][\w'’.-]{0,40}\)?){0,5}")
_CAPITALISED = re.compile(r"[^\W\d_a-zß-öø-ÿ][\w.'’-]{0,40}(?:,? [^\W\d_a-zß-öø-ÿ][\w.'’-]{0,40}){1,3}")
_DOCUMENT = re.compile(r"(?=(?:\D*\d){4})[A-Z0-9](?:[ -]?[A-Z0-9]){4,19}")
_STREET = re.compile(r"(?=[^\n]*[^\W\d_]{2})(?=[^\n]*\d)(?:[^\n@]{5,200}|(?=[^\n]* )[^\n]{5,200})")
_LOCAL_EMAIL = re.compile(r"[\w.+-]{1,64}@[^\W\d_][\w-]{1,62}")
_PASSWORD = re.compile(r"\S{6,200}")
_NO_NAMES_LIST = "none null unknown anonymous admin root test system default n/a true false yes no"
_NO_NAMES = frozenset(_NO_NAMES_LIST.split())
_NO_PASSWORDS_LIST = "none null required optional string hidden true false bearer password"
_NO_PASSWORDS = frozenset(_NO_PASSWORDS_LIST.split())
_ASSIGNS = re.compile(r"[:=](?<!\d\d:)")
"""After a label; between hours and minutes there is none."""
_VALUE = re.compile(
    r"(?:\*\*|__)? {0,2}(?P<value>\"[^\n\"\x00]{1,120}\"|'[^\n\x00]{1,120}?'(?=[\s,;}\])]|\Z)"
    r"|[^\n\",;|&=<\x00]{1,120}(?P<next>=)?)"
)
_NO_LABEL = re.compile(r"[^\w -]")
_MAX_LABEL_CHARACTERS = 44
_MAX_LABEL_WORDS = 4
_NUMBER_WORDS = frozenset({"number", "no", "no.", "nr", "nr.", "nummer", "id"})
Found = tuple[str, float] | None
"""The kind of a value, and the confidence."""


def words_of(text: str) -> list[str]:
    """The words of a name in small letters without accents: `customerPhone` has two."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
        text = "".join(letter for letter in text if not unicodedata.combining(letter))
    return [word.casefold() for word in _WORD.findall(text)]


@lru_cache(4096)
def _joined(name: str) -> str:
    return "".join(words_of(name[:_MAX_FIELD_CHARACTERS]))


@lru_cache(4096)
def field_evidence(name: str) -> Evidence:
    """The evidence of the name of a field about its values: `customerPhone` says phone numbers."""
    joined = _joined(name)
    if joined in _EVIDENCE:
        return _EVIDENCE[joined]
    if any(part in joined for part in _BIRTH):
        return Kind.BIRTH_DATE
    meanings = [_EVIDENCE[word] for word in words_of(name[:_MAX_FIELD_CHARACTERS]) if word in _EVIDENCE]
    return meanings[-1] if meanings else None


@lru_cache(4096)
def is_document_field(name: str) -> bool:
    """True if values of this field are numbers of passports, identity cards or driving licences."""
    return any(part in _joined(name) for part in _DOCUMENTS)


@lru_cache(4096)
def may_tell_alone(name: str) -> bool:
    """True if the name of a field may say what its values are, without a syntax of their own."""
    says = field_evidence(name) in (Kind.BIRTH_DATE, Kind.ADDRESS, Kind.CREDENTIAL, Kind.EMAIL)
    return says or _joined(name) in _PERSON_FIELDS | _NAME_FIELDS | _ROLE_FIELDS or is_document_field(name)


@lru_cache(4096)
def has_evidence(name: str) -> bool:
    """True if the name of a field may say anything about its values. A role in the plural may be a title."""
    joined = _joined(name)
    is_role = joined in _ROLE_FIELDS and not name.rstrip("0123456789 .:").casefold().endswith(("s", "people"))
    says = field_evidence(name) is not None or is_document_field(name)
    return says or is_role or joined in _PERSON_FIELDS or joined in _NAME_FIELDS


@lru_cache(4096)
def describes_person(name: str) -> bool:
    """True if a field makes the other fields beside it those of a person."""
    return _joined(name) in _PERSON_FIELDS or field_evidence(name) in _PERSONAL_KINDS


def context_evidence(before: str) -> Evidence:
    """The evidence of the last words before a value; those of another line, sentence, cell or pair say nothing."""
    if not before.strip("0123456789 .,;:|/()+-\"'\n\x00"):
        return None
    ended = _UP_TO_LAST_END.match(before)
    words = words_of(before[ended.end() :] if ended else before)[-_MAX_WORDS_BEFORE:]
    return next((_EVIDENCE[word] for word in reversed(words) if word in _EVIDENCE), None)


def by_field(name: str, text: str, *, beside_person: bool, among_people: bool) -> Found:
    """Kind and confidence of a whole value by the name of its field. `beside_person`: other fields of its record are
    those of a person; `among_people`: other values of its column are names of persons."""
    says, joined = field_evidence(name), _joined(name)
    if len(text) <= _MAX_LABEL_CHARACTERS and (written := _joined(text)) and written in _PERSON_FIELDS | {joined}:
        return None  # a row of headers may be among the records
    if says is Kind.BIRTH_DATE and _DATE.fullmatch(text):
        return Kind.BIRTH_DATE, 0.95
    if says is Kind.EMAIL and _LOCAL_EMAIL.fullmatch(text):
        return Kind.EMAIL, 0.9
    is_name = _NAME.fullmatch(text) is not None and text.casefold() not in _NO_NAMES
    if joined in _PERSON_FIELDS and is_name:
        return Kind.NAME, 0.9
    if says is Kind.ADDRESS and _STREET.fullmatch(text) and "://" not in text:
        return Kind.ADDRESS, 0.8
    if says is Kind.CREDENTIAL and text.casefold() not in _NO_PASSWORDS and _PASSWORD.fullmatch(text):
        return Kind.CREDENTIAL, 0.4 if text.isalpha() else 0.85
    if is_document_field(name) and _DOCUMENT.fullmatch(text) and not _DATE.fullmatch(text):
        return Kind.NATIONAL_ID, 0.85
    if joined in _NAME_FIELDS and is_name:
        return Kind.NAME, 0.75 if beside_person or among_people or is_person(text) else 0.3
    if joined in _ROLE_FIELDS and is_person(text):
        return Kind.NAME, 0.75
    return (Kind.NAME, 0.75) if among_people and (is_person(text) or _CAPITALISED.fullmatch(text)) else None


def labelled_in(text: str) -> Iterator[tuple[int, int, str, float]]:
    """Start, end, kind and confidence of each value after `Date of birth:` or `password=` in a text, and of each date
    after `born`."""
    for sign in _ASSIGNS.finditer(text):
        at = sign.start()
        before = text[max(0, at - _MAX_LABEL_CHARACTERS) : at].rstrip(" \"'*_")
        last = before[before.rfind(" ") + 1 :]
        if not _ends_label(last) and not (last.casefold() in _NUMBER_WORDS and is_document_field(before)):
            continue
        if value := _VALUE.match(text, at + 1):
            start, end = value.span("value")
            if value["next"]:  # the last word is the name of the next pair
                end = max(start, text.rfind(" ", start, end))
            start, end = stripped(text, start, end)
            if found := _by_label(_NO_LABEL.split(before)[-1].split(" "), text[start:end]):
                yield start, end, *found
    if "born " in text or "geboren " in text:
        for found_date in _BORN.finditer(text):
            yield *found_date.span("date"), Kind.BIRTH_DATE, 0.9


@lru_cache(4096)
def _ends_label(word: str) -> bool:
    words = words_of(word[-_MAX_FIELD_CHARACTERS:])
    is_known = bool(words) and field_evidence(word) in (Kind.BIRTH_DATE, Kind.CREDENTIAL)
    return bool(words) and (is_known or words[-1] in _ENDS_OF_LABELS or words[-1] == "by" or is_document_field(word))


def _by_label(words: list[str], text: str) -> Found:
    """By the last words, of which the first may belong to the text before the label."""
    for first in range(max(0, len(words) - _MAX_LABEL_WORDS), len(words)):
        found = by_field(" ".join(words[first:]), text, beside_person=False, among_people=False)
        if found and found[0] != Kind.ADDRESS:
            return found
    return None


def stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Without white space, quotation marks and a final stop around it."""
    while start < end and text[start] in " \t\r\"'":
        start += 1
    while start < end and text[end - 1] in " \t\r\"'.*_":
        end -= 1
    return start, end
