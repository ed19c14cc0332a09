#!/usr/bin/env python3
"""random_program.py SEED: writes a random program for random_world.h.

The programs are small on purpose: what takes the time in comparing is compiling them. Everything in
them has one meaning: signed sums wrap through unsigned types, counts and indices are masked, divisors
are looked at, variables are never read before they are written."""

import random
import sys

BITS = {"i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64}
INTS = list(BITS)
FLOATS = ["f32", "f64"]
COMMON = ["u32", "i32"] * 4 + ["u64", "i64"] * 2 + ["i8", "u8", "i16", "u16"]
EDGES = [0, 1, 2, 3, 5, 7, 10, 31, 32, 63, 127, 128, 255, 256, 1000, 32767, 32768, 65535, 65536,
         2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
BLOCKS = [(32, 1), (64, 1), (96, 1), (128, 1), (256, 1), (16, 4), (32, 2), (8, 16)]
ODD_BLOCKS = [(40, 1), (33, 1), (100, 1), (7, 1), (17, 5), (200, 1)]


def is_float(t):
    return t in FLOATS


def modular(t):
    """The unsigned type in which a sum of this type is made."""
    return "u64" if BITS[t] == 64 else "u32"


class Scope:
    """What may be named at a place of a function."""

    def __init__(self, parent=None):
        self.values = list(parent.values) if parent else []    # (text, type): readable
        self.targets = list(parent.targets) if parent else []  # (text, type): writable too
        self.arrays = list(parent.arrays) if parent else []    # (name, type, length)
        self.structs = list(parent.structs) if parent else []  # (text, struct)

    def add(self, text, t, writable=True):
        self.values.append((text, t))
        if writable:
            self.targets.append((text, t))


class Program:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.seed = seed
        self.names = 0
        self.structs = []    # (name, [(field, type, bits or 0)])
        self.functions = []  # (name, result, [(kind, type)])
        self.statements = 0
        self.collective = self.rng.random() < 0.6
        self.block = self.rng.choice(BLOCKS if self.collective else BLOCKS + ODD_BLOCKS)
        self.blocks = self.rng.choice([1, 2, 3])
        self.text = self.make()

    def chance(self, p):
        return self.rng.random() < p

    def name(self, prefix):
        self.names += 1
        return f"{prefix}{self.names}"

    # ---- expressions ----

    def constant(self, t):
        if is_float(t):
            v = self.rng.choice([0, 1, 0.5, -1, 2.25, -100, 3e5, 0.1, 1e10, -7.75])
            return f"({t}){v!r}"
        v = self.rng.choice(EDGES) if self.chance(0.7) else self.rng.getrandbits(BITS[t])
        v = v if self.chance(0.8) else -v
        v &= 2**BITS[t] - 1
        return f"({t}){v:#x}{'ull' if BITS[t] == 64 else 'u'}"

    def leaf(self, scope, t):
        roll = self.rng.random()
        if roll < 0.15 or not scope.values:
            return self.constant(t)
        if roll < 0.3 and scope.arrays:
            name, of, length = self.rng.choice(scope.arrays)
            index = self.index(scope, length, 1)
            return self.convert(f"{name}[{index}]", of, t)
        if roll < 0.35:
            return self.convert(f"in[({self.leaf_of(scope, 'u32')}) & 255]", "u32", t)
        same = [v for v in scope.values if v[1] == t]
        text, of = self.rng.choice(same if same and self.chance(0.6) else scope.values)
        return self.convert(text, of, t)

    def leaf_of(self, scope, t):
        text, of = self.rng.choice(scope.values)
        return self.convert(text, of, t)

    def index(self, scope, length, depth):
        if self.chance(0.2):
            return str(self.rng.randrange(length))
        return f"({self.expression(scope, 'u32', depth)}) & {length - 1}"

    def convert(self, text, of, to):
        if of == to:
            return f"({to})({text})"
        if is_float(of) and not is_float(to):
            return f"{to}_of_{of}({text})"
        return f"({to})({text})"

    def expression(self, scope, t, depth):
        if depth <= 0 or self.chance(0.1):
            return self.leaf(scope, t)
        return self.float_expression(scope, t, depth) if is_float(t) else self.int_expression(
            scope, t, depth)

    def condition(self, scope, depth):
        t = self.rng.choice(COMMON + ["f32"])
        a, b = self.expression(scope, t, depth - 1), self.expression(scope, t, depth - 1)
        roll = self.rng.random()
        if roll < 0.2 and not is_float(t):
            mask = self.rng.choice([1, 3, 4, 7])
            return f"(({a}) & {mask}) {self.rng.choice(['==', '!='])} {self.rng.randrange(4)}"
        if roll < 0.3:
            op = self.rng.choice(["&&", "||"])
            return f"({self.condition(scope, depth - 1)}) {op} ({self.condition(scope, depth - 1)})"
        return f"({a}) {self.rng.choice(['<', '<=', '>', '>=', '==', '!='])} ({b})"

    def int_expression(self, scope, t, depth):
        sub = lambda of=t: self.expression(scope, of, depth - 1)
        m, w = modular(t), BITS[t]
        kind = self.rng.choices(
            ["sum", "logic", "shift", "divide", "choose", "cast", "bits", "unary", "compare", "call",
             "high"], [20, 12, 12, 8, 8, 12, 6, 6, 5, 5, 4])[0]
        if kind == "sum":
            return f"({t})(({m})({sub()}) {self.rng.choice('+-*')} ({m})({sub()}))"
        if kind == "logic":
            return f"({t})(({m})({sub()}) {self.rng.choice('&|^')} ({m})({sub()}))"
        if kind == "shift":
            count = f"(({sub(self.rng.choice(COMMON))}) & {w - 1})"
            if self.chance(0.4):
                count = str(self.rng.randrange(w))
            if self.chance(0.5):
                return f"({t})(({m})({sub()}) << {count})"
            return f"({t})(({t})({sub()}) >> {count})"
        if kind == "divide":
            by = self.constant(t) if self.chance(0.4) else sub()
            return f"{self.rng.choice(['div', 'rem'])}_{t}({sub()}, {by})"
        if kind == "choose":
            return f"(({self.condition(scope, depth - 1)}) ? ({sub()}) : ({sub()}))"
        if kind == "cast":
            of = self.rng.choice(INTS + FLOATS)
            return self.convert(sub(of), of, t)
        if kind == "bits":
            return self.bit_expression(sub, t)
        if kind == "unary":
            return self.rng.choice([f"({t})(0 - ({m})({sub()}))", f"({t})~({sub()})",
                                    f"({t})!({sub()})"])
        if kind == "compare":
            return f"({t})({self.condition(scope, depth - 1)})"
        if kind == "high":
            of = self.rng.choice(["u32", "i32", "u64", "i64"])
            return self.convert(f"mulhi_{of}({sub(of)}, {sub(of)})", of, t)
        return self.call(scope, t, depth) or self.leaf(scope, t)

    def bit_expression(self, sub, t):
        what = self.rng.choice(["popc_u32", "popc_u64", "clz_u32", "clz_u64", "ctz_u32", "swap_u32",
                                "rotate_u32", "rotate_u64", "funnel", "bits_f32", "bits_f64"])
        of = what.split("_")[-1] if "_" in what else "u32"
        if what == "funnel":
            return f"({t})funnel({sub('u32')}, {sub('u32')}, {sub('u32')})"
        more = f", {sub('u32')}" if what.startswith("rotate") else ""
        return f"({t}){what}({sub(of)}{more})"

    def float_expression(self, scope, t, depth):
        sub = lambda of=t: self.expression(scope, of, depth - 1)
        kind = self.rng.choices(["sum", "divide", "least", "choose", "cast", "unary", "fused", "make"],
                                [20, 6, 8, 6, 14, 8, 4, 6])[0]
        if kind == "sum":
            return f"(({sub()}) {self.rng.choice('+-*')} ({sub()}))"
        if kind == "divide":
            return f"div_{t}({sub()}, {sub()})"
        if kind == "least":
            return f"{self.rng.choice(['min', 'max'])}_{t}({sub()}, {sub()})"
        if kind == "choose":
            return f"(({self.condition(scope, depth - 1)}) ? ({sub()}) : ({sub()}))"
        if kind == "cast":
            of = self.rng.choice(INTS + FLOATS)
            return self.convert(sub(of), of, t)
        f = "f" if t == "f32" else ""
        if kind == "unary":
            what = self.rng.choice([f"__builtin_fabs{f}", f"__builtin_floor{f}", f"__builtin_ceil{f}",
                                    f"__builtin_trunc{f}", f"__builtin_rint{f}", f"sqrt_{t}", "-"])
            return f"{what}({sub()})"
        if kind == "fused":
            return f"__builtin_fma{f}({sub()}, {sub()}, {sub()})"
        return f"({t})make_f32({sub('u32')})"

    def call(self, scope, t, depth):
        """A call within an expression: of a function that writes nothing, since C leaves open what is
        evaluated first. None if there is none."""
        pure = [f for f in self.functions if all(p[0] in ("value", "struct") for p in f[2])]
        made = self.call_of(scope, self.rng.choice(pure), depth) if pure else None
        return self.convert(made[0], made[1], t) if made else None

    def call_of(self, scope, function, depth):
        """Text and type of a call with what is at hand, or None."""
        name, result, params = function
        args = [self.argument(scope, kind, of, depth) for kind, of in params]
        return None if None in args else (f"{name}(in, {', '.join(args)})", result)

    def argument(self, scope, kind, of, depth):
        if kind == "value":
            return self.expression(scope, of, min(depth - 1, 1))
        if kind == "array":
            fit = [a[0] for a in scope.arrays if (a[1], a[2]) == of and not a[0].startswith("s->")]
            return self.rng.choice(fit) if fit else None
        fit = [s[0] for s in scope.structs if s[1] == of]
        if not fit:
            return None
        return self.rng.choice(fit) if kind == "struct" else f"&{self.rng.choice(fit)}"

    # ---- statements ----

    def statements_of(self, scope, count, depth, loop, result):
        """Lines of `count` statements; `loop`: break and continue are possible; `result`: what an early
        return gives, or None."""
        scope = Scope(scope)
        lines = []
        for _ in range(count):
            self.statements += 1
            lines += self.statement(scope, depth, loop, result)
        return [("    " + line) for line in lines]

    def statement(self, scope, depth, loop, result):
        kinds = {"assign": 10, "call": 2, "declare": 5, "array": 1.5, "element": 4, "update": 4, "struct": 1}
        if depth > 0:
            kinds.update({"if": 6, "for": 3, "switch": 2, "while": 1.5})
        if loop:
            kinds["leave"] = 2
        if result is not None:
            kinds["return"] = 0.6
        kind = self.rng.choices(list(kinds), list(kinds.values()))[0]
        return getattr(self, "make_" + kind)(scope, depth, loop, result)

    def make_assign(self, scope, depth, loop, result):
        text, t = self.rng.choice(scope.targets)
        return [f"{text} = {self.expression(scope, t, 3)};"]

    def make_update(self, scope, depth, loop, result):
        text, t = self.rng.choice(scope.targets)
        if is_float(t):
            return [f"{text} = {text} {self.rng.choice('+-')} ({self.expression(scope, t, 2)});"]
        m = modular(t)
        return [f"{text} = ({t})(({m}){text} {self.rng.choice('+-*^|')} "
                f"({m})({self.expression(scope, t, 2)}));"]

    def make_declare(self, scope, depth, loop, result):
        t = self.rng.choice(COMMON + ["f32", "f64"])
        name = self.name("v")
        line = f"{t} {name} = {self.expression(scope, t, 3)};"
        scope.add(name, t)
        return [line]

    def make_call(self, scope, depth, loop, result):
        made = self.call_of(scope, self.rng.choice(self.functions), 2) if self.functions else None
        if made is None:
            return self.make_assign(scope, depth, loop, result)
        name = self.name("c")
        line = f"const {made[1]} {name} = {made[0]};"
        scope.add(name, made[1], False)
        return [line]

    def make_array(self, scope, depth, loop, result):
        t = self.rng.choice(COMMON + ["f32"])
        name, length = self.name("a"), self.rng.choice([4, 8, 16])
        k = self.name("k")
        inner = Scope(scope)
        inner.add(f"{k}", "u32", False)
        lines = [f"{t} {name}[{length}];", f"for (u32 {k} = 0; {k} < {length}; {k}++)",
                 f"    {name}[{k}] = {self.expression(inner, t, 2)};"]
        scope.arrays.append((name, t, length))
        return lines

    def make_element(self, scope, depth, loop, result):
        if not scope.arrays:
            return self.make_assign(scope, depth, loop, result)
        name, t, length = self.rng.choice(scope.arrays)
        return [f"{name}[{self.index(scope, length, 2)}] = {self.expression(scope, t, 2)};"]

    def make_struct(self, scope, depth, loop, result):
        if not self.structs:
            return self.make_declare(scope, depth, loop, result)
        struct = self.rng.choice(self.structs)
        name = self.name("o")
        lines = [f"{struct[0]} {name};"]
        for field, t, _ in struct[1]:
            lines.append(f"{name}.{field} = {self.expression(scope, t, 1)};")
        self.open_struct(scope, name + ".", struct)
        scope.structs.append((name, struct[0]))
        return lines

    def open_struct(self, scope, prefix, struct):
        for field, t, _ in struct[1]:
            scope.add(prefix + field, t)

    def make_if(self, scope, depth, loop, result):
        lines = [f"if ({self.condition(scope, 2)}) {{"]
        lines += self.statements_of(scope, self.rng.randint(1, 3), depth - 1, loop, result)
        if self.chance(0.5):
            lines.append("} else {")
            lines += self.statements_of(scope, self.rng.randint(1, 2), depth - 1, loop, result)
        return lines + ["}"]

    def make_for(self, scope, depth, loop, result):
        k = self.name("x")
        inner = Scope(scope)
        inner.add(k, "u32", False)
        mask = self.rng.choice([3, 7, 15])
        end = str(self.rng.randint(1, 6)) if self.chance(0.3) else (
            f"(({self.expression(scope, 'u32', 2)}) & {mask})")
        bound = self.name("n")
        lines = [f"const u32 {bound} = {end};", f"for (u32 {k} = 0; {k} < {bound}; {k}++) {{"]
        lines += self.statements_of(inner, self.rng.randint(1, 3), depth - 1, True, result)
        return lines + ["}"]

    def make_while(self, scope, depth, loop, result):
        k = self.name("left")
        lines = [f"u32 {k} = {self.rng.randint(2, 9)};",
                 f"while ({k}-- && ({self.condition(scope, 2)})) {{"]
        lines += self.statements_of(scope, self.rng.randint(1, 3), depth - 1, True, result)
        return lines + ["}"]

    def make_switch(self, scope, depth, loop, result):
        mask = self.rng.choice([3, 7])
        lines = [f"switch (({self.expression(scope, 'u32', 2)}) & {mask}) {{"]
        cases = self.rng.sample(range(mask + 1), self.rng.randint(2, min(mask, 4)))
        for case in cases:
            lines.append(f"case {case}: {{")
            lines += self.statements_of(scope, self.rng.randint(1, 2), depth - 1, False, result)
            lines.append("}" if self.chance(0.25) and case != cases[-1] else "} break;")
        if self.chance(0.6):
            lines.append("default: {")
            lines += self.statements_of(scope, 1, depth - 1, False, result)
            lines.append("}")
        return lines + ["}"]

    def make_leave(self, scope, depth, loop, result):
        return [f"if ({self.condition(scope, 2)})", f"    {self.rng.choice(['break', 'continue'])};"]

    def make_return(self, scope, depth, loop, result):
        value = f" {self.expression(scope, result, 2)}" if result else ""
        return [f"if ({self.condition(scope, 2)})", f"    return{value};"]

    # ---- functions ----

    def struct(self):
        name = self.name("S")
        fields = []
        for _ in range(self.rng.randint(2, 5)):
            t = self.rng.choice(COMMON)
            bits = self.rng.randint(1 + (t[0] == "i"), BITS[t]) if self.chance(0.5) else 0
            fields.append((self.name("m"), t, bits))
        if self.chance(0.4):
            fields.append((self.name("m"), "f32", 0))
        self.structs.append((name, fields))
        body = " ".join(f"{t} {field}{f' : {bits}' if bits else ''};" for field, t, bits in fields)
        return [f"typedef struct {{ {body} }} {name};", ""]

    def function(self):
        name, result = self.name("fn"), self.rng.choice(COMMON + ["f32", "f64"])
        scope, params, texts = Scope(), [], ["const u32 *in"]
        for _ in range(self.rng.randint(1, 3)):
            t, p = self.rng.choice(COMMON + ["f32"]), self.name("p")
            params.append(("value", t))
            texts.append(f"{t} {p}")
            scope.add(p, t)
        if self.chance(0.4):
            t, length, p = self.rng.choice(["u32", "i32", "u64", "u8"]), 8, self.name("q")
            params.append(("array", (t, length)))
            texts.append(f"{t} *{p}")
            scope.arrays.append((p, t, length))
        if self.structs and self.chance(0.7):
            struct, p = self.rng.choice(self.structs), self.name("t")
            kind = self.rng.choice(["struct", "reference"])
            params.append((kind, struct[0]))
            texts.append(f"{struct[0]} {'*' if kind == 'reference' else ''}{p}")
            self.open_struct(scope, f"{p}{'->' if kind == 'reference' else '.'}", struct)
        mark = self.rng.choice(["NOINLINE", "NOINLINE", "inline"])
        lines = [f"DEV {mark} {result} {name}({', '.join(texts)})", "{"]
        body = self.statements_of(scope, self.rng.randint(2, 5), 2, False, result)
        value = self.expression(scope, result, 2)
        self.functions.append((name, result, params))
        return lines + body + [f"    return {value};", "}", ""]

    def stage(self):
        name = self.name("stage")
        scope = Scope()
        scope.add("tid", "u32", False)
        for k in range(4):
            scope.add(f"s->r[{k}]", "u32")
        scope.add("s->w", "u64")
        scope.add("s->f", "f32")
        lines = [f"DEV {self.rng.choice(['NOINLINE', 'inline', 'inline'])} void {name}"
                 "(State *s, u32 tid, const u32 *in)", "{", "    (void)tid, (void)in;"]
        if self.functions and self.chance(0.7):  # something to pass on
            scope = Scope(scope)
            for _, of in {p for f in self.functions for p in f[2] if p[0] == "array"}:
                array, k = self.name("a"), self.name("k")
                lines += [f"    {of[0]} {array}[{of[1]}];",
                          f"    for (u32 {k} = 0; {k} < {of[1]}; {k}++)",
                          f"        {array}[{k}] = ({of[0]})(s->r[{k} & 3] + {k});"]
                scope.arrays.append((array, of[0], of[1]))
            if self.structs:
                lines += ["    " + line for line in self.make_struct(scope, 0, False, "")]
        lines += self.statements_of(scope, self.rng.randint(3, 6), 3, False, "")
        for function in self.functions:
            made = self.call_of(scope, function, 2)
            if made:
                c = self.name("c")
                lines.append(f"    const {made[1]} {c} = {made[0]};")
                lines.append(f"    {self.word()} ^= {self.convert(c, made[1], 'u32')};")
        return name, lines + ["}", ""]

    # ---- what threads do together ----

    def word(self):
        return f"s->r[{self.rng.randrange(4)}]"

    def together(self, shuffles):
        kinds = ["EXCHANGE", "GATHER"]
        if shuffles:
            kinds += ["SHFL_XOR", "SHFL_UP", "SHFL_DOWN", "SHFL", "BALLOT", "ANY", "ALL"]
        kind, v = self.rng.choice(kinds), self.word()
        if kind == "EXCHANGE":
            slot = self.rng.choice([f"lin ^ {self.rng.randrange(1, 32)}", f"lin + {self.word()} % 64",
                                    f"{self.word()} & 127", "size - 1 - lin", "lin * 5"])
            return f"EXCHANGE({v}, {slot})"
        if kind == "GATHER":
            op = self.rng.choice(["ADD", "MAX", "MIN", "XOR"])
            return f"GATHER({op}, {v}, {self.word()} + lin, {self.word()})"
        if kind == "SHFL":
            return f"SHFL({v}, {self.rng.choice([self.word(), str(self.rng.randrange(32)), 'lin + 3'])})"
        if kind == "SHFL_XOR":
            return f"SHFL_XOR({v}, {self.rng.randrange(1, 32)}u)"
        if kind.startswith("SHFL"):
            return f"{kind}({v}, {self.rng.randrange(1, 20)}u)"
        return f"{kind}({v}, ({self.word()} & {self.rng.choice([1, 2, 3, 12])}) == 0)"

    def uniform(self, lines):
        """The lines under control flow that is the same for a block."""
        inner = ["    " + line for line in lines]
        roll = self.rng.random()
        if roll < 0.3:
            k = self.name("rep")
            count = self.rng.choice(["2", "3", "1 + (n & 3)", f"(in[{self.rng.randrange(256)}] & 3)"])
            return [f"for (u32 {k} = 0; {k} < {count}; {k}++) {{"] + inner + ["}"]
        if roll < 0.45:
            return [f"if ((in[blk + {self.rng.randrange(200)}] & 3) != 0) {{"] + inner + ["}"]
        return lines

    def make(self):
        functions = []
        if self.chance(0.6):
            functions += self.struct()
        for _ in range(self.rng.randint(0, 2)):
            functions += self.function()
        stages = []
        for _ in range(self.rng.randint(1, 2)):
            name, lines = self.stage()
            functions += lines
            stages.append(name)
        body = ["BEGIN"]
        if not self.collective:
            if self.chance(0.5):
                body.append("EXIT_IF(tid >= n)")
            for name in stages:
                body.append(f"EACH({name})")
        else:
            body.append("CLEAR")
            leaving = self.chance(0.25)
            if leaving:
                body.append(self.rng.choice(["EXIT_IF(tid >= n)", f"EXIT_IF(({self.word()} & 3) == 0)"]))
            for name in stages + [None]:
                lines = [f"EACH({name})"] if name else []
                lines += [self.together(not leaving) for _ in range(self.rng.randint(1, 2))]
                body += self.uniform(lines)
        body.append("END")
        return "\n".join([f"/* random_program.py {self.seed} */", '#include "random_world.h"', ""] +
                         functions + ["PROGRAM", "{"] + ["    " + line for line in body] + ["}", ""])


if __name__ == "__main__":
    print(Program(int(sys.argv[1])).text, end="")
