# Shared by the scripts in this folder (sourced by bash): messages, needs, free ports.

say() { echo "$(basename "$0"): $*" >&2; }
die() { say "$*"; exit 1; }

# apt_install PACKAGE...: as root on a machine with apt, else false.
apt_install() {
  [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || return 1
  say "installing $*"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >&2 && return
  apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >&2
}

# need WHAT PACKAGE... -- TEST...: makes TEST succeed, or dies with one line that names what is missing.
need() {
  local what=$1 packages=(); shift
  while [[ $1 != -- ]]; do packages+=("$1"); shift; done
  shift
  "$@" >/dev/null 2>&1 && return
  apt_install "${packages[@]}" && "$@" >/dev/null 2>&1 && return
  die "needs $what: install it (Debian: apt-get install ${packages[*]})"
}

# need_to_build: what compiling the workspace takes.
has_header() { echo "#include <$1>" | cc -x c -fsyntax-only -; }
need_to_build() {
  command -v cargo >/dev/null || die "needs cargo: install Rust by rustup (https://rustup.rs)"
  need "a C compiler" gcc -- cc --version
  need "a C++ compiler" g++ -- c++ --version
  need make make -- make --version
  need perl perl -- perl --version
  need pkg-config pkg-config -- pkg-config --version
  need "zlib's headers" zlib1g-dev -- has_header zlib.h
  need "OpenSSL's headers" libssl-dev -- has_header openssl/ssl.h
}

# A port on loopback where nobody listens, below the range of outgoing connections.
free_port() {
  local port
  for _ in {1..1000}; do
    port=$((12000 + RANDOM % 20000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
  die "no free port between 12000 and 32000 on loopback: stop what listens there"
}

# bring_up: exports the servers' addresses (scripts/services). Servers of this run alone, unless somebody's
# `services up` runs: then those, and they stay up. stop_started stops the former.
started=
bring_up() {
  if [[ ! -s target/services/folder ]]; then
    started=$PWD/target/services-of-$(basename "$0")-$$
    export FENCEPOST_SERVICES=$started
  fi
  local addresses
  addresses=$("$scripts/services" up)
  eval "$addresses"
}
stop_started() {
  if [[ -n $started ]]; then FENCEPOST_SERVICES=$started "$scripts/services" down; fi
}
