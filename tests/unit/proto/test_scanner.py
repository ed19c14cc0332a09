#!/usr/bin/env python3
"""The catalogue and its scanner: bad lines are refused, the libraries export what it lists, what is
called done is defined by hand, the coverage page is up to date."""

import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["GABLE_SOURCE_DIR"]
BUILD = os.environ["GABLE_BUILD_DIR"]
SCAN = os.path.join(SOURCE, "proto", "scanner", "scan.py")
CATALOGUE = os.path.join(SOURCE, "proto", "cuda.api")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(SCAN))

import catalogue  # noqa: E402


def symbols(path):
    """Exported names and their kinds: T strong, W weak."""
    text = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True,
                          text=True).stdout
    return {line.split()[2]: line.split()[1] for line in text.splitlines()}


class CatalogueTest(unittest.TestCase):
    def setUp(self):
        self.cat = catalogue.Catalogue(CATALOGUE)

    def test_counts(self):
        self.assertEqual(len(self.cat.entries), 450)
        self.assertEqual(len(self.cat.symbols), 637)

    def test_tier_one_is_described(self):
        for entry in self.cat.entries:
            if entry.tier < 4:
                self.assertTrue(any(s.kind == "function" for s in entry.symbols), entry.base)

    def test_libraries_export_all_and_nothing_else(self):
        for kind in ("remote", "cpu"):
            path = os.path.join(BUILD, "lib", "gable", kind, "libcuda.so.1")
            self.assertEqual(set(symbols(path)), set(self.cat.symbols), kind)

    def test_done_means_defined(self):
        """A call of any class but `unsupported` has a strong definition in the remote library."""
        kinds = symbols(os.path.join(BUILD, "lib", "gable", "remote", "libcuda.so.1"))
        for sym in self.cat.functions():
            with self.subTest(sym.name):
                self.assertEqual(kinds[sym.name] == "T", sym.cls != "unsupported")

    def test_coverage_page_is_up_to_date(self):
        page = os.path.join(SOURCE, "docs", "coverage-driver.md")
        done = subprocess.run([sys.executable, "-B", SCAN, CATALOGUE, "--check", page],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


class BadCatalogueTest(unittest.TestCase):
    def refuse(self, text, why):
        with tempfile.NamedTemporaryFile("w", suffix=".api") as f:
            f.write(text)
            f.flush()
            with self.assertRaisesRegex(catalogue.CatalogueError, why):
                catalogue.Catalogue(f.name)

    def test_refusals(self):
        head = "entry cuA tier 1\n"
        self.refuse("entry cuA tier 9\n", "bad entry")
        self.refuse("  1 cuA local ()\n", "bad symbol")
        self.refuse(head + "  x cuA local ()\n", "bad symbol")
        self.refuse(head + "  1 cuA strange ()\n", "bad description")
        self.refuse(head + "  1 cuA reply ()\n", "needs an op")
        self.refuse(head + "  1 cuA reply op 1 ()\n  1 cuA reply op 2 ()\n", "listed twice")
        self.refuse(head + "  1 cuA reply op 1 ()\n  2 cuB reply op 1 ()\n", "is taken")
        self.refuse(head + "  1 cuA like cuB\n", "no signature")
        self.refuse(head + "  1 cuA local (int x)\n", "bad parameter")
        self.refuse(head + "  1 cuA local (in int x\n", "unclosed")

    def test_parameters(self):
        with tempfile.NamedTemporaryFile("w", suffix=".api") as f:
            f.write("entry cuA tier 1\n  1 cuA reply op 3 blocking (\n"
                    "    out int *p, in CUstream s : uses)\n")
            f.flush()
            sym = catalogue.Catalogue(f.name).symbols["cuA"]
        self.assertEqual([p.ctype for p in sym.params], ["int *", "CUstream"])
        self.assertEqual([p.direction for p in sym.params], ["out", "in"])
        self.assertTrue(sym.blocking)
        self.assertFalse(sym.queued)

    def test_unknown_output(self):
        done = subprocess.run([sys.executable, "-B", SCAN, CATALOGUE, "/tmp/no-such-output.c"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no such output", done.stderr)


if __name__ == "__main__":
    unittest.main()
