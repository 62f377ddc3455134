"""The standard library that programs get: a module that is not imported when the sandbox is built is not in it."""

from __future__ import annotations

import contextlib
import importlib

_NAMES = """
abc annotationlib argparse array ast asyncio asyncio.base_events asyncio.runners asyncio.taskgroups asyncio.threads
base64 binascii bisect bz2 calendar cmath code codecs codeop collections collections.abc colorsys compileall
concurrent.futures concurrent.futures.thread configparser contextlib contextvars copy copyreg cProfile csv ctypes
dataclasses datetime decimal difflib dis doctest
email email.charset email.encoders email.generator email.header email.headerregistry email.message email.mime.application
email.mime.image email.mime.multipart email.mime.text email.parser email.policy email.utils
encodings.ascii encodings.base64_codec encodings.charmap encodings.cp1250 encodings.cp1251 encodings.cp1252
encodings.cp437 encodings.hex_codec encodings.idna encodings.iso8859_1 encodings.iso8859_15 encodings.latin_1
encodings.punycode encodings.raw_unicode_escape encodings.rot_13 encodings.unicode_escape encodings.utf_16
encodings.utf_16_be encodings.utf_16_le encodings.utf_32 encodings.utf_8 encodings.utf_8_sig encodings.zlib_codec
enum errno filecmp fileinput fnmatch fractions functools gc genericpath getopt getpass gettext glob graphlib gzip
hashlib heapq hmac html html.entities html.parser http http.client http.cookies
imaplib importlib importlib.abc importlib.machinery importlib.metadata importlib.resources importlib.util inspect io
ipaddress itertools json json.decoder json.encoder json.tool keyword linecache locale logging logging.config
logging.handlers lzma marshal math mimetypes modulefinder multiprocessing netrc ntpath numbers opcode operator optparse
os os.path pathlib pdb pickle pickletools pkgutil platform plistlib posixpath pprint profile pstats pyclbr pydoc
queue quopri random re reprlib rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site smtplib
socket socketserver sqlite3 sqlite3.dbapi2 ssl stat statistics string string.templatelib stringprep struct subprocess
symtable sys sysconfig tarfile tempfile textwrap threading time timeit token tokenize tomllib trace traceback tracemalloc
types typing unicodedata unittest unittest.mock urllib urllib.error urllib.parse urllib.request urllib.robotparser uuid
warnings wave weakref xml xml.dom xml.dom.minidom xml.etree.ElementTree xml.sax xml.sax.handler xml.sax.saxutils zipfile
zipimport zlib zoneinfo zoneinfo._common compression.zlib compression.gzip compression.zstd
_strptime _pydecimal _pydatetime _collections_abc _weakrefset _compat_pickle _markupbase
"""


def take_in() -> None:
    """Import everything there is; what this build of Python lacks stays out."""
    for name in _NAMES.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
