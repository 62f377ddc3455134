"""Decides which keys of foreign data are names of fields, so that they may be shown, stored and traced. Pure.

A key in a result can be anything that somebody wrote: an address, an id, a credential, an instruction to whoever reads
it. A name that is a value (`{"alice": 3}`) can't be told by its looks, nor can an instruction in two words; so a key is
short, has few words, and none that speak to a reader. Keys that an upstream declares in a schema are its own text, for
which `is_declared_name` is enough.
"""

from __future__ import annotations

import re

_MAX_CHARACTERS = 32
_MAX_WORDS = 4
_MAX_WORD_CHARACTERS = 24
_MAX_CONSONANTS = 7
"""Consonants in a row, of which random letters have more."""
_MAX_UNSPACED = 8
"""Characters of scripts that put no spaces between words."""
_MAX_DECLARED_CHARACTERS = 50
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_FIELD_NAME = re.compile(r"[^\W\d][\w.-]*|[$@][^\W\d][\w.-]*")
_LABEL = re.compile(r"[^\W\d][\w ()%#&/+.'-]*")
_LOOKALIKE_LETTERS = re.compile(
    r"[\u115f\u1160\u3164\uff01-\uff5e\uffa0\U0001d400-\U0001d7ff]"
    r"|[A-Za-z\u00c0-\u024f][\u0370-\u052f]|[\u0370-\u052f][A-Za-z\u00c0-\u024f]"
)
"""Letters that are not seen, letters in other forms, and Greek or Cyrillic ones within a Latin word: an instruction can
be written with them that no list of words meets."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|[^\W_]")
"""`user`, `Id` and `URL` of `userIdURL`."""
_CREDENTIAL = re.compile(
    r"[sr]k[_-]|[sp]k_(?:live|test)_|gh[opsur]_|github_pat_|glpat-|xox(?:[a-z]-|[abprs]_)|AKIA|ASIA|AIza|ya29\.|eyJ|whsec_|shpat_|SG\."
    r"|hf_[A-Za-z0-9]{14,}|do[opr]_v1_|sbp_(?:v[0-9]_)?[0-9a-f]{8,}|Bearer[ _-](?![Tt]oken|[Aa]uth|[Ff]ormat)"
)
_ID = re.compile(
    r"(?i:[0-9a-f]{8,}|(?=[a-f]*[0-9])[0-9a-f]{7,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"|(?=[A-Z]*[0-9])[A-Z0-9]{8,}|(?=.{10})[^\W_]*[0-9][^\W\d_]+[0-9][^\W_]*"
)
_RANDOM = re.compile(rf"[bcdfghjklmnpqrstvwxz]{{{_MAX_CONSONANTS + 1},}}")
_ENDS_AS_A_FILE_OR_HOST = re.compile(
    r"(?i:\.(com|org|net|io|dev|edu|gov|info|local|internal|co|us|uk|de|fr|eu|ch|jp|cn|in|br|au|ca|nl|app|ai"
    r"|py|js|ts|tsx|jsx|md|txt|json|yaml|yml|html|css|csv|pdf|png|jpg|jpeg|gif|svg|xml|toml|ini|sh|go|rs|java|c|h|cpp"
    r"|rb|php|sql|db|log|lock|zip|gz|docx?|xlsx?|pptx?))"
)
_ADDRESS_THE_READER = frozenset({"disregard", "jailbreak", "obey", "please", "you", "yourself"})
_IGNORES = "ignor"
_COMMANDS = frozenset(
    {"override", "overriding", "bypass", "follow", "forget", "reveal", "execute", "important", "urgent"}
)
# fmt: off
_OBJECTS_OF_COMMANDS = frozenset({
    "above", "all", "approval", "assistant", "earlier", "everything", "guardrails", "guidelines", "instruction",
    "instructions", "permission", "permissions", "policy", "preceding", "previous", "prior", "prompt", "prompts",
    "restrictions", "rule", "rules", "safety", "system", "user",
})
_ORDERS = frozenset({"always", "assistant", "bypass", "exfiltrate", "must", "never", "skip"})
"""Words of an instruction among three or more words; fields of two have them as well."""
_SENDS = frozenset({"email", "forward", "send"})
_ENDS_OF_HOSTS = frozenset({"com", "io", "net", "org"})
_APPROVERS = frozenset({"admin", "administrator", "developer", "human", "operator", "owner", "system", "user"})
_APPROVES = frozenset({
    "agreed", "agrees", "allowed", "allows", "approved", "approves", "authorised", "authorized", "authorizes",
    "confirmed", "consented", "consents", "permits", "permitted",
})
_APPROVALS = frozenset({"approval", "approved", "authorization", "confirmation", "consent", "permission"})
_STATES_OF_APPROVALS = frozenset({
    "already", "everything", "given", "granted", "no", "not", "now", "obtained", "unnecessary", "without",
})
_WORDS_OF_SENTENCES = frozenset({
    "always", "i", "it", "must", "never", "should", "that", "the", "these", "they", "this", "was", "we", "were", "will",
})
# fmt: on


def is_field_name(key: str) -> bool:
    """Whether a key reads like the name of a field that someone chose: an identifier of at most 4 words and 32
    characters, and no id, date, address, path, file, credential or instruction."""
    return _is_short(key) and _reads_like(_FIELD_NAME, key) and not _is_instruction(_words(key))


def is_label(key: str) -> bool:
    """Whether a key reads like the heading of a column, `Order ID` or `Total (EUR)`; a person's name does as well."""
    words = _words(key)
    is_sentence = ". " in key or not _WORDS_OF_SENTENCES.isdisjoint(words)
    return _is_short(key) and _reads_like(_LABEL, key) and not is_sentence and not _is_instruction(words)


def is_declared_name(key: str) -> bool:
    """Whether a key that an upstream declares reads like a name rather than an id, date, address, path or file."""
    return len(key) <= _MAX_DECLARED_CHARACTERS and _reads_like(_FIELD_NAME, key)


def _reads_like(pattern: re.Pattern[str], key: str) -> bool:
    if not pattern.fullmatch(key) or _ID.fullmatch(key):
        return False
    digits = sum(letter.isdigit() for letter in key)
    if digits > 3 and (digits > 6 or digits * 10 >= 4 * len(key)):
        return False
    return "." not in key or not _ENDS_AS_A_FILE_OR_HOST.fullmatch(key[key.rindex(".") :])


def _is_short(key: str) -> bool:
    if (
        len(key) > _MAX_CHARACTERS  # first: keys of a megabyte took the patterns 0.1 s each
        or _LOOKALIKE_LETTERS.search(key)
        or _CREDENTIAL.match(key)
        or len(_UNSPACED.findall(key)) > _MAX_UNSPACED
    ):
        return False
    words = _words(key)
    if len(words) > _MAX_WORDS or (len(words) > 2 and words[-1] in _ENDS_OF_HOSTS):
        return False
    return not any(len(word) > _MAX_WORD_CHARACTERS or _RANDOM.search(word) for word in words)


def _is_instruction(words: list[str]) -> bool:
    """Whether they are an instruction: `ignore_previous_instructions`, but not `ignore_case` or `system_prompt`."""
    known = set(words)
    if len(words) < 2:
        return False
    commands = not known.isdisjoint(_COMMANDS) or any(word.startswith(_IGNORES) for word in words)
    is_command = commands and not known.isdisjoint(_OBJECTS_OF_COMMANDS)
    is_order = len(words) > 2 and (not known.isdisjoint(_ORDERS) or (words[0] in _SENDS and "to" in words[1:-1]))
    return is_command or is_order or not known.isdisjoint(_ADDRESS_THE_READER) or _is_approval(words)


def _is_approval(words: list[str]) -> bool:
    """Whether they say that something was approved, `user_approved_this` or `no_approval_needed`, but not when, by whom
    or whether, `approved_at`, `approved_by_user` or `approval_required`."""
    known = set(words)
    if not (known.isdisjoint(_APPROVALS) or known.isdisjoint(_STATES_OF_APPROVALS)):
        return True
    if words[0] not in _APPROVERS:
        return False
    while words[-1] in _WORDS_OF_SENTENCES | _OBJECTS_OF_COMMANDS and len(words) > 1:
        words = words[:-1]
    return words[-1] in _APPROVES


def _words(key: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(key[: 2 * _MAX_DECLARED_CHARACTERS]) if not word.isdigit()]
