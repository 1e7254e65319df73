#!/bin/sh
# Installs svc: takes the file for this machine, checks its sum, and puts it on the PATH.
#
#   sh install.sh [--from ADDRESS-OR-FOLDER-OR-FILE] [--to FOLDER]
#
#   --from  where the files of the release are (or SVC_FROM): an https address or a folder; or one file of it, whose sum is
#           checked if SHA256SUMS is beside it; the default is where this script came from
#   --to    where svc goes; the default is /usr/local/bin if you may write there, otherwise ~/.local/bin
#
# With SVC_SIGNED=1 nothing is installed whose signature cannot be checked.
#
# An installed svc stays untouched until the new file is complete, checked and starts. Run it again to upgrade: the one before
# stays as svc.previous.
set -eu

# Filled in when a release is built.
version=''
address=''
# Who may sign a release, as ssh's allowed_signers, and keys that no longer may. In the sources they are in releasing/.
signers=''
revoked=''

say() { printf '%s\n' "$*"; }

fail() {
  printf 'error: %s\n' "$1" >&2
  shift
  for line; do printf '%s\n' "$line" >&2; done
  exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

usage() { say 'usage: sh install.sh [--from ADDRESS-OR-FOLDER-OR-FILE] [--to FOLDER]'; }

help() {
  usage
  say '  --from  the files of a release: an https address, a folder, or one file of it. Without it SVC_FROM, or else where this'
  say '          script came from. Files are checked with the SHA256SUMS beside them, and those with their signature.'
  say '  --to    the folder for svc. The default is /usr/local/bin if you may write there, otherwise ~/.local/bin.'
  say 'With SVC_SIGNED=1 in the environment, nothing is installed whose signature cannot be checked.'
}

# Hint where a folder does not hold a release.
built='Run "npm run build -- --all" in the sources to make one, in dist/release. Nothing was changed.'

# Everything is a function that the last line calls: a script that arrives incomplete runs nothing.
main() {
  from=${SVC_FROM:-}
  to=''
  alone=''
  while [ $# -gt 0 ]; do
    case $1 in
      # An empty value comes from an unset variable, and does not mean the default.
      --from= | --to=) fail "$1 needs a value" "$(usage)" ;;
      --from=*) from=${1#*=} ;;
      --to=*) to=${1#*=} ;;
      --from | --to)
        [ -n "${2:-}" ] || fail "$1 needs a value" "$(usage)"
        if [ "$1" = --from ]; then from=$2; else to=$2; fi
        shift
        ;;
      -h | --help)
        help
        exit 0
        ;;
      *) fail "unknown argument $1" "$(usage)" ;;
    esac
    shift
  done

  file=$(file_for_this_machine)
  choose_source
  choose_target
  prepare
  fetch_checked
  start
  keep_previous
  mv -f "$work/svc" "$to/svc" || fail "$to/svc could not be replaced"
  finish
}

file_for_this_machine() {
  system=$(uname -s)
  machine=$(uname -m)
  case $system in
    Linux) platform=linux ;;
    Darwin) platform=darwin ;;
    MINGW* | MSYS* | CYGWIN* | Windows*)
      fail "this script is for Linux and macOS" \
        "On Windows, download svc-windows-x64.exe, name it svc.exe, and run it in a terminal."
      ;;
    *) fail "there is no svc for $system" "It runs from its sources wherever Bun or Deno does: see the README." ;;
  esac
  case $machine in
    x86_64 | amd64) cpu=x64 ;;
    aarch64 | arm64) cpu=arm64 ;;
    *) fail "there is no svc for $machine, only for x86_64 and arm64" ;;
  esac
  # A program that Rosetta translates sees an Intel machine.
  if [ "$platform-$cpu" = darwin-x64 ] && [ "$(sysctl -n sysctl.proc_translated 2>/dev/null)" = 1 ]; then
    cpu=arm64
  fi
  if [ "$platform" = linux ]; then
    # A 32 bit system on a 64 bit kernel does not have the libraries.
    [ "$(getconf LONG_BIT 2>/dev/null || echo 64)" = 64 ] || fail "svc needs a 64 bit system; this one is 32 bit on $machine"
    if is_musl; then cpu=$cpu-musl; fi
  fi
  say "svc-$platform-$cpu"
}

# Both C libraries may be installed. The system's own ldd shows which one its programs use. That of musl exits with an error.
is_musl() {
  case $(ldd --version 2>&1 || true) in
    *musl*) return 0 ;;
    *GLIBC* | *'GNU libc'* | *'Free Software Foundation'*) return 1 ;;
  esac
  for loader in /lib/ld-linux* /lib64/ld-linux*; do
    if [ -e "$loader" ]; then return 1; fi
  done
  for loader in /lib/ld-musl-*; do
    if [ -e "$loader" ]; then return 0; fi
  done
  return 1
}

choose_source() {
  if [ -z "$from" ]; then
    # The folder of this script, if it is there with the file. A script that is read from a pipe is in no folder.
    from=$(dirname -- "$0")
    if [ ! -f "$0" ] || [ ! -f "$from/SHA256SUMS" ]; then
      from=$address
    elif [ -n "$address" ] && [ ! -f "$from/$file" ] && [ ! -f "$from/$file.gz" ]; then
      from=$address
    fi
    [ -n "$from" ] ||
      fail "where are the files of the release?" "Name an address or a folder: sh install.sh --from https://…" "$built"
  fi
  case $from in
    file:///*%*) fail "a % in $from may stand for another letter" "Name the folder by its path." ;;
    file:///*) from=${from#file://} ;;
  esac
  case $from in
    https://*)
      from=${from%/}
      has curl || has wget || fail "downloading needs curl or wget" \
        "Install one of them, or download $file and SHA256SUMS yourself and name their folder with --from."
      ;;
    *://*)
      fail "$from is no address with encryption, so nothing is taken from it" \
        "Name one that begins with https://, or download the files of the release yourself and name their folder."
      ;;
    *)
      if [ -f "$from" ]; then
        file=$(basename -- "$from" .gz)
        from=$(dirname -- "$from")
        [ -f "$from/SHA256SUMS" ] || alone=yes
      fi
      [ -d "$from" ] || fail "there is no folder or file $from" "$built"
      ;;
  esac
}

choose_target() {
  if [ -z "$to" ]; then
    if [ "$(id -u)" = 0 ] || [ -w /usr/local/bin ]; then
      to=/usr/local/bin
    else
      [ -n "${HOME:-}" ] || fail "where to?" "HOME is not set: name a folder with --to."
      to=$HOME/.local/bin
    fi
  fi
  case $to in
    /*) ;;
    *) to=$PWD/$to ;;
  esac
  while [ "$to" != / ] && [ "${to%/}" != "$to" ]; do to=${to%/}; done
  [ ! -d "$to/svc" ] || fail "$to/svc is a folder" "Name another folder with --to."
}

# Work beside the target: only within one file system can svc be put into place in one step.
prepare() {
  work=''
  made=''
  trap clean EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  missing=$to
  while [ ! -e "$missing" ]; do
    made="$missing
$made"
    missing=$(dirname -- "$missing")
  done
  if ! mkdir -p -- "$to" || ! work=$(mktemp -d "$to/.svc-install-XXXXXX"); then
    fail "$to cannot be written" "Name another folder with --to, or run this as root."
  fi
}

# Removes the work folder, and the folders that were created in vain.
clean() {
  if [ -n "$work" ]; then rm -rf -- "$work"; fi
  if [ -z "$made" ]; then return; fi
  last=$to
  printf '%s' "$made" | while read -r _; do
    rmdir -- "$last" 2>/dev/null || break
    last=$(dirname -- "$last")
  done
}

fetch_checked() {
  if [ -n "$alone" ]; then
    unchecked "there are no sums beside $file"
    get "$file"
    take
    return
  fi
  get SHA256SUMS
  sum_of "$file" >/dev/null
  check_signature
  # The compressed file is half the size.
  if [ ! -f "$from/$file" ] && has gzip && grep -q " $file.gz\$" "$work/SHA256SUMS"; then
    get "$file.gz"
    check "$file.gz"
    gzip -dc "$work/$file.gz" >"$work/$file" ||
      fail "$file.gz could not be unpacked in $to" "Is there room? svc takes 130 MB, and half as much again while it is installed."
    rm -f -- "$work/$file.gz"
  else
    get "$file"
  fi
  check "$file"
  take
}

# Who changes a file and its sum needs the key too. ssh-keygen is part of OpenSSH, which most systems have.
check_signature() {
  here=$(dirname -- "$0")/releasing
  if [ -z "$signers" ] && [ -f "$0" ] && [ -f "$here/signers" ]; then
    signers=$(grep -v '^#' "$here/signers" || true)
    revoked=$(cat "$here/revoked")
  fi
  if [ -z "$signers" ]; then
    unchecked 'svc has no key yet that this script knows'
  elif ! ssh-keygen -'?' 2>&1 | grep -q -e '-Y verify'; then
    unchecked 'that needs ssh-keygen of OpenSSH 8.1 or later (package openssh-client; on Alpine openssh-keygen)'
  elif [ -d "$from" ] && [ ! -f "$from/SHA256SUMS.sig" ]; then
    unchecked "there is no SHA256SUMS.sig in $from"
  else
    get SHA256SUMS.sig
    printf '%s\n' "$signers" >"$work/signers"
    printf '%s\n' "$revoked" >"$work/revoked"
    ssh-keygen -Y verify -f "$work/signers" -r "$work/revoked" -I svc -n svc-release -s "$work/SHA256SUMS.sig" \
      <"$work/SHA256SUMS" >"$work/said" 2>&1 ||
      fail "SHA256SUMS in $from is not signed by svc's key, so it is not used" "$(cat "$work/said")" "Nothing was changed."
    say "The signature is by svc's key."
  fi
}

unchecked() {
  [ -z "${SVC_SIGNED:-}" ] || fail "the signature cannot be checked: $1" "SVC_SIGNED is set, so nothing was changed."
  say "The signature was not checked: $1."
}

take() {
  mv -- "$work/$file" "$work/svc.new"
  mv -- "$work/svc.new" "$work/svc"
  chmod 755 "$work/svc"
}

get() {
  case $from in
    https://*)
      say "Downloading $from/$1"
      download "$from/$1" "$work/$1" || fail "$from/$1 could not be downloaded to $to" \
        "Is the address right, is the network there, is there room on the disk? Nothing was changed."
      ;;
    *)
      [ -f "$from/$1" ] || fail "there is no file $1 in $from" "It has to hold the files of one release." "$built"
      cp -- "$from/$1" "$work/$1" || fail "$1 could not be copied to $to" "Is there room on the disk? Nothing was changed."
      ;;
  esac
}

download() {
  if has curl; then
    if [ -t 2 ]; then quiet=--progress-bar; else quiet=-sS; fi
    curl -fL $quiet --proto =https --proto-redir =https -o "$2" "$1"
  elif wget --version 2>/dev/null | grep -q GNU; then
    with_wget "$1" "$2" -nv --tries=3
  else
    with_wget "$1" "$2" -q
  fi
}

# Not every wget can be told not to follow redirects, but it can show them. What came through an unencrypted one is not used.
with_wget() {
  url=$1
  out=$2
  shift 2
  wget "$@" -S -O "$out" "$url" >"$work/said" 2>&1 || {
    cat "$work/said" >&2
    return 1
  }
  grep -q 'HTTP/' "$work/said" ||
    fail "this wget does not show whether it was led away from encryption" "Install curl. Nothing was changed."
  if grep -i '^[[:space:]]*location:[[:space:]]*[a-z][a-z0-9+.-]*:' "$work/said" |
    grep -qiv '^[[:space:]]*location:[[:space:]]*https:'; then
    fail "$url leads to an address without encryption, so it is not used" "Nothing was changed."
  fi
}

sum_of() {
  while read -r sum name; do
    if [ "$name" = "$1" ]; then
      say "$sum"
      return
    fi
  done <"$work/SHA256SUMS"
  fail "SHA256SUMS in $from does not name $1" "Is it a release of svc? Nothing was changed."
}

check() {
  expected=$(sum_of "$1")
  if has sha256sum; then
    got=$(sha256sum <"$work/$1")
  elif has shasum; then
    got=$(shasum -a 256 <"$work/$1")
  elif has openssl; then
    got=$(openssl dgst -sha256 <"$work/$1" | sed 's/.*= *//')
  else
    fail "checking the sum needs sha256sum, shasum or openssl" "Install one of them. Nothing was changed."
  fi
  got=${got%% *}
  [ "$got" = "$expected" ] || fail "the sum of $1 is wrong, so it is not installed" \
    "expected $expected" "got      $got" "Download it again; if that does not help, do not use this source. Nothing was changed."
}

start() {
  # A file from a browser may carry macOS's quarantine mark. Its sum is already checked.
  if has xattr; then xattr -d com.apple.quarantine "$work/svc" 2>/dev/null || true; fi
  if installed=$("$work/svc" --version 2>"$work/said" </dev/null); then
    [ -z "$version" ] || [ "$installed" = "$version" ] ||
      fail "this script installs svc $version, and $from holds $installed" "Take both from one release. Nothing was changed."
    return
  fi
  hint='Nothing was changed.'
  case $file in
    *-musl) hint='It needs the C++ library. On Alpine: apk add libstdc++' ;;
  esac
  fail "$file does not start here:" "$(cat "$work/said")" "$hint"
}

# What is installed already is no way back. A link is only a name of what is elsewhere.
keep_previous() {
  previous=''
  if [ ! -f "$to/svc" ] || [ -L "$to/svc" ] || [ "$("$to/svc" --version 2>/dev/null </dev/null)" = "$installed" ]; then return; fi
  previous=$to/svc.previous
  rm -f -- "$previous"
  ln -- "$to/svc" "$previous" 2>/dev/null || cp -p -- "$to/svc" "$previous" || fail "$previous could not be written" "Nothing was changed."
}

finish() {
  made=''
  say "svc $installed is in $to/svc"
  if [ -n "$previous" ]; then
    say "The one before is $previous. It refuses data that the new one has used, so a way back needs a backup from before:"
    say "  $(word "$previous") backup svc-before.tar"
  fi
  first=$(command -v svc || true)
  case ":$PATH:" in
    *":$to:"*)
      if [ "$first" != "$to/svc" ]; then say "Another one comes before it on the PATH: $first"; fi
      next='svc openapi --sandbox'
      ;;
    *)
      say "$to is not on the PATH. To have it there in new terminals:"
      say "  $(path_line)"
      next="$(word "$to/svc") openapi --sandbox"
      ;;
  esac
  say "Try it, with a simulated WeChat: $next"
}

# Quotes an argument for a shell.
word() {
  each="s/'/'\\\\''/g"
  case $1 in
    *[!A-Za-z0-9_./~+@%:,=-]*) say "'$(printf '%s' "$1" | sed "$each")'" ;;
    *) say "$1" ;;
  esac
}

# shellcheck disable=SC2016 # for the reader's shell
path_line() {
  home=''
  rest=$to
  if [ -n "${HOME:-}" ]; then
    case $to in "$HOME"/*) home='$HOME' rest=${to#"$HOME"} ;; esac
  fi
  # Escapes the characters that are special between double quotes.
  case ${SHELL:-} in */fish) each='s/[\\"$]/\\&/g' ;; *) each='s/[\\"$`]/\\&/g' ;; esac
  rest=$(printf '%s' "$rest" | sed "$each")
  case ${SHELL:-} in
    */fish)
      say "fish_add_path \"$home$rest\""
      return
      ;;
    */zsh) profile=.zshrc ;;
    */bash) if [ "$(uname -s)" = Darwin ]; then profile=.bash_profile; else profile=.bashrc; fi ;;
    *) profile=.profile ;;
  esac
  line="export PATH=\"$home$rest:\$PATH\""
  # The echo of some shells interprets backslashes.
  case $line in
    *\\\\*) write="printf '%s\n'" ;;
    *) write='echo' ;;
  esac
  say "$write $(word "$line") >> ~/$profile"
}

main "$@"
