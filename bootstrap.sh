#!/usr/bin/env bash
# Installs what is missing, builds, and runs. Works from any directory; paths in the arguments stay relative to the
# caller's. What this script says goes to stderr: stdout belongs to the command it runs.
# Exit: that of tileproof or ctest; 2 for bad usage; 3 when installing or building failed.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
jobs=$(nproc)

# Everything a build needs. Lint tools come on top, where lint or test asks for them.
packages=(g++ cmake ninja-build patch libeigen3-dev librapidcheck-dev libgtest-dev libbenchmark-dev libcli11-dev
  libfmt-dev nlohmann-json3-dev libsqlite3-dev libboost-context-dev libexpat1-dev libclang-rt-14-dev)

say() { printf 'bootstrap: %s\n' "$*" >&2; }

die() {
  say "$1"
  exit "${2:-3}"
}

usage() {
  printf 'usage: %s check|test|build|sanitize|lint [ARGS for tileproof check, ctest or tests/lint]\n' "$0" >&2
  exit 2
}

# Prints those of the named packages that are not installed. Asks dpkg only, never the network.
missing_packages() {
  local installed name
  # dpkg-query fails when one name is unknown to it; what it printed about the others still counts.
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for name in "$@"; do
    grep -qxF "$name installed" <<<"$installed" || printf '%s\n' "$name"
  done
}

install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    die "not a Debian system (no dpkg-query or apt-get); the build needs: $*"
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0

  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "not root and no sudo; as root: apt-get install ${missing[*]}"
    as_root=(sudo)
    [[ -t 0 ]] || as_root+=(-n)
  fi
  local log
  log=$(mktemp "${TMPDIR:-/tmp}/tileproof-apt.XXXXXX") || die "cannot write a log file in ${TMPDIR:-/tmp}"
  say "installing ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q)
  if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 10 "$log" >&2
    die "apt-get could not install ${missing[*]}; whole log: $log"
  fi
  rm -f "$log"
}

report_toolkit() {
  local nvcc
  nvcc=$(PATH="$PATH:/usr/local/cuda/bin" command -v nvcc) || {
    say "no CUDA toolkit: CPU only"
    return 0
  }
  say "CUDA toolkit $("$nvcc" --version | sed -n 's/.*, V\([0-9.]*\).*/\1/p') ($nvcc)"
}

# Ends the script with the end of a log that holds a failure.
fail_with_log() {
  tail -n 40 "$2" >&2
  die "$1 failed; whole log: $2"
}

# Both build steps of a preset; its directory is build/<preset>.
configure() {
  { mkdir -p "$root/build/$1" && : >"$root/build/$1/build.log"; } 2>/dev/null ||
    die "cannot write into $root/build/$1"
  # Presets are looked up in the working directory.
  (cd "$root" && cmake --preset "$1") >>"$root/build/$1/build.log" 2>&1 ||
    fail_with_log "configuring" "$root/build/$1/build.log"
}

build() {
  report_toolkit
  configure "$1"
  local log=$root/build/$1/build.log
  if [[ -t 2 ]]; then
    cmake --build "$root/build/$1" --parallel "$jobs" >&2 || die "building failed in $root/build/$1"
  else
    cmake --build "$root/build/$1" --parallel "$jobs" >>"$log" 2>&1 || fail_with_log "building" "$log"
  fi
}

run_tests() {
  local preset=$1
  shift
  # A suite in which nothing ran has shown nothing.
  exec ctest --test-dir "$root/build/$preset" --output-on-failure --no-tests=error --parallel "$jobs" "$@"
}

(($#)) || usage
command=$1
shift
case $command in
  check)
    install_packages "${packages[@]}"
    build release
    exec "$root/build/release/tileproof" check "$@"
    ;;
  test)
    install_packages "${packages[@]}" clang-format-14 clang-tidy-14
    build release
    run_tests release "$@"
    ;;
  build)
    (($# == 0)) || usage
    install_packages "${packages[@]}"
    build release
    ;;
  sanitize)
    install_packages "${packages[@]}" clang-format-14
    build asan
    run_tests asan "$@"
    ;;
  lint)
    install_packages "${packages[@]}" clang-format-14 clang-tidy-14
    configure release
    exec "$root/tests/lint" "${@:-all}"
    ;;
  *) usage ;;
esac
