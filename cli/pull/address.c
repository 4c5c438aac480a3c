#include "cli/pull/address.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define HUB "hf:"

static bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

bool address_is(const char *text)
{
    return starts(text, HUB) || starts(text, "https://") || starts(text, "http://");
}

/* One name of OWNER/REPO: the hub's rules. */
static bool is_name(const char *s, size_t n)
{
    if (n == 0 || n > 96 || !isalnum((unsigned char)s[0]) || s[n - 1] == '.' || s[n - 1] == '-')
        return false;
    for (size_t i = 0; i < n; i++) {
        bool twice = i > 0 && s[i] == s[i - 1] && (s[i] == '.' || s[i] == '-');
        if (twice || (!isalnum((unsigned char)s[i]) && !strchr("._-", s[i]))) return false;
    }
    return n < 4 || strncmp(s + n - 4, ".git", 4) != 0;
}

static bool is_quant(const char *s)
{
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_' && *s != '-') return false;
    return true;
}

bool address_is_path(const char *path)
{
    if (!*path || strlen(path) >= sizeof((struct address *)0)->file) return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/' && part != path;
        size_t n = strcspn(part, "/");
        if (n == 0 || n > 200 || part[0] == '.') return false;
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)part[i] < 0x21 || part[i] == 0x7f || part[i] == '\\') return false;
    }
    return true;
}

static int parse_hub(struct address *out, const char *text, struct err *e)
{
    const char *repo = text + strlen(HUB);
    size_t n = strcspn(repo, ":"), owner = strcspn(repo, "/");
    const char *rest = repo[n] ? repo + n + 1 : NULL;
    out->hub = true;
    if (owner >= n || !is_name(repo, owner) || !is_name(repo + owner + 1, n - owner - 1))
        return err_set(e, ERR_USAGE,
                       "\"%.200s\": expected hf:OWNER/REPO, then :QUANTIZATION or :FILE or nothing",
                       text);
    memcpy(out->repo, repo, n);
    if (!rest) return 0;
    bool is_file = strchr(rest, '.') != NULL;
    if (is_file && address_is_path(rest))
        snprintf(out->file, sizeof out->file, "%s", rest);
    else if (!is_file && *rest && strlen(rest) < sizeof out->quant && is_quant(rest))
        snprintf(out->quant, sizeof out->quant, "%s", rest);
    else
        return err_set(e, ERR_USAGE,
                       "\"%.200s\": \"%.100s\" is neither a quantization, such as Q4_K_M, nor the "
                       "path of a file in the repository",
                       text, rest);
    return 0;
}

/* The file is named by the path's last part. */
static int parse_plain(struct address *out, const char *text, struct err *e)
{
    const char *host = strstr(text, "://") + 3;
    size_t n_host = strcspn(host, "/:?#");
    const char *path_end = host + strcspn(host, "?#");
    const char *name = path_end;
    while (name > host && name[-1] != '/') name--;
    if (memchr(host, '@', strcspn(host, "/")))
        return err_set(e, ERR_USAGE, "an address with a user's name or password is not taken");
    if (strlen(text) >= sizeof out->url || n_host == 0 || n_host >= 128 || name == host)
        return err_set(e, ERR_USAGE, "\"%.200s\": expected https://HOST/…/FILE", text);
    snprintf(out->url, sizeof out->url, "%s", text);
    snprintf(out->repo, sizeof out->repo, "%.*s", (int)n_host, host);
    int n_name = (int)(path_end - name);
    snprintf(out->file, sizeof out->file, "%.*s", n_name, name);
    if ((size_t)n_name >= sizeof out->file || !address_is_path(out->file))
        return err_set(e, ERR_USAGE, "\"%.200s\": the address must end in the name of a file",
                       text);
    return 0;
}

int address_parse(struct address *out, const char *text, struct err *e)
{
    *out = (struct address){0};
    if (!address_is(text))
        return err_set(e, ERR_USAGE,
                       "\"%.200s\": expected hf:OWNER/REPO, hf:OWNER/REPO:QUANTIZATION or "
                       "https://HOST/…/FILE",
                       text);
    return starts(text, HUB) ? parse_hub(out, text, e) : parse_plain(out, text, e);
}
