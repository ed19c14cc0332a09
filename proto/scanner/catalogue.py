"""Reads proto/cuda.api. See the head of that file for its grammar."""

import re

CLASSES = ("reply", "async", "cached", "local", "custom", "composed", "unsupported")


class CatalogueError(Exception):
    pass


class Param:
    """One parameter: direction, C type, name, array suffix and note."""

    def __init__(self, text, where):
        m = re.match(r"(in|out|inout)\s+([^:]+?)(?:\s*:\s*(.+))?$", text.strip())
        if not m:
            raise CatalogueError(f"{where}: bad parameter {text!r}")
        self.direction, self.decl, self.note = m.group(1), m.group(2).strip(), m.group(3) or ""
        m = re.match(r"(.*?)(\w+)(\[\])?$", self.decl)
        self.ctype, self.name = m.group(1).strip(), m.group(2)
        if m.group(3):
            self.ctype += " *"

    @property
    def is_pointer(self):
        return self.ctype.endswith("*")

    def note_arg(self, word):
        m = re.match(word + r"\[(.*)\]$", self.note)
        return m.group(1) if m else None


class Symbol:
    """One exported symbol."""

    def __init__(self, name, version, entry):
        self.name, self.version, self.entry = name, version, entry
        self.kind = "bare"  # bare | like | thread | function
        self.target = self.sync = None
        self.cls, self.op, self.params = None, None, None
        self.queued, self.blocking, self.payload = False, False, 0

    @property
    def per_thread(self):
        return self.name.endswith(("_ptsz", "_ptds"))


class Entry:
    def __init__(self, base, tier):
        self.base, self.tier, self.symbols, self.section = base, tier, [], ""


class Catalogue:
    def __init__(self, path):
        self.entries, self.symbols = [], {}
        section = ""
        for number, text in logical_lines(path):
            where = f"{path}:{number}"
            if text.startswith("#"):
                m = re.match(r"# ---- (.*)", text)
                section = m.group(1).strip() if m else section
            elif text.startswith("entry "):
                m = re.match(r"entry (cu\w+) tier ([1-4])$", text)
                if not m:
                    raise CatalogueError(f"{where}: bad entry line")
                self.entries.append(Entry(m.group(1), int(m.group(2))))
                self.entries[-1].section = section
            else:
                self.add_symbol(text, where)
        self.check()

    def add_symbol(self, text, where):
        m = re.match(r"(\d+)\s+(cu\w+)\s*(.*)$", text)
        if not m or not self.entries:
            raise CatalogueError(f"{where}: bad symbol line {text!r}")
        sym = Symbol(m.group(2), int(m.group(1)), self.entries[-1])
        rest = m.group(3)
        if sym.name in self.symbols:
            raise CatalogueError(f"{where}: {sym.name} listed twice")
        link = re.match(r"(like|thread) (cu\w+)(?: then (cu\w+))?$", rest)
        if link:
            sym.kind, sym.target, sym.sync = link.groups()
        elif rest:
            m = re.match(r"(\w+)(?: op (\d+))?(?: payload (\d+))?( queued)?"
                         r"( blocking)?\s*\((.*)\)$", rest)
            if not m or m.group(1) not in CLASSES:
                raise CatalogueError(f"{where}: bad description {rest!r}")
            sym.kind, sym.cls = "function", m.group(1)
            sym.op = int(m.group(2)) if m.group(2) else None
            sym.payload = int(m.group(3) or 0)
            sym.queued = bool(m.group(4)) or sym.cls == "async"
            sym.blocking = bool(m.group(5))
            sym.params = [Param(p, where) for p in split_params(m.group(6))]
        self.symbols[sym.name] = sym
        sym.entry.symbols.append(sym)

    def check(self):
        ops = {}
        for sym in self.symbols.values():
            if sym.kind in ("like", "thread"):
                target = self.symbols.get(sym.target)
                if target is None or target.kind != "function":
                    raise CatalogueError(f"{sym.name}: {sym.target} has no signature")
            if sym.op is not None and ops.setdefault(sym.op, sym) is not sym:
                raise CatalogueError(f"{sym.name}: op {sym.op} is taken by {ops[sym.op].name}")
            if sym.cls in ("reply", "async", "custom") and sym.op is None:
                raise CatalogueError(f"{sym.name}: class {sym.cls} needs an op")

    def functions(self):
        """Symbols with a signature of their own, in catalogue order."""
        return [s for e in self.entries for s in e.symbols if s.kind == "function"]

    def ordered(self):
        return [s for e in self.entries for s in e.symbols]

    def signature(self, sym):
        """Parameters of the symbol, following `like` and `thread`; None for a bare name."""
        if sym.kind == "function":
            return sym.params
        if sym.kind == "bare":
            return None
        params = self.symbols[sym.target].params
        return params[:-1] if sym.sync else params


def logical_lines(path):
    """Lines of the file with parameter lists that go on over several lines joined."""
    pending, start = "", 0
    with open(path, encoding="utf-8") as f:
        for number, raw in enumerate(f, 1):
            line = raw.strip()
            if not line:
                continue
            if not pending:
                start = number
            pending = (pending + " " + line).strip()
            if pending.startswith("#") or pending.count("(") == pending.count(")"):
                yield start, pending
                pending = ""
    if pending:
        raise CatalogueError(f"{path}:{start}: unclosed parameter list")


def split_params(text):
    """Splits at commas outside of brackets and parentheses."""
    parts, depth, cur = [], 0, ""
    for ch in text:
        depth += ch in "([" and 1 or ch in ")]" and -1 or 0
        if ch == "," and depth == 0:
            parts.append(cur)
            cur = ""
        else:
            cur += ch
    if cur.strip():
        parts.append(cur)
    return parts
