#!/usr/bin/env python3
"""The library exports what the catalogue lists, the coverage page is up to date, bad lines are
refused."""

import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["GABLE_SOURCE_DIR"]
BUILD = os.environ["GABLE_BUILD_DIR"]
SCAN = os.path.join(SOURCE, "proto", "scanner", "scan.py")
CATALOGUE = os.path.join(SOURCE, "proto", "cudart.api")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(SCAN))

import catalogue  # noqa: E402
import runtime_out  # noqa: E402


def exported(path):
    text = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True,
                          text=True).stdout
    names = (line.split() for line in text.splitlines())
    return {n[2].split("@")[0] for n in names if n[1] == "T"}


class RuntimeCatalogueTest(unittest.TestCase):
    def setUp(self):
        cat = runtime_out.Runtime(CATALOGUE)
        self.names = {name for call in cat.calls for name in call.names()}

    def test_count(self):
        self.assertEqual(len(self.names), 422)

    def test_exports(self):
        library = os.path.join(BUILD, "lib", "gable", "runtime", "libcudart.so.13")
        self.assertEqual(exported(library), self.names)

    def test_needs_no_library_of_its_own(self):
        library = os.path.join(BUILD, "lib", "gable", "runtime", "libcudart.so.13")
        text = subprocess.run(["readelf", "-d", library], check=True, capture_output=True,
                              text=True).stdout
        needed = [line.split("[")[1].rstrip("]") for line in text.splitlines() if "NEEDED" in line]
        allowed = ("libc.so", "libpthread.so", "libdl.so", "ld-linux", "libasan", "libubsan", "libtsan",
                   "libgcc_s", "libm.so")
        self.assertEqual([n for n in needed if not n.startswith(allowed)], [])

    def test_coverage_page_is_up_to_date(self):
        page = os.path.join(SOURCE, "docs", "coverage-runtime.md")
        done = subprocess.run([sys.executable, "-B", SCAN, CATALOGUE, "--check", page],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_bad_lines(self):
        for text, why in (("cudaA (int) \n", "bad parameter"), ("cudaA ptsx\n", "bad line"),
                          ("cudaA\ncudaA\n", "listed twice"), ("int cudaA\n", "bad line")):
            with tempfile.NamedTemporaryFile("w", suffix=".api") as f:
                f.write(text)
                f.flush()
                with self.assertRaisesRegex(catalogue.CatalogueError, why):
                    runtime_out.Runtime(f.name)


if __name__ == "__main__":
    unittest.main()
