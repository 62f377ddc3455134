# ruff: noqa: E501 - a text is a line
"""What a skill may do on import: define. Each text stands before a function of the skill, which makes it complete."""

from __future__ import annotations

import sys

import pytest

from codemode_server.domain.errors import MetaToolError
from codemode_server.features.skills.rules import check_text

HEAD = "from servers.mail import send\n"
FUNCTION = "\ndef triage(n: int) -> int:\n    return n + 1\n"
ACTS = """
send()
X = send()
X = [1, send()]
X = 1 if send() else 2
X = (Y := send())
X = [send() for _ in 'a']
X = f'{send()}'
X: int = send()
X: send() = 1
X = (lambda: send())()
X = lambda a=send(): a
X = list(map(send, ['a']))
X = int.__call__(send())
X = str(send)
X = '%s' % send
X = send['a']
X += 1
X.y = 1
X, Y = send(), 1
del X
if send(): pass
if True: send()
while send(): pass
with send(): pass
try: send()\\nexcept OSError: pass
match send():\\n    case _: pass
assert send()
raise send()
import json as json; json.loads = send
from skills.other import *
from servers.mail import *
from servers.mail import send as __getattr__
import servers.mail as __path__
__builtins__ = {'len': send}
def __getattr__(name): return send()
@send\\ndef f(): pass
@(lambda f: send())\\ndef f(): pass
@send.setter\\ndef f(): pass
from servers.mail import send as dataclass\\n@dataclass\\nclass A: pass
from servers.mail import send as property\\nclass A:\\n    @property\\n    def f(self): pass
def compile(x): send()\\nX = compile('a')
re = send\\nX = re.compile('a')
def f(a=send()): pass
def f(a: send()): pass
def f() -> send(): pass
class A(send): pass
class A(metaclass=send): pass
class M(type):\\n    def __call__(self): send()\\nclass A(metaclass=M): pass
class A(x=send()): pass
class A:\\n    X = send()
class A:\\n    send()
class A:\\n    def __init_subclass__(cls): send()\\nclass B(A): pass
class A:\\n    def __set_name__(self, *_): send()
class A:\\n    def __class_getitem__(cls, x): send()\\nX = A[1]
class A:\\n    __class_getitem__ = send\\nX = A[1]
class A:\\n    from servers.mail import send as __init_subclass__
class A:\\n    def __mro_entries__(self, b): send()
class A:\\n    @classmethod\\n    @property\\n    def x(cls): return send()\\nX = A.x
class A:\\n    def __init__(self): send()\\nX = A()
import enum\\nclass A(enum.Enum):\\n    B = 1\\n    def __init__(self, n): send()
from enum import Enum\\nclass A(Enum):\\n    B = 1\\n    @property\\n    def x(self): return send()\\nX = A.B.x
from enum import Enum\\nclass A(Enum):\\n    B = 1\\n    def __add__(self, o): send()\\nX = A.B + 1
from enum import Enum\\nclass A(Enum):\\n    B = 1\\n    def __hash__(self): return send()\\nX = {A.B}
from enum import Enum\\nclass A(Enum):\\n    B = 1\\n    def __str__(self): return send()\\nX = f'{A.B}'
from enum import Enum\\nclass A(Enum):\\n    B = 1\\n    def __str__(self): return send()\\nclass C(str, Enum):\\n    D = A.B
from enum import StrEnum, Enum\\nclass A(str, Enum):\\n    B = 'b'\\n    def __str__(self): return send()\\nclass C(StrEnum):\\n    D: str = A.B
from functools import cache\\ndef g(f): return send()\\n@cache(g)\\ndef f(): ...
from functools import lru_cache\\ndef g(f): return send()\\n@lru_cache(g)\\ndef f(): ...
from functools import lru_cache\\nimport operator\\n@lru_cache(maxsize=operator.call)\\ndef f(): ...
from typing import final\\ndef g(f): return send()\\n@final(g)\\ndef f(): ...
from dataclasses import dataclass\\nclass A:\\n    def __post_init__(self): send()\\n@dataclass(A)\\nclass B: ...
@staticmethod(send)\\ndef f(): ...
import enum\\nclass A(map, enum.Enum):\\n    B = (send, (1, 2))
import enum, io\\nclass A(io.FileIO, enum.Enum):\\n    B = ('/workspace/a', 'w')
import types\\nV = types.SimpleNamespace(__mro_entries__=print)\\nclass A(V): pass
A, B = send(), 1
if __name__ == '__main__' or send(): pass
if __name__ == '__main__': pass\\nelse: send()
def TYPE_CHECKING(): ...\\nif TYPE_CHECKING: send()
def cache(f): return send()\\nfrom typing import TYPE_CHECKING\\nif TYPE_CHECKING:\\n    from functools import cache\\n@cache\\ndef f(): ...
X = '{}'.format(send)
from enum import Enum\\nclass A(Enum):\\n    B = 1\\n    def __str__(self): return send()\\nX = '%s' % A.B
from enum import Enum\\nclass A(Enum):\\n    B = 1\\n    @staticmethod\\n    def _generate_next_value_(*a): return send()
from enum import Enum\\nclass M:\\n    def __new__(cls, n): send()\\nclass A(M, Enum):\\n    B = 1
from enum import Flag\\nclass A(Flag):\\n    B = 1\\n    @classmethod\\n    def _missing_(cls, n): send()\\nX = A.B | A.B
from dataclasses import dataclass, field\\n@dataclass\\nclass A:\\n    x: int = field(default=send())
from dataclasses import dataclass\\n@dataclass(order=send())\\nclass A: pass
from collections import defaultdict\\nX = defaultdict(send)['a']
from functools import reduce\\nX = reduce(send, [1, 2])
from functools import partial\\nX = partial(send)()
from skills import other\\nX = other.member.value
import os\\nX = os.remove('/workspace/a')
from threading import Thread\\nThread(target=send).start()
import atexit\\natexit.register(send)
await send()
""".strip().split("\n")
DEFINES = """
'''Text.'''
X = 1
X: int = -2 ** 4
X = Y = ('a', 1.5, None, True, b'x', ...)
X = {'a': [1, {2}], **{'b': 3}}
X = [*(1, 2), 3]
X = 'a' 'b' + 'c' * 3 + f'{1}'
BASE = '/workspace'; X = f'{BASE}/a'
BASE = 10; X = BASE * 2 if BASE > 3 else BASE
X = lambda row: row['a']
X = {'a': lambda n: n, 'b': send}
X = {'a': 1}['a']
__all__ = ['triage']
import re\\nX = re.compile(r'a+', re.I | re.M)
import re as r\\nX = (r.compile('a'), r.I)
from re import compile as rx\\nX = rx('a')
from pathlib import Path\\nX = Path('/workspace') / 'a'
import datetime as dt\\nX = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(days=1)
from decimal import Decimal\\nX = Decimal('0.01')
import math, os.path\\nX = math.pi * 2\\nY = os.sep + 'a'
from collections import defaultdict, namedtuple\\nX = defaultdict(list)\\nP = namedtuple('P', 'x y')\\nclass Q(P): pass
from zoneinfo import ZoneInfo\\nX = ZoneInfo('Europe/Berlin')
import logging\\nlog = logging.getLogger(__name__)
from functools import partial, lru_cache, wraps\\nX = partial(int, base=16)\\n@lru_cache(maxsize=8)\\ndef f(n=X): return n
from typing import Generic, TypeVar, Literal, TypedDict\\nT = TypeVar('T')\\nM = Literal['a']\\nRows = list[dict[str, int | None]]
from typing import Generic, TypeVar\\nT = TypeVar('T')\\nclass Box(Generic[T]):\\n    x: T\\ndef f(b: Box[int]) -> 'Box[str]': ...
from typing import TypedDict\\nclass R(TypedDict, total=False):\\n    a: int
from typing import NamedTuple\\nclass R(NamedTuple):\\n    a: int = 1
from typing import Protocol\\nclass R(Protocol):\\n    def f(self, n: int = 3, *a: str, k=(), **o) -> None: ...
from dataclasses import dataclass, field\\n@dataclass(frozen=True, order=True)\\nclass A:\\n    n: int = 1\\n    m: list[int] = field(default_factory=lambda: [])
class Late(ValueError):\\n    def __init__(self, n): super().__init__(n)\\n    def __str__(self): return 'late'
class A:\\n    LIMIT = 3\\n    @property\\n    def x(self): return 1\\n    @x.setter\\n    def x(self, v): pass\\nX = A.LIMIT
class A:\\n    @classmethod\\n    def f(cls): return cls()\\n    @staticmethod\\n    def g(): ...\\n    def __enter__(self): ...\\n    def __iadd__(self, o): ...
from enum import Enum, auto\\nclass C(str, Enum):\\n    RED = 'r'\\n    BLUE = auto()\\n    def __str__(self): return self.value\\nX = {C.RED: 1}\\ndef f(c: C = C.RED): ...
from enum import Flag\\nclass C(Flag):\\n    R = 1\\n    W = 2\\nX = C.R | C.W
A, B = 1, 'b'
if __name__ == '__main__':\\n    print(send())
from typing import TYPE_CHECKING\\nif TYPE_CHECKING:\\n    from collections.abc import Iterable\\ndef f(x: 'Iterable[int]') -> None: ...
X = frozenset('a b c'.split())
from abc import ABC, abstractmethod, ABCMeta\\nclass A(ABC):\\n    @abstractmethod\\n    def f(self): ...\\nclass B(metaclass=ABCMeta): pass
from html.parser import HTMLParser\\nclass P(HTMLParser):\\n    def handle_data(self, data): send()
from contextlib import contextmanager\\n@contextmanager\\ndef f(): yield
import servers.mail as mail\\nfrom skills.other import help, Item\\ndef f(x: Item | None, box: mail.Box) -> list[Item]: ...
async def f():\\n    await send()\\n    if send(): pass\\n    return [send() for _ in 'a']
def _private(__x, _y=None): ...
""".strip().split("\n")
if sys.version_info >= (3, 12):
    ACTS += ["type X = send()", "def f[T: send()](x: T): pass", "type X = send()\\nY = X.__value__"]
    DEFINES += ["type X = list[int]", "def f[T](x: T | None) -> list[T]: ...", "class A[T]:\\n    x: T"]


def checked(text: str) -> None:
    check_text("triage", f"{HEAD}{text.encode().decode('unicode_escape')}\n{FUNCTION}", None)


@pytest.mark.evasion
@pytest.mark.parametrize("text", ACTS)
def test_a_text_that_would_act_on_import_is_refused(text: str) -> None:
    with pytest.raises(MetaToolError, match=r"line \d+: "):
        checked(text)


@pytest.mark.parametrize("text", DEFINES)
def test_a_text_that_only_defines_is_taken(text: str) -> None:
    checked(text)


def test_a_deep_expression_is_refused() -> None:
    with pytest.raises(MetaToolError):
        checked("X = " + "1 + " * 4_000 + "1")
