#!/usr/bin/env bash
# install.sh [--core | --build]: installs what is missing and nothing else: Debian packages at the versions of
# scripts/debian-packages*.txt, then Python packages in .venv. With --build only what a build needs, a third of the
# packages; with --core only what one without emitters needs, as `make run` makes it. Quick and offline when everything
# is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Three levels, each on top of the one before it.
package_lists=(scripts/debian-packages-core.txt scripts/debian-packages.txt scripts/debian-packages-tests.txt)
case ${1:---tests} in
  --core) level=0 ;;
  --build) level=1 ;;
  --tests) level=2 ;;
  *) echo "usage: install.sh [--core | --build]" >&2; exit 2 ;;
esac
package_lists=("${package_lists[@]:0:level + 1}")

# Two builds at once must not make the same virtual environment; the lock ends with the script.
exec {lock}<scripts/install.sh
flock "$lock"

fail() {
  echo "install: $*" >&2
  exit 1
}

elsewhere="this is not Debian 12, whose packages Strata is built with. Elsewhere take the wheel, which needs none of them:
  pip install strata-*.whl (docs/python.md says how it is made). Or build in a container of Debian 12."

# 4:12.2.0-3 -> 12.2.0: without epoch and Debian revision.
upstream() {
  local version=${1#*:}
  echo "${version%-*}"
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  else
    sudo "$@"
  fi
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

# The system as "debian 12".
system() {
  # shellcheck disable=SC1090
  (. "${OS_RELEASE:-/etc/os-release}" 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}")
}

# What to install, name=version a line. Of Ubuntu 24.04 the versions are not pinned, and one has another name.
wanted_packages() {
  local pins
  pins=$(grep -hv '^#' "${package_lists[@]}")
  if [[ $(system) == "ubuntu 24.04" ]]; then
    sed -e 's/=.*/=/' -e 's/^libboost-context1\.81-dev=/libboost-context1.83-dev=/' <<<"$pins"
  else
    echo "$pins"
  fi
}

# Prints name=version for apt: the pin while the archive has it, else what replaced it in a point release. A pin
# of * is whatever the archive has.
choose_version() {
  local name=$1 pinned=$2 candidate
  if [[ -z $pinned ]]; then
    echo "$name"
    return
  fi
  if apt-cache madison "$name" | awk -F' *[|] *' '{print $2}' | grep -qxF -- "$pinned"; then
    echo "$name=$pinned"
    return
  fi
  candidate=$(apt-cache policy "$name" | awk '/Candidate:/ {print $2}')
  if [[ -z $candidate || $candidate == "(none)" ]]; then
    fail "no package $name in the archive; Strata needs Debian 12 (bookworm)"
  fi
  if [[ $pinned == "*" ]]; then
    echo "$name=$candidate"
    return
  fi
  if [[ $(upstream "$candidate") != "$(upstream "$pinned")" ]]; then
    fail "$name $pinned is gone and $candidate is another upstream version; see ${package_lists[*]}"
  fi
  echo "install: WARNING: $name $pinned is gone from the archive; installing $candidate instead" >&2
  echo "$name=$candidate"
}

install_debian_packages() {
  local pins pin spec present missing=() chosen=()
  command -v dpkg-query >/dev/null || fail "$elsewhere"
  mapfile -t pins < <(wanted_packages)
  present=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${pins[@]%%=*}" 2>/dev/null || true)
  for pin in "${pins[@]}"; do
    grep -qxF "installed ${pin%%=*}" <<<"$present" || missing+=("$pin")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0

  case $(system) in
    "debian 12") ;;
    "ubuntu 24.04")
      echo "install: WARNING: Ubuntu 24.04 has the packages, but Strata was never built on it; Debian 12 is what is tested" >&2
      ;;
    *) fail "packages are missing (${missing[*]%%=*}), and $elsewhere" ;;
  esac
  echo "install: Debian packages: ${missing[*]%%=*}"
  if [[ $(id -u) -ne 0 ]] && ! command -v sudo >/dev/null; then
    fail "packages are missing and this is neither root nor is there sudo; as root: apt-get install ${missing[*]%%=*}"
  fi
  apt_get update
  for pin in "${missing[@]}"; do
    spec=$(choose_version "${pin%%=*}" "${pin#*=}")
    chosen+=("$spec")
  done
  apt_get install -y --no-install-recommends "${chosen[@]}"
}

# Debian's python3, which python3-venv completes; another one first on PATH may lack ensurepip.
find_python() {
  local python
  for python in /usr/bin/python3 python3; do
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  fail "no python3 that can make a virtual environment"
}

# The folder is in the stamp because a virtual environment that was moved is broken.
stamp_of() {
  pwd && sha256sum "$@"
}

# The Python packages of a level, as names of files.
requirements_of() {
  [[ $1 -lt 1 ]] || echo requirements-build.txt
  scripts/cuda_root.sh --toolkit >/dev/null || echo requirements-cuda.txt
  [[ $1 -lt 2 ]] || echo requirements.txt
}

install_python_packages() {
  local files stamp=.venv/installed installed="" has=-1 of
  if [[ -x .venv/bin/python && -f $stamp ]]; then
    installed=$(<"$stamp")
  fi
  for of in 0 1 2; do
    mapfile -t files < <(requirements_of "$of")
    [[ ${#files[@]} -eq 0 || $installed != "$(stamp_of "${files[@]}")" ]] || has=$of
  done
  mapfile -t files < <(requirements_of "$level")
  if [[ $has -ge $level || ${#files[@]} -eq 0 ]]; then
    return
  fi
  echo "install: Python packages of ${files[*]} in .venv"
  # What a level needs comes on top of what is there for the one before it.
  if [[ $has -lt 0 ]]; then
    "$(find_python)" -m venv --clear .venv
  fi
  .venv/bin/python -m pip install -q --disable-pip-version-check --only-binary :all: "${files[@]/#/-r}" </dev/null
  stamp_of "${files[@]}" >"$stamp"
}

install_debian_packages
install_python_packages
