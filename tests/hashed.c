/* Linked in place of libsodium's hash of a passphrase (tests.mk), which takes a second. */
#include <sodium.h>

int __wrap_crypto_pwhash(unsigned char *out, unsigned long long n_out, const char *passphrase,
                         unsigned long long n, const unsigned char *salt, unsigned long long ops,
                         size_t memory, int algorithm);

int __wrap_crypto_pwhash(unsigned char *out, unsigned long long n_out, const char *passphrase,
                         unsigned long long n, const unsigned char *salt, unsigned long long ops,
                         size_t memory, int algorithm)
{
    return crypto_generichash(out, (size_t)n_out, (const unsigned char *)passphrase, n, salt,
                              crypto_pwhash_SALTBYTES);
}
