"""Programs as models write them, each a (name, code) pair that prints something deterministic when `servers.github`
offers `list_issues(repo, state=None)` and `boom()`, which raises.
"""

# ruff: noqa: E501 - a program that a model wrote is kept as it is

from __future__ import annotations

PROGRAMS = [
    (
        "tool-exception",
        "from servers.github import boom\ntry:\n    boom()\nexcept Exception as e:\n    print(type(e).__name__, e)",
    ),
    (
        "tool-kwargs-default",
        "from servers.github import list_issues\nf=dict(repo='a', state='closed')\nprint(len(list_issues(**f)))",
    ),
    (
        "tool-map",
        "from servers.github import list_issues\nprint([len(x) for x in map(lambda r: list_issues(repo=r), ['a','b','c'])])",
    ),
    (
        "tool-threadpool",
        "from concurrent.futures import ThreadPoolExecutor\nfrom servers.github import list_issues\nwith ThreadPoolExecutor(4) as ex:\n    rs=list(ex.map(lambda r: len(list_issues(repo=r)), ['a','b','c']))\nprint(rs)",
    ),
    (
        "tool-to_thread",
        "import asyncio\nfrom servers.github import list_issues\nasync def main():\n    r = await asyncio.gather(*[asyncio.to_thread(list_issues, repo=x) for x in 'abc'])\n    print([len(x) for x in r])\nasyncio.run(main())",
    ),
    (
        "json",
        "import json\nd=json.loads('{\"a\":[1,2,{\"b\":null}]}')\nprint(json.dumps(d, indent=2, sort_keys=True), d['a'][2]['b'])",
    ),
    ("json-default", "import json,datetime\nprint(json.dumps({'t':datetime.date(2026,1,2)}, default=str))"),
    (
        "re-flags-named",
        "import re\nm=re.compile(r'^(?P<k>\\w+)\\s*=\\s*(?P<v>.+)$', re.M|re.I).finditer('A=1\\nb = two')\nprint([x.groupdict() for x in m], re.split(r'[,;]\\s*', 'a, b;c'))",
    ),
    (
        "datetime",
        "from datetime import datetime, timedelta, timezone\nd=datetime(2026,3,1,12,tzinfo=timezone.utc)\nprint((d-timedelta(days=1)).isoformat(), d.strftime('%Y-%m-%d %A'), datetime.fromisoformat('2026-01-02T03:04:05+00:00').timestamp())",
    ),
    ("strptime", "from datetime import datetime\nprint(datetime.strptime('2026-01-02 03:04', '%Y-%m-%d %H:%M'))"),
    (
        "collections",
        "from collections import Counter, defaultdict, OrderedDict, namedtuple, deque\nc=Counter('abracadabra').most_common(2); d=defaultdict(list); d['x'].append(1)\nP=namedtuple('P','x y'); q=deque([1,2,3],maxlen=2)\nprint(c, dict(d), P(1,2), q)",
    ),
    (
        "functools",
        "from functools import reduce, lru_cache, partial, cmp_to_key\n@lru_cache(None)\ndef f(n): return n if n<2 else f(n-1)+f(n-2)\nprint(f(50), reduce(lambda a,b:a*b,[1,2,3,4]), partial(int,base=2)('101'))",
    ),
    (
        "statistics",
        "import statistics as s\nprint(s.mean([1,2,3,4]), s.median([1,3,2]), round(s.stdev([1,2,3,4]),4), s.quantiles([1,2,3,4],n=4))",
    ),
    (
        "math",
        "import math\nprint(math.sqrt(2), math.comb(5,2), math.isclose(.1+.2,.3), math.ceil(1.2), math.log10(1000))",
    ),
    ("hashlib", "import hashlib\nprint(hashlib.sha256(b'x').hexdigest()[:16], hashlib.md5(b'x').hexdigest()[:8])"),
    ("base64", "import base64\nprint(base64.b64encode(b'hello').decode(), base64.b64decode('aGk='))"),
    (
        "csv",
        "import csv, io\nr=list(csv.DictReader(io.StringIO('a,b\\n1,2\\n')))\nw=io.StringIO(); csv.writer(w).writerow([1,'x,y'])\nprint(r, repr(w.getvalue()))",
    ),
    (
        "stringio",
        "import io\nb=io.StringIO()\nprint('hi',file=b)\nprint(repr(b.getvalue()), io.BytesIO(b'ab').read(1))",
    ),
    (
        "open-file",
        "with open('/tmp/y_test.txt','w') as f:\n    f.write('l1\\nl2\\n')\nprint([l.strip() for l in open('/tmp/y_test.txt')])",
    ),
    (
        "dataclass",
        "from dataclasses import dataclass, field, asdict\n@dataclass(order=True)\nclass A:\n    x:int\n    y:list=field(default_factory=list)\nprint(A(1), asdict(A(2,[3])), A(1)<A(2))",
    ),
    (
        "dataclass-frozen-slots",
        "from dataclasses import dataclass, replace\n@dataclass(frozen=True, slots=True)\nclass A:\n    x:int=0\nprint(replace(A(), x=5))",
    ),
    (
        "class-basic",
        "class A:\n    def __init__(s,x): s.x=x\n    def __repr__(s): return f'A({s.x})'\n    def __eq__(s,o): return s.x==o.x\nprint(A(1), A(1)==A(1))",
    ),
    (
        "class-property",
        "class A:\n    _n=0\n    @property\n    def n(self): return self._n\n    @n.setter\n    def n(self,v): self._n=v*2\n    @classmethod\n    def mk(cls): return cls()\n    @staticmethod\n    def s(): return 7\na=A.mk(); a.n=3; print(a.n, A.s())",
    ),
    (
        "class-iter",
        "class R:\n    def __init__(s,n): s.n=n\n    def __iter__(s):\n        for i in range(s.n): yield i\n    def __len__(s): return s.n\n    def __getitem__(s,i): return i*2\n    def __contains__(s,x): return x<s.n\nr=R(3); print(list(r), len(r), r[2], 1 in r)",
    ),
    (
        "metaclass",
        "class M(type):\n    def __new__(m,n,b,d): d['z']=1; return super().__new__(m,n,b,d)\nclass A(metaclass=M): pass\nprint(A.z)",
    ),
    (
        "generator",
        "def g():\n    x = yield 1\n    print('got',x)\n    yield from [2,3]\ni=g(); print(next(i)); print(i.send('a')); print(list(i))",
    ),
    (
        "contextlib",
        "from contextlib import contextmanager, suppress\n@contextmanager\ndef c():\n    print('a'); yield 5; print('b')\nwith c() as x: print(x)\nwith suppress(KeyError): {}['x']\nprint('ok')",
    ),
    (
        "fstring-fmt",
        "x=3.14159; n=1234567; s='a'\nprint(f'{x:.2f} {n:,} {s:>5} {s!r} {n=} {x:{8}.{3}} {0.256:.1%} {255:#x}')",
    ),
    (
        "str-methods",
        "s='Hello, World'\nprint(s.lower(), s.split(', '), s.replace('l','L'), s.title(), s.partition(','), s.removeprefix('He'), s.zfill(15), s.encode()[:3], '-'.join('abc'), 'a\\nb'.splitlines())",
    ),
    ("str-format", "print('{:<5}|{:^5}|{x}'.format('a','b',x=1), '%s-%03d-%.1f' % ('a',5,1.25))"),
    ("struct", "import struct\nprint(struct.pack('<IH',1,2), struct.unpack('>H',b'\\x01\\x02'))"),
    ("sets", "a={1,2,3}; b={2,3,4}\nprint(a&b, a|b, a-b, a^b, a<={1,2,3,4}, frozenset([1]))"),
    ("slices", "l=list(range(10)); l[2:5]=[0]; del l[0]; print(l[::-2], l[-3:], 'abc'[::-1])"),
    (
        "asyncio-basic",
        "import asyncio\nasync def f(x): await asyncio.sleep(0.001); return x*2\nasync def main(): print(await asyncio.gather(*[f(i) for i in range(3)]))\nasyncio.run(main())",
    ),
    (
        "asyncio-timeout-queue",
        "import asyncio\nasync def main():\n    q=asyncio.Queue(); await q.put(1); print(await q.get())\n    try: await asyncio.wait_for(asyncio.sleep(5),0.01)\n    except asyncio.TimeoutError: print('TO')\n    s=asyncio.Semaphore(2)\n    async with s: print('sem')\nasyncio.run(main())",
    ),
    (
        "async-gen",
        "import asyncio\nasync def g():\n    for i in range(3): yield i\nasync def main(): print([x async for x in g()])\nasyncio.run(main())",
    ),
    ("toplevel-await", "import asyncio\nawait asyncio.sleep(0)\nprint('tla')"),
    (
        "threading",
        "import threading, queue\nq=queue.Queue()\nts=[threading.Thread(target=lambda i=i:q.put(i)) for i in range(3)]\n[t.start() for t in ts]; [t.join() for t in ts]\nprint(sorted(q.get() for _ in range(3)))",
    ),
    (
        "logging",
        "import logging, sys\nlogging.basicConfig(stream=sys.stdout, format='%(levelname)s %(message)s', level=20)\nlogging.getLogger('x').info('hi %d', 3)",
    ),
    (
        "typing",
        "from typing import Optional, TypedDict, Any, Literal, NamedTuple\nclass T(TypedDict): a:int\nclass N(NamedTuple):\n    x:int\n    y:int=2\ndef f(x: Optional[list[int]]=None) -> dict[str, Any]: return {'x':x}\nprint(f([1]), T(a=1), N(1))",
    ),
    (
        "html-xml",
        "import html, xml.etree.ElementTree as ET\nprint(html.escape('<a>'), [e.text for e in ET.fromstring('<r><i>1</i><i>2</i></r>').findall('i')])",
    ),
    (
        "html-parser",
        "from html.parser import HTMLParser\nclass P(HTMLParser):\n    def handle_starttag(self,t,a): print(t,a)\nP().feed('<a href=\"x\">y</a>')",
    ),
    (
        "zlib-gzip",
        "import zlib, gzip\nprint(zlib.decompress(zlib.compress(b'a'*100))[:3], gzip.decompress(gzip.compress(b'x')))",
    ),
    ("pickle", "import pickle\nprint(pickle.loads(pickle.dumps({'a':(1,2)})))"),
    (
        "sqlite3",
        "import sqlite3\nc=sqlite3.connect(':memory:'); c.execute('create table t(a)'); c.executemany('insert into t values(?)',[(1,),(2,)]); print(c.execute('select sum(a) from t').fetchone())",
    ),
    ("unicodedata", "import unicodedata\nprint(unicodedata.normalize('NFKD','é').encode('ascii','ignore'))"),
    (
        "introspect",
        "print(sorted(x for x in dir([]) if not x.startswith('_'))[:3], globals().get('zz'), isinstance(True,int), id(1)==id(1), hash('a')==hash('a'))",
    ),
    ("recursion", "def d(n): return 0 if n==0 else 1+d(n-1)\nprint(d(800))"),
    ("ast", "import ast\nprint(ast.literal_eval('[1,{\"a\":(2,)}]'))"),
    ("complex-cmath", "print((1+2j)*3, abs(3+4j))"),
    ("numpy", "import numpy as np\nprint(np.arange(6).reshape(2,3).sum(axis=0).tolist())"),
    (
        "pandas",
        "import pandas as pd\ndf=pd.DataFrame({'k':['a','b','a'],'v':[1,2,3]})\nprint(df.groupby('k').v.sum().to_dict())",
    ),
    (
        "dict-ops",
        "d={'a':1}; d.setdefault('b',[]).append(2); d.update(c=3); print(d, list(d.items()), d.pop('a'), d.get('q',0), sorted(d), dict.fromkeys('ab',0))",
    ),
    (
        "operator-overload",
        "class V:\n    def __init__(s,x): s.x=x\n    def __add__(s,o): return V(s.x+o.x)\n    def __mul__(s,k): return V(s.x*k)\n    def __lt__(s,o): return s.x<o.x\n    def __hash__(s): return s.x\n    def __call__(s): return s.x\n    def __bool__(s): return s.x>0\nprint((V(1)+V(2)*3)(), sorted([V(2),V(1)])[0].x, bool(V(0)))",
    ),
    (
        "agent-report",
        "from servers.github import list_issues\nfrom collections import Counter, defaultdict\nfrom datetime import datetime, timezone\nissues = list_issues(repo='a/b', state='all')\nby = defaultdict(list)\nfor i in issues:\n    for l in i['labels']: by[l].append(i)\nnow = datetime(2026,1,10,tzinfo=timezone.utc)\nrows = []\nfor l, xs in sorted(by.items(), key=lambda kv: (-len(kv[1]), kv[0])):\n    ages = [(now - datetime.fromisoformat(x['created_at'].replace('Z','+00:00'))).days for x in xs]\n    rows.append(f\"| {l:<8} | {len(xs):>3} | {sum(ages)/len(ages):6.1f} |\")\nprint('\\n'.join(rows))",
    ),
]
