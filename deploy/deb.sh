#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deb.sh BUILD OUT: a Debian package of what BUILD (a Meson build directory) has, into the folder OUT; prints its path.
#
# Made with dpkg-deb alone. debhelper would bring a build system of its own around Meson's, and a folder debian/ with
# rules for what is six commands here; what it would find out, the libraries that the program needs in which version, is
# found out by the same dpkg-shlibdeps. The same sources and the same compiler give the same bytes: times of all files are
# SOURCE_DATE_EPOCH's, or the last commit's, and sizes are counted as Debian's policy does, whatever file system this is.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
build=$(readlink -f "$1")
mkdir -p "$2"
out=$(readlink -f "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
umask 022
export LC_ALL=C TZ=UTC

# 0.1.0~git202611231712.33aa530e comes before 0.1.0, which has not been released.
version=$("$build/fathom" version | cut -d' ' -f2)
if commit=$(git -C "$root" log -1 --date=format-local:%Y%m%d%H%M --format='%cd.%h' 2>/dev/null); then
    version+="~git$commit"
    git -C "$root" diff --quiet HEAD || version+="+changed"
    export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}
fi
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}

# The program, the model and its licences. The program finds its model beside itself, wherever the prefix was.
prefix=$(meson introspect "$build" --buildoptions |
    python3 -c 'import json, sys; print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"))')
DESTDIR=$folder/stage meson install -C "$build" --no-rebuild --quiet >&2
package=$folder/package
mkdir -p "$package/DEBIAN"
mv "$folder/stage$prefix" "$package/usr"
strip --strip-unneeded "$package/usr/bin/fathom"

# What the program says of itself.
man=$package/usr/share/man/man1 share=$package/usr/share
mkdir -p "$man" "$share"/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
"$build/fathom" help --man "$man"
gzip -9n "$man"/*
"$build/fathom" help --completion bash >"$share/bash-completion/completions/fathom"
"$build/fathom" help --completion zsh >"$share/zsh/vendor-completions/_fathom"
"$build/fathom" help --completion fish >"$share/fish/vendor_completions.d/fathom.fish"

# Guides, in the folders that their links expect, and examples. Links to sources lose their address.
doc=$package/usr/share/doc/fathom
mkdir -p "$doc/examples" "$doc/docs" "$doc/models/tiny-r1"
cp -r "$root"/docs/*.md "$root/docs/performance" "$doc/docs"
cp "$root/README.md" "$root/SECURITY.md" "$root/CONTRIBUTING.md" "$doc"
cp "$root/models/tiny-r1/MODEL_CARD.md" "$root/models/tiny-r1/LICENSE" "$doc/models/tiny-r1"
gzip -9nc "$root/CHANGELOG.md" >"$doc/changelog.gz"
{ cat "$doc/LICENSE" && printf '\n' && cat "$doc/LICENSES"; } >"$doc/copyright"
rm "$doc/LICENSE" "$doc/LICENSES"
find "$doc" -name '*.md' -exec perl -0pi -e 's{\[([^\]]*)\]\((\.\./)*(src|tests|bench|twin|rooms|docs/rooms)[^)]*\)}{$1}g;
    s{\]\(((\.\./)*)CHANGELOG\.md}{](\1changelog.gz}g; s{\]\(((\.\./)*)LICENSE\)}{](\1copyright)}g' {} +
cp "$root"/deploy/*.yaml "$doc/examples"
chmod -R u=rwX,go=rX "$doc"

# Services, and what they read.
install -D -m 0644 -t "$package/lib/systemd/system" "$root"/deploy/*.service
install -D -m 0644 -t "$package/etc/fathom" "$root/deploy/serve.yaml" "$root/deploy/gateway.yaml"
printf '/etc/fathom/%s\n' serve.yaml gateway.yaml >"$package/DEBIAN/conffiles"
install -m 0755 "$root/deploy/postinst" "$root/deploy/prerm" "$package/DEBIAN"

# What it stands on, and its size: KiB of files, each rounded up, and one of anything else.
mkdir "$folder/debian"
size=$(find "$package" -path "$package/DEBIAN" -prune -o -printf '%y %s\n' |
    awk '{ sum += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print sum }')
printf 'Source: fathom\n\nPackage: fathom\nArchitecture: any\n' >"$folder/debian/control"
depends=$(cd "$folder" && dpkg-shlibdeps -O "$package/usr/bin/fathom" | sed -n 's/^shlibs:Depends=//p')
cat >"$package/DEBIAN/control" <<CONTROL
Package: fathom
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: The Fathom authors <fathom@localhost>
Installed-Size: $size
Depends: $depends, passwd
Suggests: prometheus
Section: net
Priority: optional
Description: inference system for DeepSeek-V3 and R1
 An API server, a chat page, engines on CPUs, and what it takes to run many of
 them: gateways and units in processes of their own, prompts and answers on
 units apart, a KV storage, accounts and a ledger. A small model comes with it.
CONTROL
(cd "$package" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)

find "$package" -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
deb=$out/fathom_${version}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group -Zxz --build "$package" "$deb" >&2
echo "$deb"
