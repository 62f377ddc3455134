"""What field names, and the words before a value in its line, say about its kind. Pure.

The nearest word decides: in `order 4711, card 4111…` the number after `card` is one. Words are those of English,
German, French, Spanish, Italian and Portuguese, and of Dutch where a name differs.
"""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from functools import lru_cache

from codemode_server.privacy.findings import Kind

MAX_CONTEXT_CHARACTERS = 48
"""How much of the text before a value is read."""
_NO_WORDS = "0123456789 .,;:|/()+-\"'\n\x00"
_MAX_FIELD_CHARACTERS = 64
_MAX_WORDS_BEFORE = 5
_UP_TO_LAST_END = re.compile(r'.*(?:\n|[.,;"|] )', re.DOTALL)
"""What ends the words that belong to an earlier value."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|[^\W\d_]+")


class Against(StrEnum):
    """Evidence that a number is nothing personal."""

    NUMBER = "number"
    """A number that somebody counts or tracks by: an order, a ticket, a serial number."""
    VERSION = "version"


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
PERSON_FIELDS = frozenset(_PERSON_FIELDS_LIST.split())
_MIN_END_CHARACTERS = 3
_ENDS_OF_PERSON_FIELDS = frozenset(
    field[at:] for field in PERSON_FIELDS for at in range(len(field) - _MIN_END_CHARACTERS + 1)
)
"""The last word of a label may be the end of a compound: `name`, `client`."""
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
_PEOPLE_TABLES_LIST = (
    "people person persons user users customer customers client clients employee employees staff contact contacts"
    " patient patients member members student students teacher teachers guest guests applicant applicants candidate"
    " candidates tenant tenants subscriber subscribers resident residents citizen citizens personen kunde kunden"
    " mitarbeiter kontakte patienten mitglieder personnes clientes empleados contactos pacientes clienti dipendenti"
    " contatti pazienti funcionarios contatos klanten medewerkers"
)
_PEOPLE_TABLES = frozenset(_PEOPLE_TABLES_LIST.split())
_ENDS_OF_ROLE_FIELDS = _ROLE_FIELDS | {"by", "an"}
_PERSONAL_KINDS = frozenset({Kind.EMAIL, Kind.PHONE, Kind.BIRTH_DATE, Kind.ADDRESS, Kind.NATIONAL_ID})
# fmt: on
_BIRTH = ("birth", "geburt", "naissance", "nacimiento", "nascita", "nascimento", "geboorte")
"""Parts of compounds, with or without marks between the words."""
_DOCUMENTS = (
    "passport", "passeport", "pasaporte", "passaporto", "passaporte", "reisepass", "paspoort", "personalausweis",
    "ausweisnummer", "driverlicen", "driverslicen", "drivinglicen", "fuhrerschein", "fuehrerschein", "permisdeconduire",
    "rijbewijs", "patentediguida", "carnetdeconducir", "cartadeconducao", "identitycard", "idcardnumber",
)  # fmt: skip
"""Parts of compounds that mean a document of a person."""
_EVIDENCE = {word: meaning for meaning, words in _WORDS.items() for word in words.split()}
_FORMATS = {
    "email": Kind.EMAIL,
    "idn-email": Kind.EMAIL,
    "ipv4": Kind.IP,
    "ipv6": Kind.IP,
    "phone": Kind.PHONE,
    "iban": Kind.IBAN,
    "password": Kind.CREDENTIAL,
}


@lru_cache(4096)
def field_evidence(name: str) -> Kind | Against | None:
    """What the name of a field says about its values: `customerPhone` that they are phone numbers."""
    words = _words(name[:_MAX_FIELD_CHARACTERS])
    joined = "".join(words)
    if joined in _EVIDENCE:
        return _EVIDENCE[joined]
    if any(part in joined for part in _BIRTH):
        return Kind.BIRTH_DATE
    meanings = [_EVIDENCE[word] for word in words if word in _EVIDENCE]
    return meanings[-1] if meanings else None


@lru_cache(4096)
def is_person_field(name: str) -> bool:
    """Whether values of this field are names of persons, whatever stands beside it."""
    return "".join(_words(name[:_MAX_FIELD_CHARACTERS])) in PERSON_FIELDS


@lru_cache(4096)
def may_be_name_field(name: str) -> bool:
    """Whether values of this field are names of persons if other fields beside it are personal."""
    return "".join(_words(name[:_MAX_FIELD_CHARACTERS])) in _NAME_FIELDS


@lru_cache(4096)
def is_role_field(name: str) -> bool:
    """Whether values of this field are names of persons if they look like such: `assigned_to`, `attendees`."""
    return "".join(_words(name[:_MAX_FIELD_CHARACTERS])) in _ROLE_FIELDS


@lru_cache(4096)
def is_document_field(name: str) -> bool:
    """Whether values of this field are numbers of passports, identity cards or driving licences."""
    joined = "".join(_words(name[:_MAX_FIELD_CHARACTERS]))
    return any(part in joined for part in _DOCUMENTS)


@lru_cache(4096)
def may_tell_alone(name: str) -> bool:
    """Whether the name of a field may say what its values are, without a syntax of their own."""
    says = field_evidence(name) in (Kind.BIRTH_DATE, Kind.ADDRESS, Kind.CREDENTIAL, Kind.EMAIL)
    return says or is_person_field(name) or may_be_name_field(name) or is_role_field(name) or is_document_field(name)


@lru_cache(4096)
def ends_telling_label(word: str) -> bool:
    """Whether a label that ends with this word may tell a name, a date of birth or a password."""
    words = _words(word[-_MAX_FIELD_CHARACTERS:])
    if not words:
        return False
    last, joined = words[-1], "".join(words)
    is_known = _EVIDENCE.get(last) in (Kind.BIRTH_DATE, Kind.CREDENTIAL) or any(part in joined for part in _BIRTH)
    return (
        is_known
        or is_document_field(word)
        or last in _ENDS_OF_PERSON_FIELDS
        or last in _NAME_FIELDS
        or last in _ENDS_OF_ROLE_FIELDS
    )


@lru_cache(4096)
def has_evidence(name: str) -> bool:
    """Whether the name of a field may say anything about its values. A role in the plural may be a title."""
    is_role = is_role_field(name) and not name.rstrip("0123456789 .:").casefold().endswith(("s", "people"))
    says = field_evidence(name) is not None or is_document_field(name)
    return says or is_person_field(name) or may_be_name_field(name) or is_role


@lru_cache(4096)
def describes_person(name: str) -> bool:
    """Whether a field makes the other fields beside it those of a person."""
    return is_person_field(name) or field_evidence(name) in _PERSONAL_KINDS


@lru_cache(4096)
def is_people_table(name: str) -> bool:
    """Whether the rows of a table are persons, by its name: `crm_customers`."""
    words = _words(name[-_MAX_FIELD_CHARACTERS:])
    return bool(words) and words[-1] in _PEOPLE_TABLES


def schema_evidence(schema_format: str) -> Kind | None:
    """What the `format` of a JSON Schema says."""
    return _FORMATS.get(schema_format)


def context_evidence(before: str) -> Kind | Against | None:
    """What the last words before a value say; those of another line, sentence, cell or pair say nothing."""
    if not before.strip(_NO_WORDS):
        return None
    ended = _UP_TO_LAST_END.match(before)
    for word in reversed(_words(before[ended.end() :] if ended else before)[-_MAX_WORDS_BEFORE:]):
        if word in _EVIDENCE:
            return _EVIDENCE[word]
    return None


def _words(text: str) -> list[str]:
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
        text = "".join(letter for letter in text if not unicodedata.combining(letter))
    return [word.casefold() for word in _WORD.findall(text)]
