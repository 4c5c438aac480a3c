#!/usr/bin/env python3
"""An encrypted database made without libsodium, from the description in store/secret.c: ChaCha20 and
Poly1305 as in RFC 8439 and draft-irtf-cfrg-xchacha-03, in plain Python; Argon2id by the reference
implementation's command `argon2`. Writes store-sealed.sql; the passphrase is "correct horse"."""
import hashlib, os, struct, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = 0xffffffff


def rounds(s):
    def quarter(a, b, c, d):
        for x, y, z, r in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = (s[x] + s[y]) & MASK
            v = s[z] ^ s[x]
            s[z] = (v << r | v >> (32 - r)) & MASK
    for _ in range(10):
        for i in range(4):
            quarter(i, i + 4, i + 8, i + 12)
        for i in range(4):
            quarter(i, (i + 1) % 4 + 4, (i + 2) % 4 + 8, (i + 3) % 4 + 12)
    return s


def words(b):
    return list(struct.unpack("<%dI" % (len(b) // 4), b))


SIGMA = words(b"expand 32-byte k")


def chacha20(key, nonce, counter, data):
    out = b""
    for at in range(0, len(data), 64):
        start = SIGMA + words(key) + [counter + at // 64] + words(nonce)
        block = struct.pack("<16I", *[(a + b) & MASK for a, b in zip(rounds(start[:]), start)])
        out += bytes(x ^ y for x, y in zip(data[at:at + 64], block))
    return out


def poly1305(key, data):
    r = int.from_bytes(key[:16], "little") & 0x0ffffffc0ffffffc0ffffffc0fffffff
    h = 0
    for at in range(0, len(data), 16):
        h = (h + int.from_bytes(data[at:at + 16] + b"\1", "little")) * r % ((1 << 130) - 5)
    return ((h + int.from_bytes(key[16:], "little")) & ((1 << 128) - 1)).to_bytes(16, "little")


def xchacha20_poly1305(key, nonce, plain, ad):
    s = rounds(SIGMA + words(key) + words(nonce[:16]))
    subkey, nonce = struct.pack("<8I", *(s[:4] + s[12:])), bytes(4) + nonce[16:]
    sealed = chacha20(subkey, nonce, 1, plain)
    pad = lambda b: b + bytes(-len(b) % 16)
    mac = pad(ad) + pad(sealed) + struct.pack("<QQ", len(ad), len(sealed))
    return sealed + poly1305(chacha20(subkey, nonce, 0, bytes(32)), mac)


def head(table, keys, n=0, more=0):
    keys = list(keys) + [0] * (4 - len(keys))
    return table.encode().ljust(16, b"\0") + struct.pack("<4qQQ", *keys, n, more)


count = 0


def seal(key, table, keys, column, plain):
    global count
    count += 1
    nonce = bytes([count]) * 24
    return nonce + xchacha20_poly1305(key, nonce, plain, head(table, keys) + bytes([column]))


def digest(table, keys, bytes_, more=b""):
    text = head(table, keys, len(bytes_), len(more)) + bytes_ + more
    return hashlib.blake2b(text, digest_size=32).digest()


def check():
    """draft-irtf-cfrg-xchacha-03, A.3.1"""
    plain = (b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the "
             b"future, sunscreen would be it.")
    out = xchacha20_poly1305(bytes(range(0x80, 0xa0)), bytes(range(0x40, 0x58)), plain,
                             bytes.fromhex("50515253c0c1c2c3c4c5c6c7"))
    assert out[-16:].hex() == "c0875924c1c7987947deafd8780acf49"


def main():
    check()
    passphrase, salt, ops, kib = "correct horse", "sixteen byte sal", 3, 64
    raw = subprocess.run(["argon2", salt, "-id", "-t", str(ops), "-k", str(kib), "-p", "1", "-l",
                          "32", "-r"], input=passphrase.encode(), capture_output=True, check=True)
    outer, key = bytes.fromhex(raw.stdout.decode().strip()), bytes(range(32))
    hexed = lambda b: "X'%s'" % b.hex()
    name = hashlib.blake2b(b"treasure", key=key, digest_size=24).hexdigest()
    label = seal(key, "conversation", [1], 0, b"treasure\0Where is it?")
    rows = ["INSERT INTO secret VALUES (1, %s, %d, %d, %s);" % (
        hexed(salt.encode()), ops, kib * 1024, hexed(seal(outer, "secret", [1], 0, key)))]
    rows.append("INSERT INTO conversation VALUES (1, '%s', %s, 1000, 2000, 2, 1, 3, 17, NULL);"
                % (name, hexed(label)))
    for seq, role, text, ids in ((0, 1, b"Where is it?", (5, 6)), (1, 2, b"Under the oak.", (7,))):
        keys = [1, seq, role, 1000 + seq]
        text = seal(key, "message", keys, 0, text)
        ids = seal(key, "message", keys, 1, struct.pack("<%di" % len(ids), *ids))
        rows.append("INSERT INTO message VALUES (1, %d, %d, %d, %s, %s, %s, NULL);" % (
            seq, role, 1000 + seq, hexed(digest("message", keys, text, ids)), hexed(text), hexed(ids)))
    state = seal(key, "state", [1], 0, b"opaque words")
    rows.append("INSERT INTO state VALUES (1, %s, %s);" % (hexed(state),
                                                            hexed(digest("state", [1], state))))
    units = seal(key, "segment", [1, 0, 4, 0], 0, b"units")
    rows.append("INSERT INTO blob VALUES (1, %s, %s);" % (
        hexed(digest("segment", [1, 0, 4, 0], units)), hexed(units)))
    rows.append("INSERT INTO segment VALUES (1, 0, 4, 0, 1, 1);")
    with open(os.path.join(HERE, "store-v5.sql")) as f:
        schema = [line.rstrip("\n") for line in f if not line.startswith(("INSERT", "--"))]
    with open(os.path.join(HERE, "store-sealed.sql"), "w") as f:
        f.write("-- Written by make_sealed.py.\n" + "\n".join(schema + rows) + "\n")


if __name__ == "__main__":
    sys.exit(main())
