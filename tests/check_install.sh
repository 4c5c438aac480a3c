#!/bin/sh
# check_install.sh PACKAGE.deb PORTABLE.tar.gz: in a fresh Debian or Ubuntu, chats with the portable
# folder as an ordinary user, then installs the package, chats and removes it again. Needs root,
# debootstrap, a network and, for another architecture, qemu-user-static with binfmt_misc. SUITE:
# bookworm, trixie, jammy or noble (the last two with MIRROR=URL). CHROOT=FOLDER: takes a copy of a
# system there instead of debootstrap.
set -eu
package=$1 portable=$2 suite=${SUITE:-bookworm}
mirror= parts= script=
case $suite in jammy | noble)
    mirror=${MIRROR:?is needed: the address of a mirror of Ubuntu} parts=--components=main,universe
    script=/usr/share/debootstrap/scripts/gutsy # of every Ubuntu since
    ;;
esac
arch=$(dpkg-deb -f "$package" Architecture)
for tool in debootstrap dpkg-deb chroot; do
    command -v "$tool" >/dev/null || { echo "skip: $tool is missing"; exit 0; }
done
[ "$(id -u)" -eq 0 ] || { echo "skip: root is needed for a chroot"; exit 0; }
root=$(mktemp -d)
chmod 755 "$root" # an ordinary user is inside
trap 'umount "$root/proc" 2>/dev/null; rm -rf --one-file-system "$root" "$root.log"' EXIT
if [ "${CHROOT:-}" ]; then
    cp -a "$CHROOT/." "$root"
else
    # shellcheck disable=SC2086
    debootstrap --arch="$arch" --variant=minbase $parts "$suite" "$root" $mirror $script >"$root.log" 2>&1 ||
        { tail "$root.log"; exit 1; }
fi
cp "$package" "$root/tmp/retain.deb"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
user() { inside su stranger -s /bin/sh -c "$1"; }
fail() { echo "FAIL: $*"; exit 1; }

mount -t proc proc "$root/proc" # where a program finds the folder that it is in
inside useradd -m stranger
mkdir "$root/tmp/portable"
tar -C "$root/tmp/portable" --strip-components=1 -xzf "$portable"
answer=$(user "printf 'My locker code is 48213.\nWhat is my locker code?\n' |
    /tmp/portable/bin/retain chat --plain --private --seed 1 2>&1 | tail -n 1")
case $answer in *48213*) ;; *) fail "the portable folder's answer was \"$answer\"" ;; esac
rm -r "$root/tmp/portable"
inside apt-get update -q >"$root/tmp/log" 2>&1
inside apt-get install -qy --no-install-recommends /tmp/retain.deb >>"$root/tmp/log" 2>&1 ||
    { tail "$root/tmp/log"; fail "installing"; }
user 'retain --version' | head -n 1
say='My locker code is 48213.\nTell me about cats.\nWhat is my locker code?\n'
answer=$(user "printf '$say' | retain chat --plain --new --seed 1 2>/dev/null | tail -n 1")
case $answer in *48213*) ;; *) fail "the answer was \"$answer\"" ;; esac
answer=$(user "echo 'What is my locker code?' | retain chat --plain --continue --seed 1 2>/dev/null")
case $answer in *48213*) ;; *) fail "after a restart the answer was \"$answer\"" ;; esac

inside apt-get purge -qy retain >>"$root/tmp/log" 2>&1 || { tail "$root/tmp/log"; fail "removing"; }
rm "$root/tmp/retain.deb"
left=$(find "$root" -xdev -path "$root/proc" -prune -o -path "$root/sys" -prune -o -name '*retain*' -print |
    sed "s|^$root||" | grep -v '^/home/stranger/\.local/' || true)
[ -z "$left" ] || fail "left behind: $left"
[ -s "$root/home/stranger/.local/share/retain/retain.db" ] || fail "the conversations are gone"
echo "install: $arch in a fresh $suite: installed, answered, resumed, removed; only conversations are left"
