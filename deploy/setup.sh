#!/usr/bin/env bash
# Installs what building and running Gable needs (Debian 12, Ubuntu 24.04; apt). Does nothing when
# everything is there. Needs root only to install.
set -eu

packages=(
    build-essential cmake ninja-build pkg-config python3
    clang-19 llvm-19-dev libclang-rt-19-dev clang-format-19
    libgrpc-dev libprotobuf-c-dev protobuf-c-compiler protobuf-compiler
    libssl-dev libzstd-dev liblz4-dev zlib1g-dev libjansson-dev libsqlite3-dev
    libcmocka-dev python3-grpcio python3-protobuf
)

missing=()
for p in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "setup.sh: missing packages: ${missing[*]}: run deploy/setup.sh as root" >&2
    exit 1
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "setup.sh: apt-get failed: see the lines above" >&2
    exit 1
fi
rm -f "$log"
