#!/usr/bin/env bash
# The page docs/coverage-ptx.md: "page.sh check" compares it, "page.sh write" makes it anew.
set -eu
rows=$(mktemp) page=$(mktemp)
trap 'rm -f "$rows" "$page"' EXIT
for name in bits cvt float half int select video; do
    PT_ROWS=$rows "$GABLE_BUILD_DIR/tests/test_ptx_$name" >/dev/null 2>&1
done
sort -u -o "$rows" "$rows"
"$GABLE_BUILD_DIR/tests/ptx_coverage" "$GABLE_SOURCE_DIR/tests/ptx" "$rows" >"$page"
if [ "${1:-check}" = write ]; then
    cp "$page" "$GABLE_SOURCE_DIR/docs/coverage-ptx.md"
elif ! diff -u "$GABLE_SOURCE_DIR/docs/coverage-ptx.md" "$page" | head -40; then
    echo "docs/coverage-ptx.md is stale: build the target ptx_coverage_page"
    exit 1
fi
