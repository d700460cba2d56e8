#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# image.sh PACKAGE.deb OUT.tar: the root file system of a container that has Debian's smallest system and the package,
# with what the package needs. As root, or as anybody who may make user namespaces.
set -euo pipefail
deb=$(readlink -f "$1")
out=$(readlink -f "$(dirname "$2")")/$(basename "$2")
# Of the release that the package was built on, since it needs that one's libraries; from Debian's own mirrors. Names of
# hosts come from whoever runs the container.
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
exec mmdebstrap --variant=minbase --mode=auto --aptopt='APT::Install-Recommends "false"' \
    --customize-hook="cp '$deb' \"\$1/tmp/fathom.deb\"" \
    --customize-hook='chroot "$1" apt-get install -y -q --no-install-recommends /tmp/fathom.deb' \
    --customize-hook='chroot "$1" fathom version' \
    --customize-hook='rm -f "$1/tmp/fathom.deb" "$1/etc/resolv.conf" "$1/etc/hostname"' \
    "$suite" "$out"
