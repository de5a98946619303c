#!/usr/bin/env bash
# A Docker engine for the end-to-end tests.
#
#   eval "$(tests/e2e/engine.sh up)"   # prints the variables to set; everything else goes to stderr
#   tests/e2e/engine.sh down           # stops the engine, if this script started it
#
# An engine that answers is used as it is. Otherwise, as root on Debian or Ubuntu, one is installed
# and started here, without a bridge network (build and run with --network host) and with the legacy
# builder. Where the kernel does not mount overlays, the storage driver is `vfs`: every layer is a
# full copy then, which takes ten times as long; remove images after use.
# Where the image registry cannot be reached, a stand-in for the base image of the Dockerfile is
# made from Debian packages: Python 3.13 in /usr/local, as in the official image.
#
# Exit status 3 means: no engine here and none can be started. The reason is on stderr.
set -euo pipefail

base=python:3.13-slim
state=${QUANTGATE_ENGINE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/quantgate-engine}
socket=unix://$state/docker.sock

give_up() {
  echo "no Docker engine: $*" >&2
  exit 3
}

install_packages() {
  [ "$(id -u)" = 0 ] || give_up "none answers, and starting one needs root"
  command -v apt-get >/dev/null || give_up "none answers, and this is not Debian or Ubuntu"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" ||
    give_up "the packages $* cannot be installed"
}

# The storage driver that works in the folder of the engine.
storage() {
  local probe=$state/probe driver=vfs
  mkdir -p "$probe"/{lower,upper,work,merged}
  if mount -t overlay overlay "$probe/merged" \
    -o "lowerdir=$probe/lower,upperdir=$probe/upper,workdir=$probe/work" >&2; then
    umount "$probe/merged" && driver=overlay2
  fi
  rm -rf "$probe"
  echo "$driver"
}

start_engine() {
  command -v dockerd || install_packages docker.io ca-certificates
  mkdir -p "$state"
  setsid dockerd --storage-driver "$(storage)" --iptables=false --bridge=none --ip-forward=false --ip-masq=false \
    --host "$socket" --data-root "$state/data" --exec-root "$state/exec" --pidfile "$state/dockerd.pid" \
    >"$state/dockerd.log" 2>&1 </dev/null &
  local _
  for _ in $(seq 60); do
    docker info && return
    sleep 0.5
  done
  tail -n 20 "$state/dockerd.log"
  give_up "dockerd did not start"
}

make_base_image() {
  command -v debootstrap || install_packages debootstrap
  local root=$state/base
  if [ ! -x "$root/usr/local/bin/pip" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates trixie "$root" ||
      give_up "the stand-in base image cannot be made"
    chroot "$root" python3 -m venv /usr/local
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
  fi
  # This machine's certificates, so that pip works inside a build behind a proxy.
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
  tar -C "$root" -c . | docker import \
    -c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    -c 'ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt' \
    -c 'ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt' \
    -c 'CMD ["python3"]' - "$base"
}

up() {
  local started=
  {
    if ! { command -v docker && docker info; }; then
      export DOCKER_HOST=$socket
      started=1
      docker info || start_engine
    fi
    docker image inspect "$base" || timeout 120 docker pull "$base" || make_base_image
  } >/dev/null
  [ -z "$started" ] || echo "export DOCKER_HOST=$socket DOCKER_BUILDKIT=0"
}

down() {
  local pid
  pid=$(cat "$state/dockerd.pid" 2>/dev/null) || return 0
  # The file may be left over from an engine that ended otherwise.
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ] || return 0
  kill "$pid"
  for _ in $(seq 40); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.25
  done
}

case ${1:-} in
  up) up ;;
  down) down ;;
  *)
    sed -n '2,15p' "$0"
    exit 2
    ;;
esac
